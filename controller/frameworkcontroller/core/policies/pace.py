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
        self._each, self._ahead = 1 / rate, (max(burst, 1) - 1) / rate
        self._next = float("-inf")

    def reserve(self, now: float) -> float:
        """Reserve the next one, and return in how many seconds it may be, 0 if at once; the time is monotonic."""
        # When it would be if all were spread evenly; a burst may be ahead of that.
        self._next = min(max(self._next + self._each, now - self._ahead), now + LONGEST_SECONDS)
        return max(0.0, self._next - now)
