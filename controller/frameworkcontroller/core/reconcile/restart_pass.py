"""The gang's part of a reconcile pass, of gangs that restart in place: the end of an epoch, and the gate of the next.

In each round `FrameworkReconciler.steps` calls `begin` before the Tasks, and `steps` after them. `epoch` decides; this
module supplies what the decision needs and changes the state. For all other gangs both do nothing.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api.codes import Code, TypeName
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import Culprit, FrameworkAttemptStatus, Hang
from frameworkcontroller.core import events
from frameworkcontroller.core.machines import attempt, framework
from frameworkcontroller.core.policies import classification
from frameworkcontroller.core.policies.role import TaskKey
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.core.reconcile.decision import ReconcileContext
from frameworkcontroller.core.reconcile.task_pass import TASKS_WAIT, TaskPass, ends_turn
from frameworkcontroller.core.restart import epoch, hang
from frameworkcontroller.core.restart.annotations import DEFAULT_LIMIT
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.summary import gang_roles, member_count

# A barrier that is killed while it waits, by its memory limit for example, starts again without a back-off.
MAX_STARTS_WHILE_CLOSED: Final = 10


class RestartPass:
    """The epochs of one Framework's gang; `tasks` notes what ends one."""

    def __init__(self, config: CoreConfig, state: FrameworkState, tasks: TaskPass) -> None:
        self._config, self._state, self._tasks = config, state, tasks

    @property
    def _limit(self) -> int:
        """How often exits may restart the gang; a template may have been edited since the attempt began."""
        limit = self._state.facts.restart_limit
        return DEFAULT_LIMIT if limit is None else limit

    def begin(self, ctx: ReconcileContext) -> None:
        """Take over whether the gang restarts in place, as long as the attempt has no Pods."""
        status, restarts = self._state.status, self._state.facts.restart_limit is not None
        asks = self._state.gate is None and restarts
        has_pods = self._state.has_pods or ctx.in_flight.creates_pods
        if framework.is_ending(status) or not (status.state in TASKS_WAIT or (asks and not has_pods)):
            return
        after = epoch.first_epoch(status.attempt_status, restarts=restarts)
        if after is not status.attempt_status:
            self._state.set(replace(status, attempt_status=after))

    def steps(self, ctx: ReconcileContext) -> Generator[None, None, bool]:
        """Begin the next epoch if this one has ended, or open the gate if everybody is there; yield after some Tasks.

        It returns whether Tasks are to be decided on again: members whose instances have ended show at once whether
        they are back, and those that end leave their Pods.
        """
        gate, ends = self._state.gate, self._tasks.take_ends()
        if gate is None or framework.is_ending(self._state.status) or self._state.status.state in TASKS_WAIT:
            self._tasks.starts_while_closed.clear()
            return False
        again = False
        if gate.is_open and (ends or member_count(self._state) != gate.released):
            again = yield from self._judge(gate, ends, ctx)
        if self._tasks.starts_while_closed:
            again |= yield from self._end_those_that_never_stay(ctx)
        if not again:
            self._open()
        return again

    def _judge(
        self, gate: epoch.Gate, ends: dict[TaskKey, epoch.End], ctx: ReconcileContext
    ) -> Generator[None, None, bool]:
        seen, hung = self._state.status.attempt_status, hang.of_epoch(self._state.status, gate.epoch)
        if hung is not None:
            ends = {task_key: epoch.as_hung(end, hung) for task_key, end in ends.items()}
        cause, why = epoch.decide(
            gate,
            seen.gang_restarts or 0,
            self._limit,
            list(ends.values()),
            members=member_count(self._state),
            succeeded=self._succeeded() if ends else "",
        )
        for place, (task_key, end) in enumerate(ends.items()):
            if ends_turn(place):
                yield
            if why and end.reason in epoch.BY_EXIT:
                self._end_hung(task_key, hung) if hung else self._end(task_key, ctx)
                self._state.add_event(events.of_gang_not_restarted(end.task, why))
        if cause is not None:
            yield from self._begin_epoch(epoch.next_epoch(seen, cause, ctx.stamp), ctx)
            if hung is not None:
                self._move_away(hung)
        return bool(why) or cause is not None

    def _end_those_that_never_stay(self, ctx: ReconcileContext) -> Generator[None, None, bool]:
        """End the attempts of Tasks that start again and again before the gate opens: no limit counts those starts."""
        counted = self._tasks.starts_while_closed
        given_up = [task_key for task_key, starts in counted.items() if starts > MAX_STARTS_WHILE_CLOSED]
        for place, task_key in enumerate(given_up):
            if ends_turn(place):
                yield
            del counted[task_key]
            if self._end(task_key, ctx):
                why = f"it has started {MAX_STARTS_WHILE_CLOSED} times more while its gang waited"
                self._state.add_event(events.of_gang_not_restarted(f"{task_key[0]}-{task_key[1]}", why))
        return bool(given_up)

    def _succeeded(self) -> str:
        """Return the name of a Task of the gang that has succeeded, "" if there is none."""
        for name, role_state in self._state.roles.items():
            for task in role_state.active():
                if task.attempt_status.starts is UNSET:
                    continue  # without a barrier it takes no part
                if task.completion is not None and task.completion.type.name == TypeName.SUCCEEDED:
                    return f"{name}-{task.index}"
        return ""

    def _end(self, task_key: TaskKey, ctx: ReconcileContext) -> bool:
        """End the attempt of a Task that has exited, as if its Pod had failed; False if that is gone and ends it."""
        current = self._state.task(task_key)
        pod = None if current is None else ctx.view.pod(current.attempt_status.pod_name)
        # It may have gone since an earlier turn of this pass.
        if current is None or pod is None or pod.metadata.uid != current.attempt_status.pod_uid:
            return False
        end = classification.failed(epoch.as_failed(pod), self._config.codes)
        self._state.put(task_key, attempt.complete(current, end))
        self._state.dirty.touch(task_key)
        return True

    def _end_hung(self, lead: TaskKey, hung: Hang) -> None:
        """End the attempts of those who keep the gang waiting, or of its lead, which has ended to say so."""
        culprits = [task_key for task_key, _ in self._culprits(hung)] or [lead]
        self._end_by({lead: Code.TASK_MOVED, **dict.fromkeys(culprits, Code.TASK_HUNG)}, hung)

    def _move_away(self, hung: Hang) -> None:
        """Give another Pod to the culprits on nodes that are to be avoided from now on."""
        hangs = self._state.status.hangs
        avoided = hangs.avoided if hangs else ()
        moved = [task_key for task_key, culprit in self._culprits(hung) if culprit.node in avoided]
        self._end_by(dict.fromkeys(moved, Code.TASK_MOVED), hung)

    def _culprits(self, hung: Hang) -> list[tuple[TaskKey, Culprit]]:
        known = {f"{name}-{index}": (name, index) for name, index in self._state.task_keys()}
        return [(known[one.task], one) for one in hung.culprits if one.task in known]

    def _end_by(self, ends: Mapping[TaskKey, Code], hung: Hang) -> None:
        for task_key, code in ends.items():
            current = self._state.task(task_key)
            if current is not None and current.state is not State.COMPLETED:
                self._state.put(task_key, attempt.complete(current, classification.predefined(code, hung.text)))
                self._state.dirty.touch(task_key)

    def _begin_epoch(self, after: FrameworkAttemptStatus, ctx: ReconcileContext) -> Iterator[None]:
        state = self._state
        state.begin_epoch(after, ctx.now)
        self._tasks.starts_while_closed.clear()
        assert after.gang_epoch is not UNSET
        for place, task_key in enumerate(list(state.task_keys())):
            if ends_turn(place):
                yield
            task = state.task(task_key)
            if task is None or task.deletion_pending or task.state is State.COMPLETED:
                continue
            left = epoch.leave_epoch(task.attempt_status, after.gang_epoch)
            if left != task.attempt_status:
                state.put(task_key, replace(task, attempt_status=left))
                state.dirty.touch(task_key)
        last = (after.last_gang_restarts or ())[-1]
        state.reports.add(last)
        state.add_event(events.of_gang_restarting(last, after.gang_restarts or 0, self._limit))

    def _open(self) -> None:
        """Open the gate, which is written with the status that shows everybody: only then it may be known."""
        status, gate, members = self._state.status, self._state.gate, member_count(self._state)
        counts = [role_state.counts for role_state in gang_roles(self._state)]
        is_complete = members > 0 and sum(one.ready for one in counts) == sum(one.active for one in counts)
        if gate is None or gate.is_open or not is_complete or self._state.held_back is not None:
            return
        after = replace(status.attempt_status, gang_released=members)
        self._state.set(replace(status, attempt_status=after), urgent=True)
        self._tasks.starts_while_closed.clear()
