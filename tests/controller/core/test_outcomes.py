"""What an answer means for the Task or the Framework that asked."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from frameworkcontroller.api.meta import Labels, Meta
from frameworkcontroller.api.spec import RetryPolicy
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import (
    CONFIG_MAP,
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeletePod,
    Done,
    Dropped,
    Effect,
    Failed,
    FindPod,
    Found,
    Missing,
    Outcome,
    Refused,
    RetainPod,
)
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.reconcile.outcomes import (
    apply_config_map_outcome,
    apply_pod_outcome,
    apply_retention_outcome,
)
from frameworkcontroller.core.status.state import FrameworkState
from tests.controller.core.values import (
    CONFIG_MAP_UID,
    FRAMEWORK_UID,
    POD_UID,
    at,
    ended,
    events_in,
    framework,
    framework_end,
    moment,
    role,
    spec,
    task,
)

if TYPE_CHECKING:
    from frameworkcontroller.api.status import FrameworkStatus, TaskStatus
    from frameworkcontroller.core.pods.template import PodSource

S = State
W0 = ("worker", 0)
CREATE = CreatePod("worker", 0, "task-uid", 0, cast("PodSource", SimpleNamespace(size=0)))
DELETE = DeletePod("worker", 0, POD_UID)
FORCE = DeletePod("worker", 0, POD_UID, grace_seconds=0)
CONFIRM = DeletePod("worker", 0, POD_UID, confirm=True)
ORPHAN = DeletePod("worker", 0, "orphan-uid", orphan=True)
UNSEEN = task(S.CREATION_REQUESTED, ended(-111))
UNSEEN_TOO = task(S.CREATION_REQUESTED, ended(-111), pod_uid="another")
SEEN = task(S.PREPARING, ended(-111))
GONE = task(S.RUNNING, ended(-101))
GIVEN_UP = task(S.CREATION_PENDING, ended(-230))
TO_DELETE = task(S.DELETION_PENDING, ended(0))


def state_of(current: TaskStatus) -> FrameworkState:
    state = FrameworkState("fw")
    state.set(framework(S.PREPARING))
    list(state.rescale(spec(role("worker", 1)), at(0), lambda: "uid"))
    state.put(W0, current)
    state.mark_persisted(state.revisions.now)
    state.dirty.take_dirty(at(0))
    return state


FIND = FindPod("worker", 0)


def found(uid: str = POD_UID, labels: Labels = Labels(framework="fw")) -> Found:  # noqa: B008 -- frozen
    return Found(Meta("fw-worker-0", uid, "1", labels=labels))


def answer(
    state: FrameworkState, effect: CreatePod | DeletePod | FindPod, outcome: Outcome, seconds: float = 1
) -> InFlight:
    """What is in flight once the outcome has come."""
    in_flight = InFlight(lambda: 0.5)
    apply_pod_outcome(state, in_flight, effect, outcome, moment(seconds), FRAMEWORK_UID, RetryPolicy())
    return in_flight


def said(state: FrameworkState) -> list[tuple[str, str]]:
    """The reasons and messages of the Events, once all is persisted."""
    state.mark_persisted(state.revisions.now)
    return [(one.reason, one.message) for one in events_in(state.reports.take(state.revisions.persisted))]


@dataclass(frozen=True)
class Case:
    """A Task or a Framework, what was asked for, what became of that, and what becomes of the Task or Framework."""

    was: TaskStatus | FrameworkStatus
    effect: Effect
    outcome: Outcome
    becomes: State
    code: int | None = None
    later: bool = False
    """Whether it is not asked for again for a while."""


CASES = {
    "created": Case(task(), CREATE, Done(uid="new-uid"), S.CREATION_REQUESTED),
    "not created": Case(task(), CREATE, Failed("sick"), S.CREATION_PENDING),
    "not created, no namespace": Case(task(), CREATE, Missing(), S.CREATION_PENDING),
    "not created, not wanted any more": Case(task(), CREATE, Dropped(), S.CREATION_PENDING),
    "refused with 400": Case(task(), CREATE, Refused(400, "bad"), S.ATTEMPT_COMPLETED, -310),
    "refused with 403": Case(task(), CREATE, Refused(403, "bad"), S.ATTEMPT_COMPLETED, -310),
    "refused with 413": Case(task(), CREATE, Refused(413, "bad"), S.ATTEMPT_COMPLETED, -200),
    "refused with 422": Case(task(), CREATE, Refused(422, "bad"), S.ATTEMPT_COMPLETED, -200),
    "refused after its end was decided": Case(GIVEN_UP, CREATE, Refused(422, "bad"), S.ATTEMPT_COMPLETED, -230),
    "deleted": Case(TO_DELETE, DELETE, Done(), S.DELETION_REQUESTED, 0),
    "was gone already": Case(TO_DELETE, DELETE, Missing(), S.DELETION_REQUESTED, 0),
    "not deleted": Case(TO_DELETE, DELETE, Failed("sick"), S.DELETION_PENDING, 0),
    "deleted by force, shows later": Case(task(S.DELETING, ended(0)), FORCE, Done(), S.DELETING, 0, later=True),
    "never seen, confirmed to be gone": Case(UNSEEN, CONFIRM, Missing(), S.ATTEMPT_COMPLETED, -111),
    "never seen, was there: ask again": Case(UNSEEN, CONFIRM, Done(), S.CREATION_REQUESTED, -111, later=True),
    "seen after all before it was confirmed": Case(SEEN, CONFIRM, Missing(), S.PREPARING, -111),
    "another Pod was confirmed to be gone": Case(UNSEEN_TOO, CONFIRM, Missing(), S.CREATION_REQUESTED, -111),
    "looked for, gone": Case(task(S.RUNNING), FIND, Missing(), S.RUNNING),
    "looked for, another one is there": Case(task(S.RUNNING), FIND, found("another"), S.RUNNING),
    "looked for, there: the cache is late": Case(task(S.RUNNING), FIND, found(), S.RUNNING, later=True),
    "looked for, there without its label": Case(task(S.RUNNING), FIND, found(labels=Labels()), S.RUNNING, -101),
    "looked for, not found out": Case(task(S.RUNNING), FIND, Failed("sick"), S.RUNNING),
    "looked for before its creation, there: wait": Case(task(), FIND, found(), S.CREATION_PENDING, later=True),
    "looked for before its creation, there without its label": Case(
        task(), FIND, found(labels=Labels()), S.CREATION_PENDING, later=True
    ),
    "deleted while it is not seen, until it is gone": Case(GONE, CONFIRM, Done(), S.RUNNING, -101, later=True),
    "an orphan is deleted, shows later": Case(task(), ORPHAN, Done(), S.CREATION_PENDING, later=True),
    "an orphan was gone already": Case(task(), ORPHAN, Missing(), S.CREATION_PENDING, later=True),
}


def test_of_many_names_in_use_fifty_are_looked_at_each_second() -> None:
    state = state_of(task())
    state.sightings.in_use |= dict.fromkeys((("pod", "worker", index) for index in range(5000)), None)
    assert answer(state, FIND, found(), 0).delayed_until(FIND.key, at(99)) is not None


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_task_moves_on_with_the_answer(case: Case) -> None:
    state = state_of(case.was)
    in_flight = answer(state, case.effect, case.outcome, 7.9)
    now = state.task(W0)
    assert now is not None
    assert (now.state, now.completion and now.completion.code) == (case.becomes, case.code)
    assert now.state is case.was.state or now.transition_time == at(7)
    assert (in_flight.delayed_until(case.effect.key, at(7.9)) is not None) == case.later
    assert W0 in state.dirty.take_dirty(at(7.9))


def test_the_pod_that_was_created_and_the_words_of_the_server_that_refused_one_are_in_the_status() -> None:
    created, refused = state_of(task()), state_of(task())
    answer(created, CREATE, Done(uid="new-uid"))
    answer(refused, CREATE, Refused(422, '{"kind":"Status"}'))
    assert created.roles["worker"].tasks[0].attempt_status.pod_uid == "new-uid"
    assert refused.roles["worker"].tasks[0].completion.diagnostics == 'Failed to create Pod: {"kind":"Status"}'
    assert not created.is_persisted(W0)


def test_an_outcome_for_a_task_that_was_removed_changes_nothing() -> None:
    state = state_of(task())
    before = state.revisions.now
    answer(state, DeletePod("worker", 5, "uid"), Done())
    answer(state, DeletePod("gone", 0, "uid"), Done())
    assert state.revisions.now == before


MAKE, REMOVE = CreateConfigMap(0, b"{}"), DeleteConfigMap(CONFIG_MAP_UID)
REMOVE_UNSEEN = DeleteConfigMap(CONFIG_MAP_UID, confirm=True)
REMOVE_ORPHAN = DeleteConfigMap("orphan-uid")
NEVER_SEEN = framework(S.CREATION_REQUESTED, framework_end(-110))
ENDING = framework(S.DELETION_PENDING, framework_end(0))
FRAMEWORK_CASES = {
    "created": Case(framework(), MAKE, Done(uid="new-uid"), S.CREATION_REQUESTED),
    "not created": Case(framework(), MAKE, Failed("sick"), S.CREATION_PENDING),
    "refused: no end of anything": Case(framework(), MAKE, Refused(403, "bad"), S.CREATION_PENDING),
    "deleted": Case(ENDING, REMOVE, Done(), S.DELETION_REQUESTED),
    "was gone already": Case(ENDING, REMOVE, Missing(), S.DELETION_REQUESTED),
    "not deleted": Case(ENDING, REMOVE, Failed("sick"), S.DELETION_PENDING),
    "another one was deleted": Case(ENDING, REMOVE_ORPHAN, Done(), S.DELETION_PENDING, later=True),
    "never seen, confirmed to be gone": Case(NEVER_SEEN, REMOVE_UNSEEN, Missing(), S.ATTEMPT_COMPLETED),
    "never seen, was there: ask again": Case(NEVER_SEEN, REMOVE_UNSEEN, Done(), S.CREATION_REQUESTED, later=True),
    "an orphan is deleted": Case(framework(), REMOVE_ORPHAN, Done(), S.CREATION_PENDING, later=True),
}


@pytest.mark.parametrize("case", FRAMEWORK_CASES.values(), ids=FRAMEWORK_CASES)
def test_a_framework_moves_on_with_the_answer(case: Case) -> None:
    state, in_flight = FrameworkState("fw"), InFlight(lambda: 0.5)
    state.set(case.was)
    apply_config_map_outcome(state, in_flight, case.effect, case.outcome, moment(7.9))
    assert state.status.state is case.becomes
    assert state.status == case.was or state.status.transition_time == at(7)
    assert (in_flight.delayed_until(CONFIG_MAP, at(7.9)) is not None) == case.later


def test_an_event_says_why_a_pod_is_not_created() -> None:
    state = state_of(task())
    state.reports.take(state.revisions.persisted)
    answer(state, CREATE, Failed("exceeded quota"))
    assert said(state) == [("FailedCreate", "Pod of worker-0: exceeded quota")]


@pytest.mark.parametrize("outcome", [Failed("sick"), Refused(403, "sick")], ids=["failed", "refused"])
def test_an_event_says_why_the_config_map_is_not_created(outcome: Outcome) -> None:
    state, in_flight = FrameworkState("fw"), InFlight(lambda: 0.5)
    state.set(framework())
    apply_config_map_outcome(state, in_flight, MAKE, outcome, moment(1))
    assert said(state) == [("FailedCreate", "ConfigMap: sick")]


RETAIN = RetainPod("worker", 0, POD_UID)


@pytest.mark.parametrize(
    ("outcome", "becomes", "is_given_up"),
    [
        (Done(), S.DELETION_REQUESTED, False),
        (Failed("busy"), S.DELETION_PENDING, False),
        (Missing(), S.DELETION_PENDING, True),
        (Refused(403, "pods is forbidden"), S.DELETION_PENDING, True),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_pod_stays_or_is_deleted_after_all(outcome: Outcome, becomes: State, *, is_given_up: bool) -> None:
    state = state_of(TO_DELETE)
    apply_retention_outcome(state, InFlight(lambda: 0.5), RETAIN, outcome, moment(1000))
    found = state.task(W0)
    assert found.state is becomes
    assert (POD_UID in state.sightings.not_retained) is is_given_up
