"""Performs many effects at a time, bounded, and fair between Frameworks.

The engine makes two executors, one for statuses and one for everything else, and submits effects with their Framework
as the owner. The promise: at most `slots` items are performed at a time; each owner gets a turn before any gets a
second one, so that a gang of two does not wait behind a gang of ten thousand; an owner's items start in their order;
urgent items, for which a whole Framework waits (its ConfigMap, its roster), start before those of single Tasks.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, Generic, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

T = TypeVar("T")

DEFAULT_SLOTS: Final = 64
# The ratio of concurrent requests about objects to concurrent status writes. A status write costs the API server more
# than the creation of a Pod, and while it waits for its turn, more changes go into it.
OBJECTS_PER_STATUS: Final = 8


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
    """

    def __init__(self, perform: Callable[[T], Awaitable[None]], *, slots: int = DEFAULT_SLOTS) -> None:
        self._perform, self._slots = perform, slots
        self._urgent: FairQueue[T] = FairQueue()
        self._ordinary: FairQueue[T] = FairQueue()
        self._waiting = asyncio.Semaphore(0)

    @property
    def backpressure(self) -> bool:
        """Whether items wait for a free worker."""
        return bool(self._urgent or self._ordinary)

    def submit(self, owner: Hashable, item: T, *, urgent: bool) -> None:
        """Queue an item."""
        (self._urgent if urgent else self._ordinary).add(owner, item)
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
            await self._perform((self._urgent or self._ordinary).take())
