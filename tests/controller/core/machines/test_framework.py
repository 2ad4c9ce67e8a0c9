"""The Framework attempt: every row of its state machine, as (what was, what is seen) -> (what becomes, what to do)."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.meta import Partial
from frameworkcontroller.api.states import COMPLETING, ENDED, State
from frameworkcontroller.api.states import GOING as GOING_AWAY
from frameworkcontroller.api.status import FrameworkStatus, RetryPolicyStatus
from frameworkcontroller.core.machines.framework import (
    Action,
    AttemptFacts,
    FrameworkStep,
    is_ending,
    new_status,
    record_config_map,
    step,
)
from tests.controller.core.values import (
    CONFIG_MAP_UID,
    Row,
    at,
    attempt_facts,
    config_map,
    framework,
    framework_end,
    known,
    retry_policy,
    role,
    row,
    shown,
    spec,
)

FrameworkRow = Row[FrameworkStatus, Partial, Action]

A, S = Action, State
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
OF_A_CONFIG_MAP = {A.DELETE, A.DELETE_ORPHAN, A.DELETE_UNSEEN, A.AWAIT_NAME}
RETRIED: dict[str, Any] = {"spec": spec(role("worker", 1), retry_policy=retry_policy(1))}


def over(code: int = 1, kind: str | None = None, **more: Any) -> FrameworkStatus:
    return framework(S.ATTEMPT_COMPLETED, framework_end(code, kind), **more)


def delayed(seconds: int) -> FrameworkStatus:
    return over(since=900, retries=RetryPolicyStatus(0, 0, seconds))


def ending(state: State, code: int = 0) -> FrameworkStatus:
    return framework(state, framework_end(code))


REQUESTED = framework(S.CREATION_REQUESTED, since=990)
UNSEEN = framework(S.CREATION_REQUESTED, since=700)
EXPIRY = at(0) + timedelta(days=30)
EXPIRY_NOW = at(1000) + timedelta(days=30)


def next_step(row: FrameworkRow, *, persisted: bool = True) -> FrameworkStep:
    return step(row.was, row.seen, attempt_facts(**row.facts), persisted=persisted)


ROWS: dict[str, FrameworkRow] = {
    # AttemptCreationPending; an orphan is a ConfigMap of ours that no status names
    "pending, nothing there: create": row(framework(), None, A.CREATE),
    "pending, being deleted: stay": row(framework(), None, **DELETED),
    "pending, being deleted and stopped: stay": row(framework(), None, **DELETED, **STOP),
    "pending, Create: stay": row(framework(), None, **CREATE),
    "pending, Stop: over": row(framework(), None, S.ATTEMPT_COMPLETED, code=-210, **STOP),
    "pending, Stop while the creation is under way: wait for its answer": row(framework(), None, **IN_FLIGHT, **STOP),
    "pending, an orphan: delete it, create later": row(framework(since=1), ORPHAN, A.DELETE_ORPHAN),
    "pending, an orphan, which a status on its way may name: refuse that first": row(framework(), ORPHAN),
    "pending, an orphan made just now: its creator may name it": row(
        framework(), config_map(uid="orphan-uid", created=998), wake_at=at(998 + 5)
    ),
    "pending, an orphan goes: wait": row(framework(), GOING),
    "pending, a foreign ConfigMap has the name: say so": row(framework(), FOREIGN, A.AWAIT_NAME),
    "pending, a ConfigMap without an owner has the name: say so": row(framework(), OWNERLESS, A.AWAIT_NAME),
    "pending, suspended, a foreign ConfigMap has the name: stay": row(
        replace(framework(), suspended_since=at(1)), FOREIGN, **SUSPEND
    ),
    "pending, suspended: stay": row(replace(framework(), suspended_since=at(1)), None, **SUSPEND),
    "pending, suspended now: that is persisted first": row(framework(), None, **SUSPEND),
    "pending, suspended, Stop: over": row(framework(), None, S.ATTEMPT_COMPLETED, code=-210, **SUSPEND_AND_STOP),
    "pending, suspended, an orphan: delete it": row(
        replace(framework(since=1), suspended_since=at(1)), ORPHAN, A.DELETE_ORPHAN, **SUSPEND
    ),
    # AttemptCreationRequested
    "requested, not seen yet: wait until the timeout": row(REQUESTED, None, wake_at=at(1290)),
    "requested, not seen for too long: over, but confirm": row(UNSEEN, None, code=-110),
    "requested, not seen for too long, a request is under way: wait for its answer": row(UNSEEN, None, **IN_FLIGHT),
    "requested, timed out and persisted: delete by UID": row(ending(S.CREATION_REQUESTED, -110), None, A.DELETE_UNSEEN),
    "requested, not seen, Stop: at once, but confirm": row(REQUESTED, None, code=-210, **STOP),
    "requested, another ConfigMap has the name: not seen": row(REQUESTED, ORPHAN, wake_at=at(1290)),
    "requested, seen": row(framework(S.CREATION_REQUESTED), THERE, S.PREPARING),
    "requested, seen, Stop": row(framework(S.CREATION_REQUESTED), THERE, S.DELETION_PENDING, code=-210, **STOP),
    "requested, not seen, suspended: at once, but confirm": row(REQUESTED, None, code=-250, **SUSPEND),
    "requested, seen, suspended": row(REQUESTED, THERE, S.DELETION_PENDING, code=-250, **SUSPEND),
    "requested, seen being deleted": row(framework(S.CREATION_REQUESTED), GOING, S.DELETING, code=-100),
    "completed, expired, being deleted already: stay": row(ending(S.COMPLETED), None, **DELETED, now=at(10**8)),
    # AttemptPreparing and AttemptRunning
    "preparing": row(framework(S.PREPARING), THERE),
    "preparing, Stop": row(framework(S.PREPARING), THERE, S.DELETION_PENDING, code=-210, **STOP),
    "preparing, another ConfigMap has the name: look for it": row(framework(S.PREPARING), ORPHAN, A.FIND),
    "preparing, another ConfigMap has the name, ours is gone": row(
        framework(S.PREPARING), ORPHAN, S.ATTEMPT_COMPLETED, code=-100, **LOST
    ),
    "running": row(framework(S.RUNNING), THERE),
    "running, the Framework is being deleted: its ConfigMap decides": row(framework(S.RUNNING), THERE, **DELETED),
    "running, back to Create changes nothing": row(framework(S.RUNNING), THERE, **CREATE),
    "running, Stop": row(framework(S.RUNNING), THERE, S.DELETION_PENDING, code=-210, **STOP),
    "running, suspended": row(framework(S.RUNNING), THERE, S.DELETION_PENDING, code=-250, **SUSPEND),
    "running, suspended, Stop": row(framework(S.RUNNING), THERE, S.DELETION_PENDING, code=-210, **SUSPEND_AND_STOP),
    "running, over by a policy before it is suspended": row(ending(S.RUNNING, 5), THERE, S.DELETION_PENDING, **SUSPEND),
    "running, over by a policy before the Stop": row(ending(S.RUNNING, 5), THERE, S.DELETION_PENDING, **STOP),
    "running, ConfigMap being deleted": row(framework(S.RUNNING), GOING, S.DELETING, code=-100),
    "running, ConfigMap not seen any more: look for it": row(framework(S.RUNNING), None, A.FIND),
    "running, completed, ConfigMap not seen any more: delete it until it is gone": row(
        ending(S.RUNNING, -100), None, A.DELETE_UNSEEN
    ),
    "running, ConfigMap gone": row(framework(S.RUNNING), None, S.ATTEMPT_COMPLETED, code=-100, **LOST),
    "running, ConfigMap gone, Pods not: wait for them": row(framework(S.RUNNING), None, code=-100, **LOST, **HAS_PODS),
    "running, ConfigMap gone, a request is under way: wait for its answer": row(
        framework(S.RUNNING), None, code=-100, **LOST, **IN_FLIGHT
    ),
    # AttemptDeletionPending
    "deletion pending: delete": row(ending(S.DELETION_PENDING), THERE, A.DELETE),
    "deletion pending, a Pod is being made: wait": row(ending(S.DELETION_PENDING), THERE, creates_pods=True),
    "deletion pending, an ended Pod is to be let go: wait": row(ending(S.DELETION_PENDING), THERE, retains_pods=True),
    "deletion pending, being deleted": row(ending(S.DELETION_PENDING), GOING, S.DELETING),
    "deletion pending, not seen any more: delete it until it is gone": row(
        ending(S.DELETION_PENDING), None, A.DELETE_UNSEEN
    ),
    "deletion pending, gone": row(ending(S.DELETION_PENDING), None, S.ATTEMPT_COMPLETED, **LOST),
    # AttemptDeletionRequested and AttemptDeleting
    "deletion requested, not visible yet: wait": row(ending(S.DELETION_REQUESTED), THERE),
    "deletion requested, being deleted": row(ending(S.DELETION_REQUESTED), GOING, S.DELETING),
    "deletion requested, not seen any more: ask for it": row(ending(S.DELETION_REQUESTED), None, A.FIND),
    "deletion requested, gone": row(ending(S.DELETION_REQUESTED), None, S.ATTEMPT_COMPLETED, **LOST),
    "deleting: wait": row(ending(S.DELETING), GOING),
    "deleting, not seen any more: ask for it": row(ending(S.DELETING), None, A.FIND),
    "deleting, gone": row(ending(S.DELETING), None, S.ATTEMPT_COMPLETED, **LOST),
    "deleting, gone, Pods not: wait for them": row(ending(S.DELETING), None, **LOST, **HAS_PODS),
    "deleting, another ConfigMap has the name: ask whose": row(ending(S.DELETING), FOREIGN, A.FIND),
    # AttemptCompleted
    "over, not retried": row(over(), None, S.COMPLETED, wake_at=EXPIRY_NOW),
    "over, retried: the delay is decided and persisted first": row(over(), None, **RETRIED),
    "over, retried at once": row(delayed(0), None, A.NEXT_ATTEMPT, **RETRIED),
    "over, retried later": row(delayed(101), None, wake_at=at(1001), **RETRIED),
    "over, retried when the delay is over": row(delayed(100), None, A.NEXT_ATTEMPT, **RETRIED),
    "over, Stop does not wait for the delay": row(delayed(10_000), None, A.NEXT_ATTEMPT, **STOP),
    "over, a retry that is decided stays so": row(delayed(0), None, A.NEXT_ATTEMPT),
    "over, suspended: retried though no policy asks for it": row(over(-250), None),
    "over, suspended before: retried at once, and not before that": row(
        over(-250, retries=RetryPolicyStatus(0, 0, 0)), None, A.NEXT_ATTEMPT
    ),
    "over, not retried, suspended meanwhile": row(
        replace(over(), suspended_since=at(1)), None, S.COMPLETED, wake_at=EXPIRY_NOW, **SUSPEND
    ),
    # Completed
    "completed: kept": row(ending(S.COMPLETED), None, wake_at=EXPIRY),
    "completed: kept long enough": row(
        ending(S.COMPLETED), None, A.DELETE_FRAMEWORK, completed_retain=timedelta(seconds=1000)
    ),
    "completed, what a lost answer left is deleted": row(ending(S.COMPLETED), ORPHAN, A.DELETE_ORPHAN),
    "completed, a foreign ConfigMap is left alone": row(ending(S.COMPLETED), FOREIGN, wake_at=EXPIRY),
    "completed, Stop changes nothing": row(ending(S.COMPLETED), None, wake_at=EXPIRY, **STOP),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_framework_follows_its_config_map_and_persists_each_reason_before_anything_is_done(row: FrameworkRow) -> None:
    done = next_step(row)
    assert shown(done) == row.expected
    if done.action is not None:
        assert done.action is A.NEXT_ATTEMPT or done.status == row.was, "a change is persisted first"
        uid = CONFIG_MAP_UID if row.seen is None else row.seen.metadata.uid
        assert done.uid == (uid if done.action in OF_A_CONFIG_MAP else None)
    # A question about what is deleted changes nothing.
    asked = done.action is A.FIND and row.was.state in GOING_AWAY
    early = next_step(row, persisted=False)
    assert early.action is (A.FIND if asked else None), "nothing is done before its reason is persisted"


SAID = {
    "running, ConfigMap gone": "ConfigMap was deleted by others",
    "running, ConfigMap being deleted": "ConfigMap is being deleted by others",
    "running, Stop": "User has requested to stop the Framework",
    "requested, not seen for too long: over, but confirm": (
        "ConfigMap does not appear in the local cache within timeout 300s, "
        "so consider it was deleted and force delete it"
    ),
}


@pytest.mark.parametrize(("name", "text"), SAID.items(), ids=SAID)
def test_the_end_says_what_happened(name: str, text: str) -> None:
    assert known(next_step(ROWS[name]).status.completion).diagnostics == text


def test_a_status_that_names_an_orphan_is_refused_by_a_write_of_ours_before_the_orphan_is_deleted() -> None:
    written = step(framework(), ORPHAN, attempt_facts(), persisted=True).status
    assert written == replace(framework(), transition_time=at(1000))
    assert step(written, ORPHAN, attempt_facts(), persisted=True).action is A.DELETE_ORPHAN


SEEN = [None, THERE, GOING, ORPHAN, FOREIGN, OWNERLESS]


def situation(state: State, is_ended: bool, delay: int | None, suspended: bool) -> FrameworkStatus:
    """Once it is decided that a ConfigMap is to go, it is decided why."""
    is_over = state in COMPLETING | ENDED or (is_ended and state is not S.CREATION_PENDING)
    counts = RetryPolicyStatus(0, 0, delay if state is S.ATTEMPT_COMPLETED else None)
    was = framework(state, framework_end(201, "conflict") if is_over else None, retries=counts)
    return replace(was, suspended_since=at(1)) if suspended else was


WAS = st.builds(
    situation, st.sampled_from(State), st.booleans(), st.sampled_from([None, 0, 10**6]), suspended=st.booleans()
)
FACTS = st.builds(
    attempt_facts,
    spec=st.builds(
        spec,
        st.just(role("worker", 1)),
        execution_type=st.sampled_from(["Create", "Start", "Stop"]),
        suspend=st.booleans(),
        retry_policy=st.builds(retry_policy, st.sampled_from([-2, 0, 1])),
    ),
    **{name: st.booleans() for name in ("being_deleted", "requests_in_flight", "creates_pods", "has_pods")},
)


@given(WAS, st.sampled_from(SEEN), FACTS, st.booleans())
def test_no_situation_breaks_the_state_machine(
    was: FrameworkStatus, seen: Partial | None, facts: AttemptFacts, persisted: bool
) -> None:
    done = step(was, seen, facts, persisted=persisted)
    now = done.status
    if done.action is A.NEXT_ATTEMPT:
        assert (was.state, now.state) == (S.ATTEMPT_COMPLETED, S.CREATION_PENDING)
        assert now.attempt_status.id == was.attempt_status.id + 1
    else:
        assert now.attempt_status.id == was.attempt_status.id
        assert was.completion in {None, now.completion}
        assert now.attempt_status.config_map_uid == was.attempt_status.config_map_uid
    if done.action is not None and not (done.action is A.FIND and now.state in GOING_AWAY):
        assert persisted
    if done.action is A.CREATE:
        assert (seen, facts.spec.execution_type, facts.spec.suspend) == (None, "Start", False)
        assert not facts.being_deleted
    if done.action in {A.DELETE, A.DELETE_UNSEEN}:
        assert now.completion is not None
        assert done.uid == CONFIG_MAP_UID
    if now.state is S.ATTEMPT_COMPLETED and was.state not in {S.ATTEMPT_COMPLETED, S.CREATION_PENDING}:
        assert (facts.requests_in_flight, facts.has_pods) == (False, False)


def test_nothing_says_that_a_completed_framework_is_suspended() -> None:
    was = replace(over(retries=RetryPolicyStatus(0, 0, None)), suspended_since=at(10), run_time=at(5))
    now = step(was, None, attempt_facts(**SUSPEND), persisted=True).status
    assert now.state is S.COMPLETED
    assert (bool(now.suspended_since), now.suspended_sec) == (False, 990)


# --- what each change writes ------------------------------------------------------------------------------------------


def test_a_new_attempt_is_all_new_and_the_run_time_of_the_framework_stays() -> None:
    was = replace(over(retries=RetryPolicyStatus(4, 2, 0)), run_time=at(5))
    context = attempt_facts(spec=spec(role("worker", 1), retry_policy=retry_policy(9)))
    new = step(was, None, context, persisted=True).status
    attempt = replace(new_status("fw", at(1000)).attempt_status, id=5)
    counts = RetryPolicyStatus(5, 3, None)
    assert new == replace(
        was, state=S.CREATION_PENDING, transition_time=at(1000), retry_policy_status=counts, attempt_status=attempt
    )


def test_the_delay_after_a_conflict_is_drawn_once_and_stays_over_restarts() -> None:
    wanted = spec(retry_policy=retry_policy(1, fancy=True))
    failed = step(over(1), None, attempt_facts(spec=wanted, conflict_delay_sec=77), persisted=True).status
    assert failed.retry_policy_status.retry_delay_sec == 0, "this is no conflict"
    was = over(201, "conflict", since=990)
    drawn = step(was, None, attempt_facts(spec=wanted, conflict_delay_sec=77), persisted=True).status
    assert drawn.retry_policy_status.retry_delay_sec == 77
    done = step(drawn, None, attempt_facts(spec=wanted, conflict_delay_sec=5), persisted=True)
    assert (done.status, done.wake_at) == (drawn, at(990 + 77))


def test_a_created_config_map_is_stored_by_its_uid() -> None:
    attempt = record_config_map(framework(), "new-uid", at(3)).attempt_status
    assert (attempt.config_map_uid, attempt.instance_uid) == ("new-uid", "0_new-uid")


def test_an_attempt_ends_from_the_moment_its_end_is_decided() -> None:
    assert not any(is_ending(framework(state)) for state in (S.CREATION_PENDING, S.PREPARING, S.RUNNING))
    assert all(is_ending(ending(state)) for state in State)
