"""What the demo knows after each event."""

from __future__ import annotations

import pytest

from demo import events
from demo.facts import Stage, expected_tasks, pod_fact, roster_fact
from demo.manifests import Naming, framework
from demo.model import LOG_LINES_KEPT, Demo, Progress, advance
from demo.words import clean, duration, gate, outcome, task_state
from examples.gang import APPLIED_AT, CHIEF, TASKS, WORKER1, Gang, ended, pod, running, waiting, whole_life


def since_apply(at: float | None) -> float | None:
    return None if at is None else round(at - APPLIED_AT, 3)


def test_milestones_are_those_of_the_last_task() -> None:
    demo = whole_life().demo
    reached = [since_apply(at) for at in (demo.created, demo.addressed, demo.opened, demo.started, demo.completed)]
    assert reached == [1.0, 3.0, 4.0, 9.0, 20.0]
    assert demo.succeeded


def test_no_milestone_is_reached_before_the_last_task_is_there() -> None:
    gang = Gang().applied().pod(1, CHIEF, ip="10.0.0.1").pod(1, WORKER1, ip="10.0.0.2")
    assert (gang.demo.created, gang.demo.addressed) == (None, None)
    assert gang.demo.gang == (2, 3)


def test_milestones_never_move_once_they_are_reached() -> None:
    reached: dict[str, float] = {}
    for demo in whole_life().states:
        for name in ("created", "addressed", "started", "completed"):
            at = getattr(demo, name)
            assert reached.setdefault(name, at) in (None, at) if at is not None else name not in reached
            if at is not None:
                reached[name] = at
    assert set(reached) == {"created", "addressed", "started", "completed"}


def test_the_gate_opened_when_the_barrier_said_so_not_when_its_status_came() -> None:
    gang = Gang().applied()
    for key in TASKS:
        gang.pod(1, key, ip="10.0.0.1", barrier=running())
        gang.says(2, key, "open", barrier=True)
        gang.pod(3.2, key, ip="10.0.0.1", barrier=ended())
    assert since_apply(gang.demo.opened) == 2.0


def test_without_the_barriers_log_its_status_tells_when_the_gate_opened() -> None:
    gang = Gang().applied()
    for key in TASKS:
        gang.pod(3.2, key, ip="10.0.0.1", barrier=ended())
    assert since_apply(gang.demo.opened) == 3.2


def test_a_barrier_that_failed_opens_nothing() -> None:
    gang = Gang().applied()
    for key in TASKS:
        gang.pod(3, key, ip="10.0.0.1", barrier=ended(201, "Error"))
    assert gang.demo.opened is None
    assert task_state(gang.demo.tasks[CHIEF]) == "barrier failed"


def test_a_new_attempt_forgets_what_the_old_gang_reached() -> None:
    gang = Gang().applied()
    for key in TASKS:
        gang.pod(1, key, ip="10.0.0.1", barrier=ended())
    gang.framework(2, "AttemptRunning").says(3, CHIEF, "training started")
    gang.framework(4, "AttemptCreationPending", attempt=1)
    demo = gang.demo
    assert (demo.created, demo.addressed, demo.opened, demo.started) == (None, None, None, None)
    assert demo.retries == 1


def test_pods_of_a_new_attempt_that_are_seen_before_its_status_are_kept() -> None:
    gang = Gang().applied().framework(1, "AttemptRunning")
    gang.pod(1, CHIEF, uid="old").pod(5, CHIEF, uid="new", attempt=1)
    gang.framework(5.1, "AttemptPreparing", attempt=1)
    kept = gang.demo.tasks[CHIEF].pod
    assert kept is not None
    assert kept.uid == "new"


def test_the_end_of_an_old_pod_does_not_touch_the_one_that_replaced_it() -> None:
    gang = Gang().applied().pod(1, CHIEF, uid="old").pod(2, CHIEF, uid="new").gone(3, CHIEF, uid="old")
    task = gang.demo.tasks[CHIEF]
    assert task.pod is not None
    assert (task.pod.uid, task.gone, since_apply(task.created)) == ("new", False, 2.0)


def test_a_log_line_of_an_old_pod_is_not_taken_for_the_new_one() -> None:
    gang = Gang().applied().pod(1, CHIEF, uid="new").says(2, CHIEF, "training started", uid="old")
    assert gang.demo.started is None


def test_only_the_chief_tells_that_training_started() -> None:
    gang = Gang().applied().says(2, WORKER1, "training started")
    assert gang.demo.started is None
    assert since_apply(gang.says(3, CHIEF, "training started").demo.started) == 3.0


def test_a_log_keeps_its_end_only() -> None:
    gang = Gang().applied()
    for number in range(LOG_LINES_KEPT + 5):
        gang.says(1, CHIEF, f"line {number}")
    assert gang.demo.tasks[CHIEF].log[0] == "line 5"


