"""The Tasks' part of a reconcile pass: the state machine of each dirty Task, and what its Pod needs.

In each round `FrameworkReconciler.steps` calls `steps` after the Framework's own part. `task` decides; this module
supplies what the decision needs and emits what follows from it.

A Task that is to get a Pod is held, in this order, while it pauses after crashes (`crash_loop`), until the attempt is
persisted, while Pods of its role are refused or the namespace has spent what refused Pods may cost (`Refusals` and
`Spending` in `backoff`), and while as many creations are in flight as may be (`SlowStart`, and bytes in `in_flight`).
It waits in `_refused`, `_unpaid` or `_held`; at its begin, `steps` lets go of those whose turn it is.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from weakref import WeakValueDictionary

from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Identity
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.pod_group import preemption
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskStatus
from frameworkcontroller.core import events
from frameworkcontroller.core.clock import EARLIEST, duration
from frameworkcontroller.core.effects import CreatePod, DeletePod, Effect, FindPod, RetainPod
from frameworkcontroller.core.machines import framework, task
from frameworkcontroller.core.machines.orphans import is_hidden_pod
from frameworkcontroller.core.machines.retention import ended_at
from frameworkcontroller.core.pods import snapshots
from frameworkcontroller.core.pods.snapshots import HistoryCause
from frameworkcontroller.core.pods.template import PodSource, RoleAttempt
from frameworkcontroller.core.policies import dependencies
from frameworkcontroller.core.policies.retry import decide_retry
from frameworkcontroller.core.policies.role import RoleState, TaskKey
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.core.reconcile.decision import ReconcileContext
from frameworkcontroller.core.reconcile.history_pass import kept_logs
from frameworkcontroller.core.restart import epoch, hang
from frameworkcontroller.core.status import ledger
from frameworkcontroller.core.status.revisions import Mark
from frameworkcontroller.core.status.state import FrameworkState

# The Tasks wait while the Framework is in one of these states.
TASKS_WAIT: Final = frozenset({State.CREATION_PENDING, State.CREATION_REQUESTED})
# A Task that was to probe may be of no use for it, since it is to be deleted for example; then another one does.
PROBE_AFTER: Final = timedelta(seconds=1)
# The end of a Pod of 256 containers that say different things takes 10 ms.
TASKS_IN_A_ROW: Final = 4
# The Pod of a Task in one of these states has been seen.
SEEN: Final = frozenset({State.PREPARING, State.RUNNING})
# An attempt in one of these states has ended: its Pod has, or is gone.
OVER: Final = frozenset({State.DELETION_PENDING, State.ATTEMPT_COMPLETED})


def ends_turn(place: int) -> bool:
    """Report whether a loop over Tasks, at this one, lets others have their turn."""
    return place % TASKS_IN_A_ROW == TASKS_IN_A_ROW - 1


class TaskPass:
    """The state machines of all Tasks of one Framework."""

    def __init__(self, meta: Identity, config: CoreConfig, state: FrameworkState) -> None:
        self._meta, self._config, self._state = meta, config, state
        self._held: OrderedDict[TaskKey, None] = OrderedDict()
        self._unpaid: OrderedDict[TaskKey, None] = OrderedDict()
        self._refused: dict[str, OrderedDict[TaskKey, None]] = {}
        self._ends: dict[TaskKey, epoch.End] = {}
        self._sources: WeakValueDictionary[str, PodSource] = WeakValueDictionary()
        """What the Pods of each role are made of, as long as one is to be created."""
        self.starts_while_closed: Counter[TaskKey] = Counter()
        """How often instances of each Task have begun since the gate of its gang was closed."""

    def steps(self, ctx: ReconcileContext) -> Iterator[None]:
        """Step every dirty Task and emit the actions that follow; the others cost nothing. It yields after some Tasks.

        It needs a Framework whose ConfigMap is there or has been: before that, Tasks stay dirty.
        """
        if self._state.status.state in TASKS_WAIT:
            return
        yield from self._release(ctx)
        contexts: dict[str, task.TaskFacts] = {}
        for place, task_key in enumerate(self._state.dirty.take_dirty(ctx.now)):
            if ends_turn(place):
                yield
            current = self._state.task(task_key)
            if current is None or ctx.in_flight.is_busy(("pod", *task_key)):
                continue  # its outcome will make it dirty again
            role, pod = task_key[0], ctx.view.pod(current.attempt_status.pod_name)
            facts = contexts.get(role) or contexts.setdefault(role, self.facts_of(role, ctx))
            step = task.step(current, pod, facts, persisted=self._state.is_persisted(task_key))
            if step.status != current:
                self._state.put(task_key, step.status)
            self._note(task_key, current, step.status, pod, ctx)
            self._follow_instance(task_key, current, step.status, pod)
            if step.wake_at is not None:
                self._state.dirty.touch_at(task_key, ctx.clock.steadily(step.wake_at))
            if step.action is task.Action.CREATE and (until := self._state.crash_loops.hold(task_key, ctx.now)):
                self._state.dirty.touch_at(task_key, until)
            elif step.action is not None:
                self._act(task_key, step, pod, ctx)
        if self._held and ctx.in_flight.free_creations(ctx.now) and not self._state.queueing.holds_pods:
            ctx.decision.wake(ctx.now)  # those whose turn it was want no Pod

    def _note(
        self, task_key: TaskKey, before: TaskStatus, after: TaskStatus, pod: Pod | None, ctx: ReconcileContext
    ) -> None:
        """Note what a step shows that the Task's status does not say, or says no more."""
        role = self._state.roles[task_key[0]]
        if self._config.crash_loop_pause:
            self._state.crash_loops.note(task_key, before, after, ctx.clock)
        if after.attempt_status.id > before.attempt_status.id:
            self.remember(HistoryCause.TASK_RETRY, role, before, ctx)
        if after.state in OVER and task_key[1] not in role.ends:
            role.ends[task_key[1]] = (ctx.now, ended_at(pod) or EARLIEST)
        if role.name in self._state.facts.watched_roles:
            is_ready = dependencies.is_pod_ready(after, pod)
            (role.ready_pods.add if is_ready else role.ready_pods.discard)(task_key[1])
        is_new = before.state is State.CREATION_REQUESTED and after.state in SEEN
        if pod is not None and is_new and (event := events.of_missing_barrier(pod)) is not None:
            self._state.add_event(event)
        asked = self._state.status.attempt_status.gang_scheduling
        if asked and pod is not None and pod.metadata.uid == after.attempt_status.pod_uid:
            self._state.preempted = self._state.preempted or preemption(pod, asked)
        if pod is not None and self._state.facts.hang_limit is not None:
            ledger.note_hang(self._state, hang.verdict_of(pod, after.attempt_status.pod_uid), ctx.clock)

    def take_ends(self) -> dict[TaskKey, epoch.End]:
        """Return what has ended the epoch of a gang since the last call, by the Tasks concerned."""
        ends, self._ends = self._ends, {}
        return ends

    def _follow_instance(self, task_key: TaskKey, before: TaskStatus, after: TaskStatus, pod: Pod | None) -> None:
        """Note what a Task has to do with the epoch of its gang."""
        gate = self._state.gate
        if gate is None:
            return
        if before.attempt_status.starts is UNSET and task_key[0] not in self._state.facts.members:
            return  # its Pod has no barrier
        if after.state is State.COMPLETED:
            self._state.applications.add(task_key)
            if after.attempt_status.arrived is False:
                # It does not come back, so nobody waits for it.
                left = replace(after.attempt_status, arrived=UNSET)
                self._state.put(task_key, replace(after, attempt_status=left))
        if not gate.is_open:
            begun = (after.attempt_status.starts or 0) - (before.attempt_status.starts or 0)
            if begun > 0:
                self.starts_while_closed[task_key] += begun
        if not gate.is_open or after.deletion_pending:
            return
        end = epoch.ending(f"{task_key[0]}-{task_key[1]}", before.attempt_status, after.attempt_status, pod)
        if end is not None:
            self._ends[task_key] = end
        elif pod is not None and epoch.runs_applications(pod):
            self._state.applications.add(task_key)

    def _release(self, ctx: ReconcileContext) -> Iterator[None]:
        """Decide again on as many Tasks without a Pod as may get one now: of a role that is refused, on one."""
        refusals, free = ctx.in_flight.refusals, ctx.in_flight.free_creations(ctx.now)
        if self._unpaid and refusals.spending.until(ctx.now) is None:
            self._held, self._unpaid = self._unpaid | self._held, OrderedDict()
        while self._held and free > 0 and not self._state.queueing.holds_pods:
            task_key, _ = self._held.popitem(last=False)
            # Those of other roles do not wait behind one whose role is refused.
            if not self._waits_with_role(task_key, ctx):
                self._state.dirty.touch(task_key)
                free -= 1
            elif ends_turn(len(self._held)):
                yield
        if self._held:
            ctx.decision.wake(ctx.in_flight.creations_until(ctx.now))
        if self._unpaid:
            ctx.decision.wake(refusals.paid_at(ctx.now))
        for role, waiting in list(self._refused.items()):
            until = refusals.closed_until(role, ctx.now)
            if until is None:
                # Behind the other roles, with which it shares what refused Pods may cost.
                del self._refused[role]
                if refusals.window(role) is None:
                    self._state.dirty.touch_many(waiting)
                    continue
                self._refused[role] = waiting
                if waiting:
                    # The one that was refused last: if its retries are limited, they come to an end.
                    self._state.dirty.touch(waiting.popitem()[0])
                    until = ctx.now + PROBE_AFTER
            ctx.decision.wake(until)

    def _waits_with_role(self, task_key: TaskKey, ctx: ReconcileContext) -> bool:
        """Report whether no Pod of the Task's role may be created now; then the Task waits until one may."""
        role, refusals = task_key[0], ctx.in_flight.refusals
        if (until := refusals.closed_until(role, ctx.now)) is not None:
            self._refused.setdefault(role, OrderedDict())[task_key] = None
        elif (until := refusals.spent_until(role, ctx.now)) is not None:
            self._unpaid[task_key] = None
        ctx.decision.wake(until)
        return until is not None

    def facts_of(self, role: str, ctx: ReconcileContext) -> task.TaskFacts:
        """Return what decisions on the Tasks of a role depend on."""
        return task.TaskFacts(
            now=ctx.stamp,
            retry_policy=ctx.spec.task_of(role).retry_policy,
            graceful_timeout_sec=self._state.roles[role].graceful_timeout_sec,
            creation_timeout=duration(self._config.object_local_cache_creation_timeout_sec),
            codes=self._config.codes,
            attempt_ending=framework.is_ending(self._state.status),
            config_map_name=names.config_map_name(self._meta.name),
            framework_uid=self._meta.uid,
            gone=self._state.sightings.gone,
            waits_for_arrival=self._state.facts.waits_for_arrival,
            # One that can never begin does not wait: its Tasks fail when their Pods are to be created.
            waits=self._state.roles[role].waits and role not in self._state.facts.stuck_roles,
            gate=self._state.gate,
            ends_together=role in self._state.facts.end_together,
            retain_pods=ctx.spec.retain_pods,
            not_retained=self._state.sightings.not_retained,
            kept=kept_logs(self._state, ctx.now) if self._config.history else None,
            next_attempt=self._is_followed_by_another(ctx),
        )

    def _is_followed_by_another(self, ctx: ReconcileContext) -> bool:
        """Report whether the end of the attempt is decided, and it is retried."""
        status = self._state.status
        if status.completion is None or ctx.framework.metadata.deletion_timestamp is not None:
            return False
        return decide_retry(ctx.spec.retry_policy, status.retry_policy_status, status.completion).wanted

    def _act(self, task_key: TaskKey, step: task.TaskStep, pod: Pod | None, ctx: ReconcileContext) -> None:
        if step.action is task.Action.FIND:
            effect: Effect = FindPod(*task_key)
        elif step.action is task.Action.CREATE and ("pod", *task_key) in self._state.sightings.in_use:
            effect = self._find_or_delete(task_key, ctx)
        elif step.action is task.Action.AWAIT_LOGS:
            assert step.uid is not None
            assert step.wake_at is not None
            self._state.sightings.awaited[step.uid] = task_key, ctx.clock.steadily(step.wake_at)
            return
        elif step.action is task.Action.AWAIT_NAME:
            assert pod is not None
            self._state.note_name_in_use(("pod", *task_key), f"Pod of {task_key[0]}-{task_key[1]}", pod.metadata)
            return
        elif step.action is task.Action.RETAIN:
            assert step.uid is not None
            effect = RetainPod(*task_key, step.uid)
        elif step.action is not task.Action.CREATE:
            assert step.uid is not None
            effect = DeletePod(
                *task_key,
                step.uid,
                grace_seconds=0 if step.action is task.Action.DELETE_FORCED else None,
                confirm=step.action is task.Action.DELETE_UNSEEN,
                orphan=step.uid != step.status.attempt_status.pod_uid,
                on_node=pod is not None and bool(pod.spec.node_name),
            )
        elif not self._state.revisions.is_persisted(Mark.ATTEMPT):
            # The ConfigMap that will own the Pod is not persisted yet, for example.
            self._state.touch_when_persisted(task_key)
            return
        elif self._waits_with_role(task_key, ctx):
            return
        elif self._state.queueing.holds_pods or not ctx.in_flight.free_creations(ctx.now):
            self._held[task_key] = None
            ctx.decision.wake(ctx.in_flight.creations_until(ctx.now))
            return
        else:
            ctx.in_flight.note_creation(task_key[0], ctx.now)
            instance, attempt_id = step.status.instance_uid, step.status.attempt_status.id
            effect = CreatePod(*task_key, instance, attempt_id, self._source(task_key[0], ctx.spec))
        if (until := ctx.emit(effect)) is not None:
            self._state.dirty.touch_at(task_key, until)

    def _find_or_delete(self, task_key: TaskKey, ctx: ReconcileContext) -> Effect:
        """Return what to do about a Pod that the cache does not show, but that has the Task's name."""
        found = self._state.sightings.in_use["pod", *task_key]
        is_lost = found is not None and is_hidden_pod(found) and task.is_ours(found, self.facts_of(task_key[0], ctx))
        return DeletePod(*task_key, found.uid, orphan=True) if found is not None and is_lost else FindPod(*task_key)

    def forget(self, role: str, gone: TaskStatus, ctx: ReconcileContext) -> None:
        """Forget what is known of a Task that is not there any more: edits may name any number of others."""
        for waiting in (self._held, self._unpaid, self._refused.get(role, self._held)):
            waiting.pop((role, gone.index), None)
        self.starts_while_closed.pop((role, gone.index), None)
        ctx.in_flight.reset_delay(("pod", role, gone.index))
        self._state.forget((role, gone.index), gone)

    def remember(self, trigger: HistoryCause, role_state: RoleState, gone: TaskStatus, ctx: ReconcileContext) -> None:
        """Report a Task or Task attempt that is replaced or deleted; its last state is persisted."""
        spec, shared = ctx.spec.task_of(role_state.name), self._role_attempt(role_state)
        self._state.reports.add(snapshots.of_task(trigger, ctx.framework, shared, spec, gone))

    def _role_attempt(self, role_state: RoleState) -> RoleAttempt:
        attempt = self._state.status.attempt_status
        return RoleAttempt(
            namespace=self._meta.namespace,
            framework=self._meta.name,
            framework_uid=self._meta.uid,
            framework_attempt_id=attempt.id,
            config_map_uid=attempt.config_map_uid or "",
            role=role_state.name,
            role_uid=role_state.instance_uid,
            avoided=self._state.status.hangs.avoided if self._state.status.hangs else (),
            additions=self._state.queueing.additions.get(role_state.name, b""),
        )

    def _source(self, role: str, spec: FrameworkSpec) -> PodSource:
        """Return what the Pods of a role are made of."""
        facts, role_state = self._state.facts, self._state.roles[role]
        problem = facts.stuck_roles[role] if role_state.waits else facts.restart_problem or facts.problems.get(role, "")
        shared = self._role_attempt(role_state)
        template, size = spec.task_of(role).pod, facts.sizes.get(role, 0)
        if (last := self._sources.get(role)) != PodSource(shared, template, size, problem):
            # A copy: the template is a part of its Framework's bytes, of which each creation would keep other ones.
            last = self._sources[role] = PodSource(shared, template.copy(), size, problem)
        return last
