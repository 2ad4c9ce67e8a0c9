"""Gangs of other controllers: who is in one, what its roster says, and that no start opens for Pods of another."""

import pytest

from frameworkcontroller.core.effects import FindOwner, GrantRosterAccess, WriteRoster
from frameworkcontroller.core.foreign.gang import LOOKS_A_SECOND, LOOKS_AT_ONCE
from tests.controller.core.foreign.foreign_world import KINDS, Three, World, replicas
from tests.support.beside import foreign_pods as make
from tests.support.beside.foreign_pods import Json


def running(kind: str = "job") -> Three:
    """A gang whose Pods run."""
    world = Three(kind)
    world.run()
    return world


@pytest.mark.parametrize("kind", KINDS)
class TestEachKind:
    def test_it_opens_for_all_once_each_index_has_a_pod_with_an_address(self, kind: str) -> None:
        world = Three(kind)
        world.run(0, 1, seconds=10)
        assert (world.members, list(world.waiting()), world.opened) == ([], ["worker-2 has no Pod yet"], {})
        assert world.lacks == (1, 0)
        world.run(2, ip="", seconds=10)
        assert list(world.waiting()) == ["worker-2 Pending: no IP yet"]
        assert world.lacks == (0, 1)
        world.run(2)
        assert world.lacks == (0, 0)
        pods = [world.pod(index)["metadata"] for index in range(3)]
        assert world.members == [[one["name"] for one in pods]]
        assert set(world.opened) == {one["uid"] for one in pods}

    def test_what_is_left_of_it_is_deleted_with_its_last_pod_also_by_the_next_controller(self, kind: str) -> None:
        world = running(kind)
        assert len(world.config_maps) == 1
        world.pods.clear()
        world.restart()
        world.settle(3)
        assert not world.config_maps

    def test_it_starts_again_at_once_after_all_its_pods_were_gone(self, kind: str) -> None:
        world = running(kind)
        world.pods.clear()
        world.settle(1)
        world.run(uid="again", created=9, seconds=4)
        assert {"again0", "again1", "again2"} <= set(world.opened)

    def test_a_replaced_pod_is_a_new_generation_and_opens_for_the_others_as_they_are(self, kind: str) -> None:
        world = running(kind)
        world.run(1, deleting=True, seconds=8)
        assert not world.members
        world.run(1, uid="next", ip="10.1.0.9", created=5, seconds=8)
        assert world.roster.generation == 2
        assert "next1" in world.opened

    def test_a_pod_that_is_another_one_by_the_next_look_is_listed(self, kind: str) -> None:
        world = running(kind)
        world.run(1, uid="next", ip="10.1.0.9", created=5)
        assert "next1" in world.opened

    def test_one_deletion_of_the_roster_by_somebody_is_mended(self, kind: str) -> None:
        world = running(kind)
        world.config_maps.clear()
        world.settle(8)
        assert len(world.members) == 1


def test_an_attempt_of_a_jobset_has_a_roster_of_its_own_and_lists_no_pod_of_another() -> None:
    world = running("jobset")
    world.run(0, 1, attempt=1)
    assert len(world.config_maps) == 2
    assert not any(task.pod.endswith("-1") for tasks in world.opened.values() for task in tasks)
    for index in range(3):
        del world.pods[f"train-worker-0-{index}-0"]
    world.run(2, attempt=1)
    assert world.members == [[f"train-worker-0-{index}-1" for index in range(3)]]


def test_workers_that_are_older_than_their_leader_are_of_an_earlier_start() -> None:
    world = running("lws")
    world.run(0, uid="new", created=30, seconds=8)
    assert "new0" not in world.opened
    assert any("older than the leader" in why for why in world.waiting())
    world.run(1, 2, uid="new", created=31, seconds=8)
    assert {"new0", "new1", "new2"} <= set(world.opened)


def test_two_jobs_of_one_role_are_numbered_through_and_the_coordinator_has_rank_0() -> None:
    world, where = Three("jobset"), {"replicatedJob": "worker", "jobIndex": 1, "podIndex": 0}
    jobs = [make.replicated_job("ps", 1, 1), make.replicated_job("worker", 2, 2)]
    world.owners[world.key] = make.jobset(jobs, coordinator=where)
    world.put(make.of_jobset("ps", 0, 0, ip="10.1.0.1"))
    world.put(*(make.of_jobset("worker", job, index, ip="10.1.0.1", gpus=8) for job in (0, 1) for index in (0, 1)))
    world.settle(3)
    gang = world.roster
    assert [(role.name, role.gpus, len(role.tasks)) for role in gang.roles] == [("worker", 8, 4), ("ps", 0, 1)]
    assert gang.roles[0].tasks[2].pod == "train-worker-1-0-0"
    assert gang.first == "worker-2"
    assert (gang.framework, gang.uid) == ("train", "uid-of-train")


