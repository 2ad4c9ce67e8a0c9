"""One Framework from its creation to its end: observations and outcomes in, effects out.

The engine keeps one `FrameworkReconciler` per Framework. It calls `touch_pod` and `touch_config_map` for what the
informers see, `steps` when the work queue gives the Framework a turn, `at_turn` right before it performs an effect,
and `apply_outcome` with the outcome. All calls come from one thread.

A reconciler decides, persists the new status, and only then acts on what the status announces. A status write carries
everything decided since the last one, and one is in flight at a time; what may follow only from a persisted state waits
for it. The reason of a wake-up is never an input: only what is observed is. The status last written outranks every
cache; a new controller reads it back from the API server.
"""

from collections import Counter
from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Final

from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import (
    CONFIG_MAP,
    WORKLOAD,
    AskLogs,
    AskProgress,
    CreateCompanion,
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeleteFramework,
    DeletePod,
    Done,
    Effect,
    Failed,
    FindConfigMap,
    FindPod,
    Found,
    GrantRosterAccess,
    LabelConfigMap,
    NameTaken,
    OfCompanion,
    Outcome,
    Refused,
    RetainPod,
    SetFinalizers,
    WriteRoster,
    WriteStatus,
)
from frameworkcontroller.core.gang.publisher import GangStatus
from frameworkcontroller.core.machines import framework
from frameworkcontroller.core.policies.role import idle_in
from frameworkcontroller.core.policies.shares import Shares
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.core.reconcile.decision import Decision, ReconcileContext, View
from frameworkcontroller.core.reconcile.framework_pass import FrameworkPass
from frameworkcontroller.core.reconcile.gang_pass import GangPass
from frameworkcontroller.core.reconcile.group_pass import GroupPass
from frameworkcontroller.core.reconcile.history_pass import HistoryPass
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.reconcile.outcomes import Denials, Outcomes, failure_of
from frameworkcontroller.core.reconcile.queue_pass import QueuePass
from frameworkcontroller.core.reconcile.restart_pass import RestartPass
from frameworkcontroller.core.reconcile.spec_pass import SpecPass
from frameworkcontroller.core.reconcile.task_pass import TaskPass
from frameworkcontroller.core.status import ledger
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.writer import NO_WAIT, StatusWriter

# Each round brings a state forward within one attempt: the end of a Task ends an epoch or the attempt, that ends Tasks,
# and when these have no Pods the attempt is over. A pass that needs more has a defect.
MAX_ROUNDS: Final = 6


