"""What is reported beside the compatible status: conditions, Events, snapshots."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.meta import Labels
from frameworkcontroller.api.pod import Container, Pod
from frameworkcontroller.api.spec import TaskSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import Condition, FrameworkStatus, RetryPolicyStatus
from frameworkcontroller.core import events
from frameworkcontroller.core.pods import snapshots
from frameworkcontroller.core.pods.template import RoleAttempt
from frameworkcontroller.core.status.conditions import conditions
from tests.controller.core.values import at, ended, framework, framework_end, pod, spec, task

S = State
OVER, ENDED = framework(S.ATTEMPT_COMPLETED, framework_end(5)), "Attempt 0: Phrase5 (5): ended with 5"
RETRIED = framework(S.ATTEMPT_COMPLETED, framework_end(5), retries=RetryPolicyStatus(0, 0, 60))


def conditions_of(
    status: FrameworkStatus, before: tuple[Condition, ...] = (), execution: str = "Start", now: float = 0, **known: bool
) -> Any:
    return conditions(before, status, spec(execution_type=execution), 7, at(now), **known)


@pytest.mark.parametrize(
    ("status", "execution", "true"),
    [
        (framework(), "Start", ""),
        (framework(), "Create", "Suspended"),
        (framework(S.PREPARING), "Start", ""),
        (framework(S.PREPARING), "Create", ""),
        (framework(S.RUNNING), "Start", "Running"),
        (framework(S.DELETING, framework_end(1)), "Start", ""),
        (framework(S.ATTEMPT_COMPLETED, framework_end(0)), "Start", ""),
        (framework(S.COMPLETED, framework_end(0)), "Start", "Complete Ready"),
        (framework(S.COMPLETED, framework_end(1)), "Start", "Failed"),
        (framework(S.COMPLETED, framework_end(-210, "permanent")), "Stop", "Failed"),
    ],
    ids=str,
)
def test_a_condition_is_true_in_its_state_only(status: FrameworkStatus, execution: str, true: str) -> None:
    found = conditions_of(status, execution=execution)
    assert [one.type for one in found] == ["Complete", "Failed", "Running", "Ready", "Suspended"]
    assert {one.type for one in found if one.status == "True"} == set(true.split())
    assert all(one.reason and one.observed_generation == 7 for one in found)


def test_a_condition_keeps_its_time_while_its_value_stays() -> None:
    first = conditions_of(framework(S.PREPARING), now=1)
    second = conditions_of(framework(S.RUNNING), first, now=2)
    third = conditions_of(framework(S.RUNNING), second, now=3)
    times = [{one.type: one.last_transition_time for one in some}["Running"] for some in (first, second, third)]
    assert times == [at(1), at(2), at(2)]
    assert {one.type: one.last_transition_time for one in third}["Complete"] == at(1)


@pytest.mark.parametrize(
    ("status", "execution", "suspended"),
    [
        (framework(), "Start", ("True", "Suspended")),
        (framework(), "Create", ("True", "ExecutionTypeCreate")),
        (framework(S.DELETING, framework_end(-250)), "Start", ("False", "NotSuspended")),
        (OVER, "Start", ("False", "NotSuspended")),
        (RETRIED, "Start", ("True", "Suspended")),
    ],
    ids=str,
)
def test_suspended_is_what_waits_for_its_user(
    status: FrameworkStatus, execution: str, suspended: tuple[str, str]
) -> None:
    found = conditions((), status, spec(execution_type=execution, suspend=True), 7, at(0))
    assert next((one.status, one.reason) for one in found if one.type == "Suspended") == suspended


@pytest.mark.parametrize(
    ("status", "complete", "ready"),
    [
        (framework(S.PREPARING), True, ("False", "NotRunning")),
        (framework(S.RUNNING), False, ("False", "TasksNotReady")),
        (framework(S.RUNNING), True, ("True", "AllTasksReady")),
        (framework(S.COMPLETED, framework_end(1)), True, ("False", "Phrase1")),
    ],
    ids=str,
)
def test_ready_is_a_gang_that_runs_and_is_complete(
    status: FrameworkStatus, complete: bool, ready: tuple[str, str]
) -> None:
    found = next(one for one in conditions_of(status, complete=complete) if one.type == "Ready")
    assert (found.status, found.reason) == ready


def test_the_end_is_a_condition_with_its_phrase_and_diagnostics() -> None:
    complete, failed, *_ = conditions_of(framework(S.COMPLETED, framework_end(5)))
    assert (failed.reason, failed.message) == ("Phrase5", "ended with 5")
    assert complete.status == "False"


# --- Events -----------------------------------------------------------------------------------------------------------


FAILED, SUCCEEDED = (framework(S.COMPLETED, framework_end(code)) for code in (5, 0))
PAUSED, RESUMED = replace(framework(), suspended_since=at(1)), replace(framework(), suspended_sec=9)
LIFE = [
    (framework(), framework(S.CREATION_REQUESTED), ("AttemptStarted", "Attempt 0 has started", False)),
    (framework(S.PREPARING), framework(S.RUNNING), ("AttemptRunning", "Attempt 0: the first Task runs", False)),
    (OVER, RETRIED, ("AttemptRetried", f"{ENDED}; retried in 60 s", True)),
    (OVER, FAILED, ("FrameworkFailed", ENDED, True)),
    (framework(), PAUSED, ("FrameworkSuspended", "Attempt 0: spec.suspend is true", False)),
    (PAUSED, RESUMED, ("FrameworkResumed", "Attempt 0: spec.suspend is not true any more", False)),
    (OVER, SUCCEEDED, ("FrameworkSucceeded", "Attempt 0: Phrase0 (0): ended with 0", False)),
]


@pytest.mark.parametrize(("before", "after", "event"), LIFE, ids=[event[0] for *_, event in LIFE])
def test_the_life_of_a_framework_has_events(
    before: FrameworkStatus, after: FrameworkStatus, event: tuple[str, str, bool]
) -> None:
    assert [(one.reason, one.message, one.warning) for one in events.of_framework(before, after)] == [event]
    assert list(events.of_framework(after, after)) == []


def test_a_suspended_attempt_is_not_said_to_be_retried() -> None:
    over = framework(S.ATTEMPT_COMPLETED, framework_end(-250))
    assert list(events.of_framework(over, replace(over, retry_policy_status=RetryPolicyStatus(0, 0, 0)))) == []


@pytest.mark.parametrize("code", [1, 210, -101, -111, -200, -300, -310, -1000])
def test_a_task_that_failed_for_good_has_an_event(code: int) -> None:
    over = task(S.ATTEMPT_COMPLETED, ended(code), index=3)
    (one,) = events.of_task("w", over, task(S.COMPLETED, ended(code), index=3))
    text = f"w-3: Phrase{code} ({code}): ended with {code}"
    assert (one.reason, one.message, one.warning) == ("TaskFailed", text, True)


@pytest.mark.parametrize("code", [0, -210, -220, -230])
def test_a_task_that_ended_as_its_user_asked_has_no_event(code: int) -> None:
    over = task(S.ATTEMPT_COMPLETED, ended(code))
    assert list(events.of_task("w", over, task(S.COMPLETED, ended(code)))) == []


def test_a_task_that_is_retried_has_an_event() -> None:
    (one,) = events.of_task("w", task(S.ATTEMPT_COMPLETED, ended(1)), task(attempt=1))
    assert (one.reason, one.message) == ("TaskRetried", "w-0: Phrase1 (1): ended with 1; retried as attempt 1")


def test_a_long_reason_is_cut() -> None:
    long = replace(ended(1), diagnostics="x" * 5000)
    (one,) = events.of_task("w", task(S.ATTEMPT_COMPLETED, long), task(S.COMPLETED, long))
    assert len(one.message) < 500
    assert one.message.endswith("x...")


def test_missing_tasks_are_named_up_to_three_and_counted_beyond() -> None:
    missing = [f"w-{index}: Pending" for index in range(3)]
    assert events.of_gang_waiting(2, 10, missing, 31.4).message == (
        "2/10 Tasks are ready after 31 s, not w-0: Pending; w-1: Pending; w-2: Pending and 5 more"
    )
    assert events.of_gang_waiting(9, 10, missing[:1], 30).message == "9/10 Tasks are ready after 30 s, not w-0: Pending"


def asks_for_the_barrier(*, has_it: bool, value: str = "enabled") -> Pod:
    found = pod("Pending")
    containers = (Container(names.BARRIER_CONTAINER),) if has_it else ()
    return replace(
        found,
        metadata=replace(found.metadata, labels=Labels(barrier=value)),
        spec=replace(found.spec, init_containers=containers),
    )


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (asks_for_the_barrier(has_it=False), True),
        (asks_for_the_barrier(has_it=True), False),
        (asks_for_the_barrier(has_it=False, value="disabled"), False),
        (pod("Pending"), False),
    ],
    ids=["without it", "with it", "not wanted", "never asked"],
)
def test_a_pod_without_the_barrier_that_it_asked_for_has_an_event(seen: Pod, expected: bool) -> None:
    found = events.of_missing_barrier(seen)
    assert (found is not None) == expected


# --- snapshots --------------------------------------------------------------------------------------------------------

SEEN = FRAMEWORK_DECODER.decode(
    json.dumps(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {
                "name": "fw",
                "namespace": "ns",
                "uid": "framework-uid",
                "resourceVersion": "12",
                "generation": 3,
                "labels": {"mine": "x"},
                "managedFields": [{"manager": "kubectl"}],
            },
            "spec": {"description": "kept", "taskRoles": [], "fromTheFuture": 1},
        }
    ).encode()
)
NAMES = RoleAttempt("ns", "fw", "framework-uid", 2, "config-map-uid", "worker", "role-uid")


def test_a_snapshot_of_a_framework_is_all_of_it_with_the_persisted_status() -> None:
    taken = snapshots.of_framework(
        snapshots.HistoryCause.FRAMEWORK_RETRY, SEEN, framework(S.ATTEMPT_COMPLETED, framework_end(1))
    )
    document = json.loads(taken.encode())
    assert (document["apiVersion"], document["kind"]) == (names.API_VERSION, "Framework")
    assert document["metadata"]["labels"] == {"mine": "x"}
    assert document["spec"] == {"description": "kept", "taskRoles": [], "fromTheFuture": 1}
    assert document["status"]["state"] == "AttemptCompleted"


@pytest.mark.parametrize("going", [False, True], ids=["stays", "goes"])
def test_a_snapshot_of_a_task_is_an_object_of_its_own(going: bool) -> None:
    one = task(S.COMPLETED, ended(1), index=4, since=9, deletion_pending=going)
    taken = snapshots.of_task(snapshots.HistoryCause.TASK_DELETION, SEEN, NAMES, TaskSpec(), one)
    document = json.loads(taken.encode())
    meta = document["metadata"]
    assert document["kind"] == "Task"
    assert (meta["name"], meta["namespace"], meta["uid"]) == ("fw-worker-4", "ns", "task-uid")
    assert (meta["resourceVersion"], meta["generation"]) == ("12", 3)
    assert meta["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert ("deletionTimestamp" in meta) == going
    assert set(meta["annotations"]) == set(names.POD_ANNOTATIONS) - {
        names.POD_NAME,
        names.TASK_UID,
        names.TASK_ATTEMPT_ID,
    }
    assert meta["labels"] == {"FC_FRAMEWORK_NAME": "fw", "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "4"}
    assert document["status"]["attemptStatus"]["completionStatus"]["code"] == 1


def test_a_line_is_found_as_tools_of_microsofts_controller_look_for_it() -> None:
    taken = snapshots.of_framework(snapshots.HistoryCause.FRAMEWORK_DELETION, SEEN, framework())
    text = snapshots.Lines().of("ns/fw", taken).decode()
    found = re.search(r": ObjectSnapshot: (.+)", text)
    assert json.loads(found.group(1))["kind"] == "Framework"
    assert ": OnFrameworkDeletion: ObjectSnapshot: " in text
    assert text.count("\n") == 1
