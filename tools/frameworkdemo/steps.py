"""The steps of the demo as plain lines, and a table of the seconds that they took."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator

from frameworkclient.views.text import sanitize

PRINT = functools.partial(print, flush=True)


class Steps:
    """Writes what happens, each line by `write`."""

    def __init__(self, write: Callable[[str], None] = PRINT, clock: Callable[[], float] = time.monotonic) -> None:
        self.write = write
        self._clock = clock
        self._began = clock()
        self._taken: dict[str, float] = {}

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Tell of a block of code as a step."""
        self.write(f"{name} ...")
        began = self._clock()
        verdict = "FAILED after"
        try:
            yield
            verdict = "done in"
        finally:
            self._taken[name] = self._clock() - began
            self.write(f"{name}: {verdict} {self._taken[name]:.1f} s")

    def report(self, title: str, lines: Iterable[str]) -> None:
        """Write a text in full, such as the end of a log."""
        self.write(f"--- {sanitize(title)}")
        for line in lines:
            self.write(f"    {sanitize(line)}")

    def summary(self) -> list[str]:
        """Return the lines of a table: how long each step took, and all together."""
        taken = {**self._taken, "all together": self._clock() - self._began}
        return ["steps:", *(f"  {name:<12} {seconds:8.1f} s" for name, seconds in taken.items())]
