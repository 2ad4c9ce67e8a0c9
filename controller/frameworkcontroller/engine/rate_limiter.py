"""A client-side limit of requests a second (`kubeClientQps`, docs/reference/framework-api.md, section 11).

`KubeClient` waits here before each request and each watch, in addition to the server's flow control.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from frameworkcontroller.core.policies.pace import Pace


class RateLimiter:
    """A token bucket.

    Args:
        rate: requests a second; None for no limit.
        burst: requests at once; at least one.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        rate: float | None,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._pace = None if rate is None else Pace(rate, burst)
        self._clock, self._sleep = clock, sleep

    async def wait(self) -> None:
        """Wait until a request may be sent; calls return in their order."""
        if (seconds := self.reserve()) > 0:
            await self._sleep(seconds)

    def reserve(self) -> float:
        """Reserve the next request, and return in how many seconds it may be sent, 0 if at once."""
        return 0.0 if self._pace is None else self._pace.reserve(self._clock())
