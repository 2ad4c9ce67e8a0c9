"""One Task: every row of its state machine, as (what was, what is seen) -> (what becomes, what is to be done)."""

import dataclasses
import itertools
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.pod import Pod, PodSpec
from frameworkcontroller.api.states import ASSOCIATED, COMPLETING, NEXT, State
from frameworkcontroller.api.states import ENDED as OVER
from frameworkcontroller.api.status import RetryPolicyStatus, TaskAttemptStatus, TaskStatus
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.machines.attempt import move
from frameworkcontroller.core.machines.task import Action, TaskFacts, TaskStep, conclude, new_task, record_pod, step
from frameworkcontroller.core.policies import classification
from frameworkcontroller.core.policies.classification import CONTAINER_CONTRACT
from frameworkcontroller.core.policies.readiness import obstacle_of
from tests.controller.core.values import (
    POD_UID,
    Row,
    at,
    ended,
    known,
    pod,
    retry_policy,
    row,
    shown,
    task,
    task_facts,
    terminated,
)

TaskRow = Row[TaskStatus, Pod, Action]

A, S = Action, State
FOREIGN = pod("Running", uid="foreign-uid", foreign=True)
FAILED_POD = pod("Failed", containerStatuses=[terminated("main", 7, finished=5)])
DELETING_POD = pod("Running", deleted=900)
SUCCEEDED_POD = pod("Succeeded", containerStatuses=[terminated("main", 0)])
FAILED_EARLY = pod(
    "Failed",
    initContainerStatuses=[terminated("data", 1)],
    containerStatuses=[{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}],
)
RUNNING_SIDECAR = {"name": "log", "state": {"running": {}}}
ON_FAILURE: dict[str, Any] = {"retain_pods": "OnFailure"}
ALWAYS: dict[str, Any] = {"retain_pods": "Always"}
GONE: dict[str, Any] = {"gone": {POD_UID}}
GOING: dict[str, Any] = {"deletion_pending": True}
ENDING: dict[str, Any] = {"attempt_ending": True}
RETRIED: dict[str, Any] = {"retry_policy": retry_policy(1)}
IN_TIME: dict[str, Any] = {"wake_at": at(900 + 101), "graceful_timeout_sec": 101}
TOO_LATE: dict[str, Any] = {"graceful_timeout_sec": 100}
UNSEEN: dict[str, Any] = {"wake_at": at(990 + 300)}


def orphan(**more: Any) -> Pod:
    return pod("Running", uid="orphan-uid", **more)


def requested(**more: Any) -> TaskStatus:
    return task(S.CREATION_REQUESTED, since=990, **more)


def ending(state: State, code: int = 0, **more: Any) -> TaskStatus:
    return task(state, ended(code), **more)


ORPHAN = orphan()
ENDED = ending(S.DELETION_PENDING, 7)


def next_step(row: TaskRow, *, persisted: bool = True) -> TaskStep:
    return step(row.was, row.seen, task_facts(**row.facts), persisted=persisted)


