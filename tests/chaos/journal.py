"""The log of a run: what was done when. A run that fails prints it, `make chaos` shows it as it grows."""

from __future__ import annotations

import time
from collections import Counter


class Journal:
    """Prints lines with the seconds since the start, and counts what was done.

    Args:
        seed: The seed of the run.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.counts = Counter[str]()
        self._begun = time.monotonic()
        self.note(f"SEED={seed}")

    @property
    def seconds(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._begun

    def note(self, text: str) -> None:
        """Write a line."""
        print(f"{self.seconds:8.1f} {text}", flush=True)

    def did(self, what: str, detail: str = "") -> None:
        """Write a line about something that was done, and count it."""
        self.counts[what] += 1
        self.note(f"{what} {detail}".rstrip())
