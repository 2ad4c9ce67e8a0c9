"""One Framework from its creation to its end: observations and outcomes in, effects out.

The order that makes it right: decide, show the new status at the API server, and only then act on what it announces. A
status write carries everything decided since the last one, and one is under way at a time; what may follow only from a
persisted state waits for its acknowledgement. The reason of a wake-up is never an input: what was seen is.

The status last written outranks every cache. It is lost only with the process, and then read back.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.states import ENDED, State

from . import classify, framework, roster, snapshots, task
from .book import Book
from .completion import decide_completion
from .decision import Decision, Pass, View
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
from .gang import Gang, identity_of, is_open
from .outbox import Outbox
from .settle import failure_of, settle_config_map, settle_pod
from .tasks import Tasks
from .template import facts_of
from .writer import StatusWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkcontroller.api.types import Framework, FrameworkSpec

    from .config import CoreConfig

# The Tasks wait in these states; in the ended ones they only look after what a lost answer left behind.
TASKS_WAIT: Final = frozenset({State.CREATION_PENDING, State.CREATION_REQUESTED})


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
        self._tasks = Tasks(meta, config, self._book)
        self._gang: Gang | None = None
        self._granted: tuple[str, ...] | None = None
        self._conflict_draw = draw()
        self.outpaced = False
        """Somebody else wrote the status: this reconciler is of no use any more, read it anew."""
        if self._writer.stored is not None:
            self._book.load(self._writer.stored)
            self._book.wait_for_arrival(wanted=facts_of(seen.spec).waits_for_arrival)
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

    def at_turn(self, effect: Effect, now: datetime) -> Effect | None:
        """What is to be performed now that an effect's turn has come; None if it ceased to be wanted: it is `Dropped`.

        A status is written with all that was decided while it waited.
        """
        match effect:
            case WriteStatus() if effect.revision != self._book.revision and self._spec is not None:
                return self._writer.compose(self._book, self._spec, self._generation, now, task.utc_seconds(now))
            case CreatePod():
                current = self._book.task((effect.role, effect.index))
                goes_on = current is not None and current.completion is None
                return effect if goes_on and not framework.is_ending(self._book.known) else None
        return effect

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

    def reconcile(self, now: datetime, view: View, *, crowded: bool = False) -> Decision:
        """Decide on everything that is dirty, and say what to do next.

        Args:
            now: the time.
            view: the Framework as the caches show it.
            crowded: writes of statuses queue for the API server.
        """
        if not self._outbox.is_busy(STATUS):
            self.outpaced = self.outpaced or self._writer.is_overtaken(view.framework)
        if self.outpaced:
            return Decision()
        spec = self._read_spec(view.framework)
        at = Pass(now, task.utc_seconds(now), view, spec, self._outbox, Decision(), crowded)
        if self._book.status is None:
            self._book.set(framework.new_status(self.name, at.stamp))
        if not framework.is_ending(self._book.known):
            self._book.rescale(at.spec, at.stamp, self._new_uid)
        self._step_framework(at)
        if self._book.known.state not in TASKS_WAIT:
            self._tasks.step(at)
            if self._follow_tasks(at):
                self._step_framework(at)
                self._tasks.step(at)
        self._tasks.take_snapshots(at)
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
        facts = facts_of(spec)
        self._accounts = facts.service_accounts
        self._book.wait_for_arrival(wanted=facts.waits_for_arrival)
        self._tasks.forget_templates()
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
            self._tasks.forget_templates()
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

    # --- effects -----------------------------------------------------------------------------------------------------

    def _act_on_framework(self, step: framework.Step, at: Pass) -> None:
        match step.action:
            case framework.Action.CREATE:
                total = sum(role.task_number for role in at.spec.task_roles or ())
                empty = roster.document(self._identity, 0, 0, total, by_arrival=self._book.waits_for_arrival)
                at.emit(CreateConfigMap(step.status.attempt_status.id, empty))
            case framework.Action.DELETE_FRAMEWORK:
                at.emit(DeleteFramework())
            case framework.Action.DELETE | framework.Action.DELETE_STRAY | framework.Action.DELETE_UNSEEN:
                assert step.uid is not None
                at.emit(DeleteConfigMap(step.uid, confirm=step.action is framework.Action.DELETE_UNSEEN))
            case None | framework.Action.RENEW:
                pass

    def _write_status(self, at: Pass) -> None:
        book = self._book
        if book.revision == book.acknowledged or self._outbox.is_busy(STATUS):
            return
        due = self._writer.due(book, at.spec, at.now, crowded=at.crowded)
        for until in (due, self._outbox.wait_until(STATUS, at.now)):
            if until is not None and at.now < until:
                at.decision.wake(until)
                return
        at.emit(self._writer.compose(book, at.spec, self._generation, at.now, at.stamp))

    def _grant_access(self, at: Pass) -> None:
        wanted = self._config.grant_roster_access and self._book.known.state is not State.COMPLETED
        if wanted and self._accounts and self._accounts != self._granted:
            at.emit(GrantRosterAccess(self._accounts))

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
                at.emit(effect)

    def _note_milestones(self, at: Pass) -> None:
        if self._gang is None or not is_open(self._book):
            return
        at.decision.milestones += self._gang.milestones(self._book, at.spec, at.now)

    @property
    def _identity(self) -> roster.Identity:
        return identity_of(self._book, self.namespace, self.name, self.uid)
