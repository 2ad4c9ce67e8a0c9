"""What the parts do together, where no whole life shows it: refusals, other writers, calm."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as replace_struct

from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.meta import Labels
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    CreatePod,
    DeleteFramework,
    DeletePod,
    Done,
    Effect,
    Failed,
    FindPod,
    GrantRosterAccess,
    Missing,
    Outcome,
    Refused,
    StaleStatus,
    WriteRoster,
    WriteStatus,
)
from tests.controller.core.manual import Manual
from tests.controller.core.scenarios import TWO_ROLES, WITH_BARRIER
from tests.controller.core.values import core_config, events_in

FORBIDDEN = Refused(403, "forbidden")
SICK = Failed("sick")


ASKED_AGAIN: list[tuple[type[Effect], Outcome]] = [
    (WriteStatus, SICK),
    (WriteStatus, FORBIDDEN),
    (WriteStatus, Missing()),
    (CreateConfigMap, SICK),
    (CreateConfigMap, FORBIDDEN),
    (CreateConfigMap, Missing()),
    (CreatePod, SICK),
    (CreatePod, Missing()),
    (DeletePod, SICK),
    (GrantRosterAccess, SICK),
    (GrantRosterAccess, FORBIDDEN),
    (WriteRoster, SICK),
    (WriteRoster, Missing()),
]


@pytest.mark.parametrize(
    ("kind", "outcome"), ASKED_AGAIN, ids=lambda value: getattr(value, "__name__", type(value).__name__)
)
def test_nothing_is_asked_for_in_a_loop(kind: type[Effect], outcome: Outcome) -> None:
    manual = Manual(WITH_BARRIER)
    manual.world.plan.ends["worker-0"] = [1]
    assert min(manual.waits(manual.work_until(kind), outcome)) >= 0.5


def test_a_framework_that_cannot_be_deleted_is_asked_for_later_and_later() -> None:
    manual = Manual("{taskRoles: [], executionType: Stop}", core_config(framework_completed_retain_sec=1))
    waits = manual.waits(manual.work_until(DeleteFramework), SICK)
    assert waits == sorted(waits)
    assert waits[-1] > 5


def test_a_reconciler_whose_status_is_stale_writes_no_more() -> None:
    manual = Manual()
    effect = manual.work_until(WriteStatus)
    manual.answer(effect, StaleStatus())
    assert manual.stale
    manual.second(60)
    assert not [one for one in manual.ask() if isinstance(one, WriteStatus)]


def test_events_that_change_nothing_cost_no_request() -> None:
    manual = Manual()
    manual.at_rest()
    assert manual.state is State.RUNNING
    for _ in range(5):
        manual.touch_pods("fw-worker-1", "fw-worker-99", "fw-nobody-x")
        manual.touch_config_map()
        assert manual.ask() == []
    manual.second(60)
    assert manual.ask() == [], "everything is persisted"


def test_a_restart_of_a_framework_that_runs_costs_no_write() -> None:
    manual = Manual()
    manual.at_rest()
    manual.start()
    # The roster is sent once, in case it was changed while no controller looked; it is as it should be.
    (roster,) = manual.ask()
    assert isinstance(roster, WriteRoster)
    versions = [manual.world.config_map]
    manual.answer_as_the_server(roster)
    assert versions == [manual.world.config_map]
    assert manual.ask() == []
    assert "RosterRestored" not in {event.reason for event in manual.events}


def test_a_restart_of_a_framework_whose_status_is_abridged_leaves_the_roster_as_it_is() -> None:
    """The status has left out where the Pods run, and the roster says it."""
    manual = Manual()
    manual.world.abridges = True
    manual.at_rest()
    assert manual.world.config_map is not None
    version = manual.world.config_map.metadata.resource_version
    manual.start()
    (status,) = manual.ask()
    assert isinstance(status, WriteStatus)
    manual.answer_as_the_server(status)
    (roster,) = manual.ask()
    assert isinstance(roster, WriteRoster)
    manual.answer_as_the_server(roster)
    assert manual.ask() == []
    assert manual.world.config_map.metadata.resource_version == version


def test_a_restart_of_a_gang_that_waits_grants_its_access_again() -> None:
    manual = Manual(WITH_BARRIER)
    manual.at_rest()
    manual.start()
    assert {type(one) for one in manual.ask()} == {GrantRosterAccess, WriteRoster}


def test_a_creation_that_is_not_wanted_any_more_is_dropped() -> None:
    manual = Manual()
    effect = manual.work_until(CreatePod)
    assert manual.at_turn(effect) is effect
    manual.world.stop()
    manual.see()
    manual.ask()
    assert manual.at_turn(effect) is None


def test_a_creation_for_a_task_that_is_scaled_down_is_dropped() -> None:
    manual = Manual()
    effect = manual.work_until(CreatePod)
    assert isinstance(effect, CreatePod)
    last = replace(effect, role="worker", index=2)
    assert manual.at_turn(last) is last
    manual.world.spec["taskRoles"][1]["taskNumber"] = 2
    manual.world.edited()
    manual.see()
    manual.ask()
    assert manual.at_turn(last) is None


def test_a_status_is_written_with_all_that_was_decided_while_it_waited_for_its_turn() -> None:
    manual = Manual()
    effect = manual.work_until(WriteStatus)
    assert isinstance(effect, WriteStatus)
    assert manual.at_turn(effect) is effect
    manual.world.spec["description"] = "another"
    manual.world.edited()
    manual.see()
    assert [one for one in manual.ask() if isinstance(one, WriteStatus)] == [], "one at a time"
    newer = manual.at_turn(effect)
    assert isinstance(newer, WriteStatus)
    assert newer.revision > effect.revision
    assert newer.status.observed_generation == 2


def test_the_observed_generation_is_written_although_nothing_follows_from_it() -> None:
    manual = Manual()
    manual.at_rest()
    manual.world.spec["description"] = "another"
    manual.world.edited()
    manual.at_rest()
    assert manual.world.status.observed_generation == 2


def test_a_status_is_written_once_at_a_time_with_all_that_happened_meanwhile() -> None:
    manual = Manual()
    write = manual.work_until(WriteStatus)
    manual.world.stop()
    manual.see()
    assert not [one for one in manual.ask() if isinstance(one, WriteStatus)]
    manual.answer_as_the_server(write)
    manual.second()
    assert [one for one in manual.ask() if isinstance(one, WriteStatus)]


def test_done_means_done() -> None:
    """A grant that was given is not asked for again, whatever else happens."""
    manual = Manual(WITH_BARRIER)
    manual.answer(manual.work_until(GrantRosterAccess), Done())
    manual.at_rest()
    assert manual.world.history["GrantRosterAccess"] == 0


def test_after_a_reload_an_older_spec_of_the_cache_ends_no_task_of_the_newer_one() -> None:
    manual = Manual()
    manual.world.plan.ends["worker-3"] = ["stay"]
    manual.at_rest()
    older = manual.caches.framework
    manual.world.spec["taskRoles"][1]["taskNumber"] = 4
    manual.world.edited()
    manual.at_rest()
    pods = {name: pod.metadata.uid for name, pod in manual.world.pods.items()}
    assert "fw-worker-3" in pods
    manual.caches.show_framework(older)
    manual.reload()
    manual.at_rest()
    assert {name: pod.metadata.uid for name, pod in manual.world.pods.items()} == pods


def test_an_attempt_whose_status_is_too_large_fails_and_is_written_without_its_tasks() -> None:
    manual = Manual()
    manual.at_rest()
    assert manual.world.stored is not None
    manual.world.max_status_bytes = len(manual.world.stored)
    manual.world.plan.ends["worker-1"] = [1]
    events = []
    for _ in range(20):
        decision = manual.decide()
        events += events_in(decision.reports)
        for effect in decision.effects:
            manual.answer_as_the_server(effect)
        manual.second()
    status = manual.world.status
    assert status.state is State.COMPLETED
    assert status.completion is not None
    assert status.completion.code == Code.POD_CREATION_PERMANENT_ERROR
    assert "The status of 4 Tasks is larger than the API server accepts (etcdserver: " in status.completion.diagnostics
    assert status.attempt_status.task_role_statuses == ()
    assert (manual.world.pods, manual.world.config_map) == ({}, None)
    assert isinstance(status.conditions, tuple)
    assert [one.status for one in status.conditions if one.type == "StatusTooLarge"] == ["True"]
    assert {"FailedStatusWrite", "FrameworkFailed"} <= {event.reason for event in events}


def test_the_attempt_after_one_whose_status_was_too_large_is_written_with_its_tasks() -> None:
    manual = Manual()
    manual.world.spec["retryPolicy"] = {"maxRetryCount": 1}
    manual.world.edited()
    manual.see()
    write = manual.work_until(WriteStatus)
    manual.answer(write, Refused(413, "too large"))
    manual.at_rest()
    status = manual.world.status
    assert (status.attempt_status.id, status.state) == (1, State.RUNNING)
    assert len(manual.world.pods) == 4


def test_a_controller_that_starts_amid_the_end_of_a_shrunk_attempt_ends_it() -> None:
    manual = Manual()
    manual.at_rest()
    manual.touch_pods("fw-worker-0")
    manual.world.plan.ends["worker-1"] = [1]
    manual.second(3)
    manual.answer(manual.work_until(WriteStatus), Refused(413, "too large"))
    manual.answer_as_the_server(manual.work_until(WriteStatus))
    assert manual.world.status.attempt_status.task_role_statuses == ()
    assert manual.world.pods
    manual.start()
    manual.at_rest()
    assert manual.world.status.state is State.COMPLETED
    assert (manual.world.pods, manual.world.config_map) == ({}, None)


@pytest.mark.parametrize(("outcome", "tries"), [(SICK, 3), (FORBIDDEN, 1)], ids=["no answer", "forbidden"])
def test_a_status_that_stays_unwritten_is_reported_once(outcome: Outcome, tries: int) -> None:
    manual = Manual()
    effect, reported = manual.work_until(WriteStatus), list[int]()
    for number in range(1, 8):
        manual.answer(effect, outcome)
        while True:
            decision = manual.decide()
            reported += [number for event in events_in(decision.reports) if event.reason == "FailedStatusWrite"]
            if decision.effects:
                effect = decision.effects[0]
                break
            assert decision.wake_at is not None
            manual.world.now = decision.wake_at
    assert reported == [tries]


def test_a_wall_clock_that_is_set_back_stops_no_write_and_no_back_off() -> None:
    manual = Manual()
    manual.answer(manual.work_until(CreatePod), SICK)
    manual.set_back = timedelta(hours=1)
    for _ in range(10):
        manual.at_rest()
    assert manual.world.status.ready == "4/4"
    manual.world.stop()
    manual.at_rest()
    assert manual.world.status.state is State.COMPLETED
    stamp = manual.world.status.completion_time
    assert stamp is not None
    assert stamp < manual.world.now - timedelta(minutes=59)


def test_a_wall_clock_that_is_set_back_delays_only_what_stored_times_decide() -> None:
    manual = Manual("{taskRoles: [], executionType: Stop}", core_config(framework_completed_retain_sec=60))
    manual.at_rest()
    assert manual.world.status.state is State.COMPLETED
    manual.set_back = timedelta(hours=1)
    decision = manual.decide()
    assert decision.effects == []
    assert decision.wake_at is not None
    assert timedelta(hours=1) < decision.wake_at - manual.world.now < timedelta(hours=1, seconds=61)


def test_a_pod_that_lost_its_label_is_gone_before_its_task_is_retried() -> None:
    manual = Manual()
    manual.world.spec["taskRoles"][1]["task"]["retryPolicy"] = {"maxRetryCount": 1}
    manual.world.edited()
    manual.at_rest()
    before = manual.world.pods["fw-worker-1"]
    manual.world.unlabel_pod("fw-worker-1")
    for _ in range(60):
        for effect in manual.ask():
            manual.answer_as_the_server(effect)
            running = [pod for pod in manual.world.running.values() if pod.metadata.name == "fw-worker-1"]
            assert len(running) <= 1
        manual.second()
    after = manual.world.pods["fw-worker-1"]
    assert before.metadata.uid != after.metadata.uid
    assert before.metadata.uid not in manual.world.running
    assert manual.world.status.ready == "4/4"


def test_a_pod_that_only_the_cache_does_not_show_runs_on() -> None:
    manual = Manual()
    manual.at_rest()
    uid = manual.world.pods["fw-worker-1"].metadata.uid
    manual.caches.hide_pod("fw-worker-1")
    manual.touch_pods("fw-worker-1")
    effects = manual.ask()
    assert effects == [FindPod("worker", 1)]
    manual.answer_as_the_server(effects[0])
    assert manual.ask() == [], "the cache is late"
    manual.at_rest()
    assert manual.world.pods["fw-worker-1"].metadata.uid == uid
    assert manual.world.status.state is State.RUNNING


def test_an_attempt_with_a_pod_that_lost_its_label_is_over_only_when_that_is_gone() -> None:
    manual = Manual()
    manual.at_rest()
    manual.world.unlabel_pod("fw-worker-1")
    manual.world.stop()
    for _ in range(10):
        manual.at_rest()
    assert manual.world.status.state is State.COMPLETED
    assert (manual.world.pods, manual.world.config_map) == ({}, None)


def test_a_config_map_that_lost_its_label_gets_it_back_and_the_attempt_goes_on() -> None:
    manual = Manual()
    manual.at_rest()
    pods = set(manual.world.running)
    manual.world.unlabel_config_map()
    manual.touch_config_map()
    manual.at_rest()
    assert manual.world.config_map is not None
    assert manual.world.config_map.metadata.labels == Labels(framework="fw")
    assert (manual.world.status.state, manual.world.running.keys()) == (State.RUNNING, pods)
    assert "RosterRestored" in {event.reason for event in manual.events}


def test_a_label_that_somebody_removes_for_ever_is_put_back_now_and_then() -> None:
    manual = Manual()
    manual.at_rest()
    for _ in range(20):
        manual.world.unlabel_config_map()
        manual.see()
        for effect in manual.ask():
            manual.answer_as_the_server(effect)
        for effect in manual.ask():
            manual.answer_as_the_server(effect)
        manual.second()
    assert manual.world.status.state is State.RUNNING
    assert 2 <= manual.world.history["LabelConfigMap"] <= 5


@pytest.mark.parametrize("foreign", [False, True], ids=["an orphan of ours", "somebody's"])
def test_a_pod_that_no_cache_shows_and_that_has_the_name_is_judged_by_its_owner(*, foreign: bool) -> None:
    manual = Manual()
    effect = manual.work_until(CreatePod)
    assert isinstance(effect, CreatePod)
    name = f"fw-{effect.role}-{effect.index}"
    manual.send(effect)
    manual.answer(effect, Failed("the answer is lost"))
    manual.world.unlabel_pod(name)
    pod = manual.world.pods[name]
    if foreign:
        manual.world.pods[name] = replace_struct(pod, metadata=replace_struct(pod.metadata, annotations={}))
        manual.world.frozen.add(name)
    for _ in range(10):
        manual.at_rest()
    assert (manual.world.pods[name].metadata.uid == pod.metadata.uid) is foreign
    assert (manual.world.status.ready == "4/4") is not foreign


def test_an_expired_framework_that_a_finalizer_holds_is_deleted_once() -> None:
    manual = Manual("{taskRoles: [], executionType: Stop}", core_config(framework_completed_retain_sec=1))
    manual.world.held = True
    for _ in range(10):
        manual.at_rest()
    assert manual.world.history["DeleteFramework"] == 1
    assert manual.decide().wake_at is None


def test_access_is_granted_for_each_attempt_with_a_barrier_and_for_no_other() -> None:
    plain, manual = Manual(), Manual(WITH_BARRIER)
    plain.at_rest()
    assert plain.world.history["GrantRosterAccess"] == 0
    manual.world.plan.ends["ps-0"] = [200, "stay"]
    first = manual.work_until(GrantRosterAccess)
    assert first == GrantRosterAccess(("default",), manual.world.status.attempt_status.config_map_uid or "")
    manual.answer_as_the_server(first)
    second = manual.work_until(GrantRosterAccess)
    assert manual.world.status.attempt_status.id == 1
    assert second == GrantRosterAccess(("default",), manual.world.status.attempt_status.config_map_uid or "")
    assert first != second


def test_an_edit_that_changes_nothing_that_matters_is_observed() -> None:
    """A negative time is taken for 0, so the spec is the same as before."""
    manual = Manual(TWO_ROLES.replace("task: {", "task: {podGracefulDeletionTimeoutSec: -5, ", 1))
    manual.at_rest()
    task = manual.world.spec["taskRoles"][0]["task"]
    assert task["podGracefulDeletionTimeoutSec"] == -5
    task["podGracefulDeletionTimeoutSec"] = -3
    manual.world.edited()
    manual.at_rest()
    assert manual.world.status.observed_generation == manual.world.framework.metadata.generation == 2
