"""The log of a run: what was done when. A run that fails prints it, `make chaos` shows it as it grows."""

import time
from collections import Counter


class Journal:
    """Prints lines with the seconds since the start, and counts what was done."""

    def __init__(self, seed: int) -> None:
        self.counts = Counter[str]()
        self._back_at = 0.0
        self._begun = time.monotonic()
        self.note(f"SEED={seed}")

    @property
    def seconds(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._begun

    @property
    def seconds_with_control_plane(self) -> float:
        """The seconds since a component of the control plane was started last."""
        return self.seconds - self._back_at

    def is_back(self, component: str) -> None:
        """Note that a component of the control plane was started again."""
        self._back_at = self.seconds
        self.note(f"{component} is back")

    def note(self, text: str) -> None:
        print(f"{self.seconds:8.1f} {text}", flush=True)

    def did(self, what: str, detail: str = "") -> None:
        """Write a line about something that was done, and count it."""
        self.counts[what] += 1
        self.note(f"{what} {detail}".rstrip())
