"""One Framework from its creation to its end: observations and outcomes in, effects out.

The order that makes it right: decide, show the new status at the API server, and only then act on what it announces. A
status write carries everything decided since the last one, and one is under way at a time; what may follow only from a
persisted state waits for its acknowledgement. The reason of a wake-up is never an input: what was seen is.

The status last written outranks every cache. It is lost only with the process, and then read back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.states import ENDED, State
from frameworkcontroller.api.types import RetryPolicy, TaskSpec

from . import announce, classify, framework, roster, snapshots, task
from .book import Book, Slot, Transition
from .completion import decide_completion
from .effects import (
    CONFIG_MAP,
    ROSTER,
    STATUS,
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeleteFramework,
    DeletePod,
    Done,
    Effect,
    Failed,
    GrantRosterAccess,
    Key,
    Missing,
    Outcome,
    Outpaced,
    Refused,
    WriteRoster,
    WriteStatus,
)
from .gang import Gang, Milestone, identity_of, is_open
from .outbox import Outbox
from .settle import failure_of, settle_config_map, settle_pod
from .template import AttemptNames, PodTemplate, TemplateError, service_accounts
from .writer import StatusWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkcontroller.api.types import Framework, FrameworkSpec, Partial, Pod

    from .announce import Announcement
    from .config import CoreConfig
    from .ledger import RoleLedger

# The Pod of a Task in one of these has shown up.
SEEN: Final = frozenset({State.PREPARING, State.RUNNING})
# The Tasks wait in these states; in the ended ones they only look after what a lost answer left behind.
TASKS_WAIT: Final = frozenset({State.CREATION_PENDING, State.CREATION_REQUESTED})


class View(Protocol):
    """What the caches show of one Framework."""

    @property
    def framework(self) -> Framework:
        """The object as last seen."""

    def config_map(self) -> Partial | None:
        """Whatever has the name of its ConfigMap."""

    def pod(self, name: str) -> Pod | None:
        """Whatever has the name of one of its Pods."""


@dataclass
class Decision:
    """What to do now, what to tell, and when to look again without being told."""

    effects: list[Effect] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    announcements: list[Announcement] = field(default_factory=list)
    milestones: list[Milestone] = field(default_factory=list)
    snapshots: list[snapshots.Snapshot] = field(default_factory=list)
    """To be kept before any effect is performed: one of them may overwrite what they show."""
    wake_at: datetime | None = None

    def wake(self, at: datetime | None) -> None:
        """Look again at this time at the latest."""
        if at is not None and (self.wake_at is None or at < self.wake_at):
            self.wake_at = at


@dataclass(frozen=True)
class Pass:
    """One call of :meth:`FrameworkReconciler.reconcile`: what it sees, and what it decides."""

    now: datetime
    stamp: datetime
    """``now`` in whole seconds, as statuses hold it."""
    view: View
    spec: FrameworkSpec
    decision: Decision


class FrameworkReconciler:
    """The state machines of one Framework instance, and what is under way for it.

    Args:
        seen: the Framework as the API server shows it; its status is where to go on from.
        config: the settings.
        new_uid: gives a fresh UUID.
        draw: gives a random number in [0, 1).
    """

    def __init__(
        self, seen: Framework, config: CoreConfig, *, new_uid: Callable[[], str], draw: Callable[[], float]
    ) -> None:
        meta = seen.metadata
        self.namespace, self.name, self.uid = meta.namespace, meta.name, meta.uid
        self._config, self._new_uid, self._draw = config, new_uid, draw
        self._book = Book(meta.name)
        self._outbox = Outbox(draw)
        self._spec: FrameworkSpec | None = None
        self._raw_spec = b""
        self._accounts: tuple[str, ...] = ()
        self._writer = StatusWriter(seen)
        self._generation = self._writer.generation
        self._templates: dict[str, PodTemplate] = {}
        self._gang: Gang | None = None
        self._granted: tuple[str, ...] | None = None
        self._conflict_draw = draw()
        self.outpaced = False
        """Somebody else wrote the status: this reconciler is of no use any more, read it anew."""
        if self._writer.stored is not None:
            self._book.load(self._writer.stored)
            self._writer.shown = self._book.show(seen.spec)

    # --- what others may know ----------------------------------------------------------------------------------------

    @property
    def state(self) -> State | None:
        """The Framework's state, None before it was first decided on."""
        return None if self._book.status is None else self._book.status.state

    @property
    def ready(self) -> tuple[int, int]:
        """Tasks that are ready, and all that the spec asks for, as last shown."""
        shown = self._writer.shown
        return (0, 0) if shown is None else (shown.ready, shown.total)

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way and all that was decided is shown."""
        return self._outbox.idle and self._book.revision == self._book.acknowledged and self._book.status is not None

    @property
    def troubles(self) -> dict[Key, str]:
        """What could not be done at its last try."""
        return self._outbox.troubles

    @property
    def tasks_by_state(self) -> Counter[State]:
        """How many Tasks are in which state."""
        return sum((ledger.by_state for ledger in self._book.roles.values()), Counter())

    # --- inputs ------------------------------------------------------------------------------------------------------

    def touch_pod(self, name: str) -> None:
        """Something about the Pod of this name was seen."""
        role, _, number = name.removeprefix(f"{self.name}-").rpartition("-")
        slot = (role, int(number) if number.isdecimal() else -1)
        if self._book.task(slot) is not None:
            self._book.touch(slot)
            # What stood in the way may be gone; a name that is still taken answers so again, cheaply.
            self._outbox.forgive(("pod", *slot))

    def touch_config_map(self) -> None:
        """Something about the ConfigMap was seen."""
        self._outbox.forgive(CONFIG_MAP)

    def is_wanted(self, effect: Effect) -> bool:
        """Whether an effect that has waited for its turn is still to be performed; if not, it is `Dropped`."""
        if not isinstance(effect, CreatePod):
            return True
        current = self._book.task((effect.role, effect.index))
        return current is not None and current.completion is None and not framework.is_ending(self._book.known)

    def settle(self, effect: Effect, outcome: Outcome, now: datetime) -> None:
        """Take in what became of an effect."""
        self._outbox.answered(effect.key)
        failure = failure_of(effect, outcome)
        if failure is not None:
            self._outbox.back_off(effect.key, failure, now)
        else:
            self._outbox.forgive(effect.key)
        match effect:
            case WriteStatus():
                self._settle_status(effect, outcome, now)
            case CreatePod() | DeletePod():
                settle_pod(self._book, self._outbox, effect, outcome, now)
            case CreateConfigMap() | DeleteConfigMap():
                settle_config_map(self._book, self._outbox, effect, outcome, now)
            case WriteRoster():
                if self._gang is not None:
                    self._gang.settle(effect, done=isinstance(outcome, Done))
                if isinstance(outcome, Missing):
                    self._outbox.ask_again_later(effect.key, now)
            case GrantRosterAccess():
                if failure is None:
                    self._granted = effect.service_accounts
            case DeleteFramework():
                if failure is None:
                    self._outbox.ask_again_later(effect.key, now)

    def _settle_status(self, effect: WriteStatus, outcome: Outcome, now: datetime) -> None:
        match outcome:
            case Done():
                self._writer.settle(effect, outcome, self._book)
            case Outpaced():
                self.outpaced = True
            case Missing():
                self._outbox.ask_again_later(effect.key, now)
            case Refused() | Failed():
                pass

    # --- the pass ----------------------------------------------------------------------------------------------------

    def reconcile(self, now: datetime, view: View) -> Decision:
        """Decide on everything that is dirty, and say what to do next."""
        at = Pass(now, task.utc_seconds(now), view, self._read_spec(view.framework), Decision())
        if self._book.status is None:
            self._book.set(framework.new_status(self.name, at.stamp))
        if not framework.is_ending(self._book.known):
            self._book.rescale(at.spec, at.stamp, self._new_uid)
        self._step_framework(at)
        if self._book.known.state not in TASKS_WAIT:
            self._step_tasks(at)
            if self._follow_tasks(at):
                self._step_framework(at)
                self._step_tasks(at)
        self._take_snapshots(at)
        self._grant_access(at)
        self._write_status(at)
        self._write_roster(at)
        self._note_milestones(at)
        at.decision.wake(self._book.next_alarm)
        at.decision.transitions = self._book.take_transitions()
        at.decision.announcements = self._book.take_announcements()
        return at.decision

    def _read_spec(self, seen: Framework) -> FrameworkSpec:
        """The spec as seen, decoded only if it has changed: most of what is seen are our own writes of the status."""
        if self._spec is not None and bytes(seen.raw_spec) == self._raw_spec:
            return self._spec
        spec, generation = seen.spec, seen.metadata.generation
        self._spec, self._raw_spec = spec, bytes(seen.raw_spec)
        self._accounts = service_accounts(spec)
        self._templates.clear()
        if generation != self._generation:
            # Shown as observedGeneration, also if nothing else follows from it.
            self._generation = generation
            self._book.touch_own()
        for role in spec.task_roles or ():
            self._book.set_graceful_timeout(role.name, role.task.pod_graceful_deletion_timeout_sec)
        return spec

    def _step_framework(self, at: Pass) -> None:
        book = self._book
        while True:
            step = framework.step(book.known, at.view.config_map(), self._attempt_context(at), persisted=book.shown)
            if step.status != book.known:
                book.set(step.status)
            at.decision.wake(step.wake_at)
            if step.action is not framework.Action.RENEW:
                break
            assert self._writer.stored is not None
            taken = snapshots.of_framework(snapshots.Trigger.FRAMEWORK_RETRY, at.view.framework, self._writer.stored)
            at.decision.snapshots.append(taken)
            book.renew()
            book.rescale(at.spec, at.stamp, self._new_uid)
            self._outbox.forgive_all()
            self._templates.clear()
            self._gang = None
            self._conflict_draw = self._draw()
        if framework.is_ending(book.known):
            self._end_tasks(at, over=book.known.state in ENDED)
        self._act_on_framework(step, at)

    def _attempt_context(self, at: Pass) -> framework.AttemptContext:
        low, high = self._config.framework_min_retry_delay_sec, self._config.framework_max_retry_delay_sec
        conflict = framework.may_conflict(self._book.known)
        return framework.AttemptContext(
            now=at.stamp,
            name=self.name,
            uid=self.uid,
            spec=at.spec,
            being_deleted=at.view.framework.metadata.deletion_timestamp is not None,
            creation_timeout=timedelta(seconds=self._config.object_local_cache_creation_timeout_sec),
            completed_retain=timedelta(seconds=self._config.framework_completed_retain_sec),
            conflict_delay_sec=low + int(self._conflict_draw * (high - low + 1)) if conflict else 0,
            requests_in_flight=self._outbox.any_of("pod", "configmap"),
            creates_pods=self._outbox.creates_pods,
            has_pods=self._book.has_pods,
        )

    def _end_tasks(self, at: Pass, *, over: bool) -> None:
        """Once the attempt's end is decided, so is every Task's; once it is over, every Task is."""
        if not self._book.tell_tasks_once(over=over):
            return
        ending = classify.predefined(Code.FRAMEWORK_ATTEMPT_COMPLETION, task.ATTEMPT_ENDED)
        for slot in self._book.slots():
            current = self._book.task(slot)
            assert current is not None
            ended = task.conclude(current, at.stamp) if over else task.complete(current, ending)
            if ended is not current:
                self._book.put(slot, ended)
                self._book.touch(slot)

    def _follow_tasks(self, at: Pass) -> bool:
        """Move on with what the Tasks have done; whether the attempt may move on with that."""
        book = self._book
        if book.known.state is State.PREPARING and any(ledger.ran for ledger in book.roles.values()):
            book.set(framework.move(book.known, State.RUNNING, at.stamp))
        if framework.is_ending(book.known):
            return book.known.state not in ENDED and not book.has_pods
        completion = decide_completion(at.spec, book.roles)
        if completion is None:
            return False
        book.set(framework.complete(book.known, completion))
        return True

    def _step_tasks(self, at: Pass) -> None:
        policies = {role.name: role.task.retry_policy for role in at.spec.task_roles or ()}
        contexts: dict[str, task.TaskContext] = {}
        for slot in self._book.take_dirty(at.now):
            current = self._book.task(slot)
            if current is None or self._outbox.is_busy(("pod", *slot)):
                continue  # its outcome will make it dirty again
            name = slot[0]
            if name not in contexts:
                contexts[name] = task.TaskContext(
                    now=at.stamp,
                    retry_policy=policies.get(name, RetryPolicy()),
                    graceful_timeout_sec=self._book.roles[name].graceful_timeout_sec,
                    creation_timeout=timedelta(seconds=self._config.object_local_cache_creation_timeout_sec),
                    codes=self._config.codes,
                    attempt_ending=framework.is_ending(self._book.known),
                    config_map_name=names.config_map_name(self.name),
                    framework_uid=self.uid,
                )
            pod = at.view.pod(current.attempt_status.pod_name)
            step = task.step(current, pod, contexts[name], persisted=self._book.is_shown(slot))
            if step.task != current:
                self._book.put(slot, step.task)
                first_seen = current.state is State.CREATION_REQUESTED and step.task.state in SEEN
                unguarded = announce.of_unguarded(pod) if pod is not None and first_seen else None
                if unguarded is not None:
                    self._book.announce(unguarded)
            if step.wake_at is not None:
                self._book.touch_at(slot, step.wake_at)
            if step.action is not None:
                self._act_on_task(slot, step, at)

    # --- effects -----------------------------------------------------------------------------------------------------

    def _act_on_framework(self, step: framework.Step, at: Pass) -> None:
        match step.action:
            case framework.Action.CREATE:
                total = sum(role.task_number for role in at.spec.task_roles or ())
                empty = roster.document(self._identity, 0, 0, total)
                self._emit(CreateConfigMap(step.status.attempt_status.id, empty), at)
            case framework.Action.DELETE_FRAMEWORK:
                self._emit(DeleteFramework(), at)
            case framework.Action.DELETE | framework.Action.DELETE_STRAY | framework.Action.DELETE_UNSEEN:
                assert step.uid is not None
                self._emit(DeleteConfigMap(step.uid, confirm=step.action is framework.Action.DELETE_UNSEEN), at)
            case None | framework.Action.RENEW:
                pass

    def _act_on_task(self, slot: Slot, step: task.Step, at: Pass) -> None:
        effect: Effect
        if step.action is not task.Action.CREATE:
            assert step.pod_uid is not None
            effect = DeletePod(
                *slot,
                step.pod_uid,
                grace_seconds=0 if step.action is task.Action.DELETE_FORCED else None,
                confirm=step.action is task.Action.DELETE_UNSEEN,
                recorded=step.action is not task.Action.DELETE_STRAY,
            )
        elif not self._book.shown:
            # The ConfigMap that will own the Pod is not recorded yet.
            self._book.touch_when_shown(slot)
            return
        else:
            try:
                template = self._template(self._book.roles[slot[0]], at.spec)
            except TemplateError as error:
                refusal = classify.predefined(Code.POD_CREATION_PERMANENT_ERROR, f"Failed to create Pod: {error}")
                ended = task.complete(step.task, refusal)
                self._book.put(slot, task.move(ended, State.ATTEMPT_COMPLETED, at.stamp))
                return
            effect = CreatePod(*slot, step.task.instance_uid, step.task.attempt_status.id, template)
        until = self._emit(effect, at)
        if until is not None:
            self._book.touch_at(slot, until)

    def _take_snapshots(self, at: Pass) -> None:
        """Of Tasks that this pass has put others in the place of; their last state is shown, else it would not have."""
        for one in self._book.take_forgotten():
            spec = next((role.task for role in at.spec.task_roles or () if role.name == one.role), TaskSpec())
            shared = self._attempt_names(one.role, one.role_uid)
            at.decision.snapshots.append(snapshots.of_task(one.trigger, at.view.framework, shared, spec, one.task))

    def _attempt_names(self, role: str, role_uid: str) -> AttemptNames:
        attempt = self._book.known.attempt_status
        return AttemptNames(
            namespace=self.namespace,
            framework=self.name,
            framework_uid=self.uid,
            framework_attempt_id=attempt.id,
            config_map_uid=attempt.config_map_uid or "",
            role=role,
            role_uid=role_uid,
        )

    def _template(self, ledger: RoleLedger, spec: FrameworkSpec) -> PodTemplate:
        template = self._templates.get(ledger.name)
        if template is None:
            assert self._book.known.attempt_status.config_map_uid is not None
            shared = self._attempt_names(ledger.name, ledger.instance_uid)
            raw = next(role.task.pod for role in spec.task_roles or () if role.name == ledger.name)
            template = self._templates[ledger.name] = PodTemplate(bytes(raw), shared)
        return template

    def _emit(self, effect: Effect, at: Pass) -> datetime | None:
        """Ask for the effect, unless its last try calls for patience; until when, in that case."""
        until = self._outbox.wait_until(effect.key, at.now)
        if until is not None:
            at.decision.wake(until)
        elif self._outbox.send(effect):
            at.decision.effects.append(effect)
        return until

    def _write_status(self, at: Pass) -> None:
        book = self._book
        if book.revision == book.acknowledged or self.outpaced or self._outbox.is_busy(STATUS):
            return
        for due in (self._writer.due(book, at.spec), self._outbox.wait_until(STATUS, at.now)):
            if due is not None and at.now < due:
                at.decision.wake(due)
                return
        self._emit(self._writer.compose(book, at.spec, self._generation, at.now, at.stamp), at)

    def _grant_access(self, at: Pass) -> None:
        wanted = self._config.grant_roster_access and self._book.known.state is not State.COMPLETED
        if wanted and self._accounts and self._accounts != self._granted:
            self._emit(GrantRosterAccess(self._accounts), at)

    def _write_roster(self, at: Pass) -> None:
        seen, shown = at.view.config_map(), self._writer.shown
        uid = self._book.known.attempt_status.config_map_uid
        if not is_open(self._book) or shown is None or seen is None or seen.metadata.uid != uid:
            return
        if self._gang is None or self._gang.config_map_uid != uid:
            self._gang = Gang(seen.metadata, self._identity)
        until = self._outbox.wait_until(ROSTER, at.now)
        if until is not None:
            at.decision.wake(until)
        elif not self._outbox.is_busy(ROSTER):
            effect, wake_at = self._gang.decide(self._book, self._outbox, at.view, shown, at.now)
            at.decision.wake(wake_at)
            if effect is not None:
                self._emit(effect, at)

    def _note_milestones(self, at: Pass) -> None:
        if self._gang is None or not is_open(self._book):
            return
        at.decision.milestones += self._gang.milestones(self._book, at.spec, at.now)

    @property
    def _identity(self) -> roster.Identity:
        return identity_of(self._book, self.namespace, self.name, self.uid)
