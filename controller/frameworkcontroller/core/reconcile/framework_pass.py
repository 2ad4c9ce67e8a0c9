"""The Framework's part of a reconcile pass: its own state machine, and what its ConfigMap needs.

`FrameworkReconciler.steps` calls `begin` once, then in each round `steps`, and `follow_tasks` after the Tasks.
`framework` decides; this module supplies what the decision needs and emits what follows from it.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from frameworkcontroller.api.meta import Identity
from frameworkcontroller.api.spec import RETAIN_NEVER
from frameworkcontroller.api.states import ENDED, State
from frameworkcontroller.core.clock import duration
from frameworkcontroller.core.effects import (
    CONFIG_MAP,
    CreateConfigMap,
    DeleteConfigMap,
    DeleteFramework,
    FindConfigMap,
    LabelConfigMap,
)
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.gang import roster
from frameworkcontroller.core.gang.gang import attempt_name
from frameworkcontroller.core.machines import attempt, framework, task
from frameworkcontroller.core.machines.orphans import is_unlabelled
from frameworkcontroller.core.pods import snapshots
from frameworkcontroller.core.policies import dependencies
from frameworkcontroller.core.policies.completion import decide_completion
from frameworkcontroller.core.policies.crash_loop import ATTEMPT
from frameworkcontroller.core.policies.role import idle_in, wanted_by
from frameworkcontroller.core.policies.shares import Shares
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.core.reconcile.decision import ReconcileContext
from frameworkcontroller.core.reconcile.group_pass import GroupPass
from frameworkcontroller.core.reconcile.history_pass import holds_config_map
from frameworkcontroller.core.reconcile.queue_pass import QueuePass
from frameworkcontroller.core.reconcile.task_pass import TASKS_WAIT, TaskPass, ends_turn
from frameworkcontroller.core.restart import hang
from frameworkcontroller.core.status import ledger
from frameworkcontroller.core.status.rescale import IDLE, held_back
from frameworkcontroller.core.status.revisions import Mark
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.summary import readiness
from frameworkcontroller.core.status.writer import StatusWriter


class FrameworkPass:
    """The state machine of one Framework.

    The `writer` knows the persisted status, of which history keeps a copy, and `shares` what the Frameworks of the
    namespace share. `draw` gives a random number in [0, 1).
    """

    def __init__(
        self,
        meta: Identity,
        config: CoreConfig,
        state: FrameworkState,
        tasks: TaskPass,
        queue: QueuePass,
        groups: GroupPass,
        writer: StatusWriter,
        shares: Shares,
        *,
        new_uid: Callable[[], str],
        draw: Callable[[], float],
    ) -> None:
        self._meta, self._config, self._state, self._tasks, self._writer = meta, config, state, tasks, writer
        self._queue, self._groups, self._idle, self._pace = queue, groups, shares.idle, shares.attempts
        self.turn: datetime | None = None
        """When the next attempt may begin that waits for its turn, None if none does."""
        self._new_uid, self._draw = new_uid, draw
        self._conflict_draw = draw()
        self._ended: bool | None = None
        """Whether the attempt is over for its Tasks, None while its end is not decided for them."""
        self._seeks_config_map = self._had_pods = False
        self._followed: object = None
        """The revision, and whether the ConfigMap is sought, as nothing followed from the Tasks."""

    def begin(self, ctx: ReconcileContext) -> Iterator[None]:
        """Bring the state in line with the spec; it yields after some Tasks that change.

        After it there is a status, and unless the attempt is ending there are the roles and Tasks of the spec.
        """
        if not self._state.has_status:
            self._state.set(framework.new_status(self._meta.name, ctx.stamp))
        if not framework.is_ending(self._state.status):
            yield from self._rescale(ctx)
        else:
            self._idle.go_on(self._meta.uid)

    def _rescale(self, ctx: ReconcileContext) -> Iterator[None]:
        if self._state.has_scale_of(ctx.spec):
            return
        waited = {role.name for role in dependencies.waiting_roles(ctx.spec, self._state.roles)}
        # Only the roles and Tasks follow what is kept: all else, as gates and completion, waits for what is asked for.
        uid, idle, now = self._meta.uid, self._idle, ctx.now.timestamp()
        kept, why = held_back(ctx.spec, self._state.roles, idle.room(uid, wanted_by(ctx.spec)) - idle.gone(now))
        self._state.hold_back(why)
        if why == IDLE:
            ctx.decision.wake(ctx.now + idle.wait(uid))
        else:
            idle.go_on(uid)
            if kept.tasks > self._state.size:
                # They come now, with passes of others in between.
                idle.note(uid, idle_in(self._state.roles) + wanted_by(kept) - self._state.size)
        let_go = yield from self._state.rescale(kept, ctx.stamp, self._new_uid)
        idle.let_go((gone for _, gone in let_go), now)
        for place, (role_state, gone) in enumerate(let_go):
            self._tasks.remember(snapshots.HistoryCause.TASK_DELETION, role_state, gone, ctx)
            self._tasks.forget(role_state.name, gone, ctx)
            if ends_turn(place):
                yield
        if self._state.status.state in TASKS_WAIT:
            self._state.hold_roles(kept)
        waiting = [role for role in dependencies.waiting_roles(ctx.spec, self._state.roles) if role.name not in waited]
        if waiting:
            self._state.add_event(KubeEvent("WaitingForDependency", dependencies.describe(waiting)))

    def steps(self, ctx: ReconcileContext) -> Iterator[None]:
        """Step the Framework's own state machine as far as it goes now, and emit the action that follows.

        After it the Tasks know whether the attempt is ending or over, and a new attempt has new Tasks. It yields after
        some Tasks where an end of the attempt is theirs.
        """
        while True:
            self._state.follow_queue(self._groups.begin(ctx, self._queue.begin(ctx)))
            step = framework.step(
                self._state.status,
                ctx.view.config_map(),
                self._attempt_facts(ctx),
                persisted=self._state.revisions.is_persisted(Mark.FRAMEWORK),
            )
            if self._config.crash_loop_pause:
                self._state.crash_loops.note(ATTEMPT, self._state.status, step.status, ctx.clock)
            if step.status != self._state.status:
                self._state.set(step.status)
            if step.wake_at is not None:
                ctx.decision.wake(ctx.clock.steadily(step.wake_at))
            if step.action is not framework.Action.NEXT_ATTEMPT:
                break
            yield from self._start_next_attempt(ctx)
        self._seeks_config_map = step.action is framework.Action.FIND
        if framework.is_ending(self._state.status):
            yield from self._end_tasks(ctx, over=self._state.status.state in ENDED)
        self._act(step, ctx)

    def follow_tasks(self, ctx: ReconcileContext) -> bool:
        """Take over what the Tasks have come to, and report whether the Framework's own state machine may advance.

        One runs, their ends complete the attempt, all Pods are gone or go for others, or roles that waited may begin.
        """
        state = self._state
        if state.status.state in TASKS_WAIT:
            return False
        if state.status.state is State.PREPARING and any(role_state.ran for role_state in state.roles.values()):
            state.set(attempt.move(state.status, State.RUNNING, ctx.stamp))
        if framework.is_ending(state.status):
            return state.status.state not in ENDED and self._had_pods and not state.has_pods
        if not self._seeks_config_map and (state.preempted or hang.end_of(state.status, state.facts.hang_limit or 0)):
            return True
        seen = (state.revisions.now, self._seeks_config_map)
        if seen == self._followed:
            return False
        # If the ConfigMap is gone, its Pods are, too: that is then the end of the attempt, and not theirs.
        completion = None if self._seeks_config_map else decide_completion(ctx.spec, state.roles)
        if completion is not None:
            state.set(attempt.complete(state.status, completion))
            return True
        waiting = list(dependencies.waiting_roles(ctx.spec, state.roles))
        for role in waiting:
            if role.name not in state.facts.stuck_roles and dependencies.may_begin(role, ctx.spec, state.roles):
                state.begin_role(role)
        # What a role waits for may come without a change of the status: Pods that are ready.
        self._followed = None if waiting else seen
        return False

    def _attempt_facts(self, ctx: ReconcileContext) -> framework.AttemptFacts:
        low, high = self._config.framework_min_retry_delay_sec, self._config.framework_max_retry_delay_sec
        self._had_pods = self._state.has_pods
        paused_until = self._paused_until(ctx)
        ctx.decision.wake(paused_until)
        being_deleted = ctx.framework.metadata.deletion_timestamp is not None
        return framework.AttemptFacts(
            now=ctx.stamp,
            name=self._meta.name,
            uid=self._meta.uid,
            spec=ctx.spec,
            being_deleted=being_deleted,
            is_held=being_deleted and ctx.framework.is_held,
            held_back=self._state.held_back is not None,
            creation_timeout=duration(self._config.object_local_cache_creation_timeout_sec),
            completed_retain=duration(self._config.framework_completed_retain_sec),
            conflict_delay_sec=low + int(self._conflict_draw * (high - low + 1)),
            requests_in_flight=ctx.in_flight.any_of("pod", "configmap"),
            creates_pods=ctx.in_flight.creates_pods,
            retains_pods=self._state.status.state is State.DELETION_PENDING
            and (self._config.history or ctx.spec.retain_pods != RETAIN_NEVER)
            and holds_config_map(self._state, ctx, self._tasks.facts_of),
            config_map_gone=self._state.status.attempt_status.config_map_uid in self._state.sightings.gone,
            has_pods=self._had_pods,
            is_paused=paused_until is not None,
            queueing=self._state.queueing,
            hung=hang.end_of(self._state.status, self._state.facts.hang_limit or 0),
        )

    def _paused_until(self, ctx: ReconcileContext) -> datetime | None:
        """Return until when no attempt begins, None if one may."""
        if self._state.status.state not in {State.ATTEMPT_COMPLETED, State.CREATION_PENDING}:
            self.turn = None
            return None
        is_next = self._state.status.state is State.CREATION_PENDING and self._config.crash_loop_pause
        if is_next and (self._state.facts.is_hopeless or self._state.crash_loops.has_ended_at_once):
            self.turn = self.turn or ctx.now + timedelta(seconds=self._pace.reserve(ctx.now.timestamp()))
            return self._state.crash_loops.hold(ATTEMPT, ctx.now, self.turn)
        return self._state.crash_loops.hold(ATTEMPT, ctx.now)

    def _start_next_attempt(self, ctx: ReconcileContext) -> Iterator[None]:
        """Keep a snapshot of the attempt that has ended, and replace all that belonged to it."""
        assert self._writer.persisted is not None
        retry, persisted = snapshots.HistoryCause.FRAMEWORK_RETRY, self._writer.persisted
        self._state.reports.add(snapshots.of_framework(retry, ctx.framework, persisted, self._state.text_bytes))
        ledger.begin_attempt(self._state, ctx.clock.wall)
        self._idle.let_go(self._state.discard_tasks(), ctx.now.timestamp())
        yield from self._rescale(ctx)
        ctx.in_flight.reset_delays()
        ctx.in_flight.refusals.next_attempt(ctx.now)
        self._conflict_draw, self._ended = self._draw(), None

    def _end_tasks(self, ctx: ReconcileContext, *, over: bool) -> Iterator[None]:
        """Decide every Task's end with the attempt's; complete every Task once the attempt is over. Do both once."""
        if self._ended is over:
            return
        self._ended = over
        self._state.crash_loops.held.clear()
        for place, task_key in enumerate(self._state.task_keys()):
            if ends_turn(place):
                yield
            current = self._state.task(task_key)
            assert current is not None
            ended = task.conclude(current, ctx.stamp) if over else attempt.complete(current, task.ATTEMPT_ENDED)
            if ended is not current:
                self._state.put(task_key, ended)
                self._state.dirty.touch(task_key)

    def _act(self, step: framework.FrameworkStep, ctx: ReconcileContext) -> None:
        match step.action:
            case framework.Action.CREATE if CONFIG_MAP in self._state.sightings.in_use:
                found = self._state.sightings.in_use[CONFIG_MAP]
                orphan = found is not None and is_unlabelled(found) and framework.is_ours(found, self._meta.uid)
                ctx.emit(DeleteConfigMap(found.uid) if found is not None and orphan else FindConfigMap())
            case framework.Action.FIND:
                found, attempt_id = self._state.sightings.in_use.get(CONFIG_MAP), step.status.attempt_status.id
                lost = found is not None and found.uid == step.status.attempt_status.config_map_uid
                ctx.emit(LabelConfigMap(found.uid, attempt_id) if found is not None and lost else FindConfigMap())
            case framework.Action.CREATE:
                _, total = readiness(self._state, ctx.spec)
                name, by_arrival = attempt_name(self._state, self._meta), self._state.facts.waits_for_arrival
                empty = roster.document(name, 0, 0, total, by_arrival=by_arrival, gate=self._state.gate)
                queue = step.status.queue.name if step.status.queue else ""
                ctx.emit(CreateConfigMap(step.status.attempt_status.id, empty, queue))
            case framework.Action.AWAIT_NAME:
                of_others = ctx.view.config_map()
                assert of_others is not None
                self._state.note_name_in_use(CONFIG_MAP, "ConfigMap", of_others.metadata)
            case framework.Action.DELETE_FRAMEWORK:
                ctx.emit(DeleteFramework())
            case framework.Action.DELETE | framework.Action.DELETE_ORPHAN | framework.Action.DELETE_UNSEEN:
                assert step.uid is not None
                ctx.emit(DeleteConfigMap(step.uid, confirm=step.action is framework.Action.DELETE_UNSEEN))
            case None | framework.Action.NEXT_ATTEMPT:
                pass