@pytest.mark.parametrize("arrive", [True, False], ids=["until all arrive", "until it asks no more"])
def test_a_gang_waits_for_arrival_where_one_pod_asks_for_that(arrive: bool) -> None:
    world, asks = Three(), {f"{make.ANNOTATION}wait-for": "arrived"}
    world.run(0, annotations=asks)
    world.run(1, 2, arrived=arrive, seconds=10)
    assert next(world.waiting()) == "worker-0 Pending: its barrier does not run yet"
    world.run(0, annotations=asks if arrive else {}, arrived=arrive)
    assert len(world.opened) == 3


def test_what_fails_is_missing_and_what_has_succeeded_is_not() -> None:
    world = Three()
    for index, phase in enumerate(("Failed", "Pending", "Succeeded")):
        world.run(index, phase=phase, seconds=10)
    assert list(world.waiting()) == ["worker-0 its Pod has failed"]
    assert world.lacks == (0, 1)
    world.run(0, pod="train-0-y", uid="again", created=39)
    assert "again0" in world.opened


def test_a_pod_that_does_not_say_all_is_no_member() -> None:
    world = Three()
    for key in ("controller-uid", "job-completion-index"):
        strange = world.pod(0, pod=f"without-{key}", ip="10.1.0.9", created=40)
        del strange["metadata"]["labels"][f"batch.kubernetes.io/{key}"]
        world.put(strange)
    world.run()
    assert world.members == [["train-0-x", "train-1-x", "train-2-x"]]


@pytest.mark.parametrize(("role", "gang", "is_member"), [(63, 63, True), (64, 1, False), (1, 64, False)])
def test_a_pod_whose_role_or_gang_has_a_name_longer_than_a_label_is_no_member(
    role: int, gang: int, *, is_member: bool
) -> None:
    world = World()
    world.put(make.bare("r" * role, 0, "1", gang="g" * gang, pod="p", ip="10.1.0.1"))
    world.settle(3)
    assert bool(world.opened) == is_member


