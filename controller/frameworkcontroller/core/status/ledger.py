"""What the time of a Framework is spent on (docs/ledger.md).

`spending` says what at present, from the status and from counts that the roles keep; `follow` charges what has passed
as that changes. The ledger is written with what else is written and asks for no write of its own: a controller that
takes over goes on from the one that is stored, and `take_up` charges what passed meanwhile by the times of the Pods.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.pod import Pod, Times
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import Spending, State
from frameworkcontroller.api.status import Ledger, Spent
from frameworkcontroller.core.machines.framework import is_ending
from frameworkcontroller.core.policies.crash_loop import ATTEMPT
from frameworkcontroller.core.status.state import FrameworkState

PLACES: Final = 3
"""Of the seconds."""
BY_PODS: Final[dict[str, int]] = {Spending.SCHEDULING: 0, Spending.STARTING: 1, Spending.GATE: 1, Spending.RUNNING: 2}
"""What Pods go through without a controller: how far they have come by the `Times` of a Pod."""
AFTER: Final = (Spending.STARTING, Spending.RUNNING, Spending.ENDING)
UNKNOWN: Final[Times] = (None, None, None)


def spending(state: FrameworkState, spec: FrameworkSpec, *, is_open: bool) -> str:
    """Return what the Framework's time is spent on: "" once it is Completed. `is_open`: its gang has been released."""
    status = state.status
    if status.state is State.COMPLETED:
        return ""
    if status.state in {State.CREATION_PENDING, State.ATTEMPT_COMPLETED}:
        if spec.is_to_wait or state.held_back or state.queueing.hold:
            return Spending.QUEUED
        is_paused = status.state is State.ATTEMPT_COMPLETED or ATTEMPT in state.crash_loops.held
        return Spending.BACKOFF if is_paused else Spending.SCHEDULING
    if is_ending(status):
        return Spending.ENDING
    gate = state.gate
    if gate is not None and gate.epoch and not gate.is_open:
        return Spending.RESTARTING
    return _of_slowest(state, is_open=is_open)


def _of_slowest(state: FrameworkState, *, is_open: bool) -> str:
    """Return what the slowest Task is at that is not over; without barriers the Framework runs while any does."""
    begun = [role.counts for role in state.roles.values() if not role.waits]
    left, running = sum(one.under_way for one in begun), sum(one.running for one in begun)
    if running and not state.facts.has_barriers:
        return Spending.RUNNING
    if any(one.failing for one in begun):
        return Spending.BACKOFF
    if running and running == left:
        return Spending.RUNNING
    if not left:
        return Spending.WAITING if len(begun) < len(state.roles) else Spending.ENDING
    if sum(one.placed for one in begun) < left:
        return Spending.BACKOFF if state.crash_loops.held else Spending.SCHEDULING
    is_held = state.facts.has_barriers and not is_open and sum(one.there for one in begun) == left
    return Spending.GATE if is_held else Spending.STARTING


def take_up(
    state: FrameworkState, created: datetime | None, pod: Callable[[str], Pod | None], now: datetime
) -> Iterator[None]:
    """Go on with the ledger that is stored, or begin one: of a new Framework, or of one that an earlier version began.

    What the Pods have gone through while there was no controller is charged by their times. It yields for each Task.
    """
    if state.ledger is None:
        state.ledger = Ledger(_exact(now if state.has_status or created is None else created))
    if (reached := BY_PODS.get(state.ledger.state)) is None:
        return
    shown: list[Times] = []
    for role in state.roles.values():
        for attempt in (task.attempt_status for task in role.active()):
            if attempt.completion_status is None and not role.waits:
                found = pod(attempt.pod_name)
                is_it = found is not None and found.metadata.uid == attempt.pod_uid
                shown.append((found.times or UNKNOWN) if found is not None and is_it else UNKNOWN)
            yield
    for place, (after, moments) in enumerate(zip(AFTER, zip(*shown, strict=True), strict=False)):
        known = [one for one in moments if one is not None]
        is_first = after is Spending.RUNNING and not state.facts.has_barriers
        if place >= reached and known and (is_first or len(known) == len(moments)):
            state.ledger = _charged(state.ledger, after, min(now, min(known) if is_first else max(known)))


def follow(state: FrameworkState, spec: FrameworkSpec, now: datetime, *, is_open: bool) -> None:
    """Charge what has passed if the time is spent on something else from this moment. `is_open`: see `spending`."""
    found, ledger = spending(state, spec, is_open=is_open), state.ledger
    assert ledger is not None
    if found != ledger.state:
        ledger = _charged(ledger, found, now)
    if _has_failed(state):
        ledger = replace(ledger, attempt=_void(ledger.attempt))
    if ledger.attempt.lost is None:
        ledger = replace(ledger, total=_void(ledger.total))
    state.ledger = ledger


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
    if name not in Spent.__struct_fields__:
        return replace(ledger, state=after, since=moment)
    total, attempt = (
        replace(one, **{name: round(getattr(one, name) + seconds, PLACES)}) for one in (ledger.total, ledger.attempt)
    )
    return Ledger(moment, after, total, attempt)


def _void(spent: Spent) -> Spent:
    """Say that of what it ran an unknown part is lost. Nothing reports checkpoints."""
    return replace(spent, lost=None) if spent.running and spent.lost is not None else spent


def _has_failed(state: FrameworkState) -> bool:
    """Report whether an epoch or the attempt has ended in a failure, or one of a Task."""
    end, gate = state.status.completion, state.gate
    has_epochs = gate is not None and gate.epoch > 0
    has_ended = end is not None and end.type.name != TypeName.SUCCEEDED
    return has_epochs or has_ended or any(one.counts.failing or one.counts.failed for one in state.roles.values())


def _exact(moment: datetime) -> datetime:
    """Return the moment in UTC and whole milliseconds."""
    return moment.astimezone(UTC).replace(microsecond=moment.microsecond // 1000 * 1000)
