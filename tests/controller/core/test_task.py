"""One Task: every row of its state machine, as (what was, what is seen) -> (what becomes, what is to be done)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.states import ASSOCIATED, NEXT, State
from frameworkcontroller.api.status import RetryPolicyStatus
from frameworkcontroller.core.clock import utc_seconds
from frameworkcontroller.core.machines.attempt import move
from frameworkcontroller.core.machines.task import Action, conclude, new_task, record_pod, step
from frameworkcontroller.core.policies import classification
from frameworkcontroller.core.policies.readiness import obstacle_of
from tests.controller.core.values import POD_UID, at, ended, pod, retry_policy, task, task_facts, terminated

if TYPE_CHECKING:
    from datetime import datetime

    from frameworkcontroller.api.pod import Pod
    from frameworkcontroller.api.status import TaskStatus

S = State
ORPHAN = pod("Running", uid="orphan-uid")
FOREIGN = pod("Running", uid="foreign-uid", foreign=True)
FAILED_POD = pod("Failed", containerStatuses=[terminated("main", 7, finished=5)])
DELETING_POD = pod("Running", deleted=900)
SUCCEEDED_POD = pod("Succeeded", containerStatuses=[terminated("main", 0)])
RUNNING_SIDECAR = {"name": "log", "state": {"running": {}}}
ENDED = task(S.DELETION_PENDING, ended(7))
ON_FAILURE: dict[str, Any] = {"retain_pods": "OnFailure"}
ALWAYS: dict[str, Any] = {"retain_pods": "Always"}
GONE: dict[str, Any] = {"gone": {POD_UID}}
GOING: dict[str, Any] = {"deletion_pending": True}


@dataclass(frozen=True)
class Row:
    """A Task in a state that the API server shows, and what its next step is."""

    was: TaskStatus
    seen: Pod | None
    becomes: State
    action: Action | None = None
    code: int | None = None
    wake_at: datetime | None = None
    context: dict[str, Any] = field(default_factory=dict)
    uid: str = POD_UID


def requested(**more: Any) -> TaskStatus:
    return task(S.CREATION_REQUESTED, since=990, **more)


ROWS = {
    # retainPods
    "failed, and stays": Row(ENDED, FAILED_POD, S.DELETION_PENDING, Action.RETAIN, code=7, context=ON_FAILURE),
    "succeeded, and does not stay": Row(
        task(S.DELETION_PENDING, ended(0)), SUCCEEDED_POD, S.DELETION_PENDING, Action.DELETE, code=0, context=ON_FAILURE
    ),
    "succeeded, and stays": Row(
        task(S.DELETION_PENDING, ended(0)), SUCCEEDED_POD, S.DELETION_PENDING, Action.RETAIN, code=0, context=ALWAYS
    ),
    "failed, and is retried": Row(
        ENDED,
        FAILED_POD,
        S.DELETION_PENDING,
        Action.DELETE,
        code=7,
        context={**ON_FAILURE, "retry_policy": retry_policy(1, fancy=False)},
    ),
    "failed, and would be retried if the attempt went on": Row(
        ENDED,
        FAILED_POD,
        S.DELETION_PENDING,
        Action.RETAIN,
        code=7,
        context={**ON_FAILURE, "retry_policy": retry_policy(1, fancy=False), "attempt_ending": True},
    ),
    "said to have failed, but its kubelet has not said so": Row(
        ENDED, pod("Failed"), S.DELETION_PENDING, Action.DELETE, code=7, context=ALWAYS
    ),
    "failed, but a sidecar runs": Row(
        ENDED,
        pod("Failed", containerStatuses=[terminated("main", 7)], initContainerStatuses=[RUNNING_SIDECAR]),
        S.DELETION_PENDING,
        Action.DELETE,
        code=7,
        context=ALWAYS,
    ),
    "runs on after the attempt has ended": Row(
        task(S.DELETION_PENDING, ended(-220)),
        pod("Running"),
        S.DELETION_PENDING,
        Action.DELETE,
        code=-220,
        context={**ALWAYS, "attempt_ending": True},
    ),
    "cannot stay": Row(
        ENDED, FAILED_POD, S.DELETION_PENDING, Action.DELETE, code=7, context={**ALWAYS, "not_retained": {POD_UID}}
    ),
    "not seen, and may have stayed: look": Row(
        ENDED, None, S.DELETION_PENDING, Action.FIND, code=7, context=ALWAYS, uid=""
    ),
    "not seen, and has stayed: over": Row(ENDED, None, S.ATTEMPT_COMPLETED, code=7, context={**ALWAYS, **GONE}),
    # AttemptCreationPending
    "pending, nothing there: create": Row(task(), None, S.CREATION_PENDING, Action.CREATE, uid=""),
    "pending, the attempt is ending: wait": Row(task(), None, S.CREATION_PENDING, context={"attempt_ending": True}),
    "pending, completed with the attempt: over": Row(
        task(S.CREATION_PENDING, ended(-220)), None, S.ATTEMPT_COMPLETED, code=-220
    ),
    "pending, scaled down: over": Row(task(**GOING), None, S.ATTEMPT_COMPLETED, code=-230),
    "pending, a Pod of ours is there: delete it, create later": Row(
        task(), ORPHAN, S.CREATION_PENDING, Action.DELETE_ORPHAN, uid="orphan-uid"
    ),
    "pending, a Pod of ours was made just now: its creator may be about to write the status": Row(
        task(), pod("Running", uid="orphan-uid", created=998), S.CREATION_PENDING, wake_at=at(998 + 5)
    ),
    "pending, a Pod of ours was made long ago, a status that names it may be on its way: refuse that first": Row(
        task(since=995), pod(uid="orphan-uid", created=995), S.CREATION_PENDING
    ),
    "pending, a Pod of ours was made before the status changed: no other can name it": Row(
        task(since=996), pod(uid="orphan-uid", created=995), S.CREATION_PENDING, Action.DELETE_ORPHAN, uid="orphan-uid"
    ),
    "pending, a Pod of ours was made by a clock far ahead: as if long ago": Row(
        task(), pod(uid="orphan-uid", created=1005), S.CREATION_PENDING, Action.DELETE_ORPHAN, uid="orphan-uid"
    ),
    "pending, a Pod of ours is being deleted and there is no timeout: wait": Row(
        task(), pod("Running", uid="orphan-uid", deleted=1), S.CREATION_PENDING
    ),
    "pending, a Pod of ours is being deleted, within the timeout: wait": Row(
        task(),
        pod("Running", uid="orphan-uid", deleted=900),
        S.CREATION_PENDING,
        wake_at=at(900 + 101),
        context={"graceful_timeout_sec": 101},
    ),
    "pending, a Pod of ours is being deleted, after the timeout: by force": Row(
        task(),
        pod("Running", uid="orphan-uid", deleted=900),
        S.CREATION_PENDING,
        Action.DELETE_FORCED,
        uid="orphan-uid",
        context={"graceful_timeout_sec": 100},
    ),
    "pending, scaled down, a Pod of ours is there: delete it, over later": Row(
        task(S.CREATION_PENDING, ended(-230), **GOING),
        ORPHAN,
        S.CREATION_PENDING,
        Action.DELETE_ORPHAN,
        code=-230,
        uid="orphan-uid",
    ),
    "pending, completed with the attempt, a Pod of ours is on its way out: over later": Row(
        task(S.CREATION_PENDING, ended(-220)), pod(deleted=1), S.CREATION_PENDING, code=-220
    ),
    "pending, scaled down, a foreign Pod has the name: over": Row(
        task(**GOING), FOREIGN, S.ATTEMPT_COMPLETED, code=-230
    ),
    "pending, a Pod of ours is on its way out: wait": Row(task(), pod(deleted=1), S.CREATION_PENDING),
    "pending, a foreign Pod has the name: wait": Row(task(), FOREIGN, S.CREATION_PENDING),
    # AttemptCreationRequested
    "requested, not seen yet: wait until the timeout": Row(
        requested(), None, S.CREATION_REQUESTED, wake_at=at(990 + 300)
    ),
    "requested, not seen for too long: over, but confirm": Row(
        task(S.CREATION_REQUESTED, since=700), None, S.CREATION_REQUESTED, code=-111
    ),
    "requested, not seen, timed out and persisted: delete by UID": Row(
        task(S.CREATION_REQUESTED, ended(-111)), None, S.CREATION_REQUESTED, Action.DELETE_UNSEEN, code=-111
    ),
    "requested, not seen, scaled down: over at once, but confirm": Row(
        requested(**GOING), None, S.CREATION_REQUESTED, code=-230
    ),
    "requested, not seen, the attempt is ending: delete by UID": Row(
        requested(completion=ended(-220)), None, S.CREATION_REQUESTED, Action.DELETE_UNSEEN, code=-220
    ),
    "requested, another Pod has the name: not seen": Row(
        requested(), ORPHAN, S.CREATION_REQUESTED, wake_at=at(990 + 300)
    ),
    "requested, Pod Pending": Row(requested(), pod(), S.PREPARING),
    "requested, Pod Running": Row(requested(), pod("Running"), S.RUNNING),
    "requested, Pod Succeeded": Row(requested(), pod("Succeeded"), S.DELETION_PENDING, code=0),
    "requested, Pod Failed": Row(requested(), FAILED_POD, S.DELETION_PENDING, code=7),
    "requested, Pod being deleted": Row(requested(), DELETING_POD, S.DELETING, code=-101),
    "requested, seen after it was completed: delete": Row(
        requested(completion=ended(-220)), pod(), S.DELETION_PENDING, code=-220
    ),
    # AttemptPreparing
    "preparing, Pod Pending": Row(task(S.PREPARING), pod(), S.PREPARING),
    "preparing, Pod Unknown: wait": Row(task(S.PREPARING), pod("Unknown"), S.PREPARING),
    "preparing, Pod Running": Row(task(S.PREPARING), pod("Running"), S.RUNNING),
    "preparing, Pod Succeeded": Row(task(S.PREPARING), pod("Succeeded"), S.DELETION_PENDING, code=0),
    "preparing, Pod Failed": Row(task(S.PREPARING), FAILED_POD, S.DELETION_PENDING, code=7),
    "preparing, Pod not seen any more: look for it": Row(task(S.PREPARING), None, S.PREPARING, Action.FIND, uid=""),
    "preparing, Pod gone": Row(task(S.PREPARING), None, S.ATTEMPT_COMPLETED, code=-101, context=GONE),
    "preparing, another Pod has the name: look for it": Row(
        task(S.PREPARING), ORPHAN, S.PREPARING, Action.FIND, uid=""
    ),
    "preparing, another Pod has the name, ours is gone": Row(
        task(S.PREPARING), ORPHAN, S.ATTEMPT_COMPLETED, code=-101, context=GONE
    ),
    "preparing, Pod being deleted": Row(task(S.PREPARING), DELETING_POD, S.DELETING, code=-101),
    "preparing, completed": Row(task(S.PREPARING, ended(-230), **GOING), pod(), S.DELETION_PENDING, code=-230),
    # AttemptRunning
    "running, Pod Running": Row(task(S.RUNNING), pod("Running"), S.RUNNING),
    "running, Pod Unknown: wait": Row(task(S.RUNNING), pod("Unknown"), S.RUNNING),
    "running, Pod Succeeded": Row(task(S.RUNNING), pod("Succeeded"), S.DELETION_PENDING, code=0),
    "running, Pod Failed": Row(task(S.RUNNING), FAILED_POD, S.DELETION_PENDING, code=7),
    "running, Pod not seen any more: look for it": Row(task(S.RUNNING), None, S.RUNNING, Action.FIND, uid=""),
    "running, Pod gone": Row(task(S.RUNNING), None, S.ATTEMPT_COMPLETED, code=-101, context=GONE),
    "running, completed, Pod not seen any more: delete it until it is gone": Row(
        task(S.RUNNING, ended(-101)), None, S.RUNNING, Action.DELETE_UNSEEN, code=-101
    ),
    "running, Pod being deleted": Row(task(S.RUNNING), DELETING_POD, S.DELETING, code=-101),
    "running, completed with the attempt": Row(
        task(S.RUNNING, ended(-220)), pod("Running"), S.DELETION_PENDING, code=-220
    ),
    "running, completed before its Pod failed: the first reason stays": Row(
        task(S.RUNNING, ended(-220)), FAILED_POD, S.DELETION_PENDING, code=-220
    ),
    # AttemptDeletionPending
    "deletion pending: delete": Row(
        task(S.DELETION_PENDING, ended(0)), pod("Succeeded"), S.DELETION_PENDING, Action.DELETE, code=0
    ),
    "deletion pending, Pod not seen any more: delete it until it is gone": Row(
        task(S.DELETION_PENDING, ended(0)), None, S.DELETION_PENDING, Action.DELETE_UNSEEN, code=0
    ),
    "deletion pending, Pod gone": Row(
        task(S.DELETION_PENDING, ended(0)), None, S.ATTEMPT_COMPLETED, code=0, context=GONE
    ),
    "deletion pending, Pod being deleted": Row(task(S.DELETION_PENDING, ended(0)), DELETING_POD, S.DELETING, code=0),
    # AttemptDeletionRequested
    "deletion requested, not visible yet: wait": Row(
        task(S.DELETION_REQUESTED, ended(0)), pod("Running"), S.DELETION_REQUESTED, code=0
    ),
    "deletion requested, Pod being deleted": Row(
        task(S.DELETION_REQUESTED, ended(0)), DELETING_POD, S.DELETING, code=0
    ),
    "deletion requested, Pod gone": Row(task(S.DELETION_REQUESTED, ended(0)), None, S.ATTEMPT_COMPLETED, code=0),
    # AttemptDeleting
    "deleting, for ever without a timeout": Row(
        task(S.DELETING, ended(0)), DELETING_POD, S.DELETING, code=0, context={"now": at(10**8)}
    ),
    "deleting, the timeout counts from the deletion's begin": Row(
        task(S.DELETING, ended(0)),
        DELETING_POD,
        S.DELETING,
        code=0,
        wake_at=at(900 + 101),
        context={"graceful_timeout_sec": 101},
    ),
    "deleting, after the timeout: by force": Row(
        task(S.DELETING, ended(0)),
        DELETING_POD,
        S.DELETING,
        Action.DELETE_FORCED,
        code=0,
        context={"graceful_timeout_sec": 100},
    ),
    "deleting, a timeout of zero: by force": Row(
        task(S.DELETING, ended(0)),
        DELETING_POD,
        S.DELETING,
        Action.DELETE_FORCED,
        code=0,
        context={"graceful_timeout_sec": 0},
    ),
    "deleting, Pod gone": Row(task(S.DELETING, ended(0)), None, S.ATTEMPT_COMPLETED, code=0),
    "deleting, another Pod has the name": Row(task(S.DELETING, ended(0)), ORPHAN, S.ATTEMPT_COMPLETED, code=0),
    # AttemptCompleted
    "over, retried": Row(
        task(S.ATTEMPT_COMPLETED, ended(1)), None, S.CREATION_PENDING, context={"retry_policy": retry_policy(1)}
    ),
    "over, not retried": Row(task(S.ATTEMPT_COMPLETED, ended(1)), None, S.COMPLETED, code=1),
    "over, not retried while the attempt is ending": Row(
        task(S.ATTEMPT_COMPLETED, ended(1)),
        None,
        S.COMPLETED,
        code=1,
        context={"retry_policy": retry_policy(-2), "attempt_ending": True},
    ),
    "over, not retried when scaled down": Row(
        task(S.ATTEMPT_COMPLETED, ended(1), **GOING),
        None,
        S.COMPLETED,
        code=1,
        context={"retry_policy": retry_policy(-2)},
    ),
    # Completed
    "completed": Row(task(S.COMPLETED, ended(0)), None, S.COMPLETED, code=0),
    "completed, what a lost answer left is deleted": Row(
        task(S.COMPLETED, ended(0)), ORPHAN, S.COMPLETED, Action.DELETE_ORPHAN, code=0, uid="orphan-uid"
    ),
    "completed, a foreign Pod is left alone": Row(task(S.COMPLETED, ended(0)), FOREIGN, S.COMPLETED, code=0),
    "completed, a Pod on its way out is left alone": Row(
        task(S.COMPLETED, ended(0)), DELETING_POD, S.COMPLETED, code=0
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_task_follows_its_pod_and_persists_each_reason_before_anything_is_done(row: Row) -> None:
    context = task_facts(**row.context)
    done = step(row.was, row.seen, context, persisted=True)
    code = None if done.status.completion is None else done.status.completion.code
    assert (done.status.state, code, done.action, done.wake_at) == (row.becomes, row.code, row.action, row.wake_at)
    if row.action is not None:
        assert (done.uid or "") == row.uid
        assert done.status == row.was, "a change is persisted before anything is done"
    early = step(row.was, row.seen, context, persisted=False)
    assert early.action is None, "nothing is done before its reason is persisted"
    if early.status.state is not S.ATTEMPT_COMPLETED:
        again = step(early.status, row.seen, context, persisted=False)
        assert again.status == early.status, "a step is repeated without effect"


def test_a_status_that_names_an_orphan_is_refused_by_a_write_of_ours_before_the_orphan_is_deleted() -> None:
    made = pod("Running", uid="orphan-uid", created=900)
    written = step(task(since=900), made, task_facts(), persisted=True).status
    assert written == replace(task(since=900), transition_time=at(1000))
    assert step(written, made, task_facts(), persisted=True).action is Action.DELETE_ORPHAN


SEEN = [None, pod(), pod("Running"), pod("Unknown"), pod("Succeeded"), FAILED_POD, DELETING_POD, ORPHAN, FOREIGN]


@given(
    st.sampled_from(list(State)),
    st.sampled_from(SEEN),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0, 50, 10**6]),
    st.sampled_from([-2, -1, 0, 1]),
    st.booleans(),
)
def test_no_situation_breaks_the_state_machine(
    state: State,
    seen: Pod | None,
    is_ended: bool,
    going: bool,
    ending: bool,
    timeout: int | None,
    retries: int,
    persisted: bool,
) -> None:
    must_be_ended = state in {S.DELETION_PENDING, S.DELETION_REQUESTED, S.DELETING, S.ATTEMPT_COMPLETED, S.COMPLETED}
    was = task(state, ended(-220) if is_ended or must_be_ended else None, deletion_pending=going)
    context = task_facts(
        attempt_ending=ending, graceful_timeout_sec=timeout, retry_policy=retry_policy(retries, fancy=going)
    )
    done = step(was, seen, context, persisted=persisted)
    now = done.status
    if now.attempt_status.id == was.attempt_status.id:
        assert was.completion in {None, now.completion}
        assert now.attempt_status.pod_uid == was.attempt_status.pod_uid
    else:
        assert (was.state, now.state) == (S.ATTEMPT_COMPLETED, S.CREATION_PENDING)
    if done.action is not None:
        assert persisted
        assert now == was
    if done.action is Action.CREATE:
        assert now.state is S.CREATION_PENDING
        assert not ending
        assert not going
        assert now.completion is None
    of_an_orphan = was.state is S.CREATION_PENDING
    if done.action in {Action.DELETE, Action.DELETE_FORCED, Action.DELETE_UNSEEN} and not of_an_orphan:
        assert now.completion is not None
        assert done.uid == POD_UID


# --- who has arrived --------------------------------------------------------------------------------------------------

RUNS = {"name": "frameworkbarrier", "state": {"running": {}}}
WAITS = {"name": "frameworkbarrier", "state": {"waiting": {"reason": "PodInitializing"}}}


@pytest.mark.parametrize(
    ("seen", "arrived"),
    [
        (pod(podIP="10.0.0.1"), True),
        (pod(podIP="10.0.0.1", barrier=True), False),
        (pod(podIP="10.0.0.1", barrier=True, initContainerStatuses=[WAITS]), False),
        (pod(podIP="10.0.0.1", barrier=True, initContainerStatuses=[RUNS]), True),
        (pod("Running", barrier=True, initContainerStatuses=[terminated("frameworkbarrier", 0)]), True),
        (pod(barrier=True, initContainerStatuses=[terminated("frameworkbarrier", 201)]), False),
        (pod(barrier=True, initContainerStatuses=[RUNS | {"name": "other"}]), False),
    ],
    ids=["no barrier", "no status", "waits", "runs", "has opened", "has failed", "another runs"],
)
def test_a_task_has_arrived_when_its_barrier_runs(seen: Pod, *, arrived: bool) -> None:
    for was in (requested(), task(S.PREPARING)):
        assert (
            step(was, seen, task_facts(waits_for_arrival=True), persisted=True).status.attempt_status.arrived is arrived
        )
        assert step(was, seen, task_facts(), persisted=True).status.attempt_status.arrived is msgspec.UNSET


def test_a_task_stays_arrived_although_its_barrier_ends_with_the_pod() -> None:
    context = task_facts(waits_for_arrival=True)
    there = step(requested(), pod(barrier=True, initContainerStatuses=[RUNS]), context, persisted=True).status
    ends = pod("Running", barrier=True, initContainerStatuses=[terminated("frameworkbarrier", 143)])
    assert step(there, ends, context, persisted=True).status.attempt_status.arrived is True


# --- what each change writes ------------------------------------------------------------------------------------------


def test_a_state_is_left_only_as_the_table_says() -> None:
    for before, after in itertools.product(State, State):
        was = task(before, ended(0))
        if after in NEXT[before]:
            assert move(was, after, at(5)).transition_time == at(5)
        else:
            with pytest.raises(AssertionError, match=f"{before} -> {after}"):
                move(was, after, at(5))


def test_running_sets_the_run_times_the_tasks_own_only_once() -> None:
    first = move(task(S.PREPARING), S.RUNNING, at(5))
    assert (first.run_time, first.attempt_status.run_time) == (at(5), at(5))
    second = move(replace(task(S.PREPARING), run_time=at(5)), S.RUNNING, at(9))
    assert (second.run_time, second.attempt_status.run_time) == (at(5), at(9))


def test_the_end_of_an_attempt_and_the_end_of_a_task_have_times_of_their_own() -> None:
    over = move(task(S.DELETING, ended(0)), S.ATTEMPT_COMPLETED, at(5))
    assert (over.completion_time, over.attempt_status.completion_time) == (None, at(5))
    done = move(over, S.COMPLETED, at(6))
    assert (done.completion_time, done.attempt_status.completion_time) == (at(6), at(5))


def test_a_retry_is_a_new_attempt_of_the_same_task() -> None:
    was = task(S.ATTEMPT_COMPLETED, ended(1), retries=RetryPolicyStatus(3, 2), attempt=3, ip="10.0.0.1")
    context = task_facts(retry_policy=retry_policy(5))
    assert step(was, None, context, persisted=False).status == was, "its end is persisted first"
    new = step(was, None, context, persisted=True).status
    assert (new.instance_uid, new.start_time) == (was.instance_uid, was.start_time)
    assert new.retry_policy_status == RetryPolicyStatus(4, 3)
    attempt = new.attempt_status
    assert (attempt.id, attempt.pod_name, attempt.start_time) == (4, "fw-worker-0", at(1000))
    found = (attempt.pod_uid, attempt.instance_uid, attempt.pod_ip, attempt.completion_status)
    assert found == (None,) * 4


def test_a_created_pod_is_stored_by_its_uid() -> None:
    made = record_pod(task(attempt=2), "new-uid", at(3))
    attempt = made.attempt_status
    assert (made.state, attempt.pod_uid, attempt.instance_uid) == (S.CREATION_REQUESTED, "new-uid", "2_new-uid")


def test_the_place_of_a_pod_is_followed_and_becomes_empty_once_it_was_seen_without() -> None:
    seen = pod("Running", nodeName="node", podIP="10.0.0.1", hostIP="10.1.0.1")
    was = requested()
    assert (was.attempt_status.pod_node_name, was.attempt_status.pod_ip, was.attempt_status.pod_host_ip) == (None,) * 3
    now = step(was, seen, task_facts(), persisted=True).status.attempt_status
    assert (now.pod_node_name, now.pod_ip, now.pod_host_ip) == ("node", "10.0.0.1", "10.1.0.1")
    later = step(requested(), pod(), task_facts(), persisted=True).status.attempt_status
    assert (later.pod_node_name, later.pod_ip, later.pod_host_ip) == ("", "", "")


def test_the_place_of_a_pod_under_deletion_stays() -> None:
    was = task(S.RUNNING, ip="10.0.0.1")
    assert step(was, DELETING_POD, task_facts(), persisted=True).status.attempt_status.pod_ip == "10.0.0.1"


def test_the_end_of_a_pod_is_stored_with_all_its_containers() -> None:
    end = step(task(S.RUNNING), FAILED_POD, task_facts(), persisted=True).status.completion
    assert end is not None
    assert end.pod is not None
    assert [(one.name, one.code) for one in end.pod.containers] == [("main", 7)]


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (None, "Pod was deleted by others"),
        (DELETING_POD, "Pod is being deleted by others"),
        (pod("Succeeded"), "Pod succeeded"),
    ],
    ids=["gone", "being deleted", "succeeded"],
)
def test_the_end_says_what_happened(seen: Pod | None, text: str) -> None:
    end = step(task(S.RUNNING), seen, task_facts(**GONE), persisted=True).status.completion
    assert end is not None
    assert end.diagnostics == text


@pytest.mark.parametrize("state", list(State))
def test_when_the_attempt_is_gone_every_task_is_completed_whatever_it_was(state: State) -> None:
    was = task(state, ended(1) if state not in {S.CREATION_PENDING, S.PREPARING} else None)
    now = conclude(was, at(1000))
    assert now.state is S.COMPLETED
    assert now.completion is not None
    assert now.completion.code == (1 if was.completion else -220)
    if state is S.COMPLETED:
        assert now == was


def test_what_the_containers_say_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pattern is looked for in each of them, which for 256 is 16 ms."""
    found: list[Pod] = []
    classify = classification.failed
    monkeypatch.setattr(classification, "failed", lambda pod, codes: found.append(pod) or classify(pod, codes))
    was = task(S.RUNNING)
    for _ in range(3):
        was = step(was, FAILED_POD, task_facts(), persisted=True).status
    assert found == [FAILED_POD]


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


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def waiting(name: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


NO_NODE = condition("PodScheduled", "False", "Unschedulable", "0/3")
SCHEDULED = [condition("PodScheduled", "True", "Fine"), condition("Ready", "False", "ContainersNotReady")]
HELD_BACK = pod(podIP="10.0.0.1", barrier=True, initContainerStatuses=[WAITS])
NO_IMAGE = [waiting("b", "ContainerCreating"), waiting("a", "ImagePullBackOff", "no image")]

OBSTACLES = {
    "its Pod is not created yet": (task(), None),
    "AttemptCreationRequested": (requested(), None),
    "its Pod is being deleted": (task(S.RUNNING), DELETING_POD),
    "Pending: no IP yet": (task(S.PREPARING), pod(conditions=SCHEDULED)),
    "Pending: Unschedulable: 0/3": (task(S.PREPARING), pod(conditions=[NO_NODE])),
    "Pending: a: ImagePullBackOff: no image": (task(S.PREPARING), pod(containerStatuses=NO_IMAGE)),
    "Pending: NodeAffinity": (task(S.PREPARING), pod(reason="NodeAffinity")),
    "Pending: its barrier does not run yet": (task(S.PREPARING), HELD_BACK),
}


def test_the_reason_why_a_task_is_not_ready_is_for_people() -> None:
    assert [obstacle_of(was, seen).phrase for was, seen in OBSTACLES.values()] == list(OBSTACLES)


def test_times_are_in_whole_seconds_of_utc() -> None:
    assert utc_seconds(at(1.9)) == at(1)
