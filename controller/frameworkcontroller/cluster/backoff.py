"""How long to wait after a failure: client-go's figures for watches, full jitter above a floor."""

import random
from collections.abc import Callable

FLOOR_SECONDS = 0.8
CEILING_SECONDS = 30.0
HEALTHY_SECONDS = 120.0


class Backoff:
    """Doubles with each failure, forgets after two minutes without one.

    Source: client-go's reflector (0.8 s to 30 s, factor 2, reset after 2 minutes). The jitter is full, so that
        replicas that
    lost the same server do not come back together, but never below the floor: a sick server sees at most one attempt
        per 0.8 s.

    Args:
        clock: monotonic seconds.
        draw: a random number in [0, 1).
    """

    def __init__(self, clock: Callable[[], float], draw: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._draw = draw
        self._failures = 0
        self._resumes_at = float("-inf")

    def next(self, at_least: float | None = None) -> float:
        """Seconds to wait after one more failure.

        Args:
            at_least: the pause that the server asked for.
        """
        if self._clock() - self._resumes_at >= HEALTHY_SECONDS:
            self._failures = 0
        self._failures += 1
        # The exponent is bounded: 2.0 ** 1100 would raise after a weekend without a server.
        ceiling = min(CEILING_SECONDS, FLOOR_SECONDS * 2.0 ** min(self._failures, 10))
        delay = FLOOR_SECONDS + self._draw() * (ceiling - FLOOR_SECONDS)
        if at_least is not None:
            delay = max(delay, at_least + self._draw() * FLOOR_SECONDS)
        self._resumes_at = self._clock() + delay
        return delay
