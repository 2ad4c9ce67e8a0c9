"""A log that is written at once, so that a test in virtual time can wait for its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frameworkcontroller.engine.observe.log import LineWriter

if TYPE_CHECKING:
    from collections.abc import Callable


class Lines(LineWriter):
    """A list of lines."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        super().__init__(self.written.append)

    def put(
        self, line: Callable[[], bytes], _size: int, _owner: str = "", done: Callable[[], object] | None = None
    ) -> None:
        self.written.append(line())
        if done is not None:
            done()
