"""The order of a gang's ranks: neighbours in a ring are to be neighbours in the network (docs/groups.md).

A ring has the Tasks of a TaskRole in the order of their ranks, and the last one sends to the first. In the order of the
labels of their nodes it leaves each domain once; rotated, it begins with Task 0, whose rank others rely on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

Labels: TypeAlias = Callable[[str], Mapping[str, str] | None]
"""Returns the labels of the node of this name, None if they are not known."""
UNREAD: Final = "the barrier of Pod {pod} was added by an injector that does not know the order of ranks"


class RankOrder:
    """The order of nodes by labels, for all TaskRoles of a gang; each node is looked at once for each list of keys."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._known: dict[tuple[str, ...], dict[str, tuple[tuple[int, str], ...]]] = {}

    def of(self, nodes: Sequence[str], keys: tuple[str, ...]) -> tuple[int, ...]:
        """Return the indices of Tasks on these nodes in the order of their ranks, () where that is by index."""
        known = self._known.setdefault(keys, {})
        for node in {*nodes}:
            if node not in known:
                known[node] = self._place(node, keys)
        places = {node: place for place, node in enumerate(sorted({*nodes}, key=known.__getitem__))}
        order = sorted(range(len(nodes)), key=lambda index: places[nodes[index]])
        first = order.index(0) if order else 0
        order = order[first:] + order[:first]
        return () if order == sorted(order) else tuple(order)

    def _place(self, node: str, keys: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
        """Return by what a node is sorted; a shorter value comes first, so that block-10 comes after block-9."""
        labels = self._labels(node) or {}
        values = (*(labels.get(key, "") for key in keys), node)
        return tuple((len(value), value) for value in values)


def kept(order: Sequence[int], number: int) -> list[int]:
    """Return the order with so many Tasks: those that were added come last."""
    found = dict.fromkeys(index for index in order if 0 <= index < number)
    return [*found, *(index for index in range(number) if index not in found)]
