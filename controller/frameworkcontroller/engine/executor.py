"""Performs many effects at a time, bounded, and fair between Frameworks.

The engine makes two executors, one for statuses and one for everything else, and submits effects with their Framework
as the owner. The promise: at most `slots` items are performed at a time; each owner gets a turn before any gets a
second one, so that a gang of two does not wait behind a gang of ten thousand; an owner's items start in their order;
urgent items, for which a whole Framework waits (its ConfigMap, its roster), start before those of single Tasks.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, Generic, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

T = TypeVar("T")

DEFAULT_SLOTS: Final = 64
# The ratio of concurrent requests about objects to concurrent status writes. A status write costs the API server more
# than the creation of a Pod, and while it waits for its turn, more changes go into it.
OBJECTS_PER_STATUS: Final = 8
# How much the newest wait counts in the average, and for how long an average speaks of the present.
NEWEST_WAIT_COUNTS: Final = 0.2
HOLDS_SECONDS: Final = 2.0
# What can be put off leaves its turn to the others for so many times as long as items wait for a free worker, or for so
# many seconds times the items that start in a second, whatever is longer.
PUT_OFF_BY_WAIT: Final = 40
PUT_OFF_BY_RATE: Final = 0.5


class FairQueue(Generic[T]):
    """Items by owner, taken from the owners in turn; an owner's own items stay in order."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[T]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, owner: Hashable, item: T) -> None:
        """Add an item, to wait for its owner's turn."""
        self._waiting.setdefault(owner, deque()).append(item)

    def take(self) -> T:
        """Remove and return the next item.

        Raises:
            KeyError: the queue is empty.
        """
        owner, items = self._waiting.popitem(last=False)
        item = items.popleft()
        if items:
            self._waiting[owner] = items
        return item


class Executor(Generic[T]):
    """A bounded number of workers on two queues.

    Args:
        perform: performs one item; it must not raise.
        slots: how many items are performed at a time.
        clock: gives the steady time in seconds.
    """

    def __init__(
        self,
        perform: Callable[[T], Awaitable[None]],
        *,
        slots: int = DEFAULT_SLOTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._perform, self._slots, self._clock = perform, slots, clock
        self._urgent: FairQueue[tuple[float, T]] = FairQueue()
        self._ordinary: FairQueue[tuple[float, T]] = FairQueue()
        self._waiting = asyncio.Semaphore(0)
        self._wait_seconds, self._per_second, self._started_at = 0.0, 0.0, 0.0

    @property
    def put_off_seconds(self) -> float:
        """For how long what can be put off should leave its turn to others at present: backpressure.

        Waits say that this program sends as much as it may; many starts, that many owners have something to send, which
        could go with what they send next.
        """
        now = self._clock()
        lately = now - self._started_at < HOLDS_SECONDS or bool(self._urgent or self._ordinary)
        wait = self._wait_seconds if lately else 0.0
        return max(PUT_OFF_BY_WAIT * wait, PUT_OFF_BY_RATE * self._rate(now))

    def _rate(self, now: float) -> float:
        """Return how many items have started in a second of late, the newest counting most."""
        return self._per_second * math.exp((self._started_at - now) / HOLDS_SECONDS)

    def submit(self, owner: Hashable, item: T, *, urgent: bool) -> None:
        """Queue an item."""
        (self._urgent if urgent else self._ordinary).add(owner, (self._clock(), item))
        self._waiting.release()

    async def run(self) -> NoReturn:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._slots):
                group.create_task(self._work())
        raise AssertionError

    async def _work(self) -> NoReturn:
        while True:
            await self._waiting.acquire()
            submitted_at, item = (self._urgent or self._ordinary).take()
            now = self._clock()
            self._per_second, self._started_at = self._rate(now) + 1 / HOLDS_SECONDS, now
            self._wait_seconds += NEWEST_WAIT_COUNTS * (now - submitted_at - self._wait_seconds)
            await self._perform(item)
