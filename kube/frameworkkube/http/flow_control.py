"""The client-wide pause: while the API server asks for one, a single request per Retry-After probes.

`transport` calls `enter` before each exchange, `leave` after a probe, and `pause` when an answer has a Retry-After.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from frameworkkube.errors import TooManyRequestsError

PROBE_SECONDS: Final = 2.0
"""After so long without an answer the next request probes, too: a webhook may keep a write for half a minute."""


class FlowControl:
    """Open, closed until a moment, or half open while one request probes.

    The server's flow control replaces a client-side rate. If thousands of waiting writes were all sent after the pause,
    they would be the next overload. So the first request after the pause goes alone; the others wait for its answer.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open = True
        self._until = 0.0
        self._probe: asyncio.Future[None] | None = None

    async def enter(self) -> bool:
        """Wait while another request probes; return whether this one does, and `leave` has to end that.

        Raises:
            TooManyRequestsError: the pause has not passed; nothing was sent.
        """
        while not self._open:
            remaining = self._until - self._clock()
            if remaining > 0:
                raise TooManyRequestsError(
                    429,
                    "ClientPaused",
                    f"the server asked for a pause, {remaining:.1f} s of it are left",
                    retry_after_seconds=remaining,
                )
            if self._probe is None:
                self._probe = asyncio.get_running_loop().create_future()
                return True
            probe = self._probe
            answered, _ = await asyncio.wait([probe], timeout=PROBE_SECONDS)
            if not answered and self._probe is probe:
                # Others wait for the next one, too.
                self.leave(answered=False)
        return False

    def pause(self, seconds: float) -> None:
        """Send nothing for so long: the server asked for it."""
        if seconds > 0:
            self._open = False
            self._until = max(self._until, self._clock() + seconds)

    def leave(self, *, answered: bool) -> None:
        """End the probe; if the server has not answered it at all, the next request probes, again alone."""
        if answered and self._until <= self._clock():
            self._open = True
        probe, self._probe = self._probe, None
        if probe is not None and not probe.done():
            probe.set_result(None)
