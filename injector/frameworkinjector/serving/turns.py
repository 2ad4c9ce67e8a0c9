"""Sources take turns at what the server has little of: the time of reviews, and the memory of large bodies."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final, TypeAlias

from frameworkkube.fair_queue import FairQueue

_Queue: TypeAlias = FairQueue[asyncio.Future[None]]

# The known ones have so many times the time of all others, while both wait.
KNOWN_SHARE: Final = 4
# Who has had more than its part while nobody else waited has not had it for good.
MOST_OWED_SECONDS: Final = 0.5
# Of turns in one turn of the event loop, in which those go that come while nobody waits. Who comes next, and who was
# closed meanwhile, is known after it.
AT_ONCE_SECONDS: Final = 0.002


class Turns:
    """So many turns at a time; the next one is for the source that has had the least time.

    Sources that are known to be honest come before all others, which have a fifth of the time of turns while both wait:
    an API server may not be known yet. Once somebody is known, the others have at most half of the turns at a time, or
    the only one.

    Args:
        slots: How many have their turn at a time.
        clock: Monotonic seconds.
        known: The sources that are known, at present.
    """

    def __init__(self, slots: int, clock: Callable[[], float], known: Collection[str] = ()) -> None:
        self._free, self._free_for_others = slots, (slots + 1) // 2
        self._clock, self._known = clock, known
        self._first: _Queue = FairQueue()
        self._others: _Queue = FairQueue()
        # Seconds that the known ones have had beyond their part, while others waited.
        self._owed = 0.0
        # Of this turn of the event loop.
        self._spent_seconds = 0.0

    @contextlib.asynccontextmanager
    async def of(self, source: str | None, on_behalf: bytes = b"") -> AsyncIterator[None]:
        """Wait for a turn, and have it for the block.

        Args:
            source: Who asks.
            on_behalf: The namespace whose time it is, if the source is known: an API server asks for all. Empty is
                one, too: whoever gives a Pod a name of some KiB has it said too late. Of others it is their own time.
        """
        queue, payer = (self._first, on_behalf) if source in self._known else (self._others, source)
        turn = asyncio.get_running_loop().create_future()
        queue.add((payer,), turn)
        if self._spent_seconds < AT_ONCE_SECONDS:
            self._pass_on()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                # Thousands would wait until their source is next, and go at once.
                queue.discard((payer,), turn)
            else:
                self._end(queue, 0.0)
            raise
        begun = self._clock()
        try:
            yield
        finally:
            seconds = self._clock() - begun
            queue.charge((payer,), seconds)
            self._end(queue, seconds)

    def _end(self, queue: _Queue, seconds: float) -> None:
        self._free += 1
        if queue is self._others:
            self._free_for_others += 1
            self._owed = max(self._owed - KNOWN_SHARE * seconds, -MOST_OWED_SECONDS)
        elif self._others:
            self._owed = min(self._owed + seconds, MOST_OWED_SECONDS)
        self._pass_on()
        if not self._spent_seconds:
            asyncio.get_running_loop().call_soon(self._go_on)
        self._spent_seconds += seconds

    def _go_on(self) -> None:
        self._spent_seconds = 0.0
        self._pass_on()

    def _pass_on(self) -> None:
        while self._free and (queue := self._next()):
            turn = queue.take()
            if not turn.done():
                self._free -= 1
                self._free_for_others -= queue is self._others
                turn.set_result(None)

    def _next(self) -> _Queue:
        may_be_others = self._free_for_others > 0 or not self._known
        if self._others and may_be_others and (not self._first or self._owed > 0):
            return self._others
        return self._first
