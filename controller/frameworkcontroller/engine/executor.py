"""Performs many effects at a time, bounded, and fair between Frameworks.

A gang of two is not behind a gang of ten thousand: whoever has something to do gets a turn before anybody gets a second
one. What a whole Framework waits for (its ConfigMap, its roster) goes before what one Task waits for.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, Generic, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

J = TypeVar("J")

DEFAULT_SLOTS: Final = 64
# Of requests about objects at a time to writes of statuses at a time. Few of these: one costs the API server more than
# a Pod's creation does, and while one waits for its turn, more goes into it.
OBJECTS_PER_STATUS: Final = 8


class Turns(Generic[J]):
    """Jobs in the order of turns: each owner has one before any has another; an owner's own jobs stay in order."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[J]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, owner: Hashable, job: J) -> None:
        """The job waits for its owner's turn."""
        self._waiting.setdefault(owner, deque()).append(job)

    def take(self) -> J:
        """The next job. Raises KeyError if there is none."""
        owner, jobs = self._waiting.popitem(last=False)
        job = jobs.popleft()
        if jobs:
            self._waiting[owner] = jobs
        return job


class Executor(Generic[J]):
    """A bounded number of workers on two queues.

    Args:
        perform: does one job; it must not raise.
        slots: how many are done at a time.
    """

    def __init__(self, perform: Callable[[J], Awaitable[None]], *, slots: int = DEFAULT_SLOTS) -> None:
        self._perform, self._slots = perform, slots
        self._urgent: Turns[J] = Turns()
        self._ordinary: Turns[J] = Turns()
        self._waiting = asyncio.Semaphore(0)

    @property
    def crowded(self) -> bool:
        """Whether jobs wait for a free worker."""
        return bool(self._urgent or self._ordinary)

    def submit(self, owner: Hashable, job: J, *, urgent: bool) -> None:
        """Queue a job."""
        (self._urgent if urgent else self._ordinary).add(owner, job)
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
