"""Performs many effects at a time, bounded, and fair between namespaces and Frameworks.

The engine makes three executors, one for statuses, one for what is large and one for everything else, and submits
effects with their Framework as the owner. The promise: at most `slots` items are performed at a time; owners take turns
(`turns`); an owner's items start in their order; urgent items, for which a whole Framework waits (its ConfigMap, its
roster), start before those of single Tasks; of an item that was performed nothing is kept.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, NoReturn, TypeVar

from frameworkcontroller.engine.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

T = TypeVar("T")

DEFAULT_SLOTS: Final = 64
# The ratio of concurrent requests about objects to concurrent status writes. A status write costs the API server more
# than the creation of a Pod, and while it waits for its turn, more changes go into it.
OBJECTS_PER_STATUS: Final = 8


class Executor(Generic[T]):
    """A bounded number of workers on two queues.

    Args:
        perform: performs one item; it must not raise.
        slots: how many items are performed at a time.

    Attributes:
        pending: items that wait or are performed.
    """

    def __init__(self, perform: Callable[[T], Awaitable[None]], *, slots: int = DEFAULT_SLOTS) -> None:
        self._perform, self._slots = perform, slots
        self._urgent: Turns[T] = Turns()
        self._ordinary: Turns[T] = Turns()
        self._waiting = asyncio.Semaphore(0)
        self.pending = 0

    def submit(self, owner: Sequence[Hashable], item: T, *, urgent: bool) -> None:
        """Queue an item."""
        (self._urgent if urgent else self._ordinary).add(owner, item)
        self.pending += 1
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
            # No variable holds the item: whoever waits for the next one would keep it.
            await self._perform((self._urgent or self._ordinary).take(cost=1))
            self.pending -= 1
