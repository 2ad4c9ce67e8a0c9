"""What the parts do together, where no whole life shows it: refusals, other writers, calm."""

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
    LabelConfigMap,
    Missing,
    NameTaken,
    Outcome,
    Refused,
    StaleStatus,
    WriteRoster,
    WriteStatus,
)
from tests.controller.core.manual import Manual, of_roles
from tests.controller.core.scenarios.lives import TWO_ROLES, WITH_BARRIER
from tests.controller.core.values import core_config, known

FORBIDDEN = Refused(403, "forbidden")
SICK = Failed("sick")


@pytest.fixture
def resting() -> Manual:
    """A Framework whose Tasks all run, with nothing left to do."""
    manual = Manual()
    manual.at_rest()
    assert manual.state is State.RUNNING
    return manual


ASKED_AGAIN: dict[type[Effect], tuple[Outcome, ...]] = {
    WriteStatus: (SICK, FORBIDDEN, Missing()),
    CreateConfigMap: (SICK, FORBIDDEN, Missing()),
    CreatePod: (SICK, Missing()),
    DeletePod: (SICK,),
    GrantRosterAccess: (SICK, FORBIDDEN),
    WriteRoster: (SICK, Missing()),
    DeleteFramework: (SICK,),
}


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [(kind, one) for kind, several in ASKED_AGAIN.items() for one in several],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_nothing_is_asked_for_in_a_loop(kind: type[Effect], outcome: Outcome) -> None:
    manual = Manual(WITH_BARRIER, core_config(framework_completed_retain_sec=1))
    manual.world.plan.ends["worker-0"] = [1]
    assert min(manual.waits(manual.work_until(kind), outcome)) >= 0.5


def test_a_reconciler_whose_status_is_stale_writes_no_more() -> None:
    manual = Manual()
    manual.answer(manual.work_until(WriteStatus), StaleStatus())
    assert manual.stale
    manual.second(60)
    assert not [one for one in manual.ask() if isinstance(one, WriteStatus)]


def test_events_that_change_nothing_cost_no_request(resting: Manual) -> None:
    for _ in range(5):
        resting.touch_pods("fw-worker-1", "fw-worker-99", "fw-nobody-x")
        resting.touch_config_map()
        assert resting.ask() == []
    resting.second(60)
    assert resting.ask() == [], "everything is persisted"


@pytest.mark.parametrize(
    ("spec", "abridged", "expected"),
    [
        (TWO_ROLES, False, [WriteRoster]),
        (TWO_ROLES, True, [WriteStatus, WriteRoster]),
        (WITH_BARRIER, False, [GrantRosterAccess, WriteRoster]),
    ],
    ids=["as it is", "the status is without where the Pods run", "barriers may read the roster"],
)
def test_a_restart_of_a_framework_that_runs_changes_no_roster(
    spec: str, expected: list[type[Effect]], *, abridged: bool
) -> None:
    """It is sent once, in case it was changed while no controller looked."""
    manual = Manual(spec)
    manual.world.abridges = abridged
    manual.at_rest()
    before = manual.world.config_map
    manual.start()
    assert [type(effect) for effect in manual.settle()] == expected
    assert manual.world.config_map == before is not None
    assert not manual.said("RosterRestored")


def test_creations_that_are_not_wanted_any_more_are_dropped() -> None:
    manual = Manual()
    first = manual.work_until(CreatePod)
    last = replace(first, role="worker", index=2)
    wanted = [(manual.at_turn(first), manual.at_turn(last))]
    manual.world.spec["taskRoles"][1]["taskNumber"] = 2
    for change in (manual.world.edited, manual.world.stop):
        change()
        manual.see()
        manual.ask()
        wanted.append((manual.at_turn(first), manual.at_turn(last)))
    assert wanted == [(first, last), (first, None), (None, None)]


def test_no_attempt_is_spent_on_a_framework_that_is_suspended_before_its_turn_comes() -> None:
    manual = Manual()
    effect = manual.work_until(CreateConfigMap)
    assert manual.at_turn(effect) is effect
    manual.edit(suspend=True)
    manual.see()
    manual.ask()
    assert manual.at_turn(effect) is None


def test_a_status_is_written_once_at_a_time_with_all_that_was_decided_before_its_turn() -> None:
    manual = Manual()

    def writes() -> list[Effect]:
        return [one for one in manual.ask() if isinstance(one, WriteStatus)]

    effect = manual.work_until(WriteStatus)
    assert manual.at_turn(effect) is effect
    manual.edit(description="another")
    manual.see()
    assert writes() == []
    newer = manual.at_turn(effect)
    assert isinstance(newer, WriteStatus)
    assert newer.revision > effect.revision
    assert newer.status.observed_generation == 2
    manual.world.stop()
    manual.see()
    assert writes() == []
    manual.answer_as_the_server(newer)
    manual.second()
    assert len(writes()) == 1


