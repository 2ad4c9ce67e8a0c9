"""Performs many things at a time, bounded, and fair between namespaces and Frameworks.

What is submitted is owned by a Framework. The promise: at most `slots` items of one namespace are performed at a time,
and a quarter more of all, so that what is slow for one leaves slots to others; owners take turns (`FairQueue`); an
owner's items start in their order, but urgent ones, for which a whole Framework waits (its ConfigMap, its roster),
before those of single Tasks; of an item that was performed nothing is kept.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from math import inf
from typing import Final, NoReturn, TypeAlias

from frameworkkube.fair_queue import FairQueue

Item: TypeAlias = Callable[[], Awaitable[object]]
"""What is performed; it must not raise. What it returns says whether its time is that of a whole answer."""

DEFAULT_SLOTS: Final = 64
REST: Final = 3
"""Times as long as an item took: what is large may take a quarter of the API server's time."""
REST_BESIDE_OTHERS: Final = 9
"""The same while other namespaces have requests: a tenth, or a gang beside it would start twice as late."""
LONGEST: Final = 0.35
"""Seconds of an item that count for its rest: one that took long may have waited for others."""
BUSY: Final = 2
"""Times the least that an item took: who has answered all namespaces so late has too much to do."""
WAY: Final = 8
"""Times fewer items of a namespace are performed at a time then: of 64 creations 8, and of 8 statuses one."""
# The least is forgotten after some thousand items: an API server may be slow for another reason, and for good.
FORGETS: Final = 1.001
# The ratio of concurrent requests about objects to concurrent status writes. A status write costs the API server more
# than the creation of a Pod, and while it waits for its turn, more changes go into it.
OBJECTS_PER_STATUS: Final = 8


class Executor:
    """A bounded number of workers.

    Args:
        slots: how many items of one namespace are performed at a time, fewer of those that take several slots.
        makes_way: whether others ask for something beside a namespace, of which fewer items are performed at a time
            then, while who answers has too much to do.
        rest: where it is given, an item costs the time that it takes, and while others wait its slots rest after it:
            so many times as long, by the namespace, for one that takes all slots, and for others their share of that.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        slots: int,
        makes_way: Callable[[Hashable], bool] = lambda _: False,
        rest: Callable[[Hashable], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slots, self._makes_way, self._rest, self._clock = slots, makes_way, rest, clock
        self._least = inf
        self._took: dict[Hashable, float] = {}
        """The seconds of the last item of each namespace that has a load."""
        self._cost = 1 if rest is None else 0
        self._turns: FairQueue[tuple[Sequence[Hashable], Item, int]] = FairQueue()
        self._waiting = asyncio.Semaphore(0)
        self._started: deque[tuple[float, Hashable]] = deque()
        self._loads: Counter[Hashable] = Counter()
        self._lanes: dict[Hashable, FairQueue[tuple[Sequence[Hashable], Item, int, bool]]] = {}
        self._entered: Counter[Hashable] = Counter()
        """Slots of a namespace for items that have left its lane, to wait for their turn among all or be performed."""

    def load(self, first: Hashable) -> int:
        """How many items of owners in this namespace wait, are performed, or have started within the last second."""
        self._forget()
        return self._loads[first]

    def has_only(self, first: Hashable) -> bool:
        """Report whether no other namespace has a load."""
        self._forget()
        return self._loads.keys() <= {first}

    def _forget(self) -> None:
        while self._started and self._started[0][0] < self._clock() - 1:
            self._leave(self._started.popleft()[1])

    def _leave(self, first: Hashable) -> None:
        self._loads[first] -= 1
        if not self._loads[first]:
            del self._loads[first]
            self._took.pop(first, None)

    def submit(self, owner: Sequence[Hashable], item: Item, *, urgent: bool = False, slots: int = 1) -> None:
        """Queue an item, which takes so many of the slots of its namespace."""
        first = owner[0]
        self._forget()
        self._loads[first] += 1
        if first not in self._lanes:
            self._lanes[first] = FairQueue()
        self._lanes[first].add(owner[1:], (owner, item, slots, urgent), urgent=urgent)
        self._enter(first)

    def withdraw(self, owner: Sequence[Hashable]) -> None:
        """Let go of what an owner has in the lane of its namespace: nothing but its turn would, and that may be far."""
        if (lane := self._lanes.get(owner[0])) is not None:
            for _ in range(lane.withdraw(owner[1:])):
                self._leave(owner[0])

    def _enter(self, first: Hashable) -> None:
        """Let items of a namespace leave its lane, as many as it may have performed at a time."""
        makes_way = self._makes_way(first) and min(self._took.values(), default=0.0) > BUSY * self._least
        lane, most = self._lanes[first], max(1, self._slots // WAY) if makes_way else self._slots
        while lane and self._entered[first] < most:
            owner, item, slots, urgent = lane.take(self._cost)
            self._entered[first] += slots
            self._turns.add(owner[:1], (owner, item, slots), urgent=urgent)
            self._waiting.release()
        if not self._entered[first]:
            del self._entered[first], self._lanes[first]

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._slots + max(1, self._slots // 4)):
                group.create_task(self._work())

    async def _work(self) -> NoReturn:
        while True:
            await self._waiting.acquire()
            # No variable holds the item: whoever waits for the next one would keep it.
            await self._one(*self._turns.take(self._cost))

    async def _one(self, owner: Sequence[Hashable], item: Item, slots: int) -> None:
        first, loop = owner[0], asyncio.get_running_loop()
        self._loads[first] += 1
        self._started.append((self._clock(), first))
        self._forget()
        begun = loop.time()
        is_answer = await item()
        del item
        seconds = loop.time() - begun
        if is_answer:
            self._took[first], self._least = seconds, min(seconds, self._least * FORGETS)
        self._leave(first)
        pause = 0.0
        if self._rest is not None:
            self._turns.charge(owner[:1], seconds)
            self._lanes[first].charge(owner[1:], seconds)
            if self._turns or self._lanes[first]:
                pause = slots / self._slots * self._rest(first) * min(seconds, LONGEST)
        if pause:
            # The namespace rests, and not the worker, for which others wait.
            loop.call_later(pause, self._go_on, first, slots)
        else:
            self._go_on(first, slots)

    def _go_on(self, first: Hashable, slots: int) -> None:
        self._entered[first] -= slots
        self._enter(first)
