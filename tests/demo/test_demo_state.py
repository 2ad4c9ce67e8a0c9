"""The state of a run after each event."""

from __future__ import annotations

import pytest

from frameworkdemo.manifests import ImageNames, framework
from frameworkdemo.picture import events
from frameworkdemo.picture.objects import ContainerState, expected_tasks, read_pod, read_roster
from frameworkdemo.picture.state import RunState, StepStatus
from frameworkdemo.picture.text import describe_gate, describe_outcome, describe_task, format_duration
from frameworkdemo.picture.transitions import LOG_LINES_KEPT, advance
from tests.demo.gang import APPLIED_AT, CHIEF, TASKS, WORKER1, Gang, ended, pod, running, successful_run, waiting


def since_apply(at: float | None) -> float | None:
    return None if at is None else round(at - APPLIED_AT, 3)


def test_milestones_are_those_of_the_last_task() -> None:
    state = successful_run().state
    reached = [since_apply(at) for at in (state.created, state.addressed, state.opened, state.started, state.completed)]
    assert reached == [1.0, 3.0, 4.0, 9.0, 20.0]
    assert state.succeeded


def test_no_milestone_is_reached_before_the_last_task_has_reached_it() -> None:
    gang = Gang().applied().pod(1, CHIEF, ip="10.0.0.1").pod(1, WORKER1, ip="10.0.0.2")
    assert (gang.state.created, gang.state.addressed) == (None, None)
    assert gang.state.gang == (2, 3)


def test_milestones_never_move_once_they_are_reached() -> None:
    reached: dict[str, float] = {}
    for state in successful_run().states:
        for name in ("created", "addressed", "started", "completed"):
            at = getattr(state, name)
            assert reached.setdefault(name, at) in (None, at) if at is not None else name not in reached
            if at is not None:
                reached[name] = at
    assert set(reached) == {"created", "addressed", "started", "completed"}


def test_the_gate_opened_when_the_barrier_logged_it_not_when_its_status_arrived() -> None:
    gang = Gang().applied()
    for key in TASKS:
        gang.pod(1, key, ip="10.0.0.1", barrier=running())
        gang.log(2, key, "open", barrier=True)
        gang.pod(3.2, key, ip="10.0.0.1", barrier=ended())
    assert since_apply(gang.state.opened) == 2.0


def test_without_the_barriers_log_the_gate_opened_when_its_status_arrived() -> None:
    gang = Gang().applied()
    for key in TASKS:
        gang.pod(3.2, key, ip="10.0.0.1", barrier=ended())
    assert since_apply(gang.state.opened) == 3.2


def test_a_barrier_that_failed_opens_nothing() -> None:
    gang = Gang().applied()
    for key in TASKS:
        gang.pod(3, key, ip="10.0.0.1", barrier=ended(201, "Error"))
    assert gang.state.opened is None
    assert describe_task(gang.state.tasks[CHIEF]) == "barrier failed"


def test_a_new_attempt_forgets_what_the_old_gang_reached() -> None:
    gang = Gang().applied()
    for key in TASKS:
        gang.pod(1, key, ip="10.0.0.1", barrier=ended())
    gang.framework(2, "AttemptRunning").log(3, CHIEF, "training started")
    gang.framework(4, "AttemptCreationPending", attempt=1)
    state = gang.state
    assert (state.created, state.addressed, state.opened, state.started) == (None, None, None, None)
    assert state.retries == 1


def test_pods_of_a_new_attempt_that_are_seen_before_its_status_are_kept() -> None:
    gang = Gang().applied().framework(1, "AttemptRunning")
    gang.pod(1, CHIEF, uid="old").pod(5, CHIEF, uid="new", attempt=1)
    gang.framework(5.1, "AttemptPreparing", attempt=1)
    kept = gang.state.tasks[CHIEF].pod
    assert kept is not None
    assert kept.uid == "new"


def test_the_end_of_an_old_pod_does_not_touch_the_one_that_replaced_it() -> None:
    gang = Gang().applied().pod(1, CHIEF, uid="old").pod(2, CHIEF, uid="new").gone(3, CHIEF, uid="old")
    task = gang.state.tasks[CHIEF]
    assert task.pod is not None
    assert (task.pod.uid, task.deleted, since_apply(task.created)) == ("new", False, 2.0)


def test_a_log_line_of_an_old_pod_is_not_taken_for_the_new_one() -> None:
    gang = Gang().applied().pod(1, CHIEF, uid="new").log(2, CHIEF, "training started", uid="old")
    assert gang.state.started is None


def test_only_the_chiefs_log_starts_the_training() -> None:
    gang = Gang().applied().log(2, WORKER1, "training started")
    assert gang.state.started is None
    assert since_apply(gang.log(3, CHIEF, "training started").state.started) == 3.0


def test_a_log_keeps_its_end_only() -> None:
    gang = Gang().applied()
    for number in range(LOG_LINES_KEPT + 5):
        gang.log(1, CHIEF, f"line {number}")
    assert gang.state.tasks[CHIEF].log[0] == "line 5"


