"""Sources take turns at what the server has little of: the time of reviews, and the memory of large bodies."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection


class Turns:
    """So many turns at a time; the next one is for the source that has had the least time (start-time fair queueing).

    Sources that are known to be honest come before all others; once there is one, the others have at most half of the
    turns, or the only one.

    Args:
        slots: How many have their turn at a time.
        clock: Monotonic seconds.
        known: The sources that are known, at present.
    """

    def __init__(self, slots: int, clock: Callable[[], float], known: Collection[str] = ()) -> None:
        self._free, self._free_for_others = slots, (slots + 1) // 2
        self._clock, self._known = clock, known
        self._waiting: dict[str | None, deque[asyncio.Future[bool]]] = {}
        # The time of each source while somebody waits; who comes begins with that of the last turn: nobody saves it up.
        self._had: dict[str | None, float] = {}
        # The time that the last turn of those that are known, and of the others, began with.
        self._passed = {True: 0.0, False: 0.0}

    @contextlib.asynccontextmanager
    async def of(self, source: str | None) -> AsyncIterator[None]:
        """Wait for a turn of this source, and have it for the block."""
        self._had[source] = self._begins(source)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(source, deque()).append(turn)
        self._pass_on()
        try:
            is_known = await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._end(is_known=turn.result())
            raise
        begun = self._clock()
        try:
            # What was closed meanwhile frees its bytes, in the time of nobody.
            await asyncio.sleep(0)
            begun = self._clock()
            yield
        finally:
            self._had[source] = self._begins(source) + self._clock() - begun
            self._end(is_known=is_known)

    def _begins(self, source: str | None) -> float:
        return max(self._passed[source in self._known], self._had.get(source, 0.0))

    def _end(self, *, is_known: bool) -> None:
        self._free += 1
        self._free_for_others += not is_known
        self._pass_on()

    def _pass_on(self) -> None:
        while self._free and (next_one := self._next()):
            (is_other, had), source = next_one
            # To the end: of equals he is next who waits longest for a turn.
            queue = self._waiting.pop(source)
            turn = queue.popleft()
            if queue:
                self._waiting[source] = queue
            if not turn.done():
                self._passed[not is_other] = had
                self._free -= 1
                self._free_for_others -= is_other
                turn.set_result(not is_other)
        if not self._waiting:
            self._had.clear()

    def _next(self) -> tuple[tuple[bool, float], str | None] | None:
        waiting = (((source not in self._known, self._had[source]), source) for source in self._waiting)
        may_others = self._free_for_others > 0 or not self._known
        return min((one for one in waiting if may_others or not one[0][0]), key=lambda one: one[0], default=None)