ROWS: dict[str, TaskRow] = {
    # retainPods
    "failed, and stays": row(ENDED, FAILED_POD, A.RETAIN, **ON_FAILURE),
    "succeeded, and does not stay": row(ending(S.DELETION_PENDING), SUCCEEDED_POD, A.DELETE, **ON_FAILURE),
    "succeeded, and stays": row(ending(S.DELETION_PENDING), SUCCEEDED_POD, A.RETAIN, **ALWAYS),
    "failed, and is retried": row(ENDED, FAILED_POD, A.DELETE, **ON_FAILURE, **RETRIED),
    "failed, and retried if the attempt went on": row(ENDED, FAILED_POD, A.RETAIN, **ON_FAILURE, **RETRIED, **ENDING),
    "said to have failed, but its kubelet has not said so": row(ENDED, pod("Failed"), A.DELETE, **ALWAYS),
    "failed, but a sidecar runs": row(
        ENDED,
        pod("Failed", containerStatuses=[terminated("main", 7)], initContainerStatuses=[RUNNING_SIDECAR]),
        A.DELETE,
        **ALWAYS,
    ),
    "failed in an init container, and is tried again": row(ENDED, FAILED_EARLY, A.DELETE, **ON_FAILURE),
    "failed in an init container for good: its containers never run": row(
        ENDED, replace(FAILED_EARLY, spec=PodSpec(restart_policy="Never")), A.RETAIN, **ON_FAILURE
    ),
    "runs on after the attempt": row(ending(S.DELETION_PENDING, -220), pod("Running"), A.DELETE, **ALWAYS, **ENDING),
    "cannot stay": row(ENDED, FAILED_POD, A.DELETE, **ALWAYS, not_retained={POD_UID}),
    "not seen, and may have stayed: look": row(ENDED, None, A.FIND, **ALWAYS),
    "not seen, and has stayed: over": row(ENDED, None, S.ATTEMPT_COMPLETED, **ALWAYS, **GONE),
    # AttemptCreationPending; an orphan is a Pod of ours that no status names
    "pending, nothing there: create": row(task(), None, A.CREATE),
    "pending, the attempt is ending: wait": row(task(), None, **ENDING),
    "pending, completed with the attempt: over": row(ending(S.CREATION_PENDING, -220), None, S.ATTEMPT_COMPLETED),
    "pending, scaled down: over": row(task(**GOING), None, S.ATTEMPT_COMPLETED, code=-230),
    "pending, an orphan: delete it, create later": row(task(), ORPHAN, A.DELETE_ORPHAN),
    "pending, an orphan made just now: its creator may name it": row(task(), orphan(created=998), wake_at=at(1003)),
    "pending, an orphan made long ago: first refuse a status that names it": row(task(since=995), orphan(created=995)),
    "pending, an orphan older than the status: no other can name it": row(
        task(since=996), orphan(created=995), A.DELETE_ORPHAN
    ),
    "pending, an orphan made by a clock far ahead: as if long ago": row(task(), orphan(created=1005), A.DELETE_ORPHAN),
    "pending, an orphan goes, no timeout: wait": row(task(), orphan(deleted=1)),
    "pending, an orphan goes, within the timeout: wait": row(task(), orphan(deleted=900), **IN_TIME),
    "pending, an orphan goes, timed out: by force": row(task(), orphan(deleted=900), A.DELETE_FORCED, **TOO_LATE),
    "pending, scaled down, an orphan: delete it, over later": row(
        ending(S.CREATION_PENDING, -230, **GOING), ORPHAN, A.DELETE_ORPHAN
    ),
    "pending, over with the attempt, an orphan goes: over later": row(ending(S.CREATION_PENDING, -220), pod(deleted=1)),
    "pending, scaled down, a foreign Pod is there: over": row(task(**GOING), FOREIGN, S.ATTEMPT_COMPLETED, code=-230),
    "pending, a foreign Pod has the name: say so": row(task(), FOREIGN, A.AWAIT_NAME),
    "pending, a foreign Pod has the name, the attempt is ending: wait": row(task(), FOREIGN, attempt_ending=True),
    # AttemptCreationRequested
    "requested, not seen yet: wait until the timeout": row(requested(), None, **UNSEEN),
    "requested, not seen for too long: over, but confirm": row(task(S.CREATION_REQUESTED, since=700), None, code=-111),
    "requested, not seen, timed out and persisted: delete by UID": row(
        ending(S.CREATION_REQUESTED, -111), None, A.DELETE_UNSEEN
    ),
    "requested, not seen, scaled down: over at once, but confirm": row(requested(**GOING), None, code=-230),
    "requested, not seen, the attempt is ending: delete by UID": row(
        ending(S.CREATION_REQUESTED, -220), None, A.DELETE_UNSEEN
    ),
    "requested, another Pod has the name: not seen": row(requested(), ORPHAN, **UNSEEN),
    "requested, Pod Pending": row(requested(), pod(), S.PREPARING),
    "requested, Pod Running": row(requested(), pod("Running"), S.RUNNING),
    "requested, Pod Succeeded": row(requested(), pod("Succeeded"), S.DELETION_PENDING, code=0),
    "requested, Pod Failed": row(requested(), FAILED_POD, S.DELETION_PENDING, code=7),
    "requested, Pod being deleted": row(requested(), DELETING_POD, S.DELETING, code=-101),
    "requested, seen after it has ended: delete": row(ending(S.CREATION_REQUESTED, -220), pod(), S.DELETION_PENDING),
    # AttemptPreparing
    "preparing, Pod Pending": row(task(S.PREPARING), pod()),
    "preparing, Pod Unknown: wait": row(task(S.PREPARING), pod("Unknown")),
    "preparing, Pod Running": row(task(S.PREPARING), pod("Running"), S.RUNNING),
    "preparing, Pod Succeeded": row(task(S.PREPARING), pod("Succeeded"), S.DELETION_PENDING, code=0),
    "preparing, Pod Failed": row(task(S.PREPARING), FAILED_POD, S.DELETION_PENDING, code=7),
    "preparing, Pod not seen any more: look for it": row(task(S.PREPARING), None, A.FIND),
    "preparing, Pod gone": row(task(S.PREPARING), None, S.ATTEMPT_COMPLETED, code=-101, **GONE),
    "preparing, another Pod has the name: look for it": row(task(S.PREPARING), ORPHAN, A.FIND),
    "preparing, another Pod has the name, ours is gone": row(
        task(S.PREPARING), ORPHAN, S.ATTEMPT_COMPLETED, code=-101, **GONE
    ),
    "preparing, Pod being deleted": row(task(S.PREPARING), DELETING_POD, S.DELETING, code=-101),
    "preparing, completed": row(ending(S.PREPARING, -230, **GOING), pod(), S.DELETION_PENDING),
    # AttemptRunning
    "running, Pod Running": row(task(S.RUNNING), pod("Running")),
    "running, Pod Unknown: wait": row(task(S.RUNNING), pod("Unknown")),
    "running, Pod Succeeded": row(task(S.RUNNING), pod("Succeeded"), S.DELETION_PENDING, code=0),
    "running, Pod Failed": row(task(S.RUNNING), FAILED_POD, S.DELETION_PENDING, code=7),
    "running, Pod not seen any more: look for it": row(task(S.RUNNING), None, A.FIND),
    "running, Pod gone": row(task(S.RUNNING), None, S.ATTEMPT_COMPLETED, code=-101, **GONE),
    "running, completed, Pod not seen any more: delete it until it is gone": row(
        ending(S.RUNNING, -101), None, A.DELETE_UNSEEN
    ),
    "running, Pod being deleted": row(task(S.RUNNING), DELETING_POD, S.DELETING, code=-101),
    "running, completed with the attempt": row(ending(S.RUNNING, -220), pod("Running"), S.DELETION_PENDING),
    "running, completed before its Pod failed: the first reason stays": row(
        ending(S.RUNNING, -220), FAILED_POD, S.DELETION_PENDING
    ),
    # AttemptDeletionPending
    "deletion pending: delete": row(ending(S.DELETION_PENDING), pod("Succeeded"), A.DELETE),
    "deletion pending, Pod not seen any more: delete it until it is gone": row(
        ending(S.DELETION_PENDING), None, A.DELETE_UNSEEN
    ),
    "deletion pending, Pod gone": row(ending(S.DELETION_PENDING), None, S.ATTEMPT_COMPLETED, **GONE),
    "deletion pending, Pod being deleted": row(ending(S.DELETION_PENDING), DELETING_POD, S.DELETING),
    # AttemptDeletionRequested
    "deletion requested, not visible yet: wait": row(ending(S.DELETION_REQUESTED), pod("Running")),
    "deletion requested, Pod being deleted": row(ending(S.DELETION_REQUESTED), DELETING_POD, S.DELETING),
    "deletion requested, Pod gone": row(ending(S.DELETION_REQUESTED), None, S.ATTEMPT_COMPLETED),
    # AttemptDeleting
    "deleting, for ever without a timeout": row(ending(S.DELETING), DELETING_POD, now=at(10**8)),
    "deleting, the timeout counts from the deletion's begin": row(ending(S.DELETING), DELETING_POD, **IN_TIME),
    "deleting, after the timeout: by force": row(ending(S.DELETING), DELETING_POD, A.DELETE_FORCED, **TOO_LATE),
    "deleting, a timeout of zero: by force": row(
        ending(S.DELETING), DELETING_POD, A.DELETE_FORCED, graceful_timeout_sec=0
    ),
    "deleting, Pod gone": row(ending(S.DELETING), None, S.ATTEMPT_COMPLETED),
    "deleting, another Pod has the name": row(ending(S.DELETING), ORPHAN, S.ATTEMPT_COMPLETED),
    # AttemptCompleted
    "over, not retried": row(ending(S.ATTEMPT_COMPLETED, 1), None, S.COMPLETED),
    "over, not retried while the attempt is ending": row(
        ending(S.ATTEMPT_COMPLETED, 1), None, S.COMPLETED, retry_policy=retry_policy(-2), **ENDING
    ),
    "over, not retried when scaled down": row(
        ending(S.ATTEMPT_COMPLETED, 1, **GOING), None, S.COMPLETED, retry_policy=retry_policy(-2)
    ),
    # Completed
    "completed": row(ending(S.COMPLETED), None),
    "completed, what a lost answer left is deleted": row(ending(S.COMPLETED), ORPHAN, A.DELETE_ORPHAN),
    "completed, a foreign Pod is left alone": row(ending(S.COMPLETED), FOREIGN),
    "completed, a Pod on its way out is left alone": row(ending(S.COMPLETED), DELETING_POD),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_task_follows_its_pod_and_persists_each_reason_before_anything_is_done(row: TaskRow) -> None:
    done = next_step(row)
    assert shown(done) == row.expected
    if done.action is not None:
        uid = POD_UID if row.seen is None else row.seen.metadata.uid
        assert done.uid == (None if done.action in {A.CREATE, A.FIND} else uid)
        assert done.status == row.was, "a change is persisted before anything is done"
    early = next_step(row, persisted=False)
    assert early.action is None, "nothing is done before its reason is persisted"
    if early.status.state is not S.ATTEMPT_COMPLETED:
        again = next_step(dataclasses.replace(row, was=early.status), persisted=False)
        assert again.status == early.status, "a step is repeated without effect"


SAID = {
    "running, Pod gone": "Pod was deleted by others",
    "running, Pod being deleted": "Pod is being deleted by others",
    "running, Pod Succeeded": "Pod succeeded",
    "pending, scaled down: over": "User has requested to delete the Task by Framework ScaleDown",
    "requested, not seen for too long: over, but confirm": (
        "Pod does not appear in the local cache within timeout 300s, so consider it was deleted and force delete it"
    ),
}


@pytest.mark.parametrize(("name", "text"), SAID.items(), ids=SAID)
def test_the_end_says_what_happened(name: str, text: str) -> None:
    assert known(next_step(ROWS[name]).status.completion).diagnostics == text


def test_a_status_that_names_an_orphan_is_refused_by_a_write_of_ours_before_the_orphan_is_deleted() -> None:
    made = orphan(created=900)
    written = step(task(since=900), made, task_facts(), persisted=True).status
    assert written == replace(task(since=900), transition_time=at(1000))
    assert step(written, made, task_facts(), persisted=True).action is A.DELETE_ORPHAN


SEEN = [None, pod(), pod("Running"), pod("Unknown"), pod("Succeeded"), FAILED_POD, DELETING_POD, ORPHAN, FOREIGN]
# Once it is decided that a Pod is to go, it is decided why.
WAS = st.builds(
    lambda state, is_ended, going: task(
        state, ended(-220) if is_ended or state in COMPLETING | OVER else None, deletion_pending=going
    ),
    *(st.sampled_from(State), st.booleans(), st.booleans()),
)
FACTS = st.builds(
    task_facts,
    attempt_ending=st.booleans(),
    graceful_timeout_sec=st.sampled_from([None, 0, 50, 10**6]),
    retry_policy=st.builds(retry_policy, st.sampled_from([-2, -1, 0, 1]), fancy=st.booleans()),
)


@given(WAS, st.sampled_from(SEEN), FACTS, st.booleans())
def test_no_situation_breaks_the_state_machine(
    was: TaskStatus, seen: Pod | None, facts: TaskFacts, persisted: bool
) -> None:
    done = step(was, seen, facts, persisted=persisted)
    now = done.status
    if now.attempt_status.id == was.attempt_status.id:
        assert was.completion in {None, now.completion}
        assert now.attempt_status.pod_uid == was.attempt_status.pod_uid
    else:
        assert (was.state, now.state) == (S.ATTEMPT_COMPLETED, S.CREATION_PENDING)
    assert done.action is None or (persisted and now == was)
    if done.action is A.CREATE:
        assert (now.state, now.completion) == (S.CREATION_PENDING, None)
        assert (facts.attempt_ending, was.deletion_pending) == (False, False)
    of_an_orphan = was.state is S.CREATION_PENDING
    if done.action in {A.DELETE, A.DELETE_FORCED, A.DELETE_UNSEEN} and not of_an_orphan:
        assert now.completion is not None
        assert done.uid == POD_UID


# --- who has arrived --------------------------------------------------------------------------------------------------

RUNS = {"name": "frameworkbarrier", "state": {"running": {}}}
WAITS = {"name": "frameworkbarrier", "state": {"waiting": {"reason": "PodInitializing"}}}
HELD_BACK = pod(podIP="10.0.0.1", barrier=True, initContainerStatuses=[WAITS])
ARRIVED = {
    "no barrier": (pod(podIP="10.0.0.1"), True),
    "no status": (pod(podIP="10.0.0.1", barrier=True), False),
    "waits": (HELD_BACK, False),
    "runs": (pod(podIP="10.0.0.1", barrier=True, initContainerStatuses=[RUNS]), True),
    "has opened": (pod("Running", barrier=True, initContainerStatuses=[terminated("frameworkbarrier", 0)]), True),
    "has failed": (pod(barrier=True, initContainerStatuses=[terminated("frameworkbarrier", 201)]), False),
    "another runs": (pod(barrier=True, initContainerStatuses=[RUNS | {"name": "other"}]), False),
}


@pytest.mark.parametrize(("seen", "arrived"), ARRIVED.values(), ids=ARRIVED)
def test_a_task_has_arrived_when_its_barrier_runs(seen: Pod, *, arrived: bool) -> None:
    for was in (requested(), task(S.PREPARING)):
        for asked, found in ((True, arrived), (False, msgspec.UNSET)):
            now = step(was, seen, task_facts(waits_for_arrival=asked), persisted=True).status
            assert now.attempt_status.arrived is found


def test_a_task_stays_arrived_although_its_barrier_ends_with_the_pod() -> None:
    there = task(S.PREPARING)
    there = replace(there, attempt_status=replace(there.attempt_status, arrived=True))
    ends = pod("Running", barrier=True, initContainerStatuses=[terminated("frameworkbarrier", 143)])
    assert step(there, ends, task_facts(waits_for_arrival=True), persisted=True).status.attempt_status.arrived is True


# --- what each change writes ------------------------------------------------------------------------------------------


def test_a_state_is_left_only_as_the_table_says() -> None:
    for before, after in itertools.product(State, State):
        if after in NEXT[before]:
            assert move(ending(before), after, at(5)).transition_time == at(5)
        else:
            with pytest.raises(AssertionError, match=f"{before} -> {after}"):
                move(ending(before), after, at(5))


def test_running_sets_the_run_times_the_tasks_own_only_once() -> None:
    first = move(task(S.PREPARING), S.RUNNING, at(5))
    assert (first.run_time, first.attempt_status.run_time) == (at(5), at(5))
    second = move(replace(task(S.PREPARING), run_time=at(5)), S.RUNNING, at(9))
    assert (second.run_time, second.attempt_status.run_time) == (at(5), at(9))


def test_the_end_of_an_attempt_and_the_end_of_a_task_have_times_of_their_own() -> None:
    over = move(ending(S.DELETING), S.ATTEMPT_COMPLETED, at(5))
    assert (over.completion_time, over.attempt_status.completion_time) == (None, at(5))
    done = move(over, S.COMPLETED, at(6))
    assert (done.completion_time, done.attempt_status.completion_time) == (at(6), at(5))


def test_a_retry_is_a_new_attempt_of_the_same_task() -> None:
    was = ending(S.ATTEMPT_COMPLETED, 1, retries=RetryPolicyStatus(3, 2), attempt=3, ip="10.0.0.1")
    context = task_facts(retry_policy=retry_policy(5))
    assert step(was, None, context, persisted=False).status == was, "its end is persisted first"
    assert step(was, None, context, persisted=True).status == replace(
        was,
        state=S.CREATION_PENDING,
        transition_time=at(1000),
        retry_policy_status=RetryPolicyStatus(4, 3),
        attempt_status=TaskAttemptStatus(id=4, start_time=at(1000), pod_name="fw-worker-0"),
    )


def test_a_created_pod_is_stored_by_its_uid() -> None:
    made = record_pod(task(attempt=2), "new-uid", at(3))
    attempt = made.attempt_status
    assert (made.state, attempt.pod_uid, attempt.instance_uid) == (S.CREATION_REQUESTED, "new-uid", "2_new-uid")


@pytest.mark.parametrize(
    ("was", "seen", "place"),
    [
        (requested(), pod(nodeName="node", podIP="10.0.0.1", hostIP="10.1.0.1"), ("node", "10.0.0.1", "10.1.0.1")),
        (requested(), pod(), ("", "", "")),
        (task(S.RUNNING, ip="10.0.0.1"), DELETING_POD, ("", "10.0.0.1", "")),
    ],
    ids=["placed", "seen without", "being deleted: the address stays"],
)
def test_the_place_of_a_pod_is_followed(was: TaskStatus, seen: Pod | None, place: tuple[str | None, ...]) -> None:
    now = step(was, seen, task_facts(), persisted=True).status.attempt_status
    assert (now.pod_node_name, now.pod_ip, now.pod_host_ip) == place


@pytest.mark.parametrize("state", list(State))
def test_when_the_attempt_is_gone_every_task_is_completed_whatever_it_was(state: State) -> None:
    was = task(state, ended(1) if state not in {S.CREATION_PENDING, S.PREPARING} else None)
    now = conclude(was, at(1000))
    assert (now.state, known(now.completion).code) == (S.COMPLETED, 1 if was.completion else -220)
    if state is S.COMPLETED:
        assert now == was


def test_what_the_containers_say_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pattern is looked for in each of them, which for 256 is 16 ms."""
    classify = Mock(wraps=classification.failed)
    monkeypatch.setattr(classification, "failed", classify)
    was = task(S.RUNNING)
    for _ in range(3):
        was = step(was, FAILED_POD, task_facts(), persisted=True).status
    classify.assert_called_once_with(FAILED_POD, CONTAINER_CONTRACT)


def test_every_state_with_a_pod_is_associated() -> None:
    assert {state for state in State if S.DELETING in NEXT[state]} | {S.DELETING} == ASSOCIATED


def test_a_new_task_is_as_clients_expect() -> None:
    new = new_task(3, "uid", "fw-worker-3", at(1))
    assert new == replace(
        task(index=3, instance="uid"),
        start_time=at(1),
        transition_time=at(1),
        attempt_status=replace(task(index=3).attempt_status, start_time=at(1)),
    )


NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}
SCHEDULED = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "NotReady"}]
CREATING = {"name": "b", "state": {"waiting": {"reason": "ContainerCreating"}}}
NO_IMAGE = {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no image"}}}
OBSTACLES = {
    "its Pod is not created yet": (task(), None),
    "AttemptCreationRequested": (requested(), None),
    "its Pod is being deleted": (task(S.RUNNING), DELETING_POD),
    "Pending: no IP yet": (task(S.PREPARING), pod(conditions=SCHEDULED)),
    "Pending: Unschedulable: 0/3": (task(S.PREPARING), pod(conditions=[NO_NODE])),
    "Pending: a: ImagePullBackOff: no image": (task(S.PREPARING), pod(containerStatuses=[CREATING, NO_IMAGE])),
    "Pending: NodeAffinity": (task(S.PREPARING), pod(reason="NodeAffinity")),
    "Pending: its barrier does not run yet": (task(S.PREPARING), HELD_BACK),
}


def test_the_reason_why_a_task_is_not_ready_is_for_people() -> None:
    assert [obstacle_of(was, seen).phrase for was, seen in OBSTACLES.values()] == list(OBSTACLES)


def test_times_are_in_whole_seconds_of_utc() -> None:
    assert Now(at(0), at(1.9)).stamp == at(1)
