"""Gangs of other controllers: who is in one, what its roster says, and that no start opens for Pods of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkbarrier.source import roster
from frameworkcontroller.core.effects import FindOwner, GrantRosterAccess, WriteRoster
from tests.controller.core.foreignworld import World
from tests.support import foreign_pods as make

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.foreign_pods import Json

PARALLEL = {"replicas": 3, "podManagementPolicy": "Parallel"}
# For each kind: its owner, and what makes the Pod of an index.
KINDS: dict[str, tuple[tuple[str, str] | None, Json, Callable[..., Json]]] = {
    "jobset": (
        ("JobSet", "train"),
        make.jobset([make.replicated_job("worker", 1, 3)]),
        lambda index, **more: make.of_jobset("worker", 0, index, **more),
    ),
    "job": (("Job", "train"), make.owner({"parallelism": 3, "completions": 3}), make.of_job),
    "statefulset": (("StatefulSet", "train"), make.owner(PARALLEL), make.of_stateful_set),
    "lws": (
        ("LeaderWorkerSet", "serve"),
        make.owner({}, name="serve"),
        lambda index, **more: make.of_lws(0, index, 3, **more),
    ),
    "pods": (None, {}, lambda index, **more: make.bare("worker", index, "3", **more)),
}


def of_kind(kind: str) -> tuple[World, Callable[..., Json]]:
    key, document, pod = KINDS[kind]
    world = World()
    if key is not None:
        world.owners[key] = document
    return world, pod


@pytest.mark.parametrize("kind", KINDS)
class TestEachKind:
    def test_it_opens_for_all_once_each_index_has_a_pod_with_an_address(self, kind: str) -> None:
        world, pod = of_kind(kind)
        pods = [pod(index, ip=f"10.1.0.{index}") for index in range(3)]
        world.put(*pods[:2])
        world.settle(10)
        assert (world.complete(), list(world.waiting()), world.opened) == ({}, ["worker-2 has no Pod yet"], {})
        world.put(pod(2))
        world.settle(10)
        assert list(world.waiting()) == ["worker-2 Pending: no IP yet"]
        world.put(pods[2])
        world.settle(3)
        names = [one["metadata"]["name"] for one in pods]
        assert list(world.complete().values()) == [{"worker": names}]
        assert set(world.opened) == {one["metadata"]["uid"] for one in pods}

    def test_what_is_left_of_it_is_deleted_with_its_last_pod_also_by_the_next_controller(self, kind: str) -> None:
        world, pod = of_kind(kind)
        world.put(*(pod(index, ip="10.1.0.1") for index in range(3)))
        world.settle(3)
        assert len(world.config_maps) == 1
        world.pods.clear()
        world.restart()
        world.settle(3)
        assert not world.config_maps

    def test_it_starts_again_at_once_after_all_its_pods_were_gone(self, kind: str) -> None:
        world, pod = of_kind(kind)
        world.put(*(pod(index, ip="10.1.0.1") for index in range(3)))
        world.settle(5)
        world.pods.clear()
        world.settle(1)
        world.put(*(pod(index, uid=f"again{index}", ip="10.1.0.1", created=9) for index in range(3)))
        world.settle(4)
        assert {"again0", "again1", "again2"} <= set(world.opened)

    def test_a_replaced_pod_is_a_new_generation_and_opens_for_the_others_as_they_are(self, kind: str) -> None:
        world, pod = of_kind(kind)
        pods = [pod(index, ip=f"10.1.0.{index}") for index in range(3)]
        world.put(*pods)
        world.settle(3)
        world.put(pod(1, ip="10.1.0.1", deleting=True))
        world.settle(8)
        assert not world.complete()
        world.put(pod(1, uid="next", ip="10.1.0.9", created=5))
        world.settle(8)
        (text,) = (text for _, text in world.config_maps.values())
        assert roster.decode(text).generation == 2
        assert "next" in world.opened

    def test_a_pod_that_is_another_one_by_the_next_look_is_listed(self, kind: str) -> None:
        world, pod = of_kind(kind)
        world.put(*(pod(index, ip=f"10.1.0.{index}") for index in range(3)))
        world.settle(3)
        world.put(pod(1, uid="next", ip="10.1.0.9", created=5))
        world.settle(3)
        assert "next" in world.opened

    def test_one_deletion_of_the_roster_by_somebody_is_mended(self, kind: str) -> None:
        world, pod = of_kind(kind)
        world.put(*(pod(index, ip="10.1.0.1") for index in range(3)))
        world.settle(3)
        world.config_maps.clear()
        world.settle(8)
        assert len(world.complete()) == 1


def test_an_attempt_of_a_jobset_has_a_roster_of_its_own_and_lists_no_pod_of_another() -> None:
    world, pod = of_kind("jobset")
    world.put(*(pod(index, ip="10.1.0.1") for index in range(3)))
    world.settle(3)
    world.put(*(pod(index, attempt=1, ip="10.2.0.1") for index in range(2)))
    world.settle(3)
    assert len(world.config_maps) == 2
    assert not any(pod.endswith("-1") for pods in world.opened.values() for pod in pods)
    for name in [*world.pods]:
        if name.endswith("-0"):
            del world.pods[name]
    world.put(pod(2, attempt=1, ip="10.2.0.1"))
    world.settle(3)
    (members,) = world.complete().values()
    assert all(one.endswith("-1") for one in members["worker"])


def test_workers_that_are_older_than_their_leader_are_of_an_earlier_start() -> None:
    world, pod = of_kind("lws")
    world.put(*(pod(index, ip="10.1.0.1") for index in range(3)))
    world.settle(3)
    world.put(pod(0, uid="new-leader", ip="10.1.0.5", created=30))
    world.settle(8)
    assert "new-leader" not in world.opened
    assert any("older than the leader" in why for why in world.waiting())
    world.put(*(pod(index, uid=f"new-{index}", ip="10.1.0.6", created=31) for index in (1, 2)))
    world.settle(8)
    assert {"new-leader", "new-1", "new-2"} <= set(world.opened)


def test_two_jobs_of_one_role_are_numbered_through_and_the_coordinator_has_rank_0() -> None:
    world = World()
    where = {"replicatedJob": "worker", "jobIndex": 1, "podIndex": 0}
    jobs = [make.replicated_job("ps", 1, 1), make.replicated_job("worker", 2, 2)]
    world.owners["JobSet", "train"] = make.jobset(jobs, coordinator=where)
    world.put(make.of_jobset("ps", 0, 0, ip="10.1.0.1"))
    world.put(*(make.of_jobset("worker", job, index, ip="10.1.0.1", gpus=8) for job in (0, 1) for index in (0, 1)))
    world.settle(3)
    ((_, text),) = world.config_maps.values()
    gang = roster.decode(text)
    assert [(role.name, role.gpus, len(role.tasks)) for role in gang.roles] == [("worker", 8, 4), ("ps", 0, 1)]
    assert gang.roles[0].tasks[2].pod == "train-worker-1-0-0"
    assert gang.first == "worker-2"
    assert (gang.framework, gang.uid) == ("train", "uid-of-train")


def test_a_gang_that_can_never_be_complete_is_told_once_with_the_field_until_that_is_changed() -> None:
    world = World()
    world.owners["StatefulSet", "train"] = make.owner({"replicas": 2})
    world.put(make.of_stateful_set(0, ip="10.1.0.1"))
    world.settle(60)
    assert "spec.podManagementPolicy is OrderedReady" in world.told[0]
    assert [event.partition(":")[0] for event in world.events] == ["GangImpossible"]
    assert sum(isinstance(one, WriteRoster) for one in world.requests) == 1
    world.owners["StatefulSet", "train"] = make.owner({"replicas": 1})
    world.settle(70)
    assert world.opened


def test_the_size_is_asked_for_again_while_pods_and_size_disagree_more_and_more_seldom() -> None:
    world, pod = of_kind("statefulset")
    world.put(*(pod(index, ip="10.1.0.1") for index in range(3)))
    world.settle(300)
    asked = [one for one in world.requests if isinstance(one, FindOwner)]
    assert len(asked) == 1
    world.owners["StatefulSet", "train"] = make.owner(PARALLEL | {"replicas": 5})
    world.put(*(pod(index, ip="10.1.0.1") for index in (3, 4)))
    world.settle(8)
    assert [len(members["worker"]) for members in world.complete().values()] == [5]
    del world.pods["train-4"], world.pods["train-3"]
    world.settle(300)
    assert len([one for one in world.requests if isinstance(one, FindOwner)]) <= 9
    world.owners["StatefulSet", "train"] = make.owner(PARALLEL)
    world.settle(70)
    assert [len(members["worker"]) for members in world.complete().values()] == [3]


def test_an_owner_that_is_gone_or_another_one_of_the_name_gets_no_roster() -> None:
    world, pod = of_kind("job")
    world.owners["Job", "train"] = make.owner({"completions": 3, "parallelism": 3}, uid="another")
    world.put(*(pod(index, ip="10.1.0.1") for index in range(3)))
    world.settle(300)
    assert not world.config_maps
    assert len(world.requests) < 20
    world.owners.clear()
    world.settle(300)
    assert not world.config_maps


def test_all_service_accounts_of_its_pods_may_read_the_roster() -> None:
    world, pod = of_kind("job")
    world.put(pod(0, account="a"), pod(1, account="b"), pod(2, account="a"))
    world.settle(3)
    granted = [one.service_accounts for one in world.requests if isinstance(one, GrantRosterAccess)]
    assert granted == [("a", "b")]


def test_a_gang_waits_for_arrival_where_one_pod_asks_for_that() -> None:
    world, pod = of_kind("job")
    asks = {f"{make.ANNOTATION}wait-for": "arrived"}
    world.put(*(pod(index, ip="10.1.0.1", annotations=asks) for index in range(3)))
    world.settle(10)
    assert next(world.waiting()) == "worker-0 Pending: its barrier does not run yet"
    world.put(*(pod(index, ip="10.1.0.1", annotations=asks, arrived=True) for index in range(3)))
    world.settle(3)
    assert len(world.opened) == 3


def test_what_fails_is_missing_and_what_has_succeeded_is_not() -> None:
    world, pod = of_kind("job")
    world.put(pod(0, ip="10.1.0.1", phase="Failed"), pod(1, ip="10.1.0.1"), pod(2, ip="10.1.0.1", phase="Succeeded"))
    world.settle(10)
    assert list(world.waiting()) == ["worker-0 its Pod has failed"]
    world.put(pod(0, pod="train-0-y", uid="again", ip="10.1.0.4", created=9))
    world.settle(3)
    assert "again" in world.opened


def test_a_roster_that_somebody_changes_is_written_again_with_an_event() -> None:
    world, pod = of_kind("job")
    world.put(*(pod(index, ip="10.1.0.1") for index in range(3)))
    world.settle(5)
    ((name, (config_map, _)),) = world.config_maps.items()
    meta = msgspec.structs.replace(config_map.metadata, resource_version="9999")
    world.config_maps[name] = msgspec.structs.replace(config_map, metadata=meta), "{}"
    world._versions = iter(range(10_000, 20_000))
    world.settle(5)
    assert world.complete()
    assert any(event.startswith("RosterRestored") for event in world.events)


def test_a_config_map_of_somebody_else_that_has_the_name_is_told_and_left_alone() -> None:
    world, pod = of_kind("job")
    name = "gang-job.train.uid-of-train-attempt"
    world.squat(name)
    world.put(*(pod(index, ip="10.1.0.1") for index in range(3)))
    world.settle(120)
    assert world.events[0].startswith(f"RosterNameTaken: ConfigMap {name} is somebody else's")
    assert len(world.requests) < 20
    del world.config_maps[name]
    world.settle(60)
    assert len(world.opened) == 3


def test_a_gang_that_has_all_its_pods_and_could_never_start_starts_once_its_owner_says_otherwise() -> None:
    world = World()
    jobs = [make.replicated_job("ps", 1, 1), make.replicated_job("worker", 1, 1)]
    world.owners["JobSet", "train"] = make.jobset(jobs, startupPolicy={"startupPolicyOrder": "InOrder"})
    world.put(*(make.of_jobset(role, 0, 0, ip="10.1.0.1") for role in ("ps", "worker")))
    for _ in range(2):
        world.settle(5)
        assert not world.opened
        world.put(make.of_jobset("worker", 0, 0, ip="10.1.0.1"))
        world.owners["JobSet", "train"] = make.jobset(jobs)
        world.settle(70)
        assert len(world.opened) == 2
        world.opened.clear()
        # And back again, which is told again.
        world.owners["JobSet", "train"] = make.jobset(jobs, startupPolicy={"startupPolicyOrder": "InOrder"})
        del world.pods["train-worker-0-0-0"]
        world.settle(130)
        world.opened.clear()
    assert [event.partition(":")[0] for event in world.events].count("GangImpossible") == 3


@pytest.mark.parametrize("answer", ["failed", "lost"])
def test_that_it_can_never_be_complete_is_told_again_where_the_request_failed(answer: str) -> None:
    answers = iter(["ok", "ok", "ok", answer, answer])
    world = World(lambda: next(answers, "ok"))
    world.owners["StatefulSet", "train"] = make.owner({"replicas": 2})
    world.put(make.of_stateful_set(0, ip="10.1.0.1"))
    world.settle(30)
    assert world.told


def test_a_controller_that_goes_on_counts_no_start_again() -> None:
    world, pod = of_kind("job")
    world.put(*(pod(index, ip="10.1.0.1") for index in range(3)))
    world.settle(5)
    assert world.milestones == ["open"]
    world.restart()
    world.settle(5)
    assert world.milestones == ["open"]


def test_a_pod_that_does_not_say_all_is_no_member() -> None:
    world, pod = of_kind("job")
    world.put(*(pod(index, ip="10.1.0.1") for index in range(3)))
    for key in ("controller-uid", "job-completion-index"):
        strange = pod(0, pod=f"without-{key}", ip="10.1.0.9", created=40)
        del strange["metadata"]["labels"][f"batch.kubernetes.io/{key}"]
        world.put(strange)
    world.settle(3)
    assert [members["worker"] for members in world.complete().values()] == [["train-0-x", "train-1-x", "train-2-x"]]


@pytest.mark.parametrize(("role", "gang", "is_member"), [(63, 63, True), (64, 1, False), (1, 64, False)])
def test_a_pod_whose_role_or_gang_has_a_name_longer_than_a_label_is_no_member(
    role: int, gang: int, *, is_member: bool
) -> None:
    world = World()
    world.put(make.bare("r" * role, 0, "1", gang="g" * gang, pod="p", ip="10.1.0.1"))
    world.settle(3)
    assert bool(world.opened) == is_member


def test_only_resources_that_are_gpus_count_and_a_gang_waits_for_arrival_while_a_pod_asks_for_it() -> None:
    world, pod = of_kind("job")
    asks = {f"{make.ANNOTATION}wait-for": "arrived"}
    pods = [pod(index, ip="10.1.0.1", annotations=asks if index == 0 else {}) for index in range(3)]
    for one in pods:
        one["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "7", "amd.com/gpu": "2", "x.com/gpu": "2.5"}
    world.put(*pods)
    world.settle(10)
    assert not world.opened
    world.put(pod(0, ip="10.1.0.1"))
    world.settle(3)
    ((_, text),) = world.config_maps.values()
    assert roster.decode(text).roles[0].gpus == 2


class Life:
    """Anything that may become of one gang."""

    def __init__(self, kind: str, answer: Callable[[], str]) -> None:
        self.kind, self.world, self.number = kind, World(answer), 3
        self.pods: dict[int, Json] = {}
        self._attempt = self._serial = 0
        self.resize(2)

    def _of(self, index: int, **more: Any) -> Json:
        attempt = {"attempt": self._attempt} if self.kind == "jobset" else {}
        return KINDS[self.kind][2](index, created=self._serial, **attempt, **more)

    def resize(self, index: int) -> None:
        """Change the size to one more than this index."""
        self.number = index + 1
        for one in [one for one in self.pods if one > index]:
            self.remove(one)
        key = KINDS[self.kind][0]
        assert key is not None
        self.world.owners[key] = {
            "jobset": make.jobset([make.replicated_job("worker", 1, self.number)]),
            "job": make.owner({"parallelism": self.number, "completions": self.number}),
            "statefulset": make.owner({"replicas": self.number, "podManagementPolicy": "Parallel"}),
        }[self.kind]

    def create(self, index: int) -> None:
        """Create the Pod, if there is none and it has a place."""
        self._serial += 1
        if index not in self.pods and index < self.number:
            self.pods[index] = self._of(index, uid=f"pod{self._serial:05}")
            self.world.put(self.pods[index])

    def _change(self, index: int, **more: Any) -> None:
        if index in self.pods:
            self.pods[index] = self._of(index, uid=self.pods[index]["metadata"]["uid"], ip=f"10.0.0.{index}", **more)
            self.world.put(self.pods[index])

    def address(self, index: int) -> None:
        """Give the Pod an address."""
        self._change(index)

    def delete(self, index: int) -> None:
        """Begin to delete the Pod."""
        self._change(index, deleting=True)

    def fail(self, index: int) -> None:
        """Let the Pod fail."""
        self._change(index, phase="Failed")

    def remove(self, index: int) -> None:
        """Let the Pod be gone."""
        if (gone := self.pods.pop(index, None)) is not None:
            self.world.pods.pop(gone["metadata"]["name"], None)

    def again(self, _index: int) -> None:
        """Start again: all Pods are gone, and a JobSet begins its next attempt."""
        for one in [*self.pods]:
            self.remove(one)
        self._attempt += 1

    def die(self, _index: int) -> None:
        """Let another controller go on."""
        self.world.restart()

    def heal(self) -> None:
        """Give each index a Pod that stays."""
        for index in range(self.number):
            if index in self.pods and "deletionTimestamp" in self.pods[index]["metadata"]:
                self.remove(index)
            self.create(index)
            self._change(index)


CHANGES = ("create", "address", "delete", "remove", "fail", "die", "again", "resize")
CHANGE = st.tuples(st.sampled_from(CHANGES), st.integers(0, 3), st.booleans())
ANSWERS = st.lists(st.sampled_from(["ok", "ok", "ok", "failed", "lost"]), max_size=60)


@pytest.mark.parametrize("kind", ["jobset", "job", "statefulset"])
@given(changes=st.lists(CHANGE, max_size=40), answers=ANSWERS)
def test_over_any_life_barriers_open_for_one_start_and_the_roster_is_right_in_the_end(
    kind: str, changes: list[tuple[str, int, bool]], answers: list[str]
) -> None:
    """Pods come and go in any order, requests fail or are lost, caches are late, controllers die."""
    given_answers = iter(answers)
    life = Life(kind, lambda: next(given_answers, "ok"))
    world = life.world
    for what, index, is_late in changes:
        getattr(life, what)(index)
        if not is_late:
            world.sync()
        world.step()
    for listed in world.opened.values():
        assert len(set(listed)) == len(listed) >= 1
        if kind == "jobset":
            assert len({name.rpartition("-")[2] for name in listed}) == 1, "one start opened for Pods of another"
    life.heal()
    world.settle(300, every=5)
    expected = [life.pods[index]["metadata"]["name"] for index in range(life.number)]
    assert [members["worker"] for members in world.complete().values()] == [expected]
    assert {one["metadata"]["uid"] for one in life.pods.values()} <= set(world.opened)
    quiet = len(world.requests)
    world.settle(300, every=5)
    assert len(world.requests) == quiet
