"""Whole lives of gangs of other controllers: at random, and one that is cut at every request.

`SOAK_EXAMPLES=20000 pytest tests/controller/core/foreign/test_lives.py` looks at more of them.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworkbarrier.gate.gang import Gang
from tests.controller.core.foreign.foreign_world import KINDS, Three
from tests.controller.core.reconcile.test_schedules import EXAMPLES

OWN_GANG = {"jobset": "attempt", "pods": "gang"}
"""What tells the starts of a gang apart, where each is a gang of its own."""
PODS_SAY_THE_SIZE = ("lws", "pods")


class Life(Three):
    """Anything that may become of one gang."""

    def __init__(self, kind: str, answer: Callable[[], str] = lambda: "ok") -> None:
        super().__init__(kind, answer)
        self._kind, self.number, self._starts, self._owners, self._serial = kind, 3, 0, 0, 0
        self.placed: dict[int, dict[str, Any]] = {}
        self.started: dict[str, int] = {}
        """In which start each Pod was made, by its UID."""

    def _put(self, index: int, serial: int, **more: Any) -> None:
        says: dict[str, Any] = {"size": self.number} if self._kind in PODS_SAY_THE_SIZE else {}
        if self._kind == "lws":
            says |= {"revision": f"r{self.number}"}
        elif self._kind in OWN_GANG:
            says |= {OWN_GANG[self._kind]: f"mine-{self._starts}" if self._kind == "pods" else self._starts}
        if self._owners and self._kind not in PODS_SAY_THE_SIZE:
            says |= {"of": f"owner-{self._owners}"}
        uid = f"p{serial:07}"
        self.started.setdefault(uid, self._starts)
        self.placed[index] = self.pod(index, uid=uid, created=serial, **says, **more)
        self.put(self.placed[index])

    def _own(self) -> None:
        """Let the owner have this size, and be another one after it was made again."""
        self.owners[self.key] = self.owner(self.number)
        if self._owners:
            self.owners[self.key]["metadata"]["uid"] = f"owner-{self._owners}"

    def create(self, index: int) -> None:
        """Create the Pod, if there is none and it has a place."""
        self._serial += 1
        if index not in self.placed and index < self.number:
            self._put(index, self._serial)

    def change(self, index: int, **more: Any) -> None:
        """Give the Pod an address, and these news."""
        if index in self.placed:
            serial = int(self.placed[index]["metadata"]["uid"][1:])
            self._put(index, serial, ip=f"10.0.0.{index}", **more)

    def remove(self, index: int) -> None:
        """Let the Pod be gone."""
        if (gone := self.placed.pop(index, None)) is not None:
            self.pods.pop(gone["metadata"]["name"], None)

    def again(self, _index: int = 0) -> None:
        """Start again: all Pods are gone, and a JobSet begins its next attempt."""
        for one in [*self.placed]:
            self.remove(one)
        self._starts += 1

    def resize(self, index: int) -> None:
        """Change the size to one more than this index; where Pods say it, all are others then."""
        if self._kind in PODS_SAY_THE_SIZE:
            self.again()
        self.number = index + 1
        for one in [one for one in self.placed if one > index]:
            self.remove(one)
        self._own()

    def another(self, _index: int) -> None:
        """Delete the owner, and make another one of its name with all its Pods at once."""
        self.again()
        self._owners += 1
        self._own()
        for index in range(self.number):
            self.create(index)
            self.change(index)

    def heal(self) -> None:
        """Give each index a Pod that stays, and is no older than that of a leader."""
        for index in range(self.number):
            is_gone = index in self.placed and "deletionTimestamp" in self.placed[index]["metadata"]
            if is_gone or (self._kind == "lws" and self._is_older(index)):
                self.remove(index)
            self.create(index)
            self.change(index)
        for _ in range(6):
            self.settle(50, every=5)
            self.collect()

    def _is_older(self, index: int) -> bool:
        return index in self.placed and self.placed[index]["metadata"]["uid"] < self.placed[0]["metadata"]["uid"]

    @property
    def expected(self) -> list[str]:
        """The names of the Pods by index."""
        return [self.placed[index]["metadata"]["name"] for index in range(self.number)]


CHANGES: dict[str, Callable[..., None]] = {
    "create": Life.create,
    "address": Life.change,
    "delete": functools.partial(Life.change, deleting=True),
    "remove": Life.remove,
    "fail": functools.partial(Life.change, phase="Failed"),
    "die": lambda life, _index: life.restart(),
    "again": Life.again,
    "resize": Life.resize,
    "another": Life.another,
    "collect": lambda life, _index: life.collect(),
}
CHANGE = st.tuples(st.sampled_from([*CHANGES]), st.integers(0, 3), st.booleans())
CUTS = ("killed before", "killed after")
ANSWERS = st.lists(st.sampled_from(["ok"] * 4 + ["failed", "lost", *CUTS]), max_size=60)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES // len(KINDS))
@given(changes=st.lists(CHANGE, max_size=40), answers=ANSWERS)
def test_over_any_life_barriers_open_for_one_start_and_the_roster_is_right_in_the_end(
    kind: str, changes: list[tuple[str, int, bool]], answers: list[str]
) -> None:
    """Pods come and go in any order, requests fail or are lost, caches are late, controllers die."""
    given_answers = iter(answers)
    world = Life(kind, lambda: next(given_answers, "ok"))
    for what, index, is_late in changes:
        CHANGES[what](world, index)
        if not is_late:
            world.sync()
        world.step()
    for listed in world.opened.values():
        uids = [task.uid8 for task in listed]
        assert len(set(uids)) == len(uids) >= 1
        if kind in OWN_GANG:
            assert len({world.started[uid] for uid in uids}) == 1, "one start opened for Pods of another"
        if kind == "lws":
            assert min(uids) == uids[0], "it opened for a worker that is older than the leader"
    world.heal()
    assert world.members == [world.expected]
    assert {one["metadata"]["uid"] for one in world.placed.values()} <= set(world.opened)
    quiet = len(world.requests)
    world.settle(300, every=5)
    assert len(world.requests) == quiet


def all_three(*changes: str) -> list[tuple[str, int]]:
    return [(what, index) for what in changes for index in range(3)]


STORY = [
    *all_three("create", "address"),
    *(("delete", 2), ("remove", 2), ("create", 2), ("address", 2)),
    *(("again", 0), *all_three("create", "address")),
    *(("resize", 1), *all_three("create", "address")),
    *(("another", 0), ("collect", 0), *all_three("address")),
]


def told(kind: str, how: str = "ok", at: int = -1) -> tuple[Life, list[Gang]]:
    """Tell the story with one request that ends so: the life, and the roster after each chapter."""
    numbers, chapters = itertools.count(), []
    world = Life(kind, lambda: how if next(numbers) == at else "ok")
    for what, index in STORY:
        CHANGES[what](world, index)
        world.settle(2)
        if (what, index) == ("address", world.number - 1) or what == "delete":
            world.settle(40, every=5)
            chapters.append(dataclasses.replace(world.roster, attempt_instance_uid=""))
    world.again()
    world.settle(40, every=5)
    return world, chapters


@pytest.mark.parametrize("kind", KINDS)
def test_a_life_whose_controller_is_killed_at_any_request_ends_in_the_same_places_with_nothing_left(kind: str) -> None:
    whole, expected = told(kind)
    assert (len(expected), len(whole.requests) > 20) == (6, True)
    for cut in itertools.product(CUTS, range(len(whole.requests))):
        other, chapters = told(kind, *cut)
        assert (chapters, other.opened.keys()) == (expected, whole.opened.keys()), cut
        assert (other.config_maps, other.gangs) == ({}, []), cut
