"""What takes long is shown: one line per task, moving on a terminal, sparse and plain elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator


class Progress(Protocol):
    """Whoever shows what `up` and the builders do; implement it to show it your own way.

    The calls of one task come in order and from one thread; several tasks may overlap.
    """

    def started(self, task: str) -> None:
        """A task begins, for example `build kube-apiserver 1.36.3`."""

    def ticked(self, task: str, seconds: float, detail: str) -> None:
        """It still runs, after so many seconds; called about once a second. `detail` may be empty."""

    def finished(self, task: str, seconds: float) -> None:
        """It is done, after so many seconds."""

    def failed(self, task: str, seconds: float) -> None:
        """It failed; the exception that says why follows."""


class Silent:
    """Shows nothing."""

    def started(self, task: str) -> None: ...

    def ticked(self, task: str, seconds: float, detail: str) -> None: ...

    def finished(self, task: str, seconds: float) -> None: ...

    def failed(self, task: str, seconds: float) -> None: ...


@dataclass
class Lines:
    """Lines of text: rewritten every second on a terminal, elsewhere one at the start, every 30 s, and at the end.

    Attributes:
        stream: Where to; None means the standard error of the moment.
        plain_seconds: Seconds between two lines about the same task where the stream is no terminal.
        quiet_seconds: Without a terminal a task shorter than this is not mentioned at all.
    """

    stream: TextIO | None = None
    plain_seconds: float = 30.0
    quiet_seconds: float = 2.0
    _last: dict[str, float] = field(default_factory=dict)

    def started(self, task: str) -> None:
        """A line without an end on a terminal; elsewhere nothing until the task turns out to be long."""
        if self._interactive():
            self._write(f"\r\x1b[K  ... {task}")

    def ticked(self, task: str, seconds: float, detail: str) -> None:
        """The line again with its seconds; where there is no terminal only now and then."""
        detail = f"  {detail}" if detail else ""
        if self._interactive():
            self._write(f"\r\x1b[K  {seconds:4.0f} s  {task}{detail}")
        elif seconds >= self._last.get(task, self.quiet_seconds - self.plain_seconds) + self.plain_seconds:
            self._last[task] = seconds
            self._write(f"  {seconds:6.1f} s  {task} ...{detail}\n")

    def finished(self, task: str, seconds: float) -> None:
        """Its last line, with a tick."""
        self._end(task, seconds, "✓", always=False)

    def failed(self, task: str, seconds: float) -> None:
        """Its last line, with a cross."""
        self._end(task, seconds, "✗", always=True)

    def _end(self, task: str, seconds: float, sign: str, *, always: bool) -> None:
        spoken_of = self._last.pop(task, None) is not None
        if self._interactive():
            self._write(f"\r\x1b[K{sign} {seconds:4.0f} s  {task}\n")
        elif always or spoken_of or seconds >= self.quiet_seconds:
            self._write(f"{sign} {seconds:6.1f} s  {task}\n")

    def _interactive(self) -> bool:
        return (self.stream or sys.stderr).isatty()

    def _write(self, text: str) -> None:
        stream = self.stream or sys.stderr
        stream.write(text)
        stream.flush()


@contextlib.contextmanager
def task(progress: Progress, name: str, detail: list[str] | None = None) -> Iterator[None]:
    """Report a block of code as a task, with a tick every second from a thread of its own.

    Args:
        progress: Who is told.
        name: The task's name.
        detail: A list that the block may change; its last item is shown with the seconds.
    """
    began = time.monotonic()
    over = threading.Event()

    def tick() -> None:
        while not over.wait(1.0):
            progress.ticked(name, time.monotonic() - began, detail[-1] if detail else "")

    progress.started(name)
    ticker = threading.Thread(target=tick, daemon=True, name=f"progress of {name}")
    ticker.start()
    try:
        yield
    except BaseException:
        over.set()
        ticker.join()
        progress.failed(name, time.monotonic() - began)
        raise
    over.set()
    ticker.join()
    progress.finished(name, time.monotonic() - began)
