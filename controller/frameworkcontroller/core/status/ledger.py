"""What the time of a Framework is spent on (docs/ledger.md).

`state_of` says what at present, from the status and from counts that the roles keep; `follow` charges what has passed
as that changes. The ledger is written with what else is written and asks for no write of its own: a controller that
takes over goes on from the one that is stored, and `take_up` charges what passed meanwhile by the times of the Pods.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.pod import Pod, Times
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import LedgerState, State
from frameworkcontroller.api.status import Ledger, RestartReason, Spent
from frameworkcontroller.core.clock import EARLIEST, Now, latest
from frameworkcontroller.core.machines.framework import is_ending
from frameworkcontroller.core.policies.crash_loop import ATTEMPT
from frameworkcontroller.core.restart.hang import Verdict, counted, hang_now
from frameworkcontroller.core.status.state import FrameworkState

PLACES: Final = 3
"""Of the seconds."""
NAMES: Final = frozenset(map(str, LedgerState))
BY_PODS: Final = (LedgerState.SCHEDULING, LedgerState.STARTING, LedgerState.RUNNING, LedgerState.ENDING)
"""What Pods go through without a controller; the ends of the first three are their `Times`."""
RUNS: Final = frozenset({LedgerState.RUNNING, LedgerState.HUNG})
UNKNOWN: Final[Times] = (None, None, None)


def state_of(state: FrameworkState, spec: FrameworkSpec, *, is_open: bool) -> str:
    """Return what the Framework's time is spent on: "" once it is Completed. `is_open`: its gang has been released."""
    status = state.status
    if status.state is State.COMPLETED:
        return ""
    if status.state in {State.CREATION_PENDING, State.ATTEMPT_COMPLETED}:
        if spec.is_to_wait or state.held_back or state.queueing.hold:
            return LedgerState.QUEUED
        if status.state is State.ATTEMPT_COMPLETED and status.retry_policy_status.retry_delay_sec is None:
            return LedgerState.ENDING
        is_paused = status.state is State.ATTEMPT_COMPLETED or ATTEMPT in state.crash_loops.held
        return LedgerState.BACKOFF if is_paused else LedgerState.SCHEDULING
    if is_ending(status):
        return LedgerState.ENDING
    gate = state.gate
    if gate is not None and gate.epoch and not gate.is_open:
        return LedgerState.RESTARTING
    return _of_slowest(state, is_open=is_open)


def _of_slowest(state: FrameworkState, *, is_open: bool) -> str:
    """Return what the slowest Task is at that is not over; without barriers the Framework runs while any does."""
    begun = [role.counts for role in state.roles.values() if not role.waits]
    left = sum(one.active - one.completed - one.succeeding - one.failing for one in begun)
    running = sum(one.running for one in begun)
    if running and not state.facts.has_barriers:
        return LedgerState.RUNNING
    if any(one.failing for one in begun) or (not left and any(one.succeeding for one in begun)):
        is_over = any(role.by_state[State.ATTEMPT_COMPLETED] for role in state.roles.values())
        return LedgerState.BACKOFF if is_over else LedgerState.ENDING
    if running and running == left:
        return LedgerState.HUNG if hang_now(state.status) else LedgerState.RUNNING
    if not left:
        return LedgerState.WAITING
    if sum(one.placed for one in begun) < left:
        return LedgerState.BACKOFF if state.crash_loops.held else LedgerState.SCHEDULING
    is_held = state.facts.has_barriers and not is_open and sum(one.there for one in begun) == left
    return LedgerState.GATE if is_held else LedgerState.STARTING


def take_up(
    state: FrameworkState, created: datetime | None, pod: Callable[[str], Pod | None], now: datetime
) -> Iterator[None]:
    """Go on with the ledger that is stored, or begin one: of a new Framework, or of one that an earlier version began.

    What the Pods have gone through while there was no controller is charged by their times. It yields for each Task.
    """
    if state.ledger is None:
        state.ledger = Ledger(_exact(now if state.has_status or created is None else created))
    state.ledger = replace(state.ledger, since=max(state.ledger.since, created or state.ledger.since))
    state.stretch = _stretch_of(state, state.ledger)
    if state.ledger.state not in BY_PODS:
        return
    shown: list[Times] = []
    for role in state.roles.values():
        for attempt in (task.attempt_status for task in role.active()):
            if attempt.completion_status is None and not role.waits:
                found = pod(attempt.pod_name)
                is_it = found is not None and found.metadata.uid == attempt.pod_uid
                shown.append((found.times or UNKNOWN) if found is not None and is_it else UNKNOWN)
            yield
    placed, ran, over = ([times[place] for times in shown] for place in range(3))
    # Without barriers it runs from the first that does.
    runs = latest(ran) if state.facts.has_barriers else min(filter(None, ran), default=None)
    starts = min(filter(None, (latest(placed), runs)), default=None)
    for moment, (before, after) in zip((starts, runs, latest(over)), pairwise(BY_PODS), strict=True):
        if moment is not None and state.ledger.state == before:
            state.ledger = _charged(state.ledger, after, min(moment, now))


def _stretch_of(state: FrameworkState, ledger: Ledger) -> tuple[datetime, float] | None:
    """Return since when it runs that was stored, and for how long the attempt had hung before; None if it does not.

    Of one that hangs, only the last part of that is stored: what it ran since a checkpoint counts.
    """
    if ledger.state == LedgerState.RUNNING:
        return ledger.since, ledger.attempt.hung
    hang = hang_now(state.status) if ledger.state == LedgerState.HUNG else None
    return None if hang is None else (EARLIEST, ledger.attempt.hung - hang.silent)