def test_after_a_reload_an_older_spec_of_the_cache_ends_no_task_of_the_newer_one(resting: Manual) -> None:
    def pods() -> dict[str, str]:
        return {name: pod.metadata.uid for name, pod in resting.world.pods.items()}

    resting.world.plan.ends["worker-3"] = ["stay"]
    older = resting.caches.framework
    resting.edit_role(1, taskNumber=4)
    resting.at_rest()
    before = pods()
    assert "fw-worker-3" in before
    resting.caches.show_framework(older)
    resting.reload()
    resting.at_rest()
    assert pods() == before


def test_an_attempt_whose_status_is_too_large_fails_and_is_written_without_its_tasks(resting: Manual) -> None:
    resting.world.max_status_bytes = len(known(resting.world.stored))
    resting.world.plan.ends["worker-1"] = [1]
    resting.at_rest()
    status = resting.world.status
    end = known(status.completion)
    assert (status.state, end.code) == (State.COMPLETED, Code.POD_CREATION_PERMANENT_ERROR)
    assert "The status of 4 Tasks is larger than the API server accepts (etcdserver: " in end.diagnostics
    assert status.attempt_status.task_role_statuses == ()
    assert (resting.world.pods, resting.world.config_map) == ({}, None)
    assert resting.condition("StatusTooLarge")[0] == "True"
    assert resting.said("FailedStatusWrite")
    assert resting.said("FrameworkFailed")


def test_the_attempt_after_one_whose_status_was_too_large_is_written_with_its_tasks() -> None:
    manual = Manual()
    manual.edit(retryPolicy={"maxRetryCount": 1})
    manual.see()
    manual.answer(manual.work_until(WriteStatus), Refused(413, "too large"))
    manual.at_rest()
    status = manual.world.status
    assert (status.attempt_status.id, status.state) == (1, State.RUNNING)
    assert len(manual.world.pods) == 4


def test_a_controller_that_starts_amid_the_end_of_a_shrunk_attempt_ends_it(resting: Manual) -> None:
    resting.touch_pods("fw-worker-0")
    resting.world.plan.ends["worker-1"] = [1]
    resting.second(3)
    resting.answer(resting.work_until(WriteStatus), Refused(413, "too large"))
    resting.answer_as_the_server(resting.work_until(WriteStatus))
    assert resting.world.status.attempt_status.task_role_statuses == ()
    assert resting.world.pods
    resting.start()
    resting.at_rest()
    assert resting.world.status.state is State.COMPLETED
    assert (resting.world.pods, resting.world.config_map) == ({}, None)


@pytest.mark.parametrize(("outcome", "tries"), [(SICK, 3), (FORBIDDEN, 1)], ids=["no answer", "forbidden"])
def test_a_status_that_stays_unwritten_is_reported_once(outcome: Outcome, tries: int) -> None:
    manual = Manual()
    reported = list[int]()
    effect: Effect = manual.work_until(WriteStatus)
    for _ in range(7):
        manual.answer(effect, outcome)
        while not (effects := manual.ask()):
            manual.world.now = known(manual.wake_at)
        effect = effects[0]
        reported.append(len(manual.said("FailedStatusWrite")))
    assert reported == [0] * (tries - 1) + [1] * (8 - tries)


def test_a_roster_that_may_not_be_written_is_told() -> None:
    manual = Manual()
    effect: Effect = manual.work_until(WriteRoster)
    for tries in range(3):
        assert bool(manual.said("FailedUpdate")) is (tries > 1)
        manual.answer(effect, Failed("a policy", refused=True))
        while not (effects := manual.ask()):
            manual.world.now = known(manual.wake_at)
        effect = effects[0]
    manual.live(30)
    assert manual.said("FailedUpdate") == ["ConfigMap: a policy"]
    assert manual.world.status.ready == "4/4"


def test_a_wall_clock_that_is_set_back_stops_no_write_and_no_back_off() -> None:
    manual = Manual()
    manual.answer(manual.work_until(CreatePod), SICK)
    manual.set_back = timedelta(hours=1)
    manual.live(200)
    assert manual.world.status.ready == "4/4"
    manual.world.stop()
    manual.at_rest()
    assert manual.world.status.state is State.COMPLETED
    assert known(manual.world.status.completion_time) < manual.world.now - timedelta(minutes=59)