def test_tasks_that_nobody_expects_change_nothing() -> None:
    gang = Gang().applied()
    before = gang.demo
    stranger = pod(CHIEF)
    stranger["metadata"]["labels"]["FC_TASKROLE_NAME"] = "evaluator"
    fact = pod_fact(stranger)
    assert fact is not None
    assert advance(before, events.PodSeen(APPLIED_AT, fact)) == before


def test_a_failed_framework_is_finished_but_has_not_succeeded() -> None:
    demo = Gang().applied().framework(3, "Completed", code=210).demo
    assert (demo.finished, demo.succeeded) == (True, False)
    assert outcome(demo) == "Completed, Failed (210)"


def test_a_framework_that_completes_its_attempt_is_not_finished_yet() -> None:
    demo = Gang().applied().framework(3, "AttemptCompleted", code=0).demo
    assert (demo.finished, demo.succeeded, demo.completed) == (False, False, None)


def test_parts_belong_to_the_step_that_is_under_way() -> None:
    gang = Gang().post(
        events.Planned(0, ("cluster", "images")),
        events.StepBegan(0, "cluster"),
        events.WorkBegan(1, "build etcd"),
        events.WorkEnded(5, "build etcd"),
        events.StepEnded(6, "cluster"),
        events.StepBegan(6, "images"),
        events.WorkBegan(6, "build image barrier"),
    )
    assert [(work.name, work.step) for work in gang.demo.works] == [
        ("build etcd", "cluster"),
        ("build image barrier", "images"),
    ]
    assert gang.demo.works[0].seconds(100) == 4
    assert gang.demo.works[1].seconds(8) == 2


def test_a_step_that_failed_keeps_its_time() -> None:
    gang = Gang().post(
        events.Planned(0, ("cluster",)), events.StepBegan(0, "cluster"), events.StepEnded(7, "cluster", ok=False)
    )
    (step,) = gang.demo.steps
    assert (step.progress, step.seconds(100)) == (Progress.FAILED, 7)


@pytest.mark.parametrize(
    ("fields", "words"),
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
def test_a_tasks_words_follow_its_pods_containers(fields: dict[str, object], words: str) -> None:
    assert task_state(Gang().applied().pod(1, CHIEF, **fields).demo.tasks[CHIEF]) == words


def test_the_reason_of_a_pod_that_cannot_be_scheduled_is_the_schedulers() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    fact = pod_fact(pod(CHIEF, conditions=[condition]))
    assert fact is not None
    assert fact.reason == "Unschedulable: 0/1 nodes"


def test_the_reason_of_a_pod_whose_image_is_missing_names_the_container() -> None:
    fact = pod_fact(pod(CHIEF, application=waiting("ErrImageNeverPull", "no such image")))
    assert fact is not None
    assert fact.reason == "tensorflow: ErrImageNeverPull: no such image"


def test_an_ordinary_start_has_no_reason() -> None:
    fact = pod_fact(pod(CHIEF, barrier=waiting("ContainerCreating"), application=waiting()))
    assert fact is not None
    assert fact.reason == ""


def test_a_pod_without_the_barrier_is_seen_as_such() -> None:
    fact = pod_fact(pod(CHIEF, injected=False))
    assert fact is not None
    assert fact.barrier is Stage.ABSENT
    assert gate(Gang().applied().pod(1, CHIEF, injected=False).demo) == "no gate: the Pods were not injected"


def test_a_pod_of_nobodys_task_is_no_fact() -> None:
    assert pod_fact({"metadata": {"name": "stranger"}}) is None


@pytest.mark.parametrize("data", [{}, {"roster": "{half"}], ids=["empty", "half"])
def test_a_config_map_without_a_readable_roster_is_no_fact(data: dict[str, str]) -> None:
    assert roster_fact({"data": data}) is None


def test_the_gate_tells_who_is_missing_and_why() -> None:
    demo = Gang().applied().roster(1, 2, missing=(("worker-1", "Pending: Unschedulable"),)).demo
    assert gate(demo) == "gate closed, missing: worker-1 (Pending: Unschedulable)"
    assert demo.gang == (2, 3)


def test_foreign_text_cannot_steer_the_terminal() -> None:
    assert clean("\x1b[2J\x1b]0;title\x07a\tb\rc\x9b31m\u202ed\ne") == "a    bcd e"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s"), (125.2, "2 min 05 s")]
)
def test_durations_read_like_a_clock(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_example_asks_for_one_chief_and_two_workers() -> None:
    assert expected_tasks(framework(Naming())) == TASKS


def test_an_empty_demo_has_nothing() -> None:
    assert (Demo().gang, Demo().chief, Demo().finished, gate(Demo())) == ((0, 0), None, False, "")