def follow(state: FrameworkState, spec: FrameworkSpec, now: datetime, *, is_open: bool) -> None:
    """Charge what has passed if the time is spent on something else from this moment. `is_open`: see `state_of`."""
    found, ledger = state_of(state, spec, is_open=is_open), state.ledger
    assert ledger is not None
    has_run = ledger.attempt.running or LedgerState.RUNNING in {found, ledger.state}
    since, before = ledger.since, ledger.state
    hang, progress = hang_now(state.status), state.status.attempt_status.progress
    if found != before:
        ledger = _charged(ledger, found, now)
    if found == LedgerState.HUNG != before and hang is not None:
        ledger = _moved(ledger, "hung", min(hang.silent, (now - since).total_seconds()))
    if has_run and _has_failed(state):
        saved = progress.checkpoint_time if progress else None
        if saved is None:
            ledger = _each(ledger, lambda spent: replace(_added(spent, running=spent.lost or 0.0), lost=None))
        elif before in RUNS and found not in RUNS and _fails(state, found):
            began, hung = state.stretch or (since, ledger.attempt.hung)
            ran = (now - max(saved, began)).total_seconds() - (ledger.attempt.hung - hung)
            ledger = _moved(ledger, "lost", ran)
    if found not in RUNS:
        state.stretch = None
    elif state.stretch is None:
        state.stretch = (ledger.since, ledger.attempt.hung)
    state.ledger = ledger


def stored(ledger: Ledger | None, *, complete: bool) -> Ledger | UnsetType:
    """Return the ledger as it is written with a status that says whether the gang is `complete`.

    A complete one is released at once, of which no status tells: its applications start from now on.
    """
    if ledger is None:
        return UNSET
    return replace(ledger, state=LedgerState.STARTING) if complete and ledger.state == LedgerState.GATE else ledger


def note_hang(state: FrameworkState, verdict: Verdict | None, now: Now) -> None:
    """Keep what a sidecar has found of the gang, unless it is known of that epoch.

    The time since its last progress, as far as it ran, it has hung.
    """
    status, ledger, epoch = state.status, state.ledger, state.status.attempt_status.gang_epoch or 0
    if verdict is None or status.completion is not None or verdict.epoch > epoch:
        return
    # Looked at only for a hang that is not known: the last line of a sidecar stays there.
    used = (task.attempt_status.pod_node_name or "" for role in state.roles.values() for task in role.active())
    found = counted(status.hangs, verdict, status.attempt_status.id, now.stamp, used)
    if found is None:
        return
    state.set(replace(status, hangs=found), urgent=True)
    if hang_now(status) is None:
        state.tell_hang(found.last)
    if verdict.epoch == epoch and ledger is not None and ledger.state == LedgerState.RUNNING:
        seconds = min(float(verdict.silent), (now.wall - ledger.since).total_seconds())
        state.ledger = _moved(_charged(ledger, LedgerState.RUNNING, now.wall), "hung", seconds)


def _moved(ledger: Ledger, name: str, seconds: float) -> Ledger:
    """Charge so many of the last seconds that this attempt ran to something else."""
    seconds = min(max(seconds, 0.0), ledger.attempt.running)
    more = {"running": -seconds, name: seconds}
    return _each(ledger, lambda spent: spent if getattr(spent, name) is None else _added(spent, **more))


def begin_attempt(state: FrameworkState, now: datetime) -> None:
    """Charge what has passed to the attempt that is over: another begins."""
    assert state.ledger is not None
    state.ledger = replace(_charged(state.ledger, state.ledger.state, now), attempt=Spent())


def _charged(ledger: Ledger, after: str, moment: datetime) -> Ledger:
    """Charge what has passed until this moment, from which on the time is spent on something else.

    The first state of all is charged from the Framework's creation. One that only a later version knows is left out.
    """
    moment = max(ledger.since, _exact(moment))
    seconds, name = (moment - ledger.since).total_seconds(), ledger.state or after
    if name not in NAMES:
        return replace(ledger, state=after, since=moment)
    return _each(replace(ledger, state=after, since=moment), lambda spent: _added(spent, **{name: seconds}))


def _each(ledger: Ledger, change: Callable[[Spent], Spent]) -> Ledger:
    """Change what was spent in all, and in this attempt."""
    return replace(ledger, total=change(ledger.total), attempt=change(ledger.attempt))


def _added(spent: Spent, **seconds: float) -> Spent:
    return replace(spent, **{name: round(getattr(spent, name) + more, PLACES) for name, more in seconds.items()})


def _fails(state: FrameworkState, found: str) -> bool:
    """Report whether what ran until now has ended in a failure."""
    end = state.status.completion
    if found == LedgerState.RESTARTING:
        restarts = state.status.attempt_status.last_gang_restarts or ()
        return any(one.reason != RestartReason.RESCALED for one in restarts[-1:])
    if end is not None:
        return end.type.name != TypeName.SUCCEEDED
    return any(role.counts.failing for role in state.roles.values())


def _has_failed(state: FrameworkState) -> bool:
    """Report whether an epoch or the attempt has ended in a failure, or one of a Task."""
    end, has_epochs = state.status.completion, bool(state.status.attempt_status.gang_epoch)
    has_ended = end is not None and end.type.name != TypeName.SUCCEEDED
    return has_epochs or has_ended or any(one.counts.failing or one.counts.failed for one in state.roles.values())


def _exact(moment: datetime) -> datetime:
    """Return the moment in UTC and whole milliseconds."""
    return moment.astimezone(UTC).replace(microsecond=moment.microsecond // 1000 * 1000)
