"""The Framework attempt: every row of its state machine, as (what was, what is seen) -> (what becomes, what to do)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import RetryPolicyStatus
from frameworkcontroller.core.machines.framework import (
    Action,
    is_ending,
    new_status,
    record_config_map,
    step,
)
from tests.controller.core.values import (
    CONFIG_MAP_UID,
    at,
    attempt_facts,
    config_map,
    framework,
    framework_end,
    retry_policy,
    role,
    spec,
)

if TYPE_CHECKING:
    from datetime import datetime

    from frameworkcontroller.api.meta import Partial
    from frameworkcontroller.api.status import FrameworkStatus

S = State
THERE = config_map()
GOING = config_map(deleted=True)
ORPHAN = config_map(uid="orphan-uid")
FOREIGN = config_map(uid="foreign-uid", owner="another")
OWNERLESS = config_map(uid="orphan-uid", owner="")
CREATE: dict[str, Any] = {"execution": "Create"}
STOP: dict[str, Any] = {"execution": "Stop"}
SUSPEND: dict[str, Any] = {"spec": spec(role("worker", 1), suspend=True)}
SUSPEND_AND_STOP: dict[str, Any] = {"spec": spec(role("worker", 1), suspend=True, execution_type="Stop")}
DELETED: dict[str, Any] = {"being_deleted": True}
IN_FLIGHT: dict[str, Any] = {"requests_in_flight": True}
LOST: dict[str, Any] = {"config_map_gone": True}
HAS_PODS: dict[str, Any] = {"has_pods": True}
NEVER_SEEN = (
    "ConfigMap does not appear in the local cache within timeout 300s, so consider it was deleted and force delete it"
)
RETRIED = {"spec": spec(role("worker", 1), retry_policy=retry_policy(1))}


@dataclass(frozen=True)
class Row:
    """A Framework in a state that the API server shows, and what its next step is."""

    was: FrameworkStatus
    seen: Partial | None
    becomes: State
    action: Action | None = None
    code: int | None = None
    wake_at: datetime | None = None
    context: dict[str, Any] = field(default_factory=dict)
    uid: str | None = CONFIG_MAP_UID


def over(code: int = 1, kind: str | None = None, **more: Any) -> FrameworkStatus:
    return framework(S.ATTEMPT_COMPLETED, framework_end(code, kind), **more)


def delayed(seconds: int) -> FrameworkStatus:
    return over(since=900, retries=RetryPolicyStatus(0, 0, seconds))


def ending(state: State, code: int = 0) -> FrameworkStatus:
    return framework(state, framework_end(code))


REQUESTED = framework(S.CREATION_REQUESTED, since=990)
EXPIRY = at(0) + timedelta(days=30)
EXPIRY_NOW = at(1000) + timedelta(days=30)

ROWS = {
    # AttemptCreationPending
    "pending, nothing there: create": Row(framework(), None, S.CREATION_PENDING, Action.CREATE, uid=None),
    "pending, being deleted: stay": Row(framework(), None, S.CREATION_PENDING, context=DELETED),
    "pending, being deleted and stopped: stay": Row(framework(), None, S.CREATION_PENDING, context=DELETED | STOP),
    "pending, Create: stay": Row(framework(), None, S.CREATION_PENDING, context=CREATE),
    "pending, Stop: over": Row(framework(), None, S.ATTEMPT_COMPLETED, code=-210, context=STOP),
    "pending, Stop while the creation is under way: wait for its answer": Row(
        framework(), None, S.CREATION_PENDING, context=IN_FLIGHT | STOP
    ),
    "pending, a ConfigMap of ours is there: delete it, create later": Row(
        framework(since=1), ORPHAN, S.CREATION_PENDING, Action.DELETE_ORPHAN, uid="orphan-uid"
    ),
    "pending, a ConfigMap of ours is there, a status that names it may be on its way: refuse that first": Row(
        framework(), ORPHAN, S.CREATION_PENDING
    ),
    "pending, a ConfigMap of ours was made just now: its creator may be about to write the status": Row(
        framework(), config_map(uid="orphan-uid", created=998), S.CREATION_PENDING, wake_at=at(998 + 5)
    ),
    "pending, a ConfigMap of ours is on its way out: wait": Row(framework(), GOING, S.CREATION_PENDING),
    "pending, a foreign ConfigMap has the name: wait": Row(framework(), FOREIGN, S.CREATION_PENDING),
    "pending, a ConfigMap without an owner has the name: wait": Row(framework(), OWNERLESS, S.CREATION_PENDING),
    "pending, suspended: stay": Row(
        replace(framework(), suspended_since=at(1)), None, S.CREATION_PENDING, context=SUSPEND
    ),
    "pending, suspended now: that is persisted first": Row(framework(), None, S.CREATION_PENDING, context=SUSPEND),
    "pending, suspended, Stop: over": Row(framework(), None, S.ATTEMPT_COMPLETED, code=-210, context=SUSPEND_AND_STOP),
    "pending, suspended, a ConfigMap of ours is there: delete it": Row(
        replace(framework(since=1), suspended_since=at(1)),
        ORPHAN,
        S.CREATION_PENDING,
        Action.DELETE_ORPHAN,
        context=SUSPEND,
        uid="orphan-uid",
    ),
    # AttemptCreationRequested
    "requested, not seen yet: wait until the timeout": Row(REQUESTED, None, S.CREATION_REQUESTED, wake_at=at(1290)),
    "requested, not seen for too long: over, but confirm": Row(
        framework(S.CREATION_REQUESTED, since=700), None, S.CREATION_REQUESTED, code=-110
    ),
    "requested, timed out and persisted: delete by UID": Row(
        ending(S.CREATION_REQUESTED, -110), None, S.CREATION_REQUESTED, Action.DELETE_UNSEEN, code=-110
    ),
    "requested, not seen, Stop: at once, but confirm": Row(
        REQUESTED, None, S.CREATION_REQUESTED, code=-210, context=STOP
    ),
    "requested, another ConfigMap has the name: not seen": Row(
        REQUESTED, ORPHAN, S.CREATION_REQUESTED, wake_at=at(1290)
    ),
    "requested, seen": Row(framework(S.CREATION_REQUESTED), THERE, S.PREPARING),
    "requested, seen, Stop": Row(framework(S.CREATION_REQUESTED), THERE, S.DELETION_PENDING, code=-210, context=STOP),
    "requested, not seen, suspended: at once, but confirm": Row(
        REQUESTED, None, S.CREATION_REQUESTED, code=-250, context=SUSPEND
    ),
    "requested, seen, suspended": Row(REQUESTED, THERE, S.DELETION_PENDING, code=-250, context=SUSPEND),
    "requested, seen being deleted": Row(framework(S.CREATION_REQUESTED), GOING, S.DELETING, code=-100),
    "completed, expired, being deleted already: stay": Row(
        ending(S.COMPLETED), None, S.COMPLETED, code=0, context=DELETED | {"now": at(10**8)}
    ),
    # AttemptPreparing and AttemptRunning
    "preparing": Row(framework(S.PREPARING), THERE, S.PREPARING),
    "preparing, Stop": Row(framework(S.PREPARING), THERE, S.DELETION_PENDING, code=-210, context=STOP),
    "preparing, completed by a policy": Row(ending(S.PREPARING, 5), THERE, S.DELETION_PENDING, code=5),
    "preparing, ConfigMap being deleted": Row(framework(S.PREPARING), GOING, S.DELETING, code=-100),
    "preparing, ConfigMap not seen any more: look for it": Row(
        framework(S.PREPARING), None, S.PREPARING, Action.FIND, uid=None
    ),
    "preparing, ConfigMap gone": Row(framework(S.PREPARING), None, S.ATTEMPT_COMPLETED, code=-100, context=LOST),
    "preparing, another ConfigMap has the name: look for it": Row(
        framework(S.PREPARING), ORPHAN, S.PREPARING, Action.FIND, uid=None
    ),
    "preparing, another ConfigMap has the name, ours is gone": Row(
        framework(S.PREPARING), ORPHAN, S.ATTEMPT_COMPLETED, code=-100, context=LOST
    ),
    "running": Row(framework(S.RUNNING), THERE, S.RUNNING),
    "running, the Framework is being deleted: its ConfigMap decides": Row(
        framework(S.RUNNING), THERE, S.RUNNING, context=DELETED
    ),
    "running, back to Create changes nothing": Row(framework(S.RUNNING), THERE, S.RUNNING, context=CREATE),
    "running, Stop": Row(framework(S.RUNNING), THERE, S.DELETION_PENDING, code=-210, context=STOP),
    "running, suspended": Row(framework(S.RUNNING), THERE, S.DELETION_PENDING, code=-250, context=SUSPEND),
    "running, suspended, Stop": Row(
        framework(S.RUNNING), THERE, S.DELETION_PENDING, code=-210, context=SUSPEND_AND_STOP
    ),
    "running, completed by a policy before it is suspended": Row(
        ending(S.RUNNING, 5), THERE, S.DELETION_PENDING, code=5, context=SUSPEND
    ),
    "running, completed by a policy before the Stop": Row(
        ending(S.RUNNING, 5), THERE, S.DELETION_PENDING, code=5, context=STOP
    ),
    "running, ConfigMap being deleted": Row(framework(S.RUNNING), GOING, S.DELETING, code=-100),
    "running, ConfigMap not seen any more: look for it": Row(
        framework(S.RUNNING), None, S.RUNNING, Action.FIND, uid=None
    ),
    "running, completed, ConfigMap not seen any more: delete it until it is gone": Row(
        ending(S.RUNNING, -100), None, S.RUNNING, Action.DELETE_UNSEEN, code=-100
    ),
    "running, ConfigMap gone": Row(framework(S.RUNNING), None, S.ATTEMPT_COMPLETED, code=-100, context=LOST),
    "running, ConfigMap gone, Pods are not: wait for them": Row(
        framework(S.RUNNING), None, S.RUNNING, code=-100, context=LOST | HAS_PODS
    ),
    "running, ConfigMap gone, a request is under way: wait for its answer": Row(
        framework(S.RUNNING), None, S.RUNNING, code=-100, context=LOST | IN_FLIGHT
    ),
    # AttemptDeletionPending
    "deletion pending: delete": Row(ending(S.DELETION_PENDING), THERE, S.DELETION_PENDING, Action.DELETE, code=0),
    "deletion pending, a Pod is being created: wait for its answer": Row(
        ending(S.DELETION_PENDING), THERE, S.DELETION_PENDING, code=0, context={"creates_pods": True}
    ),
    "deletion pending, a Pod that has ended is still to be let go: wait": Row(
        ending(S.DELETION_PENDING), THERE, S.DELETION_PENDING, code=0, context={"retains_pods": True}
    ),
    "deletion pending, being deleted": Row(ending(S.DELETION_PENDING), GOING, S.DELETING, code=0),
    "deletion pending, not seen any more: delete it until it is gone": Row(
        ending(S.DELETION_PENDING), None, S.DELETION_PENDING, Action.DELETE_UNSEEN, code=0
    ),
    "deletion pending, gone": Row(ending(S.DELETION_PENDING), None, S.ATTEMPT_COMPLETED, code=0, context=LOST),
    # AttemptDeletionRequested and AttemptDeleting
    "deletion requested, not visible yet: wait": Row(ending(S.DELETION_REQUESTED), THERE, S.DELETION_REQUESTED, code=0),
    "deletion requested, being deleted": Row(ending(S.DELETION_REQUESTED), GOING, S.DELETING, code=0),
    "deletion requested, not seen any more: ask for it": Row(
        ending(S.DELETION_REQUESTED), None, S.DELETION_REQUESTED, Action.FIND, code=0, uid=None
    ),
    "deletion requested, gone": Row(ending(S.DELETION_REQUESTED), None, S.ATTEMPT_COMPLETED, code=0, context=LOST),
    "deleting: wait": Row(ending(S.DELETING), GOING, S.DELETING, code=0),
    "deleting, not seen any more: ask for it": Row(ending(S.DELETING), None, S.DELETING, Action.FIND, code=0, uid=None),
    "deleting, gone": Row(ending(S.DELETING), None, S.ATTEMPT_COMPLETED, code=0, context=LOST),
    "deleting, gone, Pods are not: wait for them": Row(
        ending(S.DELETING), None, S.DELETING, code=0, context=LOST | HAS_PODS
    ),
    "deleting, another ConfigMap has the name: ask whose": Row(
        ending(S.DELETING), FOREIGN, S.DELETING, Action.FIND, code=0, uid=None
    ),
    # AttemptCompleted
    "over, not retried": Row(over(), None, S.COMPLETED, code=1, wake_at=EXPIRY_NOW),
    "over, retried: the delay is decided and persisted first": Row(
        over(), None, S.ATTEMPT_COMPLETED, code=1, context=RETRIED
    ),
    "over, retried at once": Row(delayed(0), None, S.CREATION_PENDING, Action.NEXT_ATTEMPT, context=RETRIED, uid=None),
    "over, retried later": Row(delayed(101), None, S.ATTEMPT_COMPLETED, code=1, wake_at=at(1001), context=RETRIED),
    "over, retried when the delay is over": Row(
        delayed(100), None, S.CREATION_PENDING, Action.NEXT_ATTEMPT, context=RETRIED, uid=None
    ),
    "over, Stop does not wait for the delay": Row(
        delayed(10_000), None, S.CREATION_PENDING, Action.NEXT_ATTEMPT, context=STOP, uid=None
    ),
    "over, a retry that is decided stays so": Row(delayed(0), None, S.CREATION_PENDING, Action.NEXT_ATTEMPT, uid=None),
    "over, suspended: retried though no policy asks for it": Row(over(-250), None, S.ATTEMPT_COMPLETED, code=-250),
    "over, suspended before: retried at once, and not before that": Row(
        over(-250, retries=RetryPolicyStatus(0, 0, 0)), None, S.CREATION_PENDING, Action.NEXT_ATTEMPT, uid=None
    ),
    "over, not retried, suspended meanwhile": Row(
        replace(over(), suspended_since=at(1)), None, S.COMPLETED, code=1, wake_at=EXPIRY_NOW, context=SUSPEND
    ),
    # Completed
    "completed: kept": Row(ending(S.COMPLETED), None, S.COMPLETED, code=0, wake_at=EXPIRY),
    "completed: kept long enough": Row(
        ending(S.COMPLETED),
        None,
        S.COMPLETED,
        Action.DELETE_FRAMEWORK,
        code=0,
        context={"completed_retain": timedelta(seconds=1000)},
        uid=None,
    ),
    "completed, what a lost answer left is deleted": Row(
        ending(S.COMPLETED), ORPHAN, S.COMPLETED, Action.DELETE_ORPHAN, code=0, uid="orphan-uid"
    ),
    "completed, a foreign ConfigMap is left alone": Row(
        ending(S.COMPLETED), FOREIGN, S.COMPLETED, code=0, wake_at=EXPIRY
    ),
    "completed, Stop changes nothing": Row(
        ending(S.COMPLETED), None, S.COMPLETED, code=0, wake_at=EXPIRY, context=STOP
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_framework_follows_its_config_map_and_persists_each_reason_before_anything_is_done(row: Row) -> None:
    context = attempt_facts(**row.context)
    done = step(row.was, row.seen, context, persisted=True)
    code = None if done.status.completion is None else done.status.completion.code
    assert (done.status.state, code, done.action, done.wake_at) == (row.becomes, row.code, row.action, row.wake_at)
    if row.action is not None:
        assert done.uid == row.uid
        assert row.action is Action.NEXT_ATTEMPT or done.status == row.was, "a change is persisted first"
    # A question about what is deleted changes nothing.
    asked = row.action is Action.FIND and row.was.state in {S.DELETION_REQUESTED, S.DELETING}
    early = step(row.was, row.seen, context, persisted=False)
    assert early.action is (Action.FIND if asked else None), "nothing is done before its reason is persisted"


def test_a_status_that_names_an_orphan_is_refused_by_a_write_of_ours_before_the_orphan_is_deleted() -> None:
    written = step(framework(), ORPHAN, attempt_facts(), persisted=True).status
    assert written == replace(framework(), transition_time=at(1000))
    assert step(written, ORPHAN, attempt_facts(), persisted=True).action is Action.DELETE_ORPHAN


SEEN = [None, THERE, GOING, ORPHAN, FOREIGN, OWNERLESS]


@given(
    st.sampled_from(list(State)),
    st.sampled_from(SEEN),
    st.booleans(),
    st.tuples(st.sampled_from(["Create", "Start", "Stop"]), st.booleans()),
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    st.sampled_from([-2, 0, 1]),
    st.sampled_from([None, 0, 10**6]),
    st.booleans(),
)
def test_no_situation_breaks_the_state_machine(
    state: State,
    seen: Partial | None,
    is_ended: bool,
    asked: tuple[str, bool],
    flags: tuple[bool, bool, bool, bool],
    retries: int,
    delay: int | None,
    persisted: bool,
) -> None:
    must_be_ended = state in {S.DELETION_PENDING, S.DELETION_REQUESTED, S.DELETING, S.ATTEMPT_COMPLETED, S.COMPLETED}
    may_be_ended = must_be_ended or state is not S.CREATION_PENDING
    end = framework_end(201, "conflict") if must_be_ended or (is_ended and may_be_ended) else None
    was = framework(state, end, retries=RetryPolicyStatus(0, 0, delay if state is S.ATTEMPT_COMPLETED else None))
    being_deleted, in_flight, creates, has_pods = flags
    execution, suspend = asked
    if suspend and has_pods:
        was = replace(was, suspended_since=at(1))
    context = attempt_facts(
        spec=spec(role("worker", 1), execution_type=execution, suspend=suspend, retry_policy=retry_policy(retries)),
        being_deleted=being_deleted,
        requests_in_flight=in_flight or creates,
        creates_pods=creates,
        has_pods=has_pods,
    )
    done = step(was, seen, context, persisted=persisted)
    now = done.status
    if done.action is Action.NEXT_ATTEMPT:
        assert (was.state, now.state) == (S.ATTEMPT_COMPLETED, S.CREATION_PENDING)
        assert now.attempt_status.id == was.attempt_status.id + 1
    else:
        assert now.attempt_status.id == was.attempt_status.id
        assert was.completion in {None, now.completion}
        assert now.attempt_status.config_map_uid == was.attempt_status.config_map_uid
    if done.action is not None and not (done.action is Action.FIND and now.state in {S.DELETION_REQUESTED, S.DELETING}):
        assert persisted
    if done.action is Action.CREATE:
        assert seen is None
        assert (execution, suspend) == ("Start", False)
        assert not being_deleted
    if done.action in {Action.DELETE, Action.DELETE_UNSEEN}:
        assert now.completion is not None
        assert done.uid == CONFIG_MAP_UID
    if now.state is S.ATTEMPT_COMPLETED and was.state not in {S.ATTEMPT_COMPLETED, S.CREATION_PENDING}:
        assert not in_flight
        assert not has_pods


def test_nothing_says_that_a_completed_framework_is_suspended() -> None:
    was = replace(over(retries=RetryPolicyStatus(0, 0, None)), suspended_since=at(10), run_time=at(5))
    now = step(was, None, attempt_facts(**SUSPEND), persisted=True).status
    assert now.state is S.COMPLETED
    assert (bool(now.suspended_since), now.suspended_sec) == (False, 990)


def test_what_is_suspended_is_retried_and_the_retry_counts_for_no_limit() -> None:
    was = over(-250, retries=RetryPolicyStatus(4, 2, 0))
    now = step(was, None, attempt_facts(spec=spec(retry_policy=retry_policy(2))), persisted=True).status
    assert (now.attempt_status.id, now.retry_policy_status) == (5, RetryPolicyStatus(5, 2, None))


# --- what each change writes ------------------------------------------------------------------------------------------


def test_a_new_attempt_is_all_new_and_the_run_time_of_the_framework_stays() -> None:
    was = framework(S.ATTEMPT_COMPLETED, framework_end(1), retries=RetryPolicyStatus(4, 2, 0))
    was = replace(was, run_time=at(5))
    context = attempt_facts(spec=spec(role("worker", 1), retry_policy=retry_policy(9)))
    now = step(was, None, context, persisted=True).status
    assert (now.start_time, now.run_time) == (was.start_time, at(5))
    assert now.retry_policy_status == RetryPolicyStatus(5, 3, None)
    assert now.attempt_status == replace(new_status("fw", at(1000)).attempt_status, id=5)


def test_the_delay_after_a_conflict_is_drawn_once_and_stays_over_restarts() -> None:
    wanted = spec(retry_policy=retry_policy(1, fancy=True))
    failed = step(over(1), None, attempt_facts(spec=wanted, conflict_delay_sec=77), persisted=True).status
    assert failed.retry_policy_status.retry_delay_sec == 0, "this is no conflict"
    was = over(201, "conflict", since=990)
    drawn = step(was, None, attempt_facts(spec=wanted, conflict_delay_sec=77), persisted=True).status
    assert drawn.retry_policy_status.retry_delay_sec == 77
    done = step(drawn, None, attempt_facts(spec=wanted, conflict_delay_sec=5), persisted=True)
    assert (done.status, done.wake_at) == (drawn, at(990 + 77))


@pytest.mark.parametrize(
    ("was", "seen", "context", "text"),
    [
        (framework(S.RUNNING), None, LOST, "ConfigMap was deleted by others"),
        (framework(S.RUNNING), GOING, {}, "ConfigMap is being deleted by others"),
        (framework(S.RUNNING), THERE, STOP, "User has requested to stop the Framework"),
        (framework(S.CREATION_REQUESTED), None, {}, NEVER_SEEN),
    ],
    ids=["gone", "being deleted", "stopped", "never seen"],
)
def test_the_end_says_what_happened(
    was: FrameworkStatus, seen: Partial | None, context: dict[str, Any], text: str
) -> None:
    end = step(was, seen, attempt_facts(**context), persisted=True).status.completion
    assert end is not None
    assert end.diagnostics == text


def test_a_created_config_map_is_stored_by_its_uid() -> None:
    attempt = record_config_map(framework(), "new-uid", at(3)).attempt_status
    assert (attempt.config_map_uid, attempt.instance_uid) == ("new-uid", "0_new-uid")


def test_an_attempt_ends_from_the_moment_its_end_is_decided() -> None:
    assert [is_ending(framework(state)) for state in (S.CREATION_PENDING, S.PREPARING, S.RUNNING)] == [False] * 3
    assert is_ending(ending(S.RUNNING))
    assert all(is_ending(ending(state)) for state in State)