def test_only_resources_that_are_gpus_count() -> None:
    world = Three()
    pods = [world.pod(index, ip="10.1.0.1") for index in range(3)]
    for one in pods:
        one["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "7", "amd.com/gpu": "2", "x.com/gpu": "2.5"}
    world.put(*pods)
    world.settle(3)
    assert world.roster.roles[0].gpus == 2


def test_a_gang_that_can_never_be_complete_is_told_once_with_the_field_until_that_is_changed() -> None:
    world = Three("statefulset")
    world.owners[world.key] = make.owner({"replicas": 2})
    world.run(0, seconds=60)
    assert "spec.podManagementPolicy is OrderedReady" in world.told[0]
    assert (world.told_reasons(), len(world.asked(WriteRoster))) == (["GangImpossible"], 1)
    world.owners[world.key] = make.owner({"replicas": 1})
    world.settle(70)
    assert world.opened


def test_a_gang_that_has_all_its_pods_and_could_never_start_starts_once_its_owner_says_otherwise() -> None:
    world, jobs = Three("jobset"), [make.replicated_job("ps", 1, 1), make.replicated_job("worker", 1, 1)]
    in_order = make.jobset(jobs, startupPolicy={"startupPolicyOrder": "InOrder"})
    world.owners[world.key] = in_order
    world.put(*(make.of_jobset(role, 0, 0, ip="10.1.0.1") for role in ("ps", "worker")))
    for _ in range(2):
        world.settle(5)
        assert not world.opened
        world.put(make.of_jobset("worker", 0, 0, ip="10.1.0.1"))
        world.owners[world.key] = make.jobset(jobs)
        world.settle(70)
        assert len(world.opened) == 2
        world.opened.clear()
        # And back again, which is told again.
        world.owners[world.key] = in_order
        del world.pods["train-worker-0-0-0"]
        world.settle(130)
        world.opened.clear()
    assert world.told_reasons().count("GangImpossible") == 3


@pytest.mark.parametrize("answer", ["failed", "lost"])
def test_that_it_can_never_be_complete_is_told_again_where_the_request_failed(answer: str) -> None:
    answers = iter(["ok", "ok", "ok", answer, answer])
    world = Three("statefulset", lambda: next(answers, "ok"))
    world.owners[world.key] = make.owner({"replicas": 2})
    world.run(0, seconds=30)
    assert world.told


def test_the_size_is_asked_for_again_while_pods_and_size_disagree_more_and_more_seldom() -> None:
    world = Three("statefulset")
    world.run(seconds=300)
    assert len(world.asked(FindOwner)) == 1
    world.owners[world.key] = replicas(5)
    world.run(3, 4, seconds=8)
    assert list(map(len, world.members)) == [5]
    del world.pods["train-4"], world.pods["train-3"]
    world.settle(300)
    assert len(world.asked(FindOwner)) <= 9
    world.owners[world.key] = replicas(3)
    world.settle(70)
    assert list(map(len, world.members)) == [3]


def test_another_owner_of_the_name_gets_no_roster() -> None:
    world = Three()
    world.owners[world.key]["metadata"]["uid"] = "another"
    world.run(seconds=300)
    assert not world.config_maps
    assert len(world.requests) < 20


@pytest.mark.parametrize(("kind", "of"), [("statefulset", {"of": "again"}), ("lws", {})])
def test_an_owner_that_is_made_again_at_once_under_its_name_owns_the_next_roster(kind: str, of: Json) -> None:
    """All Pods were others before the size was asked for: each ConfigMap went with the owner that was gone."""
    world = running(kind)
    world.owners[world.key]["metadata"]["uid"] = "again"
    world.run(uid="new", created=9, seconds=0, **of)
    for _ in range(5):
        world.collect()
        world.settle(10)
    assert world.roster.uid == "again"
    assert len(world.members) == 1


def test_all_gangs_of_a_namespace_that_name_one_owner_look_for_it_five_times_a_second() -> None:
    """Each of 3,000 looked once a minute, for ever, and one look at a Job of 1.4 MB is 2.8 MB."""
    world = Three()
    for one in range(300):
        pod = make.of_job(0, pod=f"p{one}")
        pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = f"u{one}"
        pod["metadata"]["ownerReferences"][0]["uid"] = f"u{one}"
        world.put(pod)
    world.settle(60)
    asked = [one.uid for one in world.asked(FindOwner)]
    assert set(asked[:300]) == {f"u{one}" for one in range(300)}
    assert len(asked) <= 300 + LOOKS_AT_ONCE + 60 * LOOKS_A_SECOND


def test_a_gang_that_is_impossible_for_ever_other_reasons_says_so_every_five_seconds() -> None:
    """Each patch of one Pod had a roster written that names all Pods as owners: 1 MB for 7,000."""
    world = Three("pods")
    world.run()
    for second in range(30):
        world.put(make.bare("worker", 2, f"x{second}", ip="10.1.0.2"))
        world.settle(1)
    assert 2 <= sum(b"never" in one.document for one in world.asked(WriteRoster)) <= 7


def test_access_is_granted_anew_after_a_while_where_accounts_come_and_go() -> None:
    """Each Pod with another account cost six requests."""
    world = Three()
    world.put(*(world.pod(index) for index in range(3)))
    for number in range(20):
        world.put(world.pod(2, account=f"a{number}"))
        world.sync()
        world.step()
    world.settle(20)
    *_, last = granted = world.asked(GrantRosterAccess)
    assert last.service_accounts == ("a19", "default")
    assert len(granted) <= 3


def test_all_service_accounts_of_its_pods_may_read_the_roster() -> None:
    world = Three()
    world.put(*(world.pod(index, account=account) for index, account in enumerate("aba")))
    world.settle(3)
    assert [one.service_accounts for one in world.asked(GrantRosterAccess)] == [("a", "b")]


def test_a_roster_that_somebody_changes_is_written_again_with_an_event() -> None:
    world = running()
    world.change("{}")
    world.settle(5)
    assert world.members
    assert world.told_reasons() == ["GangReady", "RosterRestored"]


def test_a_config_map_of_somebody_else_that_has_the_name_is_told_and_left_alone() -> None:
    world, name = Three(), "gang-job.train.uid-of-train-attempt"
    world.squat(name)
    world.run(seconds=120)
    assert world.events[0].startswith(f"RosterNameTaken: ConfigMap {name} is somebody else's")
    assert len(world.requests) < 20
    del world.config_maps[name]
    world.settle(60)
    assert len(world.opened) == 3


def test_a_config_map_that_is_refused_is_asked_for_twice_a_minute_and_made_soon_after() -> None:
    """The look at what is there began the pauses anew: 300 gangs of one Pod made 107 requests a second for ever.

    Later it made them up to five minutes, also after an outage.
    """
    world = Three()
    world.is_full = True
    world.run(seconds=600)
    assert len(world.requests) < 80
    world.is_full = False
    world.settle(40)
    assert len(world.opened) == 3


def test_a_roster_that_may_not_be_written_is_told_once() -> None:
    world = Three()
    world.is_frozen = True
    world.run(seconds=600)
    assert [one for one in world.events if one.startswith("Failed")] == ["FailedUpdate: ConfigMap: a policy"]
    world.is_frozen = False
    world.settle(400)
    assert len(world.opened) == 3


def test_nothing_is_done_for_a_gang_whose_config_map_is_to_go() -> None:
    """A hundred with a finalizer, whose Pods lost and got the label, made 1,200 requests a second."""
    world = running()
    world.change(deletion_timestamp=world.now)
    world.restart()
    before = len(world.requests)
    world.settle(30)
    assert len(world.requests) == before


def test_a_controller_that_goes_on_counts_no_start_again() -> None:
    world = running()
    world.settle(2)
    assert world.milestones == ["open"]
    world.restart()
    world.settle(5)
    assert world.milestones == ["open"]
