"""How many Pods of one Framework are created at a time: many while all goes well, one while they are refused.

The first batch is as large as the executor; with each Pod that is created, one more may be, so that batches double as
in Kubernetes' Job controller. After a transient refusal (a quota, an API server in trouble) all Tasks wait together,
longer every time, and one creation probes for all of them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from frameworkcontroller.core.backoff import pause_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkcontroller.core.effects import Failed

FIRST_BATCH: Final = 64


class SlowStart:
    """The creations of one Framework's Pods.

    Args:
        draw: gives a random number in [0, 1).

    Attributes:
        message: the failure of the last creation, "" after a success.
    """

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._limit = FIRST_BATCH
        self._failures = 0
        self._closed_until: datetime | None = None
        self.message = ""

    def free(self, in_flight: int, now: datetime) -> int:
        """Return how many more creations may start while so many are in flight."""
        return 0 if self.closed_until(now) is not None else max(0, self._limit - in_flight)

    def closed_until(self, now: datetime) -> datetime | None:
        """Return until when no creation starts, None if some may."""
        return self._closed_until if self._closed_until is not None and now < self._closed_until else None

    def succeed(self, now: datetime) -> None:
        """Note that a Pod was created."""
        if self.closed_until(now) is None:
            self._limit += 1
            self._failures, self.message = 0, ""

    def fail(self, failure: Failed, now: datetime) -> bool:
        """Note that a creation failed; report whether it is news, not one more failure of the same batch."""
        self.message = failure.message
        if self.closed_until(now) is not None:
            return False
        self._failures += 1
        self._limit = 1
        seconds = pause_seconds(self._failures, self._draw, failure.retry_after_seconds)
        self._closed_until = now + timedelta(seconds=seconds)
        return True
