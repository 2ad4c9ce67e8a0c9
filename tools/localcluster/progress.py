"""Progress of long tasks: one line per task that changes on a terminal, and a few plain lines elsewhere."""

from __future__ import annotations

import contextlib
import enum
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator


class State(enum.Enum):
    """The state of a task; the value is the sign at the beginning of its line."""

    RUNS = " "
    DONE = "✓"
    FAILED = "✗"


class Progress(Protocol):
    """Shows what `up` and the builders do; implement it for another way to show it."""

    def show(self, task: str, state: State, seconds: float, detail: str = "") -> None:
        """Show a task; called at its beginning, about once a second while it runs, and at its end.

        The calls for one task come in order; several tasks may overlap.

        Args:
            task: Its name, for example `build kube-apiserver 1.36.3`.
            state: Its state. After FAILED follows its exception.
            seconds: The time since its beginning.
            detail: A few words about what it does; may be empty.
        """


class Silent:
    """Shows nothing."""

    def show(self, task: str, state: State, seconds: float, detail: str = "") -> None:
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
    _due: dict[str, float] = field(default_factory=dict)

    def show(self, task: str, state: State, seconds: float, detail: str = "") -> None:
        """Rewrite the line of the task on a terminal; elsewhere write one now and then, and one at its end."""
        stream = self.stream or sys.stderr
        detail = f"  {detail}" if detail else ""
        if stream.isatty():
            end = "" if state is State.RUNS else "\n"
            text = f"\r\x1b[K{state.value} {seconds:4.0f} s  {task}{detail}{end}"
        elif state is State.RUNS:
            if seconds < self._due.get(task, self.quiet_seconds):
                return
            self._due[task] = seconds + self.plain_seconds
            text = f"  {seconds:6.1f} s  {task} ...{detail}\n"
        else:
            self._due.pop(task, None)
            if state is State.DONE and seconds < self.quiet_seconds:
                return
            text = f"{state.value} {seconds:6.1f} s  {task}\n"
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
            progress.show(name, State.RUNS, time.monotonic() - began, detail[-1] if detail else "")

    progress.show(name, State.RUNS, 0.0)
    ticker = threading.Thread(target=tick, daemon=True, name=f"progress of {name}")
    ticker.start()
    state = State.FAILED
    try:
        yield
        state = State.DONE
    finally:
        over.set()
        ticker.join()
        progress.show(name, state, time.monotonic() - began)