def test_a_wall_clock_that_is_set_back_delays_only_what_stored_times_decide() -> None:
    manual = Manual("{taskRoles: [], executionType: Stop}", core_config(framework_completed_retain_sec=60))
    manual.at_rest()
    assert manual.world.status.state is State.COMPLETED
    manual.set_back = timedelta(hours=1)
    assert manual.ask() == []
    assert timedelta(hours=1) < known(manual.wake_at) - manual.world.now < timedelta(hours=1, seconds=61)


def test_a_pod_that_lost_its_label_is_gone_before_its_task_is_retried() -> None:
    manual = Manual()
    manual.edit_task(1, retryPolicy={"maxRetryCount": 1})
    manual.at_rest()
    before = manual.world.pods["fw-worker-1"]
    manual.world.unlabel_pod("fw-worker-1")
    for _ in range(60):
        for effect in manual.ask():
            manual.answer_as_the_server(effect)
            assert [pod.metadata.name for pod in manual.world.running.values()].count("fw-worker-1") <= 1
        manual.second()
    after = manual.world.pods["fw-worker-1"]
    assert before.metadata.uid != after.metadata.uid
    assert before.metadata.uid not in manual.world.running
    assert manual.world.status.ready == "4/4"


def test_a_pod_that_only_the_cache_does_not_show_runs_on(resting: Manual) -> None:
    uid = resting.world.pods["fw-worker-1"].metadata.uid
    resting.caches.hide_pod("fw-worker-1")
    resting.touch_pods("fw-worker-1")
    effects = resting.ask()
    assert effects == [FindPod("worker", 1)]
    resting.answer_as_the_server(effects[0])
    assert resting.ask() == [], "the cache is late"
    resting.at_rest()
    assert resting.world.pods["fw-worker-1"].metadata.uid == uid
    assert resting.world.status.state is State.RUNNING


def test_an_attempt_with_a_pod_that_lost_its_label_is_over_only_when_that_is_gone(resting: Manual) -> None:
    resting.world.unlabel_pod("fw-worker-1")
    resting.world.stop()
    resting.live(200)
    assert resting.world.status.state is State.COMPLETED
    assert (resting.world.pods, resting.world.config_map) == ({}, None)


def test_a_config_map_gets_its_label_back_now_and_then_though_somebody_removes_it_for_ever(resting: Manual) -> None:
    pods = set(resting.world.running)
    for _ in range(20):
        resting.world.unlabel_config_map()
        resting.see()
        for _ in range(2):
            resting.turn()
        resting.second()
    assert 2 <= resting.world.history["LabelConfigMap"] <= 5
    resting.at_rest()
    assert known(resting.world.config_map).metadata.labels == Labels(framework="fw")
    assert (resting.world.status.state, set(resting.world.running)) == (State.RUNNING, pods)
    assert resting.said("RosterRestored")


@pytest.mark.parametrize("foreign", [False, True], ids=["an orphan of ours", "somebody's"])
def test_a_pod_that_no_cache_shows_and_that_has_the_name_is_judged_by_its_owner(*, foreign: bool) -> None:
    manual = Manual()
    effect = manual.work_until(CreatePod)
    name = f"fw-{effect.role}-{effect.index}"
    manual.send(effect)
    manual.answer(effect, Failed("the answer is lost"))
    manual.world.unlabel_pod(name)
    pod = manual.world.pods[name]
    if foreign:
        manual.world.pods[name] = replace_struct(pod, metadata=replace_struct(pod.metadata, annotations={}))
        manual.world.frozen.add(name)
    manual.live(200)
    assert (manual.world.pods[name].metadata.uid == pod.metadata.uid) is foreign
    assert (manual.world.status.ready == "4/4") is not foreign


def test_what_the_framework_before_has_left_behind_is_told_once_and_waited_for() -> None:
    before, manual = Manual(), Manual()
    before.at_rest()
    old = known(before.world.config_map)
    manual.world.config_map = replace_struct(old, metadata=replace_struct(old.metadata, uid="old", owner_references=()))
    manual.see()
    manual.live(30)
    assert manual.said("FailedCreate") == ["ConfigMap: the name is in use"]
    manual.world.config_map = None
    manual.see()
    manual.live(60)
    assert manual.world.status.ready == "4/4"


def test_an_expired_framework_that_a_finalizer_holds_is_deleted_once() -> None:
    manual = Manual("{taskRoles: [], executionType: Stop}", core_config(framework_completed_retain_sec=1))
    manual.world.held = True
    manual.live(200)
    assert manual.world.history["DeleteFramework"] == 1
    assert manual.decide().wake_at is None


