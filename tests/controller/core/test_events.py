"""What is reported beside the compatible status: conditions, Events, snapshots."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.meta import Labels
from frameworkcontroller.api.pod import Container, Pod
from frameworkcontroller.api.spec import TaskSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import Condition, FrameworkStatus, RetryPolicyStatus, TaskCompletion
from frameworkcontroller.core.events import of_framework, of_gang_waiting, of_missing_barrier, of_task
from frameworkcontroller.core.pods import snapshots
from frameworkcontroller.core.pods.template import RoleAttempt
from frameworkcontroller.core.status.conditions import MAX_MESSAGE, conditions
from tests.controller.core.values import at, ended, framework, framework_end, pod, spec, task

S = State
BEGINS, RUNS = framework(S.PREPARING), framework(S.RUNNING)
OVER, ENDED = framework(S.ATTEMPT_COMPLETED, framework_end(5)), "Attempt 0: Phrase5 (5): ended with 5"
RETRIED = framework(S.ATTEMPT_COMPLETED, framework_end(5), retries=RetryPolicyStatus(0, 0, 60))
FAILED, SUCCEEDED = (framework(S.COMPLETED, framework_end(code)) for code in (5, 0))

# --- conditions -------------------------------------------------------------------------------------------------------

CREATE, SUSPEND = {"execution_type": "Create"}, {"suspend": True}
CONDITIONS: list[tuple[FrameworkStatus, dict[str, Any], str, str, str]] = [
    (framework(), {}, "", "NotRunning", "NotSuspended"),
    (framework(), CREATE, "Suspended", "NotRunning", "ExecutionTypeCreate"),
    (framework(), SUSPEND, "Suspended", "NotRunning", "Suspended"),
    (framework(), CREATE | SUSPEND, "Suspended", "NotRunning", "ExecutionTypeCreate"),
    (BEGINS, {"complete": True}, "", "NotRunning", "NotSuspended"),
    (BEGINS, CREATE, "", "NotRunning", "NotSuspended"),
    (RUNS, {}, "Running", "TasksNotReady", "NotSuspended"),
    (RUNS, {"complete": True}, "Running Ready", "AllTasksReady", "NotSuspended"),
    (framework(S.DELETING, framework_end(-250)), SUSPEND, "", "NotRunning", "NotSuspended"),
    (OVER, SUSPEND, "", "NotRunning", "NotSuspended"),
    (RETRIED, SUSPEND, "Suspended", "NotRunning", "Suspended"),
    (framework(S.ATTEMPT_COMPLETED, framework_end(0)), {}, "", "NotRunning", "NotSuspended"),
    (SUCCEEDED, {}, "Complete Ready", "Phrase0", "NotSuspended"),
    (FAILED, {"complete": True}, "Failed", "Phrase5", "NotSuspended"),
    (framework(S.COMPLETED, framework_end(-210, "permanent")), {}, "Failed", "Phrase-210", "NotSuspended"),
]


def conditions_of(
    status: FrameworkStatus, before: tuple[Condition, ...] = (), now: float = 0, *, complete: bool = False, **more: Any
) -> dict[str, Condition]:
    found = conditions(before, status, spec(**more), 7, at(now), complete=complete)
    return {one.type: one for one in found}


@pytest.mark.parametrize(("code", "kinds"), [(0, ("Complete", "Ready")), (5, ("Complete", "Failed", "Ready"))])
def test_the_end_is_a_condition_with_its_phrase_and_the_beginning_of_diagnostics(
    code: int, kinds: tuple[str, ...]
) -> None:
    for length, sign in ((MAX_MESSAGE, ""), (MAX_MESSAGE + 1, "... (cut: 1025 characters)")):
        end = replace(framework_end(code), diagnostics="x" * length)
        found = conditions_of(framework(S.COMPLETED, end))
        said = {(found[kind].reason, found[kind].message) for kind in kinds}
        assert said == {(f"Phrase{code}", "x" * MAX_MESSAGE + sign)}


@pytest.mark.parametrize(("status", "more", "true", "ready", "suspended"), CONDITIONS)
def test_a_condition_is_true_in_its_state_only(
    status: FrameworkStatus, more: dict[str, Any], true: str, ready: str, suspended: str
) -> None:
    found = conditions_of(status, **more)
    assert list(found) == ["Complete", "Failed", "Running", "Ready", "Suspended"]
    assert [one.type for one in found.values() if one.status == "True"] == true.split()
    assert (found["Ready"].reason, found["Suspended"].reason) == (ready, suspended)
    assert all(one.reason and one.observed_generation == 7 for one in found.values())


def test_a_condition_keeps_its_time_while_its_value_stays() -> None:
    first = conditions_of(BEGINS, now=1)
    second = conditions_of(RUNS, tuple(first.values()), now=2)
    third = conditions_of(RUNS, tuple(second.values()), now=3)
    assert [one["Running"].last_transition_time for one in (first, second, third)] == [at(1), at(2), at(2)]
    assert third["Complete"].last_transition_time == at(1)


# --- Events -----------------------------------------------------------------------------------------------------------


def ends(code: int, **changes: Any) -> tuple[object, ...]:
    """The third Task ends so, and is not retried."""
    end: TaskCompletion = replace(ended(code), **changes)
    return of_task, "w", task(S.ATTEMPT_COMPLETED, end, index=3), task(S.COMPLETED, end, index=3)


def asks_for_the_barrier(*, has_it: bool, value: str = "enabled") -> Pod:
    found = pod("Pending")
    meta = replace(found.metadata, labels=Labels(barrier=value))
    containers = (Container(names.BARRIER_CONTAINER),) if has_it else ()
    return replace(found, metadata=meta, spec=replace(found.spec, init_containers=containers))


WAITS, GOES_ON = replace(framework(), suspended_since=at(1)), replace(framework(), suspended_sec=9)
SUSPENDED = framework(S.ATTEMPT_COMPLETED, framework_end(-250))
NOT_RETRIED = replace(SUSPENDED, retry_policy_status=RetryPolicyStatus(0, 0, 0))
AGAIN = (of_task, "w", task(S.ATTEMPT_COMPLETED, ended(1)), task(attempt=1))
PENDING = [f"w-{index}: Pending" for index in range(3)]
WITHOUT, WITH = asks_for_the_barrier(has_it=False), asks_for_the_barrier(has_it=True)
UNWANTED = asks_for_the_barrier(has_it=False, value="disabled")
BARRIER = f"Pod fw-worker-0 carries the label {names.BARRIER_LABEL} and has no barrier"
# What has changed, and its Event; `!` is a warning.
EVENTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "begins": ((of_framework, framework(), framework(S.CREATION_REQUESTED)), "AttemptStarted: Attempt 0 has started"),
    "runs": ((of_framework, BEGINS, RUNS), "AttemptRunning: Attempt 0: the first Task runs"),
    "runs on": ((of_framework, RUNS, RUNS), ""),
    "is retried": ((of_framework, OVER, RETRIED), f"!AttemptRetried: {ENDED}; retried in 60 s"),
    "is retried later": ((of_framework, RETRIED, RETRIED), ""),
    "has failed": ((of_framework, OVER, FAILED), f"!FrameworkFailed: {ENDED}"),
    "has succeeded": ((of_framework, OVER, SUCCEEDED), "FrameworkSucceeded: Attempt 0: Phrase0 (0): ended with 0"),
    "is suspended": ((of_framework, framework(), WAITS), "FrameworkSuspended: Attempt 0: spec.suspend is true"),
    "is suspended further": ((of_framework, WAITS, WAITS), ""),
    "goes on": ((of_framework, WAITS, GOES_ON), "FrameworkResumed: Attempt 0: it is held back no more"),
    "a suspended attempt is not retried": ((of_framework, SUSPENDED, NOT_RETRIED), ""),
    **{
        f"a Task ends for good with {code}": (ends(code), f"!TaskFailed: w-3: Phrase{code} ({code}): ended with {code}")
        for code in (1, 210, -101, -111, -200, -300, -310, -1000)
    },
    **{f"a Task ends as its user asked with {code}": (ends(code), "") for code in (0, -210, -220, -230)},
    "a Task is retried": (AGAIN, "!TaskRetried: w-0: Phrase1 (1): ended with 1; retried as attempt 1"),
    "a long reason": (ends(1, diagnostics="x" * 5000), f"!TaskFailed: w-3: Phrase1 (1): {'x' * 400}..."),
    "many Tasks are missing": (
        (of_gang_waiting, 2, 10, PENDING, 31.4),
        "!GangWaiting: 2/10 Tasks are ready after 31 s, not w-0: Pending; w-1: Pending; w-2: Pending and 5 more",
    ),
    "a Task is missing": (
        (of_gang_waiting, 9, 10, PENDING[:1], 30),
        "!GangWaiting: 9/10 Tasks are ready after 30 s, not w-0: Pending",
    ),
    "a Pod lacks the barrier": (
        (of_missing_barrier, WITHOUT),
        f"!BarrierMissing: {BARRIER}: was the injector's webhook registered when it was created?",
    ),
    "a Pod has the barrier": ((of_missing_barrier, WITH), ""),
    "a Pod is to have none": ((of_missing_barrier, UNWANTED), ""),
    "a Pod never asked for it": ((of_missing_barrier, pod("Pending")), ""),
}


@pytest.mark.parametrize(("change", "text"), EVENTS.values(), ids=EVENTS)
def test_what_has_changed_has_an_event(change: tuple[Any, ...], text: str) -> None:
    found = change[0](*change[1:])
    events = found if isinstance(found, Iterator) else [found]
    told = [f"{'!' * one.warning}{one.reason}: {one.message}" for one in events if one is not None]
    assert told == [text] * bool(text)


# --- snapshots --------------------------------------------------------------------------------------------------------

META = (
    '{"name": "fw", "namespace": "ns", "uid": "framework-uid", "resourceVersion": "12", "generation": 3, '
    '"labels": {"mine": "x"}, "managedFields": [{"manager": "kubectl"}]}'
)
SPEC = '{"description": "kept", "taskRoles": [], "fromTheFuture": 1}'
SEEN = FRAMEWORK_DECODER.decode(f'{{"metadata": {META}, "spec": {SPEC}}}')
NAMES = RoleAttempt("ns", "fw", "framework-uid", 2, "config-map-uid", "worker", "role-uid")


def test_a_snapshot_of_a_framework_is_all_of_it_with_the_persisted_status() -> None:
    document = json.loads(snapshots.of_framework(snapshots.HistoryCause.FRAMEWORK_RETRY, SEEN, OVER).encode())
    assert (document["apiVersion"], document["kind"]) == (names.API_VERSION, "Framework")
    assert document["metadata"]["labels"] == {"mine": "x"}
    assert document["spec"] == json.loads(SPEC)
    assert document["status"]["state"] == "AttemptCompleted"


@pytest.mark.parametrize("going", [False, True], ids=["stays", "goes"])
def test_a_snapshot_of_a_task_is_an_object_of_its_own(going: bool) -> None:
    one = task(S.COMPLETED, ended(1), index=4, since=9, deletion_pending=going)
    taken = snapshots.of_task(snapshots.HistoryCause.TASK_DELETION, SEEN, NAMES, TaskSpec(), one)
    document = json.loads(taken.encode())
    annotations = document["metadata"].pop("annotations")
    assert set(annotations) == {*names.POD_ANNOTATIONS} - {names.POD_NAME, names.TASK_UID, names.TASK_ATTEMPT_ID}
    assert document["kind"] == "Task"
    about = {"name": "fw-worker-4", "namespace": "ns", "uid": "task-uid", "resourceVersion": "12", "generation": 3}
    times = {"creationTimestamp": "2026-01-01T00:00:00Z"} | (
        {"deletionTimestamp": "2026-01-01T00:00:09Z"} if going else {}
    )
    labels = {"FC_FRAMEWORK_NAME": "fw", "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "4"}
    assert document["metadata"] == about | times | {"labels": labels}
    assert document["status"]["attemptStatus"]["completionStatus"]["code"] == 1


def test_a_line_is_found_as_tools_of_microsofts_controller_look_for_it() -> None:
    taken = snapshots.of_framework(snapshots.HistoryCause.FRAMEWORK_DELETION, SEEN, framework())
    text = snapshots.Lines().of("ns/fw", taken).decode()
    found = re.search(r": ObjectSnapshot: (.+)", text)
    assert json.loads(found.group(1))["kind"] == "Framework"
    assert ": OnFrameworkDeletion: ObjectSnapshot: " in text
    assert text.count("\n") == 1
