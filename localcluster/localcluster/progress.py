"""Progress of long tasks: one line per task that changes on a terminal, and a few plain lines elsewhere."""

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
    """Shows what `up` and the builders do; implement it for another way to show it.

    The calls for one task come in order. `started`, `finished` and `failed` come from the thread of the task, `ticked`
    from a thread of its own. Several tasks may overlap.
    """

    def started(self, task: str) -> None:
        """Show that a task has begun, for example `build kube-apiserver 1.36.3`."""

    def ticked(self, task: str, seconds: float, detail: str) -> None:
        """Show that a task still runs, after `seconds`; called about once a second. `detail` may be empty."""

    def finished(self, task: str, seconds: float) -> None:
        """Show that a task is done, after `seconds`."""

    def failed(self, task: str, seconds: float) -> None:
        """Show that a task has failed, after `seconds`; its exception follows."""


class Silent:
    """Shows nothing."""

    def started(self, task: str) -> None:
        """Do nothing."""

    def ticked(self, task: str, seconds: float, detail: str) -> None:
        """Do nothing."""

    def finished(self, task: str, seconds: float) -> None:
        """Do nothing."""

    def failed(self, task: str, seconds: float) -> None:
        """Do nothing."""


@dataclass
class Lines:
    """Writes lines: on a terminal one that changes every second, elsewhere one every 30 s and one at the end.

    Attributes:
        stream: The stream to write to; None means the current standard error.
        plain_seconds: The seconds between two lines about the same task where the stream is not a terminal.
        quiet_seconds: The seconds that a task must take to be mentioned where the stream is not a terminal.
    """

    stream: TextIO | None = None
    plain_seconds: float = 30.0
    quiet_seconds: float = 2.0
    _last: dict[str, float] = field(default_factory=dict)

    def started(self, task: str) -> None:
        """Write the task on a terminal; elsewhere wait until it turns out to be long."""
        if self._interactive():
            self._write(f"\r\x1b[K  ... {task}")

    def ticked(self, task: str, seconds: float, detail: str) -> None:
        """Rewrite the line on a terminal; elsewhere write one now and then."""
        detail = f"  {detail}" if detail else ""
        if self._interactive():
            self._write(f"\r\x1b[K  {seconds:4.0f} s  {task}{detail}")
        elif seconds >= self._last.get(task, self.quiet_seconds - self.plain_seconds) + self.plain_seconds:
            self._last[task] = seconds
            self._write(f"  {seconds:6.1f} s  {task} ...{detail}\n")

    def finished(self, task: str, seconds: float) -> None:
        """Write the last line of the task, with a tick."""
        self._end(task, seconds, "✓", always=False)

    def failed(self, task: str, seconds: float) -> None:
        """Write the last line of the task, with a cross."""
        self._end(task, seconds, "✗", always=True)

    def _end(self, task: str, seconds: float, sign: str, *, always: bool) -> None:
        mentioned = self._last.pop(task, None) is not None
        if self._interactive():
            self._write(f"\r\x1b[K{sign} {seconds:4.0f} s  {task}\n")
        elif always or mentioned or seconds >= self.quiet_seconds:
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
        progress: Shows the task.
        name: The name of the task.
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
