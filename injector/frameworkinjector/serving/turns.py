"""Sources take turns at what the server has little of: the time of reviews, and the memory of large bodies."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable


class Turns:
    """So many turns at a time; the next one is for the source that has had the least time (start-time fair queueing).

    Args:
        slots: How many have their turn at a time.
        clock: Monotonic seconds.
    """

    def __init__(self, slots: int, clock: Callable[[], float]) -> None:
        self._free, self._clock = slots, clock
        self._waiting: dict[str | None, deque[asyncio.Future[None]]] = {}
        # The time of each source while somebody waits; who comes begins with that of the last turn: nobody saves it up.
        self._had: dict[str | None, float] = {}
        self._passed = 0.0

    @contextlib.asynccontextmanager
    async def of(self, source: str | None) -> AsyncIterator[None]:
        """Wait for a turn of this source, and have it for the block."""
        self._had[source] = max(self._passed, self._had.get(source, 0.0))
        if self._free:
            self._free -= 1
        else:
            await self._turn(source)
        begun = self._clock()
        try:
            # What was closed meanwhile frees its bytes, in the time of nobody.
            await asyncio.sleep(0)
            begun = self._clock()
            yield
        finally:
            self._had[source] = max(self._passed, self._had.get(source, 0.0)) + self._clock() - begun
            self._pass_on()

    async def _turn(self, source: str | None) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(source, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            source = min(self._waiting, key=self._had.__getitem__)
            # To the end: of equals he is next who waits longest for a turn.
            queue = self._waiting.pop(source)
            turn = queue.popleft()
            if queue:
                self._waiting[source] = queue
            if not turn.done():
                self._passed = self._had[source]
                turn.set_result(None)
                return
        self._free += 1
        self._had.clear()
