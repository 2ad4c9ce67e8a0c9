"""The order of a gang's ranks: neighbours in a ring are to be neighbours in the network (docs/groups.md).

A ring has the Tasks of a TaskRole in the order of their ranks, and the last one sends to the first. In the order of the
labels of their nodes it leaves each domain once; rotated, it begins with Task 0, whose rank others rely on.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

Orders: TypeAlias = dict[str, list[int]]
"""The indices of the Tasks of a TaskRole in the order of their ranks, by its name."""
FindOrders: TypeAlias = Callable[[list[dict[str, Any]]], Orders]
"""Returns the order of the ranks of the members of a roster."""
Labels: TypeAlias = Callable[[str], Mapping[str, str] | None]
"""Returns the labels of the node of this name, None if they are not known."""
UNREAD: Final = "the barrier of Pod {pod} was added by an injector that does not know the order of ranks"
_NODE: Final = 4
"""The place of the node's name in a Task of a roster."""
_NUMBER: Final = re.compile(r"(\d+)")


def find(rows: Sequence[Mapping[str, Any]], keys: Mapping[str, tuple[str, ...]], labels: Labels) -> Orders:
    """Return the order of the members of a roster by these labels, of the TaskRoles where it is not that of indices."""
    found = {row["name"]: _order(row["tasks"], keys[row["name"]], labels) for row in rows if row["name"] in keys}
    return {name: order for name, order in found.items() if order != sorted(order)}


def _order(tasks: Sequence[Sequence[Any]], keys: tuple[str, ...], labels: Labels) -> list[int]:
    places = {node: _place(node, keys, labels(node) or {}) for node in {task[_NODE] or "" for task in tasks}}
    order = sorted(range(len(tasks)), key=lambda index: places[tasks[index][_NODE] or ""])
    first = order.index(0) if order else 0
    return order[first:] + order[:first]


def _place(node: str, keys: tuple[str, ...], labels: Mapping[str, str]) -> list[list[tuple[int, str]]]:
    """Return by what a node is sorted: node-10 comes after node-9."""
    values = (*(labels.get(key, "") for key in keys), node)
    return [[(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(value)] for value in values]


def kept(order: Sequence[int], number: int) -> list[int]:
    """Return the order with so many Tasks: those that were added come last."""
    found = dict.fromkeys(index for index in order if 0 <= index < number)
    return [*found, *(index for index in range(number) if index not in found)]
