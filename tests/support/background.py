"""Something that goes on beside a test."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def in_background(step: Callable[[], object], *, every: float = 0.0) -> Iterator[None]:
    """Repeat it in a thread until the end; what goes wrong there is raised then.

    Args:
        step: What is done again and again.
        every: Seconds between two, before the first too.
    """
    over, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            while not over.wait(every):
                step()
        except BaseException as error:  # noqa: BLE001 - handed over to the thread of the test
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
    if failures:
        raise failures[0]