class FrameworkReconciler:
    """The state machines of one Framework instance, and the effects in flight for it.

    It goes on from the status of `seen`. `new_uid` gives a fresh UUID, `draw` a random number in [0, 1), and `shares`
    is what it shares with the Frameworks of its namespace; nothing by default.
    """

    def __init__(
        self,
        seen: Framework,
        config: CoreConfig,
        *,
        new_uid: Callable[[], str],
        draw: Callable[[], float],
        shares: Shares | None = None,
    ) -> None:
        meta = seen.metadata
        self.namespace, self.name, self.uid = meta.namespace, meta.name, meta.uid
        self.stale = False
        """Another writer has changed the status: the caller must drop this reconciler and read the Framework again."""
        self._shares = shares = shares or Shares()
        self._state = FrameworkState(meta.name, shares.idle)
        self._in_flight = InFlight(draw, shares)
        self._writer = StatusWriter(seen)
        self._outcomes = Outcomes(self._state, self._in_flight, self._writer, self.uid)
        self._denials = Denials(self._in_flight)
        self._tasks = TaskPass(meta, config, self._state)
        self._queue = QueuePass(meta, config, self._state, self._in_flight, self._writer)
        self._groups = GroupPass(meta, config, self._state, self._in_flight, shares.groups)
        self._framework = FrameworkPass(
            meta,
            config,
            self._state,
            self._tasks,
            self._queue,
            self._groups,
            self._writer,
            shares,
            new_uid=new_uid,
            draw=draw,
        )
        self._restarts = RestartPass(config, self._state, self._tasks)
        self._gang = GangPass(meta, config, self._state, self._in_flight, self._writer)
        self._history = HistoryPass(config, self._state, self._in_flight, self._writer)
        self.spec = SpecPass(seen, self._state, self._in_flight, self._writer)
        """Which state of the Framework is seen, and which large templates are to be read before the next."""
        self._is_in_pass = False
        self._noted: object = None  # the revision of the last look at all roles, and what else the ledger depends on
        self._unloaded = self._writer.persisted

    # --- for metrics and the engine ----------------------------------------------------------------------------------

    @property
    def state(self) -> State | None:
        """The Framework's state, None before it was first decided on."""
        return self._state.status.state if self._state.has_status else None

    @property
    def ready(self) -> tuple[int, int]:
        """Tasks that are ready and Tasks that the spec asks for, as persisted."""
        summary = self._writer.persisted_summary
        return (0, 0) if summary is None else summary.tasks

    @property
    def tasks_by_state(self) -> Counter[State]:
        """The number of Tasks in each state."""
        found: Counter[State] = Counter()
        for role_state in self._state.roles.values():
            found.update(role_state.by_state)
        return found

    @property
    def ledger_state(self) -> str:
        """What its time is spent on, "" once it is Completed, or before it was first decided on."""
        return "" if self._state.ledger is None else self._state.ledger.state

    @property
    def is_suspended(self) -> bool:
        """Whether the user has suspended the Framework."""
        return self._state.has_status and bool(self._state.status.suspended_since)

    @property
    def waiting_tasks(self) -> int:
        """The number of Tasks whose TaskRole waits for others."""
        return sum(role_state.counts.active for role_state in self._state.roles.values() if role_state.waits)

    @property
    def gang(self) -> GangStatus | None:
        """How far the gang is, None if there is none."""
        return self._gang.status

    @property
    def is_persisted(self) -> bool:
        """Whether the API server has all that was decided on the spec."""
        return self.spec.spec is not None and self._state.revisions.all_persisted

    @property
    def only_tells(self) -> bool:
        """Whether nothing of it goes on, be it at rest or not."""
        state, spec = self._state.status.state, self.spec.spec
        return state is State.COMPLETED if spec is None else framework.only_tells(state, spec)

    def leave(self) -> None:
        """Share nothing with others any more: the caller drops this reconciler."""
        self._shares.idle.forget(self.uid)
        self._in_flight.leave()

    def count_late(self, effect: CreatePod, outcome: Refused | Failed, now: Now) -> None:
        """Count what the creation of a Pod has cost if no outcome of it is expected any more."""
        spending = self._in_flight.refusals.spending
        if self._in_flight.has_left and isinstance(outcome, Refused):
            spending.pay(effect.source.size, now.steady, sent=outcome.sent)
        elif self._in_flight.has_left:
            spending.note_failure(now.steady)

    # --- inputs ------------------------------------------------------------------------------------------------------

    def touch_pod(self, name: str) -> bool:
        """Note that the Pod of this name was seen to change, and report whether it is a Task's, or may be one's."""
        role, _, number = name.removeprefix(f"{self.name}-").rpartition("-")
        task_key = (role, int(number) if number.isdecimal() else -1)
        if self._state.task(task_key) is not None:
            self._state.dirty.touch(task_key)
            # The obstacle may be gone; if the name is still in use, the API server says so again at little cost.
            self._in_flight.reset_delay(("pod", *task_key))
            return True
        return self._unloaded is not None

    def touch_config_map(self) -> None:
        """Note that the ConfigMap was seen to change."""
        self._in_flight.reset_delay(CONFIG_MAP)

    def touch_companion(self, group: str) -> bool:
        """Note that the group of this name was seen to change, or, without one, the Workload; whether it is of it."""
        if group:
            return self._groups.touch(group)
        if not self._in_flight.failures(WORKLOAD):
            self._in_flight.reset_delay(WORKLOAD)
        return True

    def at_turn(self, effect: Effect, now: Now, *, as_emitted: bool = False) -> Effect | None:
        """Return the effect to perform now that its turn has come, None if it is not wanted any more (`Dropped`).

        A status is written with everything that was decided while the write waited, or `as_emitted`: while the history
        of a newer one is not written.
        """
        match effect:
            case WriteStatus() if effect.revision != self._state.revisions.now and self.spec.spec is not None:
                return effect if as_emitted or self._is_in_pass else self._compose(self.spec.spec, now)
            case CreateConfigMap() if self.spec.spec is not None and self.spec.spec.is_to_wait:
                return None
            case CreateConfigMap() if self._state.queueing.hold is not None:
                return None
            case CreatePod():
                current = self._state.task((effect.role, effect.index))
                wanted = current is not None and current.completion is None
                return effect if wanted and not framework.is_ending(self._state.status) else None
        return effect

    def apply_outcome(self, effect: Effect, outcome: Outcome, now: Now) -> None:
        """Take in the outcome of an effect."""
        failure = self._finish(effect, outcome, now)
        match effect:
            case WriteStatus():
                self.stale = self._outcomes.of_status(effect, outcome, now) or self.stale
            case CreatePod() | DeletePod() | FindPod() | RetainPod():
                assert self.spec.spec is not None
                self._outcomes.of_pod(effect, outcome, now, self.spec.spec.task_of(effect.role).retry_policy)
            case CreateConfigMap() | DeleteConfigMap() | FindConfigMap():
                if isinstance(outcome, Done):
                    self._gang.config_map = outcome
                self._outcomes.of_config_map(effect, outcome, now)
            case LabelConfigMap():
                self._outcomes.of_label(outcome, now)
            case WriteRoster() | AskProgress():
                self._gang.apply_outcome(effect, outcome, now)
            case SetFinalizers() | AskLogs():
                self._history.apply_outcome(effect, outcome, now)
            case GrantRosterAccess() if failure is None:
                self._gang.granted = effect if isinstance(outcome, Done) else None
                # Somebody may edit the accounts all the time, and each grant takes three requests or more.
                self._in_flight.recheck_later(effect.key, now.steady)
            case OfCompanion():
                (self._queue if effect.key == WORKLOAD else self._groups).apply_outcome(effect, outcome, now)
            case DeleteFramework():
                if failure is None:
                    self._in_flight.recheck_later(effect.key, now.steady)

    def _finish(self, effect: Effect, outcome: Outcome, now: Now) -> Failed | None:
        """End the flight of the effect, and return the failure for which the next one is delayed, if there is one."""
        self._in_flight.finish(effect.key)
        failure = failure_of(effect, outcome)
        if (event := self._denials.news(effect, failure)) is not None:
            self._state.add_event(event)
        # A failure that concerns all Pods of the Framework has one back-off for all (`slow_start`).
        shares_back_off = isinstance(effect, CreatePod) and not isinstance(outcome, NameTaken)
        if failure is not None and not shares_back_off:
            self._in_flight.back_off(effect.key, failure, now.steady)
        elif not isinstance(outcome, Found) and not isinstance(effect, DeletePod | SetFinalizers):
            self._in_flight.reset_delay(effect.key)
        if isinstance(outcome, NameTaken) and not isinstance(effect, CreateCompanion):
            self._state.sightings.in_use[effect.key] = None
        return failure

    # --- the pass ----------------------------------------------------------------------------------------------------

    def steps(self, now: Now, view: View, *, backpressure: timedelta = NO_WAIT) -> Generator[None, None, Decision]:
        """Decide on everything that is dirty, and return what to do next.

        It yields now and then: no outcome may be applied until it has returned. Writes of statuses that can be put off
        should leave their turn to others for as long as `backpressure` says.
        """
        if self._unloaded is not None:
            yield from self._state.load(self._unloaded)
            self._unloaded = None
        pauses = bool(self._state.crash_loops.held)
        ctx = self._observe(now, view, backpressure=backpressure)
        if ctx is None:
            return Decision()
        self._is_in_pass = True
        if self._noted is None:
            yield from ledger.take_up(self._state, ctx.framework.metadata.creation_timestamp, view.pod, now.wall)
        yield from self._framework.begin(ctx)
        for _ in range(MAX_ROUNDS):
            yield from self._framework.steps(ctx)
            self._restarts.begin(ctx)
            yield from self._tasks.steps(ctx)
            if not (self._framework.follow_tasks(ctx) or (yield from self._restarts.steps(ctx))):
                break
        else:
            raise AssertionError("the pass does not come to rest")
        self._gang.report(ctx)
        is_held, pauses_now = self._state.queueing.hold is not None, bool(self._state.crash_loops.held)
        noted = (self._state.revisions.now, self._gang.is_open, is_held, pauses_now)
        if noted != self._noted:
            self._noted = noted
            self._shares.idle.note(self.uid, idle_in(self._state.roles))
            ledger.follow(self._state, ctx.spec, now.wall, is_open=self._gang.is_open)
        # The condition CrashLoop is written; nothing waits for that.
        if pauses is not pauses_now:
            self._state.revisions.change()
        self._write(ctx)
        self._is_in_pass = False
        return ctx.decision

    def _observe(self, now: Now, view: View, *, backpressure: timedelta) -> ReconcileContext | None:
        """Take over what is seen; return the context of this pass, None if nothing can be decided.

        That is if another writer has changed the status, or large templates of the only known state are not read yet.
        """
        if not self._in_flight.is_busy(WriteStatus.key):
            self.stale = self.stale or self._writer.is_stale(view.framework)
        if self.stale:
            return None
        spec = self.spec.begin(view.framework)
        if spec is None:
            return None
        return ReconcileContext(now, view, self.spec.seen, spec, self._in_flight, Decision(), backpressure)

    def _write(self, ctx: ReconcileContext) -> None:
        """Emit the writes that follow from the decided state, and report what may be reported.

        It needs the final state of this pass: nothing changes the Framework or its Tasks after it.
        """
        self._write_status(ctx)
        self._gang.write(ctx)
        self._queue.write(ctx)
        self._groups.write(ctx)
        self._history.write(ctx)
        ctx.decision.wake(self._state.dirty.next_alarm)
        ctx.decision.reports = self._state.reports.take(self._state.revisions.persisted)
        ctx.decision.at_rest = self._is_at_rest(ctx)

    def _is_at_rest(self, ctx: ReconcileContext) -> bool:
        state = self._state
        is_completed = state.status.state is State.COMPLETED and state.dirty.is_quiet
        is_idle = state.status.state is State.CREATION_PENDING and ctx.spec.is_to_wait
        if self._shares.idle.is_waiting(self.uid) or not (is_completed or is_idle):
            return False
        # Who rests is forgotten, and begins afresh when it is edited: also with what it may cost.
        pauses = [self._writer.paid_until, self._in_flight.delays_until]
        if is_idle:
            pauses += [self._in_flight.refusals.until, state.crash_loops.until, self._framework.turn]
        until = max((one for one in pauses if one is not None), default=None)
        if until is not None and ctx.now < until:
            ctx.decision.wake(until)
            return False
        return (
            state.revisions.all_persisted
            and state.reports.is_empty
            and self._in_flight.is_empty
            and self._writer.is_up_to_date(ctx.view.framework)
            and (is_completed or ctx.framework.metadata.deletion_timestamp is None)
            and not framework.is_held(ctx.view.config_map(), self.uid)
            and self._queue.is_quiet
            and self._history.is_quiet
        )

    def _write_status(self, ctx: ReconcileContext) -> None:
        state = self._state
        if state.revisions.all_persisted or self._in_flight.is_busy(WriteStatus.key):
            return
        due = self._writer.due(state, ctx.spec, ctx.now, backpressure=ctx.backpressure)
        for until in (due, self._in_flight.delayed_until(WriteStatus.key, ctx.now)):
            if until is not None and ctx.now < until:
                ctx.decision.wake(until)
                return
        ctx.emit(self._compose(ctx.spec, ctx.clock))

    def _compose(self, spec: FrameworkSpec, now: Now) -> WriteStatus:
        rest_bytes = self.spec.seen.size - memoryview(self.spec.seen.status).nbytes
        return self._writer.compose(self._state, spec, self.spec.generation, now, rest_bytes)
