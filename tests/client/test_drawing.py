"""Frameworks as people see them: tables, the tree of `describe`, lines of changes, the live picture, notebooks."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from frameworkclient.cli.changes import changes
from frameworkclient.cli.commands.live import speaker
from frameworkclient.cli.describe import description
from frameworkclient.cli.picture import picture
from frameworkclient.cli.tables import events_table, frameworks_table
from frameworkclient.cli.terminal import Colours
from frameworkclient.cluster.moments import Moment
from frameworkclient.views.html import framework_html, list_html
from frameworkclient.views.pods import Stage
from tests.client.documents import BEGIN, NOW, SUCCEEDED, completion, container, event, framework, pod, role, task

if TYPE_CHECKING:
    from frameworkclient.views.framework import FrameworkView

PLAIN = Colours()
OOM = completion(
    137,
    "ContainerUnrecognizedFailed",
    pod={"containers": [{"name": "main", "code": 137, "reason": "OOMKilled", "message": "step 17"}]},
)


def gang(**more: Any) -> FrameworkView:
    """A chief that runs; a worker that is retried, one that cannot be scheduled."""
    return framework(
        role("chief", 1),
        role("worker", 2, retry={"fancyRetryPolicy": True, "maxRetryCount": 2}),
        tasks={
            "chief": [task(0, role="chief", node="node-1", ip="10.0.0.1")],
            "worker": [task(0, "AttemptDeleting", end=OOM), task(1, "AttemptPreparing")],
        },
        ready="1/3",
        **more,
    )


NO_ROOM = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_ROOM}
PODS = {
    "chief-0": pod("chief-0", node="node-1", podIP="10.0.0.1", statuses=[container()]),
    "worker-1": pod("worker-1", conditions=[UNSCHEDULABLE]),
}


def test_a_table_of_frameworks() -> None:
    done = framework(role("worker", 1), state="Completed", end=SUCCEEDED, ready="0/1")
    assert frameworks_table([gang(), done], NOW, PLAIN) == (
        "NAME       STATE            READY   ATTEMPTS   RESULT      AGE     WAITS FOR\n"
        "training   AttemptRunning   1/3     1                      5m12s   2 Tasks: worker-0, worker-1\n"
        "training   Completed        0/1     1          Succeeded   5m12s\n"
    )


def test_a_wide_table_of_all_namespaces() -> None:
    view = gang(spec={"description": "Trains"})
    assert frameworks_table([view], NOW, PLAIN, wide=True, with_namespace=True) == (
        "NAMESPACE   NAME       STATE            READY   ATTEMPTS   RESULT   AGE     WAITS FOR                     "
        "ROLES              DESCRIPTION\n"
        "demo        training   AttemptRunning   1/3     1                   5m12s   2 Tasks: worker-0, worker-1   "
        "chief:1 worker:2   Trains\n"
    )


def test_text_of_others_does_not_reach_the_terminal_as_it_is() -> None:
    view = framework(role("worker", 1), spec={"description": "red \x1b[31m\nand \u202e more"})
    table = frameworks_table([view], NOW, Colours(enabled=True), wide=True)
    assert "red and more" in table
    assert "\x1b[31m" not in table


def test_a_description_says_what_failed_and_what_follows() -> None:
    seen = [
        event("AttemptStarted", "ConfigMap training-attempt created"),
        event("Failed", "why", "Pod/training-worker-0"),
    ]
    assert description(gang(), PODS, seen, NOW, PLAIN) == (
        """\
Framework   demo/training
State       AttemptRunning, 1/3 ready
Waits for   2 Tasks: worker-0, worker-1
Age         5m12s, first ran 5m12s ago
Retries     no retries; 0 so far, 0 of them count

Roles
├─ chief: 1 Task
│  └─ chief-0  AttemptRunning  running  node-1  10.0.0.1
└─ worker: 2 Tasks, each: transient failures always, 2 retries
   ├─ worker-0  AttemptDeleting
   │    ContainerUnrecognizedFailed (137): OOMKilled: step 17
   │    is retried: attempt 2
   └─ worker-1  AttemptPreparing  not scheduled
        Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.

