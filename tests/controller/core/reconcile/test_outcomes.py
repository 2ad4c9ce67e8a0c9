"""What an answer means for the Task or the Framework that asked: effect and outcome -> state."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from frameworkcontroller.api.meta import Labels, Meta, OwnerReference
from frameworkcontroller.api.spec import RetryPolicy
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkStatus, TaskStatus
from frameworkcontroller.core.effects import (
    CONFIG_MAP,
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeleteFramework,
    DeletePod,
    Done,
    Dropped,
    Effect,
    Failed,
    FindConfigMap,
    FindPod,
    Found,
    GrantRosterAccess,
    LabelConfigMap,
    Missing,
    Outcome,
    Refused,
    RetainPod,
    SetFinalizers,
    WriteRoster,
)
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.reconcile.outcomes import Denials, Outcomes, failure_of
from frameworkcontroller.core.status.state import FrameworkState
from tests.controller.core.values import (
    CONFIG_MAP_UID,
    FRAMEWORK_UID,
    POD_UID,
    at,
    creation,
    ended,
    events_in,
    framework,
    framework_end,
    known,
    moment,
    role,
    spec,
    task,
)

S = State
W0 = ("worker", 0)
CREATE, DELETE = creation(), DeletePod("worker", 0, POD_UID)
FORCE = DeletePod("worker", 0, POD_UID, grace_seconds=0)
CONFIRM = DeletePod("worker", 0, POD_UID, confirm=True)
ORPHAN = DeletePod("worker", 0, "orphan-uid", orphan=True)
FIND, RETAIN = FindPod("worker", 0), RetainPod("worker", 0, POD_UID)
UNSEEN = task(S.CREATION_REQUESTED, ended(-111))
UNSEEN_TOO = task(S.CREATION_REQUESTED, ended(-111), pod_uid="another")
SEEN = task(S.PREPARING, ended(-111))
GONE = task(S.RUNNING, ended(-101))
GIVEN_UP = task(S.CREATION_PENDING, ended(-230))
TO_DELETE = task(S.DELETION_PENDING, ended(0))
SICK, NO, DENIED = Failed("sick"), Refused(403, "no"), Failed("no", refused=True)
LET_GO = OwnerReference(kind="Framework", name="fw", uid=FRAMEWORK_UID, controller=True)
OF_THE_ATTEMPT = OwnerReference(kind="ConfigMap", name="fw-attempt", uid=CONFIG_MAP_UID, controller=True)


def found(uid: str = POD_UID, *, labelled: bool = True) -> Found:
    return Found(Meta("fw-worker-0", uid, "1", labels=Labels(framework="fw" if labelled else None)))


def retained(owner: OwnerReference, *, has_ended: bool) -> Found:
    labels = Labels(framework="fw", retained="true")
    return Found(Meta("fw-worker-0", POD_UID, "1", labels=labels, owner_references=(owner,)), has_ended)


STAYED, RUNS_AS_IF = (retained(LET_GO, has_ended=one) for one in (True, False))
HAS_LABEL, RUNS_WITH_LABEL = (retained(OF_THE_ATTEMPT, has_ended=one) for one in (True, False))


@dataclass(frozen=True)
class Case:
    """A Task or a Framework, what was asked for, what became of that, and what becomes of the Task or Framework."""

    was: TaskStatus | FrameworkStatus
    effect: Effect
    outcome: Outcome
    becomes: State
    code: int | None = None
    then: str = ""
    """What follows: it is asked for again `later`; or the set of the sightings that the Pod, or its name, is in."""
    said: str = ""
    """By an Event."""


def said(state: FrameworkState) -> list[str]:
    """The Events since the last call, once all is persisted."""
    state.mark_persisted(state.revisions.now)
    return [f"{one.reason}: {one.message}" for one in events_in(state.reports.take(state.revisions.persisted))]


def state_of(was: TaskStatus | FrameworkStatus) -> FrameworkState:
    state = FrameworkState("fw")
    state.set(framework(S.PREPARING) if isinstance(was, TaskStatus) else was)
    if isinstance(was, TaskStatus):
        list(state.rescale(spec(role("worker", 1)), at(0), lambda: "uid"))
        state.put(W0, was)
    said(state)
    state.dirty.take_dirty(at(0))
    return state


def answer(state: FrameworkState, effect: Effect, outcome: Outcome, seconds: float = 1) -> InFlight:
    """What is in flight once the outcome has come."""
    in_flight, now, writer = InFlight(lambda: 0.5), moment(seconds), None
    outcomes = Outcomes(state, in_flight, writer, FRAMEWORK_UID)  # type: ignore[arg-type]
    match effect:
        case CreatePod() | DeletePod() | FindPod() | RetainPod():
            outcomes.of_pod(effect, outcome, now, RetryPolicy())
        case CreateConfigMap() | DeleteConfigMap() | FindConfigMap():
            outcomes.of_config_map(effect, outcome, now)
    return in_flight


NOT_CREATED = "FailedCreate: Pod of worker-0: "
IN_USE = NOT_CREATED + "the name is in use"
DELETED_INSTEAD = "PodNotRetained: The Pod of worker-0 is deleted with its logs: "
CASES = {
    "created": Case(task(), CREATE, Done(uid="new-uid"), S.CREATION_REQUESTED),
    "not created": Case(task(), CREATE, SICK, S.CREATION_PENDING, said=NOT_CREATED + "sick"),
    "not created, no namespace": Case(task(), CREATE, Missing(), S.CREATION_PENDING),
    "not created, not wanted any more": Case(task(), CREATE, Dropped(), S.CREATION_PENDING),
    "refused with 400": Case(task(), CREATE, Refused(400, "bad"), S.ATTEMPT_COMPLETED, -310),
    "refused with 403": Case(task(), CREATE, Refused(403, "bad"), S.ATTEMPT_COMPLETED, -310),
    "refused with 413": Case(task(), CREATE, Refused(413, "bad"), S.ATTEMPT_COMPLETED, -200),
    "refused with 422": Case(task(), CREATE, Refused(422, "bad"), S.ATTEMPT_COMPLETED, -200),
    "refused after its end was decided": Case(GIVEN_UP, CREATE, Refused(422, "bad"), S.ATTEMPT_COMPLETED, -230),
    "deleted": Case(TO_DELETE, DELETE, Done(), S.DELETION_REQUESTED, 0),
    "was gone already": Case(TO_DELETE, DELETE, Missing(), S.DELETION_REQUESTED, 0),
    "not deleted": Case(TO_DELETE, DELETE, SICK, S.DELETION_PENDING, 0),
    "deleted by force, shows later": Case(task(S.DELETING, ended(0)), FORCE, Done(), S.DELETING, 0, "later"),
    "never seen, confirmed to be gone": Case(UNSEEN, CONFIRM, Missing(), S.ATTEMPT_COMPLETED, -111),
    "never seen, was there: ask again": Case(UNSEEN, CONFIRM, Done(), S.CREATION_REQUESTED, -111, "later"),
    "seen after all before it was confirmed": Case(SEEN, CONFIRM, Missing(), S.PREPARING, -111, "gone"),
    "another Pod was confirmed to be gone": Case(UNSEEN_TOO, CONFIRM, Missing(), S.CREATION_REQUESTED, -111, "gone"),
    "looked for, gone": Case(task(S.RUNNING), FIND, Missing(), S.RUNNING, then="gone"),
    "looked for, another one is there": Case(task(S.RUNNING), FIND, found("another"), S.RUNNING, then="gone"),
    "looked for, there: the cache is late": Case(task(S.RUNNING), FIND, found(), S.RUNNING, then="later"),
    "looked for, there without its label": Case(task(S.RUNNING), FIND, found(labelled=False), S.RUNNING, -101),
    "looked for, not found out": Case(task(S.RUNNING), FIND, SICK, S.RUNNING),
    "in the way, with its label": Case(task(), FIND, found(), S.CREATION_PENDING, None, "in_use", IN_USE),
    "in the way, without it": Case(task(), FIND, found(labelled=False), S.CREATION_PENDING, None, "in_use", IN_USE),
    "deleted while it is not seen, until it is gone": Case(GONE, CONFIRM, Done(), S.RUNNING, -101, "later"),
    "an orphan is deleted, shows later": Case(task(), ORPHAN, Done(), S.CREATION_PENDING, then="later"),
    "an orphan was gone already": Case(task(), ORPHAN, Missing(), S.CREATION_PENDING, then="later"),
    # Pods that are to stay
    "stays": Case(TO_DELETE, RETAIN, Done(), S.DELETION_REQUESTED, 0),
    "perhaps it stays later": Case(TO_DELETE, RETAIN, Failed("busy"), S.DELETION_PENDING, 0),
    "is gone": Case(TO_DELETE, RETAIN, Missing(), S.DELETION_PENDING, 0, "not_retained"),
    "may not stay": Case(TO_DELETE, RETAIN, NO, S.DELETION_PENDING, 0, "not_retained", DELETED_INSTEAD + "no"),
    "has stayed": Case(TO_DELETE, FIND, STAYED, S.DELETION_PENDING, 0, "gone"),
    # Whoever may change Pods may give one the label and the owner of a Pod that has stayed.
    "was made to look so, and runs": Case(TO_DELETE, FIND, RUNS_AS_IF, S.DELETION_PENDING, 0, "not_retained"),
    "has the label alone": Case(TO_DELETE, FIND, HAS_LABEL, S.DELETION_PENDING, 0, "not_retained"),
    "has the label alone, and runs": Case(TO_DELETE, FIND, RUNS_WITH_LABEL, S.DELETION_PENDING, 0, "not_retained"),
}


MAKE, REMOVE = CreateConfigMap(0, b"{}"), DeleteConfigMap(CONFIG_MAP_UID)
REMOVE_UNSEEN = DeleteConfigMap(CONFIG_MAP_UID, confirm=True)
REMOVE_ORPHAN = DeleteConfigMap("orphan-uid")
NEVER_SEEN = framework(S.CREATION_REQUESTED, framework_end(-110))
ENDING = framework(S.DELETION_PENDING, framework_end(0))
STARTED, REFUSED = "AttemptStarted: Attempt 0 has started", "FailedCreate: ConfigMap: "
OF_A_FRAMEWORK = {
    "a ConfigMap: created": Case(framework(), MAKE, Done(uid="new-uid"), S.CREATION_REQUESTED, said=STARTED),
    "a ConfigMap: not created": Case(framework(), MAKE, SICK, S.CREATION_PENDING, said=REFUSED + "sick"),
    "a ConfigMap: refused: no end of anything": Case(framework(), MAKE, NO, S.CREATION_PENDING, said=REFUSED + "no"),
    "a ConfigMap: deleted": Case(ENDING, REMOVE, Done(), S.DELETION_REQUESTED, 0),
    "a ConfigMap: was gone already": Case(ENDING, REMOVE, Missing(), S.DELETION_REQUESTED, 0),
    "a ConfigMap: not deleted": Case(ENDING, REMOVE, SICK, S.DELETION_PENDING, 0),
    "a ConfigMap: another one was deleted": Case(ENDING, REMOVE_ORPHAN, Done(), S.DELETION_PENDING, 0, "later"),
    "a ConfigMap: never seen, gone": Case(NEVER_SEEN, REMOVE_UNSEEN, Missing(), S.ATTEMPT_COMPLETED, -110),
    "a ConfigMap: never seen, was there": Case(NEVER_SEEN, REMOVE_UNSEEN, Done(), S.CREATION_REQUESTED, -110, "later"),
    "a ConfigMap: an orphan is deleted": Case(framework(), REMOVE_ORPHAN, Done(), S.CREATION_PENDING, then="later"),
}


@pytest.mark.parametrize("case", [*CASES.values(), *OF_A_FRAMEWORK.values()], ids=[*CASES, *OF_A_FRAMEWORK])
def test_an_attempt_moves_on_with_the_answer(case: Case) -> None:
    state = state_of(case.was)
    in_flight = answer(state, case.effect, case.outcome, 7.9)
    now = known(state.task(W0)) if isinstance(case.was, TaskStatus) else state.status
    assert (now.state, now.completion and now.completion.code) == (case.becomes, case.code)
    assert now.state is case.was.state or now.transition_time == at(7)
    assert (in_flight.delayed_until(case.effect.key, at(7.9)) is not None) == (case.then in {"later", "in_use"})
    assert isinstance(case.was, FrameworkStatus) or W0 in state.dirty.take_dirty(at(7.9))
    for name in ("gone", "not_retained", "in_use"):
        pods = {FIND.key} if name == "in_use" else {POD_UID}
        assert set(getattr(state.sightings, name)) == (pods if name == case.then else set())
    assert said(state) == ([case.said] if case.said else [])


@pytest.mark.parametrize("pod", [STAYED, RUNS_AS_IF, HAS_LABEL, RUNS_WITH_LABEL])
def test_a_task_that_goes_on_has_lost_a_pod_with_the_label_of_one_that_has_stayed(pod: Found) -> None:
    state = state_of(task(S.RUNNING))
    answer(state, FIND, pod)
    end = known(known(state.task(W0)).completion)
    assert (end.code, state.sightings.gone) == (-101, set())
    assert end.diagnostics.startswith("Pod has not ended and has the label")


def test_the_pod_that_was_created_and_the_words_of_the_server_that_refused_one_are_in_the_status() -> None:
    created, refused = state_of(task()), state_of(task())
    answer(created, CREATE, Done(uid="new-uid"))
    answer(refused, CREATE, Refused(422, '{"kind":"Status"}'))
    assert created.roles["worker"].tasks[0].attempt_status.pod_uid == "new-uid"
    end = known(refused.roles["worker"].tasks[0].completion)
    assert end.diagnostics == 'Failed to create Pod: {"kind":"Status"}'
    assert not created.is_persisted(W0)


def test_an_outcome_for_a_task_that_was_removed_changes_nothing() -> None:
    state = state_of(task())
    before = state.revisions.now
    for effect in (DeletePod("worker", 5, "uid"), DeletePod("gone", 0, "uid"), RetainPod("gone", 0, "uid")):
        answer(state, effect, Done())
    assert state.revisions.now == before


ROSTER, GRANT = WriteRoster("uid", 0, b"{}", "{}", complete=True), GrantRosterAccess((), "uid")
VERDICTS: dict[str, tuple[Effect, Outcome, Failed | None]] = {
    "a failure, whatever of": (ROSTER, SICK, SICK),
    "a Pod's refusal is an answer": (CREATE, NO, None),
    "a refused ConfigMap is tried again": (MAKE, NO, Failed("no", refused=True)),
    "a refused grant is tried again": (GRANT, NO, Failed("no", refused=True)),
    "no namespace for a Pod": (CREATE, Missing(), Failed("the namespace does not exist")),
    "no namespace for a ConfigMap": (MAKE, Missing(), Failed("the namespace does not exist")),
    "a Pod that is gone is gone": (DELETE, Missing(), None),
    "a ConfigMap that is gone is gone": (REMOVE, Missing(), None),
    "a Framework that is gone is gone": (DeleteFramework(), Missing(), None),
    "what was done": (CREATE, Done(uid="x"), None),
    "what was not wanted any more": (CREATE, Dropped(), None),
}


@pytest.mark.parametrize(("effect", "outcome", "failure"), VERDICTS.values(), ids=VERDICTS)
def test_which_outcomes_are_failures_to_back_off_for(effect: Effect, outcome: Outcome, failure: Failed | None) -> None:
    assert failure_of(effect, outcome) == failure


def test_every_effect_has_a_key_of_its_own() -> None:
    effects: list[Effect] = [CREATE, DELETE, MAKE, REMOVE, DeleteFramework(), ROSTER, GRANT]
    of_the_pod, others = ("pod", "worker", 0), [("framework",), ("roster",), ("access",)]
    assert [effect.key for effect in effects] == [of_the_pod, of_the_pod, CONFIG_MAP, CONFIG_MAP, *others]


@pytest.mark.parametrize(
    ("effect", "told"),
    [
        (DELETE, "FailedDelete: Pod of worker-0: no"),
        (REMOVE, "FailedDelete: ConfigMap: no"),
        (ROSTER, "FailedUpdate: ConfigMap: no"),
        (LabelConfigMap(CONFIG_MAP_UID, 0), "FailedUpdate: ConfigMap: no"),
        (SetFinalizers(b"[]", "1"), "FailedUpdate: finalizers of the Framework: no"),
        (GrantRosterAccess(("default",), CONFIG_MAP_UID), "FailedCreate: permission to read the ConfigMap: no"),
        (CREATE, ""),
        (MAKE, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_refused_is_told_once_until_it_succeeds(effect: Effect, told: str) -> None:
    """A gang whose roster a policy refused, and Pods whose deletion one did, stood still without a word."""
    tell, events = teller(), [told] if told else []
    assert [tell(effect, one) for one in (DENIED, DENIED, DENIED, Done())] == [[], events, [], []]
    assert [tell(effect, one) for one in (Done(), DENIED, Done(), SICK, SICK, DENIED)] == [[], [], [], [], [], events]


def teller() -> Callable[[Effect, Outcome], list[str]]:
    """What is said when an effect has this outcome."""
    in_flight = InFlight(lambda: 0.5)
    denials = Denials(in_flight)

    def tell(effect: Effect, outcome: Outcome) -> list[str]:
        failure = outcome if isinstance(outcome, Failed) else None
        event = denials.news(effect, failure)
        if failure is not None:
            in_flight.back_off(effect.key, failure, at(0))
        elif isinstance(effect, DeletePod):
            in_flight.recheck_later(effect.key, at(0), longer=True)
        else:
            in_flight.reset_delay(effect.key)
        return [] if event is None else [f"{event.reason}: {event.message}"]

    return tell


def test_of_a_thousand_pods_that_may_not_be_deleted_one_is_named() -> None:
    tell = teller()
    pods = [DeletePod("worker", index, POD_UID) for index in range(1000)]
    found = [tell(pod, Done() if pod.index % 2 else DENIED) for _ in range(2) for pod in pods]
    assert [one for one in found if one] == [["FailedDelete: Pod of worker-0: no"]]