def test_access_is_granted_for_each_attempt_with_a_barrier_and_for_no_other() -> None:
    plain, manual = Manual(), Manual(WITH_BARRIER)
    plain.at_rest()
    assert plain.world.history["GrantRosterAccess"] == 0
    manual.world.plan.ends["ps-0"] = [200, "stay"]
    first = manual.work_until(GrantRosterAccess)
    assert first == GrantRosterAccess(("default",), known(manual.world.status.attempt_status.config_map_uid))
    manual.answer_as_the_server(first)
    second = manual.work_until(GrantRosterAccess)
    assert manual.world.status.attempt_status.id == 1
    assert second == GrantRosterAccess(("default",), known(manual.world.status.attempt_status.config_map_uid))
    assert first != second
    manual.answer(second, Missing())
    assert manual.work_until(GrantRosterAccess) == second, "an object went between two requests"
    manual.answer(second, Done())
    manual.at_rest()
    assert manual.world.history["GrantRosterAccess"] == 1, "what is done is not asked for again"
    # Whoever edits the accounts all the time waits.
    before = manual.world.now
    for number in range(30):
        pod = manual.world.spec["taskRoles"][0]["task"]["pod"]
        manual.edit_task(0, pod=pod | {"spec": pod["spec"] | {"serviceAccountName": f"a{number}"}})
        manual.live(3)
    seconds = (manual.world.now - before).total_seconds()
    assert 2 <= manual.world.history["GrantRosterAccess"] - 1 <= 1 + seconds / 5


def test_what_was_seen_of_tasks_that_edits_have_renamed_is_forgotten() -> None:
    """Names in use took 6 KB each, as long as the attempt: 240 MiB after 38,000 Pods."""
    manual = Manual(of_roles(a=20))
    manual.work_until(CreatePod)
    manual.live(5)
    for edit in range(5):
        manual.edit_role(0, name=f"a{edit}")
        for _ in range(6):
            for effect in manual.ask():
                taken = isinstance(effect, CreatePod)
                manual.answer(effect, NameTaken("")) if taken else manual.answer_as_the_server(effect)
            manual.see()
            manual.second()
    state = manual.reconciler._state
    assert len(state.sightings.in_use) <= 20
    assert len(manual.reconciler._in_flight._delays) <= 21


def test_an_edit_from_which_nothing_follows_is_observed() -> None:
    """A negative time is taken for 0, so the spec is the same as before."""
    manual = Manual(TWO_ROLES.replace("task: {", "task: {podGracefulDeletionTimeoutSec: -5, ", 1))
    manual.at_rest()
    task = manual.world.spec["taskRoles"][0]["task"]
    assert task["podGracefulDeletionTimeoutSec"] == -5
    for changed, key, value in ((task, "podGracefulDeletionTimeoutSec", -3), (manual.world.spec, "description", "x")):
        changed[key] = value
        manual.world.edited()
        manual.at_rest()
        assert manual.world.status.observed_generation == manual.world.framework.metadata.generation
    assert manual.world.status.observed_generation == 3


def test_a_framework_is_not_forgotten_before_its_writes_are_paid_for() -> None:
    """At rest it began afresh with each edit: 30 writes a second for as many edits, where one in 0.3 s is promised."""
    manual = Manual("{executionType: Create, taskRoles: []}")
    manual.answer_as_the_server(manual.work_until(WriteStatus))
    manual.see()
    decision = manual.decide()
    assert not decision.at_rest
    assert decision.wake_at is not None
    manual.second()
    assert manual.decide().at_rest


def test_a_pod_that_is_no_tasks_is_no_reason_to_decide() -> None:
    """A patch of its label and its owner woke four Frameworks of 1,000 TaskRoles for 5 to 10 ms each."""
    manual = Manual(TWO_ROLES)
    manual.live(3)
    assert manual.reconciler.touch_pod("fw-worker-0")
    assert not manual.reconciler.touch_pod("fw-other-0")
    assert not manual.reconciler.touch_pod("mine")
    manual.start()
    assert manual.reconciler.touch_pod("fw-other-0"), "what the stored status says is not known yet"


def test_one_that_is_stopped_soon_after_an_effect_rests_though_no_event_comes(resting: Manual) -> None:
    """It was kept for its 30 days: nothing asked for a look when the pause of the effect was over."""
    resting.live(400)
    resting.world.unlabel_config_map()
    resting.see()
    resting.answer_as_the_server(resting.work_until(LabelConfigMap))
    resting.world.stop()
    resting.live(3)
    assert resting.state is State.COMPLETED
    begun = resting.world.now
    while not (decision := resting.decide()).at_rest:
        for effect in decision.effects:
            resting.answer_as_the_server(effect)
        resting.see()
        if not decision.effects:
            resting.world.now = known(decision.wake_at)
    assert resting.world.now - begun < timedelta(seconds=10)
