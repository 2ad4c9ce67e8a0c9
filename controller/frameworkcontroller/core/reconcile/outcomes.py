"""What the outcome of an effect means for the state machines."""

from typing import Final

from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.spec import RetryPolicy
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskStatus
from frameworkcontroller.core import events
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import (
    CONFIG_MAP,
    WORKLOAD,
    CreateCompanion,
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeletePod,
    Done,
    Effect,
    EffectKey,
    Failed,
    FindConfigMap,
    FindPod,
    Found,
    GrantRosterAccess,
    LabelConfigMap,
    Missing,
    NameTaken,
    Outcome,
    Refused,
    RetainPod,
    SetFinalizers,
    StaleStatus,
    WriteRoster,
    WriteStatus,
)
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.machines import attempt, framework, task
from frameworkcontroller.core.machines.orphans import is_hidden_pod, is_unlabelled
from frameworkcontroller.core.machines.retention import retained_by
from frameworkcontroller.core.policies import classification, completion
from frameworkcontroller.core.policies.retry import decide_retry
from frameworkcontroller.core.reconcile.in_flight import InFlight, Tries
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.writer import StatusWriter

# The API server understood the Pod and will never accept it (docs/reference/framework-api.md, section 5).
PERMANENT_REFUSALS = frozenset({413, 422})
TOO_LARGE: Final = 413
# One or two failed writes of a status are everyday life: a restart of the API server, a moment of overload.
FAILURES_UNTIL_EVENT: Final = 3
# So often a Task is retried at once whose Pod cannot be made.
FREE_RETRIES: Final = 5
# A Pod that cannot be let go is deleted: the end of a Task is worth more than its logs.
TRIES_TO_RETAIN: Final = 5


def failure_of(effect: Effect, outcome: Outcome) -> Failed | None:
    """Return the failure to back off for, None if there is none. To create or retain a Pod is refused for good."""
    match effect, outcome:
        case _, Failed():
            return outcome
        case _, NameTaken():
            # Names of Pods that are in use are looked at in turns of their own (`look_later`).
            return Failed(outcome.message, refused=not isinstance(effect, CreatePod))
        case CreatePod() | RetainPod(), Refused():
            return None
        case _, Refused():
            # No code ends an attempt for this, and the reason may pass (a quota, a namespace that is being deleted).
            return Failed(outcome.message, refused=True)
        case CreatePod() | CreateConfigMap(), Missing():
            return Failed("the namespace does not exist")
        case CreateCompanion(), Missing():
            what = "Kueue's Workloads are" if effect.key == WORKLOAD else "the groups of the scheduler are"
            return Failed(f"{what} not served, or the namespace does not exist")
        case _:
            return None


class Denials:
    """What is refused again and again, and told: of a kind one, as long as that one is."""

    def __init__(self, tries: Tries) -> None:
        self._tries = tries
        self._told: dict[type[Effect], EffectKey] = {}

    def news(self, effect: Effect, failure: Failed | None) -> KubeEvent | None:
        """Return the Event that is due after a try, of which `tries` does not know yet, None if none is.

        It is if the try before has failed, too. A policy may refuse the deletion of a thousand Pods.
        """
        kind, last_failure = type(effect), self._tries.last_failure
        if failure is None and self._told.get(kind) == effect.key:
            del self._told[kind]
        if failure is None or not failure.refused or not last_failure(effect.key):
            return None
        if kind in self._told and last_failure(self._told[kind]):
            return None
        self._told[kind] = effect.key
        return _event_of_refusal(effect, failure.message)


def _event_of_refusal(effect: Effect, message: str) -> KubeEvent | None:
    """Return the Event of what is refused and asked for again, None if something else tells that."""
    match effect:
        case DeletePod():
            return KubeEvent("FailedDelete", f"Pod of {effect.role}-{effect.index}: {message}", warning=True)
        case DeleteConfigMap():
            return KubeEvent("FailedDelete", f"ConfigMap: {message}", warning=True)
        case WriteRoster() | LabelConfigMap():
            return KubeEvent("FailedUpdate", f"ConfigMap: {message}", warning=True)
        case SetFinalizers():
            return KubeEvent("FailedUpdate", f"finalizers of the Framework: {message}", warning=True)
        case GrantRosterAccess():
            return events.of_failure("permission to read the ConfigMap", message)
        case _:
            return None


