"""How often something may happen: a token bucket, pure."""

from typing import Final

LONGEST_SECONDS: Final = 300.0


class Pace:
    """A pace, and when the next one may be.

    Args:
        rate: how many may be in a second.
        burst: how many may be at once; at least one.

    Nothing waits longer than five minutes, also where more are reserved by then: who reserves may be gone long since.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, max(burst, 1)
        self._left = 0.0
        """How many may be at once; below 0 so many are reserved."""
        self._at = float("-inf")

    def reserve(self, now: float) -> float:
        """Reserve the next one, and return in how many seconds it may be, 0 if at once."""
        self._fill(now)
        self._left = max(self._left - 1, -LONGEST_SECONDS * self._rate)
        return max(0.0, -self._left / self._rate)

    def take(self, now: float) -> bool:
        """Take one if it may be at once, and report whether it may."""
        self._fill(now)
        is_free = self._left >= 1
        self._left -= is_free
        return is_free

    def _fill(self, now: float) -> None:
        # A time of day may go back.
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._rate)
        self._at = now
