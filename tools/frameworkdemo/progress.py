"""Steps of the demo and their parts as plain lines, each with the seconds since the start."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from frameworkclient.text import sanitize
from localcluster.progress import State, task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHORT_SECONDS = 1.0
"""A part that takes less gets no line at its end."""
GOES_ON_SECONDS = 30.0
"""The time between two lines about a part that still runs."""

ReportDetail = Callable[[str], None]
"""A function that takes a few words about what a part is doing."""


def _print(line: str) -> None:
    print(line, flush=True)


class Steps:
    """Writes what happens, from any thread. It is a `localcluster.progress.Progress`, whose tasks are parts of steps.

    Args:
        write: Takes each line.
        clock: Returns monotonic seconds.
    """

    def __init__(self, write: Callable[[str], None] = _print, clock: Callable[[], float] = time.monotonic) -> None:
        self.write = write
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}
        self._taken: dict[str, float] = {}

    def say(self, text: str) -> None:
        """Write a line with its time."""
        with self._lock:
            self.write(f"[{self._clock() - self._began:7.1f} s] {sanitize(text)}")

    def report(self, title: str, lines: Iterable[str]) -> None:
        """Write a text in full, such as the end of a log."""
        self.write(f"--- {sanitize(title)}")
        for line in lines:
            self.write(f"    {sanitize(line)}")

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Tell of a block of code as a step."""
        self.say(f"{name} ...")
        began = self._clock()
        verdict = "FAILED after"
        try:
            yield
            verdict = "done in"
        finally:
            self._taken[name] = self._clock() - began
            self.say(f"{name}: {verdict} {format_duration(self._taken[name])}")

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[ReportDetail]:
        """Tell of a block of code as a part of the running step; the block gets a function to report details with."""
        details = [""]
        with task(self, name, details):
            yield details.append

    def summary(self) -> list[str]:
        """Return the lines of a table: how long each step took, and all together."""
        taken = {**self._taken, "all together": self._clock() - self._began}
        return ["steps:", *(f"  {name:<20} {format_duration(seconds):>12}" for name, seconds in taken.items())]

    def show(self, task: str, state: State, seconds: float, detail: str = "") -> None:
        """Write a line now and then about a part that goes on, and how long it took unless it was short."""
        if state is not State.RUNS:
            self._due.pop(task, None)
            failed = "FAILED after " if state is State.FAILED else ""
            if failed or seconds >= SHORT_SECONDS:
                self.say(f"  {task}: {failed}{format_duration(seconds)}")
        elif seconds >= self._due.get(task, GOES_ON_SECONDS):
            self._due[task] = seconds + GOES_ON_SECONDS
            self.say(f"  {task}: goes on, {format_duration(seconds)}" + (f", {detail}" if detail else ""))


def format_duration(seconds: float) -> str:
    """Return seconds as `8.3 s` or `2 min 05 s`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02d} s"
