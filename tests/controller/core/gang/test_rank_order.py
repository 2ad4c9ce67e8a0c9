"""By what the ranks of a gang are ordered, and that a ring of them leaves each domain once."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkcontroller.api.rank_topology import keys_of
from frameworkcontroller.core.gang import rank_order

ZONE, BLOCK = "zone", "block"


def order(nodes: Sequence[str], labels: Mapping[str, Mapping[str, str]]) -> list[int]:
    place = partial(rank_order.place_of, labels.get, (ZONE, BLOCK))
    return list(rank_order.order(nodes, place) or range(len(nodes)))


LABELS = {
    "n1": {ZONE: "a", BLOCK: "1"},
    "n2": {ZONE: "b", BLOCK: "9"},
    "n3": {ZONE: "b", BLOCK: "10"},
    "n10": {ZONE: "a", BLOCK: "1"},
}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param((), [], id="none"),
        pytest.param(("n1", "n2", "n1", "n2"), [0, 2, 1, 3], id="those of a zone are together, by index"),
        pytest.param(("n3", "n2", "n3", "n2"), [0, 2, 1, 3], id="Task 0 is first, and the ring goes on from it"),
        pytest.param(("n1", "n3", "n2"), [0, 2, 1], id="9 comes before 10"),
        pytest.param(("n10", "n1", "n10"), [0, 2, 1], id="by node within a block"),
        pytest.param(("n2", "unknown", "n1"), [0, 1, 2], id="a node without labels comes before all, Task 0 is first"),
        pytest.param(("", "n1", ""), [0, 2, 1], id="a Pod without a node"),
    ],
)
def test_ranks_go_through_zones_blocks_and_nodes(nodes: Sequence[str], expected: list[int]) -> None:
    assert order(nodes, LABELS) == expected


def crossings(ring: Sequence[str]) -> int:
    return sum(one != other for one, other in pairwise([*ring, *ring[:1]]))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_a_ring_leaves_each_domain_once(places: list[tuple[int, int]]) -> None:
    labels = {f"n{zone}-{block}": {ZONE: str(zone), BLOCK: f"{zone}.{block}"} for zone, block in places}
    nodes = [f"n{zone}-{block}" for zone, block in places]
    found = order(nodes, labels)
    assert found[0] == 0
    assert sorted(found) == list(range(len(nodes)))
    for key in (ZONE, BLOCK):
        ring = [labels[nodes[index]][key] for index in found]
        assert crossings(ring) == (len(set(ring)) if len(set(ring)) > 1 else 0)


PLACEMENTS = json.loads((Path(__file__).parent / "placements.json").read_text())
"""By the number of its Pods, on which of 128 nodes a kube-scheduler (Kubernetes 1.37.2) has placed each of a gang."""
ZONES, BLOCKS, NODES = 4, 16, 128


@pytest.mark.parametrize(
    ("number", "by_index", "by_topology"),
    [
        ("64", (30, 61), (4, 13)),
        ("128", (43, 117), (3, 12)),
        ("256", (86, 226), (4, 16)),
        ("512", (207, 462), (4, 16)),
        ("1024", (792, 947), (4, 16)),
    ],
)
def test_in_recorded_placements_a_ring_leaves_its_zones_and_blocks_so_often(
    number: str, by_index: tuple[int, int], by_topology: tuple[int, int]
) -> None:
    labels = {f"n{one}": {ZONE: str(one * ZONES // NODES), BLOCK: str(one * BLOCKS // NODES)} for one in range(NODES)}
    nodes = [f"n{one}" for one in PLACEMENTS[number]]

    def crossed(ring: Sequence[str]) -> tuple[int, int]:
        return crossings([labels[node][ZONE] for node in ring]), crossings([labels[node][BLOCK] for node in ring])

    assert crossed(nodes) == by_index
    assert crossed([nodes[index] for index in order(nodes, labels)]) == by_topology


@pytest.mark.parametrize(
    ("before", "number", "expected"),
    [
        ([0, 2, 1], 3, [0, 2, 1]),
        ([0, 2, 1], 5, [0, 2, 1, 3, 4]),
        ([0, 2, 1], 2, [0, 1]),
        ([7, -1, 1, 1], 2, [1, 0]),
        ([], 2, [0, 1]),
    ],
)
def test_those_that_are_left_keep_their_ranks_and_others_come_last(
    before: list[int], number: int, expected: list[int]
) -> None:
    assert rank_order.kept(before, number) == expected


LISTS = {"zone": ("zone",), " a.io/zone,b.io/hostname ": ("a.io/zone", "b.io/hostname")}
NO_LISTS = ("", "zone,", "a b", "/zone", "Upper.io/zone", "zone, zone", ",".join("abcdefghi"))
TOO_LONG = ("z" * 64, f"{'a' * 200}/{'b' * 60}")


@pytest.mark.parametrize(("text", "keys"), LISTS.items())
def test_the_annotation_names_labels(text: str, keys: tuple[str, ...]) -> None:
    assert keys_of(text) == keys


@pytest.mark.parametrize("text", NO_LISTS + TOO_LONG)
def test_what_is_no_list_of_labels_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="1 to 8 keys of labels"):
        keys_of(text)
