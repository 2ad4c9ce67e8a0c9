"""Sources take turns at what the server has little of: the time of reviews, and the memory of large bodies."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Collection


class Turns:
    """So many turns at a time, one after the other for each source that waits.

    Sources that are known to be honest come before all others, who have at most half of the turns, or the only one.

    Args:
        slots: How many have their turn at a time.
        known: The sources that are known, at present.
    """

    def __init__(self, slots: int, known: Collection[str] = ()) -> None:
        self._free, self._free_for_others, self._known = slots, (slots + 1) // 2, known
        # In the order of their turns.
        self._waiting: dict[str | None, deque[asyncio.Future[bool]]] = {}

    @contextlib.asynccontextmanager
    async def of(self, source: str | None) -> AsyncIterator[None]:
        """Wait for a turn of this source, and have it for the block."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(source, deque()).append(turn)
        self._pass_on()
        try:
            is_known = await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._end(is_known=turn.result())
            raise
        try:
            # What was closed meanwhile frees its bytes first.
            await asyncio.sleep(0)
            yield
        finally:
            self._end(is_known=is_known)

    def _end(self, *, is_known: bool) -> None:
        self._free += 1
        self._free_for_others += not is_known
        self._pass_on()

    def _pass_on(self) -> None:
        while self._free and (waiting := [one for one in self._waiting if self._free_for_others or one in self._known]):
            source = min(waiting, key=lambda one: one not in self._known)
            queue = self._waiting.pop(source)
            turn = queue.popleft()
            if queue:
                self._waiting[source] = queue
            if not turn.done():
                is_known = source in self._known
                self._free -= 1
                self._free_for_others -= not is_known
                turn.set_result(is_known)
