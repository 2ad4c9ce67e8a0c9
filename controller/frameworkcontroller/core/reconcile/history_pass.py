"""The archive's part of a reconcile pass: whether it holds the Framework, and which Pods wait for it.

`FrameworkReconciler.steps` calls `write` after the write of the status. `record` decides; this module asks the archive
which logs it keeps, and emits what follows. Without an archive nothing is asked, and what it has held is let go.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from msgspec import Struct

from frameworkcontroller.api.states import State
from frameworkcontroller.core.clock import EARLIEST, Now
from frameworkcontroller.core.effects import AskLogs, Done, Missing, Outcome, SetFinalizers, Told, WriteStatus
from frameworkcontroller.core.machines import framework, record, task
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.core.reconcile.decision import ReconcileContext
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.restart.hang import decoded
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.writer import StatusWriter

MOST_UIDS: Final = 500
"""Of one request."""
PAUSE: Final = timedelta(seconds=0.1)
"""After an answer: of many Pods one after the other would be answered."""
FIRST_PAUSE: Final = timedelta(seconds=0.5)
LONGEST_PAUSE: Final = timedelta(seconds=5)
"""After failures."""


class _Answer(Struct, frozen=True):
    """What the archive says."""

    kept: tuple[str, ...]


class HistoryPass:
    """What the archive keeps of one Framework."""

    def __init__(self, config: CoreConfig, state: FrameworkState, in_flight: InFlight, writer: StatusWriter) -> None:
        self._is_on, self._state, self._in_flight, self._writer = config.history, state, in_flight, writer
        self._due, self._failures = EARLIEST, 0
        """When the archive may be asked again, and how often in a row it has not answered."""
        self.is_quiet = True
        """Whether the finalizer of the Framework is as it should be."""

    def write(self, ctx: ReconcileContext) -> None:
        """Set or remove the finalizer, and ask for logs."""
        if self._is_on or ctx.framework.is_held or not self.is_quiet:
            self._hold(ctx)
        if self._state.sightings.awaited:
            self._ask(ctx)

    def _hold(self, ctx: ReconcileContext) -> None:
        seen = ctx.framework
        self.is_quiet = not record.is_change_due(seen, ctx.stamp, history=self._is_on)
        until = record.released_at(seen)
        if self.is_quiet and until is not None:
            ctx.decision.wake(ctx.clock.steadily(until))
        # A write of the status and this one would meet: the second one builds on what the first one has left.
        if self.is_quiet or ctx.in_flight.is_busy(WriteStatus.key) or not self._writer.is_up_to_date(seen):
            return
        # What is to be written takes milliseconds to say, of a mebibyte.
        if (delayed := ctx.in_flight.delayed_until(SetFinalizers.key, ctx.now)) is not None:
            ctx.decision.wake(delayed)
        elif not ctx.in_flight.is_busy(SetFinalizers.key):
            ctx.emit(SetFinalizers(seen.changed_finalizers, seen.metadata.resource_version, seen.size))

    def _ask(self, ctx: ReconcileContext) -> None:
        """Ask for the Pods that have waited longest since they were asked for."""
        awaited = self._state.sightings.awaited
        for uid in [uid for uid, (_, until) in awaited.items() if until <= ctx.now]:
            current = self._state.task(awaited.pop(uid)[0])
            if current is not None and current.state is State.DELETION_PENDING:
                self._state.sightings.lost_at = ctx.now
        if ctx.now < self._due:
            ctx.decision.wake(self._due)
        elif awaited and not ctx.in_flight.is_busy(AskLogs.key):
            ctx.emit(AskLogs(tuple(sorted(islice(awaited, MOST_UIDS)))))

    def apply_outcome(self, effect: SetFinalizers | AskLogs, outcome: Outcome, now: Now) -> None:
        """Take in whether the finalizer was set or removed, or which logs are kept."""
        match effect, outcome:
            case AskLogs(), _:
                self._take(effect, outcome, now.steady)
            case SetFinalizers(), Done():
                self._writer.go_on_from(effect.resource_version, outcome.resource_version)
                if outcome.resource_version == effect.resource_version:  # a webhook has taken it out
                    self._in_flight.recheck_later(SetFinalizers.key, now.steady, longer=True)
                else:
                    self._in_flight.reset_delay(SetFinalizers.key)
            case SetFinalizers(), Missing():  # somebody has changed the Framework
                self._in_flight.recheck_later(SetFinalizers.key, now.steady)

    def _take(self, asked: AskLogs, outcome: Outcome, now: datetime) -> None:
        answer = decoded(outcome.body, _Answer) if isinstance(outcome, Told) and outcome.body is not None else None
        self._failures = 0 if answer is not None else min(self._failures + 1, 8)
        pause = PAUSE if answer is not None else min(FIRST_PAUSE * 2 ** (self._failures - 1), LONGEST_PAUSE)
        self._due = now + pause
        self._in_flight.reset_delay(AskLogs.key)
        sightings, kept = self._state.sightings, set(() if answer is None else answer.kept)
        for uid in asked.uids:
            if (waits := sightings.awaited.pop(uid, None)) is None:
                continue
            if uid in kept:
                sightings.kept.add(uid)
                self._state.dirty.touch(waits[0])
            else:
                sightings.awaited[uid] = waits  # behind those that were not asked for


def kept_logs(state: FrameworkState, now: datetime) -> set[str] | None:
    """Return of which Pods logs are kept, None if none waits for that: a retry of all waits for one Pod in vain.

    The attempt may have ended only when that Pod was gone, and others have ended meanwhile.
    """
    lost_at = state.sightings.lost_at
    is_in_vain = lost_at is not None and framework.is_ending(state.status) and now - lost_at < record.PATIENCE
    return None if is_in_vain else state.sightings.kept


def holds_config_map(
    state: FrameworkState, ctx: ReconcileContext, facts_of: Callable[[str, ReconcileContext], task.TaskFacts]
) -> bool:
    """Report whether Pods are still to be let go, or read, before the ConfigMap is deleted, which takes them along."""
    for name, role_state in state.roles.items():
        if not any(role_state.by_state[one] for one in task.UNEXPECTED):
            continue
        facts = facts_of(name, ctx)
        for current in role_state.tasks:
            pod = ctx.view.pod(current.attempt_status.pod_name) if current.state in task.UNEXPECTED else None
            if pod is None or pod.metadata.uid != current.attempt_status.pod_uid:
                continue
            if task.stays(current, pod, facts) or record.logs_awaited_until(current, pod, facts.kept, ctx.stamp):
                return True
    return False
