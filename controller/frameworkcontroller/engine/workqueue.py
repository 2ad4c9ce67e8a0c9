"""The work queue: keys of Frameworks that wait for a decision, now or at a time.

The engine adds a key for every change and every outcome, and one loop, `serve`, has each decided on (client-go's
`workqueue`, for one worker in one event loop). Namespaces and Frameworks whose decisions take long come behind the
others (`FairQueue`).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Generic, NoReturn, TypeVar

from frameworkkube.fair_queue import FairQueue

K = TypeVar("K", bound=tuple[str, ...])

DECIDING_SECONDS: Final = 0.01
"""Decisions are made in a row for so long; then other tasks of the loop get their turn: lease, health, requests."""
WAY_SECONDS: Final = 0.005
"""Half of that at most: with 20 ms gangs that arrive together were decided on up to a second late, and ran later."""
WAY_TURNS: Final = 10
"""Turns of the event loop that a request takes from its answer to the next request, and some more."""
LEAST_SECONDS: Final = 0.001
"""Of a timer: what is to be called earlier uvloop calls in its next turn, by a handle that knows no time."""


async def make_way() -> None:
    """Let requests that are under way go on, of which each turn of the loop does only a part."""
    begun = time.perf_counter()
    for _ in range(WAY_TURNS):
        await asyncio.sleep(0)
        if time.perf_counter() - begun > WAY_SECONDS:  # others take all the time: decisions have a share of it
            break


class WorkQueue(Generic[K]):
    """A queue without duplicates: a key that is added while it is being decided on comes again.

    Each key has one timer: the earliest wins, and adding the key cancels it.

    Attributes:
        on_add: called when a key is queued.
        on_take: called with the seconds that a key waited.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._keys: dict[K, float] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._turns: FairQueue[K] = FairQueue()
        self._taken_at = float("-inf")
        self._filled = asyncio.Event()
        self.on_add: Callable[[], None] = lambda: None
        self.on_take: Callable[[float], None] = lambda _seconds: None

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def stalled_seconds(self) -> float:
        """For how long no key was taken though one waits: a key may wait longer, behind others of its namespace."""
        return self._clock() - max(self._taken_at, next(iter(self._keys.values()))) if self._keys else 0.0

    def add(self, key: K) -> None:
        """Queue the key, unless it is queued."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if key not in self._keys:
            self._keys[key] = self._clock()
            self._turns.add(key, key)
            self.on_add()
        self._filled.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Queue the key in so many seconds, unless it is queued earlier anyway."""
        if key in self._keys:
            return
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + max(seconds, LEAST_SECONDS)
        if (timer := self._timers.get(key)) is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self.add, key)

    def forget(self, key: K) -> None:
        """Remove the key and its timer."""
        self._keys.pop(key, None)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    async def take(self) -> K:
        """Wait for a key; remove and return the one whose turn it is."""
        while True:
            while not self._turns:
                self._filled.clear()
                await self._filled.wait()
            key = self._turns.take()
            if key in self._keys:  # not forgotten meanwhile
                self._taken_at = self._clock()
                self.on_take(self._taken_at - self._keys.pop(key))
                return key

    def charge(self, key: K, seconds: float) -> None:
        """Note how long the decision took: the next one waits until the others that wait have had as much time."""
        self._turns.charge(key, seconds)

    async def serve(self, decide: Callable[[K, float], object]) -> NoReturn:
        """Have one key after the other decided on, each until the time of `perf_counter` that `decide` is given."""
        since = time.perf_counter()
        while True:
            key = await self.take()
            spent = time.thread_time()
            decide(key, time.perf_counter() + DECIDING_SECONDS)
            # Of this thread alone: nobody pays for others, nor for a machine that stood still.
            self.charge(key, time.thread_time() - spent)
            if time.perf_counter() - since > DECIDING_SECONDS:
                await make_way()
                since = time.perf_counter()