class Outcomes:
    """Takes in what has become of the status, of Pods, and of the ConfigMap."""

    def __init__(self, state: FrameworkState, in_flight: InFlight, writer: StatusWriter, framework_uid: str) -> None:
        self._state, self._in_flight, self._writer, self._uid = state, in_flight, writer, framework_uid

    def of_pod(
        self,
        effect: CreatePod | DeletePod | FindPod | RetainPod,
        outcome: Outcome,
        now: Now,
        retry_policy: RetryPolicy,
    ) -> None:
        """Advance the Task, if it is still the one that the effect was for."""
        task_key = (effect.role, effect.index)
        is_news = isinstance(effect, CreatePod) and self._count_creation(effect, outcome, now)
        self._state.dirty.touch(task_key)
        current = self._state.task(task_key)
        if current is None:
            self._state.sightings.in_use.pop(effect.key, None)
            return
        stamp, uid = now.stamp, current.attempt_status.pod_uid
        match effect, outcome:
            case FindPod(), _:
                self._apply_search(current, effect, outcome, now)
            case RetainPod(), _:
                self._apply_retention(current, effect, outcome, now)
            case CreatePod(), Done():
                self._state.put(task_key, task.record_pod(current, outcome.uid, stamp))
            case CreatePod(), Failed() if is_news:
                self._state.add_event(events.of_failure(f"Pod of {effect.role}-{effect.index}", outcome.message))
            case CreatePod(), Refused():
                self._apply_refusal(current, effect, outcome, retry_policy, now)
            case DeletePod(confirm=True), Missing() if effect.uid == uid and current.state is State.CREATION_REQUESTED:
                self._state.put(task_key, attempt.move(current, State.ATTEMPT_COMPLETED, stamp))
            case DeletePod(confirm=True), Missing():
                self._state.sightings.gone.add(effect.uid)
            case DeletePod(orphan=False, confirm=False), Done() | Missing() if current.state is State.DELETION_PENDING:
                self._state.put(task_key, attempt.move(current, State.DELETION_REQUESTED, stamp))
            case DeletePod(), Done() | Missing():
                if isinstance(outcome, Missing):
                    self._state.sightings.in_use.pop(effect.key, None)
                self._in_flight.recheck_later(effect.key, now.steady, longer=isinstance(outcome, Done))
            case _:
                pass

    def _apply_refusal(
        self, current: TaskStatus, effect: CreatePod, refused: Refused, retry_policy: RetryPolicy, now: Now
    ) -> None:
        """End the attempt of a Task whose Pod is refused for good.

        One that is retried would be refused again: its role waits, and a Task that is retried without a limit stays as
        it is while the reason does. A Pod that was not sent costs no request, so the first retries need no pause.
        """
        role, task_key, refusals = effect.role, (effect.role, effect.index), self._in_flight.refusals
        refusals.spending.pay(effect.source.size, now.steady, sent=refused.sent)
        is_permanent = refused.code in PERMANENT_REFUSALS
        code = Code.POD_CREATION_PERMANENT_ERROR if is_permanent else Code.POD_CREATION_UNKNOWN_ERROR
        end = classification.predefined(code, f"Failed to create Pod: {refused.message}")
        is_over = current.deletion_pending or current.completion is not None or framework.is_ending(self._state.status)
        reason = refused.message.replace(current.attempt_status.pod_name, "")
        retried = current.retry_policy_status.total_retried_count
        if is_over or not decide_retry(retry_policy, current.retry_policy_status, end).wanted:
            refusals.give_up(role, reason, now.steady)
        elif refused.sent or retry_policy.max_retry_count < 0 or retried >= FREE_RETRIES:
            known = refusals.window(role)
            window = refusals.refuse(role, reason, now.steady)
            if window.equal and retry_policy.max_retry_count < 0:
                return
            if known is not None and known.equal and not window.equal:
                text = f"{end.diagnostics}; {known.equal + 1} creations of the TaskRole were refused alike before"
                end = replace(end, diagnostics=text)
        self._state.put(task_key, attempt.move(attempt.complete(current, end), State.ATTEMPT_COMPLETED, now.stamp))

    def _apply_retention(self, current: TaskStatus, effect: RetainPod, outcome: Outcome, now: Now) -> None:
        """Take in whether the Pod of a Task that has ended stays; if it cannot, it is deleted as any other."""
        match outcome:
            case Done() if current.state is State.DELETION_PENDING:
                self._state.put((effect.role, effect.index), attempt.move(current, State.DELETION_REQUESTED, now.stamp))
            case Missing():
                self._state.sightings.not_retained.add(effect.uid)
            case Failed() if self._in_flight.failures(effect.key) < TRIES_TO_RETAIN:
                pass
            case Refused() | Failed():
                self._state.sightings.not_retained.add(effect.uid)
                text = f"The Pod of {effect.role}-{effect.index} is deleted with its logs: {outcome.message}"
                self._state.add_event(KubeEvent("PodNotRetained", text, warning=True))
                self._in_flight.reset_delay(effect.key)
            case _:
                pass

    def _count_creation(self, effect: CreatePod, outcome: Outcome, now: Now) -> bool:
        """Tell the slow start, and report whether a failure is news: not one more of the same batch."""
        if isinstance(outcome, Done):
            self._in_flight.slow_start.succeed(now.steady)
            self._in_flight.refusals.open(effect.role, taken=True)
        failure = failure_of(effect, outcome)
        if failure is None or isinstance(outcome, NameTaken):
            return False
        self._in_flight.refusals.spending.note_failure(now.steady)
        return self._in_flight.fail_creation(failure, now.steady)

    def of_status(self, effect: WriteStatus, outcome: Outcome, now: Now) -> bool:
        """Take in the outcome of a write of the status, and report whether another writer has changed it."""
        match outcome:
            case Done():
                self._writer.apply_outcome(effect, outcome, self._state)
            case Missing():
                self._in_flight.recheck_later(effect.key, now.steady)
            case Refused() | Failed():
                self._apply_status_failure(effect, outcome)
        return isinstance(outcome, StaleStatus)

    def _apply_status_failure(self, effect: WriteStatus, outcome: Failed | Refused) -> None:
        """Take in a write of the status that the API server did not take; it is asked for again after a back-off.

        If the status is too large, no later one of this attempt fits: the attempt fails, and is written without its
        Tasks. Their Pods are deleted with the ConfigMap, whose UID stays in the status.
        """
        failures = self._in_flight.failures(effect.key)
        is_current = effect.status.attempt_status.id == self._state.status.attempt_status.id
        self._writer.apply_failure(effect, outcome)
        is_too_large = isinstance(outcome, Refused) and outcome.code == TOO_LARGE
        if is_too_large and is_current and not self._state.too_large:
            tasks = sum(len(role.task_statuses) for role in effect.summary.roles)
            text = (
                f"The status of {tasks} Tasks is larger than the API server accepts ({outcome.message[:200]}): "
                "use fewer Tasks or smaller Pod templates, or set largeFrameworkCompression of the controller"
            )
            self._state.too_large = text
            end = completion.predefined(Code.POD_CREATION_PERMANENT_ERROR, text)
            self._state.set(attempt.complete(self._state.status, end))
            self._in_flight.reset_delay(effect.key)
        worth_telling = 1 if isinstance(outcome, Refused) else FAILURES_UNTIL_EVENT
        if failures == worth_telling:
            # At once: the status that it speaks of may never be persisted.
            text = f"The status cannot be written: {outcome.message}"
            self._state.reports.add(KubeEvent("FailedStatusWrite", text, warning=True))

    def _apply_search(self, current: TaskStatus, effect: FindPod, outcome: Outcome, now: Now) -> None:
        """Take in what the API server has under the name of a Task's Pod that the cache does not show."""
        uid = current.attempt_status.pod_uid
        if uid is None and isinstance(outcome, Found) and self._state.sightings.in_use.get(effect.key) is None:
            is_foreign = outcome.metadata.annotations.get(names.FRAMEWORK_UID) != self._uid
            if is_foreign:
                self._state.add_event(events.of_failure(f"Pod of {effect.role}-{effect.index}", events.NAME_IN_USE))
        found = self._find(effect, outcome, uid, now)
        if found is None:
            return
        if current.completion is not None:
            # One that was let go has ended, whoever gave it the label; any other is deleted by its UID.
            is_let_go = found.has_ended and bool(retained_by(found.metadata))
            (self._state.sightings.gone if is_let_go else self._state.sightings.not_retained).add(found.metadata.uid)
        elif is_hidden_pod(found.metadata):
            changed = "has lost its label" if is_unlabelled(found.metadata) else "has not ended and has the label"
            label = names.FRAMEWORK_NAME if is_unlabelled(found.metadata) else names.RETAINED_LABEL
            text = f"Pod {changed} {label} and is deleted: whoever changed that gave the Pod up"
            lost = classification.predefined(Code.POD_EXTERNAL_DELETED, text)
            self._state.put((effect.role, effect.index), attempt.complete(current, lost))
        else:
            self._in_flight.recheck_later(effect.key, now.steady)

    def _find(self, effect: FindPod | FindConfigMap, outcome: Outcome, uid: str | None, now: Now) -> Found | None:
        """Take in what the API server has under a name, and return it if it is the object of this UID.

        Without a UID it is in the way of one that is to be created. The cache will show it, or it is hidden and
        deleted, or it is not ours: look again later and later, and at fifty names of a namespace a second.
        """
        in_use = self._state.sightings.in_use
        if isinstance(outcome, Missing):
            in_use.pop(effect.key, None)
        if isinstance(outcome, Found) and outcome.metadata.uid == uid:
            return outcome
        if isinstance(outcome, Found | Missing) and uid is not None:
            self._state.sightings.gone.add(uid)
        elif isinstance(outcome, Found):
            in_use[effect.key] = outcome.metadata
            self._in_flight.look_later(effect.key, events.NAME_IN_USE, now.steady)
        return None

    def of_config_map(
        self, effect: CreateConfigMap | DeleteConfigMap | FindConfigMap, outcome: Outcome, now: Now
    ) -> None:
        """Advance the Framework attempt, if it is still the one that the effect was for."""
        status, stamp = self._state.status, now.stamp
        uid = status.attempt_status.config_map_uid
        match effect, outcome:
            case CreateConfigMap(), Done():
                self._state.set(framework.record_config_map(status, outcome.uid, stamp))
            case FindConfigMap(), _:
                found = self._find(effect, outcome, uid, now)
                if found is not None and is_unlabelled(found.metadata):
                    self._state.sightings.in_use[CONFIG_MAP] = found.metadata
                elif found is not None:
                    self._in_flight.recheck_later(CONFIG_MAP, now.steady)
            case CreateConfigMap(), Failed() | Refused() | NameTaken():
                self._state.add_event(events.of_failure("ConfigMap", outcome.message))
            case DeleteConfigMap(confirm=True), Missing() if status.state is State.CREATION_REQUESTED:
                self._state.set(attempt.move(status, State.ATTEMPT_COMPLETED, stamp))
            case DeleteConfigMap(confirm=True), Missing():
                self._state.sightings.gone.add(effect.uid)
            case DeleteConfigMap(confirm=False), Done() | Missing() if (
                effect.uid == uid and status.state is State.DELETION_PENDING
            ):
                self._state.set(attempt.move(status, State.DELETION_REQUESTED, stamp))
            case DeleteConfigMap(), Done() | Missing():
                if isinstance(outcome, Missing):
                    self._state.sightings.in_use.pop(effect.key, None)
                self._in_flight.recheck_later(effect.key, now.steady)
            case _:
                pass

    def of_label(self, outcome: Outcome, now: Now) -> None:
        """Take in whether the ConfigMap has its label again; the next time is some seconds later at the earliest."""
        if isinstance(outcome, Done | Missing):
            self._state.sightings.in_use.pop(CONFIG_MAP, None)
            self._in_flight.recheck_later(LabelConfigMap.key, now.steady)
        if isinstance(outcome, Done):
            self._state.add_event(events.of_restored_roster(self._state.status.attempt_status.config_map_name))
