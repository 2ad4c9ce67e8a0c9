"""Sources take turns at what the server has little of: the time of reviews, and the memory of large bodies."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from typing import TypeAlias

_Payer: TypeAlias = tuple[bool, str | None]
"""Whether he comes after those that are known, and who he is."""


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
        self._waiting: dict[_Payer, deque[asyncio.Future[None]]] = {}
        # The time of each while somebody waits; who comes begins with that of the last turn: nobody saves it up.
        self._had: dict[_Payer, float] = {}
        # The time that the last turn of those that are known, and of the others, began with.
        self._passed = {False: 0.0, True: 0.0}

    @contextlib.asynccontextmanager
    async def of(self, source: str | None, on_behalf: str = "") -> AsyncIterator[None]:
        """Wait for a turn, and have it for the block.

        Args:
            source: Who asks.
            on_behalf: Whose time it is, if the source is known: an API server asks for all namespaces.
        """
        is_other = source not in self._known
        payer = is_other, source if is_other else on_behalf
        self._had[payer] = self._begins(payer)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(payer, deque()).append(turn)
        self._pass_on()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._end(payer)
            raise
        begun = self._clock()
        try:
            # What was closed meanwhile frees its bytes, in the time of nobody.
            await asyncio.sleep(0)
            begun = self._clock()
            yield
        finally:
            self._had[payer] = self._begins(payer) + self._clock() - begun
            self._end(payer)

    def _begins(self, payer: _Payer) -> float:
        return max(self._passed[payer[0]], self._had.get(payer, 0.0))

    def _end(self, payer: _Payer) -> None:
        self._free += 1
        self._free_for_others += payer[0]
        self._pass_on()

    def _pass_on(self) -> None:
        while self._free and (payer := self._next()) is not None:
            # To the end: of equals he is next who waits longest for a turn.
            queue = self._waiting.pop(payer)
            turn = queue.popleft()
            if queue:
                self._waiting[payer] = queue
            if not turn.done():
                self._passed[payer[0]] = self._had[payer]
                self._free -= 1
                self._free_for_others -= payer[0]
                turn.set_result(None)
        if not self._waiting:
            self._had.clear()

    def _next(self) -> _Payer | None:
        may_others = self._free_for_others > 0 or not self._known
        waiting = (payer for payer in self._waiting if may_others or not payer[0])
        return min(waiting, key=lambda payer: (payer[0], self._had[payer]), default=None)
