"""A limit of our own on requests, for who wants one beside the server's flow control (``kubeClientQps``)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Limiter:
    """Lets so many through a second, and some more at once after a rest.

    Args:
        rate: a second; None lets everybody through.
        burst: at once; at least one.
        clock: monotonic seconds.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        rate: float | None,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._rate, self._burst = rate, max(burst, 1)
        self._clock, self._sleep = clock, sleep
        self._next = float("-inf")

    async def turn(self) -> None:
        """Wait for a turn. Turns are given in the order of the calls."""
        if self._rate is None:
            return
        now = self._clock()
        # A turn's own time, were they spread evenly; a burst may be ahead of it.
        self._next = max(self._next + 1 / self._rate, now - (self._burst - 1) / self._rate)
        if self._next > now:
            await self._sleep(self._next - now)
