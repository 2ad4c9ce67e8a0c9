"""The order of a gang's ranks: neighbours in a ring are to be neighbours in the network (docs/groups.md).

A ring has the Tasks of a TaskRole in the order of their ranks, and the last one sends to the first. In the order of the
labels of their nodes it leaves each domain once; rotated, it begins with Task 0, whose rank others rely on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

Labels: TypeAlias = Callable[[str], Mapping[str, str] | None]
"""Returns the labels of the node of this name, None if they are not known."""
Place: TypeAlias = tuple[tuple[int, str], ...]
"""By what a node is sorted."""
UNREAD: Final = "the barrier of Pod {pod} was added by an injector that does not know the order of ranks"


def order(nodes: Sequence[str], place: Callable[[str], Place]) -> tuple[int, ...]:
    """Return the indices of Tasks on these nodes in the order of their ranks, () where that is by index."""
    places = {node: number for number, node in enumerate(sorted({*nodes}, key=place))}
    found = sorted(range(len(nodes)), key=lambda index: places[nodes[index]])
    first = found.index(0) if found else 0
    found = found[first:] + found[:first]
    return () if found == sorted(found) else tuple(found)


def place_of(labels: Labels, keys: tuple[str, ...], node: str) -> Place:
    """Return the values of these labels, and the name; a shorter one comes first, so that block-10 is after block-9."""
    found = labels(node) or {}
    values = (*(found.get(key, "") for key in keys), node)
    return tuple((len(value), value) for value in values)


def kept(order: Sequence[int], number: int) -> list[int]:
    """Return the order with so many Tasks: those that were added come last."""
    found = dict.fromkeys(index for index in order if 0 <= index < number)
    return [*found, *(index for index in range(number) if index not in found)]