def test_tasks_that_the_spec_does_not_have_change_nothing() -> None:
    gang = Gang().applied()
    before = gang.state
    stranger = pod(CHIEF)
    stranger["metadata"]["labels"]["FC_TASKROLE_NAME"] = "evaluator"
    info = read_pod(stranger)
    assert info is not None
    assert advance(before, events.PodObserved(APPLIED_AT, info)) == before


def test_a_failed_framework_is_finished_but_has_not_succeeded() -> None:
    state = Gang().applied().framework(3, "Completed", code=210).state
    assert (state.finished, state.succeeded) == (True, False)
    assert describe_outcome(state) == "Completed, Failed (210)"


def test_a_framework_that_completes_its_attempt_is_not_finished_yet() -> None:
    state = Gang().applied().framework(3, "AttemptCompleted", code=0).state
    assert (state.finished, state.succeeded, state.completed) == (False, False, None)


def test_parts_belong_to_the_running_step() -> None:
    gang = Gang().post(
        events.RunPlanned(0, ("cluster", "images")),
        events.StepStarted(0, "cluster"),
        events.PartStarted(1, "build etcd"),
        events.PartEnded(5, "build etcd"),
        events.StepEnded(6, "cluster"),
        events.StepStarted(6, "images"),
        events.PartStarted(6, "build image barrier"),
    )
    assert [(work.name, work.step) for work in gang.state.parts] == [
        ("build etcd", "cluster"),
        ("build image barrier", "images"),
    ]
    assert gang.state.parts[0].seconds(100) == 4
    assert gang.state.parts[1].seconds(8) == 2


def test_a_step_that_failed_keeps_its_time() -> None:
    gang = Gang().post(
        events.RunPlanned(0, ("cluster",)), events.StepStarted(0, "cluster"), events.StepEnded(7, "cluster", ok=False)
    )
    (step,) = gang.state.steps
    assert (step.status, step.seconds(100)) == (StepStatus.FAILED, 7)


@pytest.mark.parametrize(
    ("fields", "description"),
    [
        ({}, "not scheduled"),
        ({"node": "a"}, "starting"),
        ({"node": "a", "barrier": waiting()}, "starting"),
        ({"node": "a", "barrier": running(), "application": waiting()}, "waits in the barrier"),
        ({"node": "a", "barrier": ended(), "application": waiting()}, "released"),
        ({"node": "a", "barrier": ended(), "application": running()}, "running"),
        ({"node": "a", "barrier": ended(), "application": ended()}, "succeeded"),
        ({"node": "a", "barrier": ended(), "application": ended(3, "Error")}, "failed"),
    ],
    ids=["new", "bound", "pulling", "waiting", "released", "running", "succeeded", "failed"],
)
def test_the_description_of_a_task_follows_its_pods_containers(fields: dict[str, object], description: str) -> None:
    assert describe_task(Gang().applied().pod(1, CHIEF, **fields).state.tasks[CHIEF]) == description


def test_the_reason_of_a_pod_that_cannot_be_scheduled_is_the_schedulers() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    info = read_pod(pod(CHIEF, conditions=[condition]))
    assert info is not None
    assert info.reason == "Unschedulable: 0/1 nodes"


def test_the_reason_of_a_pod_whose_image_is_missing_names_the_container() -> None:
    info = read_pod(pod(CHIEF, application=waiting("ErrImageNeverPull", "no such image")))
    assert info is not None
    assert info.reason == "tensorflow: ErrImageNeverPull: no such image"


def test_an_ordinary_start_has_no_reason() -> None:
    info = read_pod(pod(CHIEF, barrier=waiting("ContainerCreating"), application=waiting()))
    assert info is not None
    assert info.reason == ""


def test_a_pod_without_the_barrier_is_recognized() -> None:
    info = read_pod(pod(CHIEF, injected=False))
    assert info is not None
    assert info.barrier is ContainerState.ABSENT
    assert describe_gate(Gang().applied().pod(1, CHIEF, injected=False).state) == "no gate: the Pods were not injected"


def test_a_pod_without_a_task_is_ignored() -> None:
    assert read_pod({"metadata": {"name": "stranger"}}) is None


@pytest.mark.parametrize("data", [{}, {"roster": "{half"}], ids=["empty", "half"])
def test_a_config_map_without_a_readable_roster_is_ignored(data: dict[str, str]) -> None:
    assert read_roster({"data": data}) is None


def test_the_gate_names_the_missing_tasks_and_the_reasons() -> None:
    state = Gang().applied().roster(1, 2, missing=(("worker-1", "Pending: Unschedulable"),)).state
    assert describe_gate(state) == "gate closed, missing: worker-1 (Pending: Unschedulable)"
    assert state.gang == (2, 3)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s"), (125.2, "2 min 05 s")]
)
def test_durations_are_written_with_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_the_example_asks_for_one_chief_and_two_workers() -> None:
    assert expected_tasks(framework(ImageNames())) == TASKS


def test_a_run_that_has_not_begun_is_empty() -> None:
    assert (RunState().gang, RunState().chief, RunState().finished, describe_gate(RunState())) == (
        (0, 0),
        None,
        False,
        "",
    )