Events
LAST SEEN   TYPE     REASON           OBJECT                  MESSAGE
5m12s       Normal   AttemptStarted   Framework training      ConfigMap training-attempt created
5m12s       Normal   Failed           Pod training-worker-0   why
"""
    )


def test_a_description_says_how_often_a_gang_has_restarted_and_which_pods_stay() -> None:
    last = {"epoch": 2, "time": BEGIN, "reason": "Exited", "task": "worker-1", "code": 137, "message": "OOMKilled"}
    view = framework(role("worker", 1), spec={"retainPods": "OnFailure"}, restarts=[last])
    text = description(view, {}, [], NOW, PLAIN)
    assert "\nRestarted   in its Pods, 2 times; the last time, worker-1 exited with 137: OOMKilled\n" in text
    assert "\nPods stay   those that have failed\n" in text


def test_a_description_of_the_end_names_the_task_that_decided() -> None:
    end = {
        **OOM,
        "diagnostics": "Pod failed: because",
        "trigger": {"message": "m", "taskRoleName": "worker", "taskIndex": 0},
    }
    view = framework(
        role("worker", 1), state="Completed", end=end, tasks={"worker": [task(0, "Completed", end=OOM)]}, ready="0/1"
    )
    assert description(view, {}, [], NOW, PLAIN) == (
        """\
Framework   demo/training
State       Completed
Result      ContainerUnrecognizedFailed (137), by worker-0
            Pod failed: because
Age         5m12s, first ran 5m12s ago
Retries     no retries; 0 so far, 0 of them count

Roles
└─ worker: 1 Task
   └─ worker-0  Completed  ContainerUnrecognizedFailed
        ContainerUnrecognizedFailed (137): OOMKilled: step 17
"""
    )


def test_changes_are_told_once() -> None:
    before = Moment(gang(), PODS)
    assert changes(None, before, NOW) == [
        "training: AttemptRunning, 1/3 ready",
        "chief-0: running, on node-1, 10.0.0.1",
        "worker-1: not scheduled (Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.)",
    ]
    after = Moment(before.view, {**PODS, "worker-1": pod("worker-1", node="node-2")})
    assert changes(before, after, NOW) == ["worker-1: starting, on node-2"]
    assert changes(after, after, NOW) == []


@pytest.mark.parametrize(
    ("program", "stage"),
    [("terminated", Stage.RUNNING), ("waiting", Stage.BARRIER_FAILED)],
    ids=["after-its-program", "before-its-program"],
)
def test_the_end_of_a_barrier_is_a_failure_only_before_its_program_has_started(program: str, stage: Stage) -> None:
    barrier = container("frameworkbarrier", "terminated", exitCode=143)
    assert pod(init=[barrier], statuses=[container("main", program)], phase="Running").stage is stage


@pytest.mark.parametrize(
    ("roles", "expected"),
    [(["ps", "worker"], "ps-0"), (["worker", "chief"], "chief-0"), (["worker", "driver", "head"], "head-0"), ([], "")],
    ids=["first", "leading", "two-leading", "no-tasks"],
)
def test_the_log_that_is_shown_is_that_of_who_leads(roles: list[str], expected: str) -> None:
    tasks = {name: [task(0, role=name)] for name in roles}
    assert speaker(framework(*(role(name, 1) for name in roles), tasks=tasks)) == expected


def test_the_picture_shows_tasks_and_the_end_of_a_log() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=170, color_system=None)
    console.print(picture(Moment(gang(), PODS), [f"step {number}" for number in range(50)], "log of chief-0", NOW, 24))
    shown = stream.getvalue()
    assert "demo/training 5m12s" in shown
    assert "waits for 2 Tasks: worker-0, worker-1" in shown
    assert "chief-0" in shown
    assert "OOMKilled: step 17; is retried" in shown
    assert "step 49" in shown
    assert "step 20" not in shown
    assert len(shown.splitlines()) <= 24


def test_a_picture_of_many_tasks_shows_those_with_problems() -> None:
    tasks = [task(number, node="n", ip="10.0.0.1") for number in range(100)]
    tasks[77] = task(77, "AttemptDeleting", end=OOM)
    view = framework(role("worker", 100), tasks={"worker": tasks}, ready="99/100")
    pods = {f"worker-{number}": pod(f"worker-{number}", node="n", statuses=[container()]) for number in range(100)}
    stream = io.StringIO()
    Console(file=stream, width=100, color_system=None).print(picture(Moment(view, pods), [], "", NOW, 24))
    assert "worker-77" in stream.getvalue()
    assert "and 87 more" in stream.getvalue()


def test_events_that_were_repeated_are_counted() -> None:
    table = events_table([event("BackOff", "Back-off", "Pod/training-worker-0", type="Warning", count=7)], NOW, PLAIN)
    assert table.splitlines()[1] == "5m12s (x7)   Warning   BackOff   Pod training-worker-0   Back-off"


def test_a_notebook_shows_tables_and_no_markup_of_others() -> None:
    view = framework(role("worker", 1), tasks={"worker": [task(0, "Completed", end=completion(1, "<b>bold</b>"))]})
    html = framework_html(view, NOW)
    assert "<td>worker-0</td>" in html
    assert "&lt;b&gt;bold&lt;/b&gt; (1)" in html
    assert "<b>" not in html
    assert "<td>training</td>" in list_html([view], NOW)
