"""Whose turn it is: owners share what there is, then the parts of each (start-time fair queueing).

An owner is a path, such as namespace and name. Whoever has cost least of late comes first, so that one namespace with
thousands of busy Frameworks waits for itself, and a gang of two does not wait behind a gang of ten thousand. Nobody
saves anything up: who comes begins where the last turn began.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST_KNOWN: Final = 1000
"""Owners of whom it is known what they have cost, beside those that wait."""


class FairQueue(Generic[T]):
    """Items by owner; those of one owner stay in their order, and owners that have cost alike take turns."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        # One without items, which were withdrawn, goes when it would have its turn.
        self._parts: dict[Hashable, FairQueue[T]] = {}
        self._count = 0
        self._heap: list[tuple[float, int, Hashable]] = []
        self._numbers = itertools.count()
        self._costs: dict[Hashable, float] = {}
        self._passed = 0.0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, owner: Sequence[Hashable], item: T, *, urgent: bool = False) -> None:
        """Add an item, to wait for its owner's turn: before the other items of its owner if it is urgent."""
        self._count += 1
        if not owner:
            (self._items.appendleft if urgent else self._items.append)(item)
            return
        first = owner[0]
        if first not in self._parts:
            self._parts[first] = FairQueue()
            heapq.heappush(self._heap, (self._begins(first), next(self._numbers), first))
        self._parts[first].add(owner[1:], item, urgent=urgent)

    def _begins(self, first: Hashable) -> float:
        return max(self._passed, self._costs.get(first, 0.0))

    def take(self, cost: float = 0.0) -> T:
        """Remove and return the next item; if its cost is not known already, `charge` is told.

        Raises:
            IndexError: there is none.
        """
        if self._items:
            self._count -= 1
            return self._items.popleft()
        while not self._is_next(*self._heap[0]):
            continue
        self._count -= 1
        self._passed, _, first = self._heap[0]
        item = self._parts[first].take(cost)
        self._costs[first] = self._passed + cost
        if self._parts[first]:
            heapq.heapreplace(self._heap, (self._costs[first], next(self._numbers), first))
        else:
            heapq.heappop(self._heap)
            del self._parts[first]
        if not self._parts or len(self._costs) > MOST_KNOWN + 2 * len(self._parts):
            # Of those that do not wait nothing is known any more: they begin like all others.
            self._costs = {first: cost for first, cost in self._costs.items() if first in self._parts}
        return item

    def _is_next(self, begins: float, _number: int, first: Hashable) -> bool:
        """Whether the first of the heap has the next turn; else it is moved, or goes."""
        if not self._parts[first]:
            heapq.heappop(self._heap)
            del self._parts[first]
        elif self._begins(first) > begins:  # it was charged since
            heapq.heapreplace(self._heap, (self._begins(first), next(self._numbers), first))
        else:
            return True
        return False

    def withdraw(self, owner: Sequence[Hashable]) -> int:
        """Remove all items of an owner, and return how many there were."""
        number = 0
        if not owner:
            number = len(self._items)
            self._items.clear()
        elif owner[0] in self._parts:
            number = self._parts[owner[0]].withdraw(owner[1:])
        self._count -= number
        return number

    def discard(self, owner: Sequence[Hashable], item: T) -> bool:
        """Remove an item of an owner, and report whether it waited."""
        if owner:
            part = self._parts.get(owner[0])
            found = part is not None and part.discard(owner[1:], item)
        elif found := item in self._items:
            self._items.remove(item)
        self._count -= found
        return found

    def charge(self, owner: Sequence[Hashable], cost: float) -> None:
        """Note what the last item of this owner has cost: its next one waits until others have had as much."""
        first = owner[0]
        self._costs[first] = self._begins(first) + cost
        if first in self._parts and len(owner) > 1:
            self._parts[first].charge(owner[1:], cost)
