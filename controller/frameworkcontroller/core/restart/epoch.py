"""In-place restart of a gang: which instance of a Task a Pod shows, who ends an epoch, and what follows from it. Pure.

A gang that asks for it has epochs. Its gate is closed when an epoch begins, and opens when each Task has an instance in
that epoch; then all of them are released. `observe` says which instance a Pod shows, `decide` what ends the epoch,
`next_epoch` what begins then. The status holds all that they need, so a controller that takes over decides the same.
Source: docs/reference/restart.md.
"""

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.pod import ContainerState, ContainerStatus, Pod
from frameworkcontroller.api.status import FrameworkAttemptStatus, GangRestart, Hang, RestartReason, TaskAttemptStatus
from frameworkcontroller.core.clock import LATEST
from frameworkcontroller.core.policies.readiness import has_arrived

KEPT_RESTARTS: Final = 10
MESSAGE_CHARACTERS: Final = 200
"""Of what a container has left when it ended: it goes to the status, the roster and an Event."""
BY_EXIT: Final = frozenset({RestartReason.EXITED, RestartReason.HUNG})


class Gate(Struct, frozen=True):
    """The epoch of a gang, and whether its members are released."""

    epoch: int
    released: int
    """The Tasks with which the gate has opened, or may have; 0 while it is closed."""
    why: str = ""
    """The epoch before has ended, in one line; "" if there is none."""
    since: datetime | None = None
    """When that has ended."""

    @property
    def is_open(self) -> bool:
        """Whether instances of this epoch may run their applications."""
        return self.released > 0


class End(Struct, frozen=True):
    """One thing that ends an epoch: of which Task, and what is known of the exit."""

    reason: RestartReason
    task: str = ""
    code: int | None = None
    message: str = ""


def gate_of(attempt: FrameworkAttemptStatus, since: datetime | None = None) -> Gate | None:
    """Return the gate of the attempt's gang, None if the gang does not restart in place.

    The last epoch has ended at the steady time `since`; without it, the time of day is taken that the status has.
    """
    if attempt.gang_epoch is UNSET:
        return None
    gate = Gate(attempt.gang_epoch, attempt.gang_released or 0)
    if not attempt.last_gang_restarts:
        return gate
    last = attempt.last_gang_restarts[-1]
    return replace(gate, why=last.why, since=since or last.time)


# --- one Task and its Pod --------------------------------------------------------------------------------------------


def observe(attempt: TaskAttemptStatus, pod: Pod, gate: Gate) -> TaskAttemptStatus:
    """Return the Task attempt with the instance that its Pod shows.

    Starts never go back, whatever late thing is seen. An instance that begins while the gate is open has no epoch: it
    ends the one that is (`ending`). One that begins while the gate is closed takes part in the epoch.
    """
    seen = starts_of(pod)
    if seen is None:
        return replace(attempt, arrived=True)
    known = attempt.starts or 0
    starts = max(known, seen + ends_this_start(pod))
    epoch = UNSET if starts > known else attempt.epoch
    if epoch is UNSET and not gate.is_open:
        epoch = gate.epoch
    is_here = (starts == known and attempt.arrived is True) or (seen == starts and has_arrived(pod))
    held = UNSET if starts > known else attempt.held
    return replace(attempt, starts=starts, epoch=epoch, arrived=epoch == gate.epoch and is_here, held=held)


def starts_of(pod: Pod) -> int | None:
    """Return how often the barrier of the Pod has started, None if the Pod has none that can end with an epoch.

    A template that was edited while the attempt runs may have another.
    """
    if names.BARRIER_CONTAINER not in pod.spec.sidecars:
        return None
    return 1 if (barrier := pod.status.barrier) is None else barrier.restart_count + 1


def ends_this_start(pod: Pod) -> bool:
    """Report whether the kubelet is about to restart all containers, and has not counted the barrier's next start yet.

    Where it makes a new sandbox, too (after a failed liveness probe), the count grows while the condition still holds.
    """
    conditions, barrier = pod.status.conditions, pod.status.barrier
    is_restarting = any(one.type == names.ALL_CONTAINERS_RESTARTING and one.status == "True" for one in conditions)
    return is_restarting and (barrier is None or barrier.state.waiting is None)


def ending(task: str, before: TaskAttemptStatus, after: TaskAttemptStatus, pod: Pod | None) -> End | None:
    """Return how a change of a Task's attempt ends the epoch of an open gate, None if it does not."""
    if after.id != before.id:
        return None if before.starts is UNSET else End(RestartReason.POD_REPLACED, task)
    takes_part_in_none = after.starts is not UNSET and after.epoch is UNSET
    if not takes_part_in_none or after.completion_status is not None:
        return None
    if before.starts is UNSET:
        return End(RestartReason.POD_REPLACED, task)
    container = None if pod is None else culprit(pod)
    end = None if container is None else container.state.terminated
    if end is None:
        return End(RestartReason.EXITED, task)
    return End(RestartReason.EXITED, task, end.exit_code, " ".join(end.message.split())[:MESSAGE_CHARACTERS])


def as_hung(end: End, hang: Hang) -> End:
    """Return an exit as one of a gang that hangs: whichever of its sidecars has ended first, that is why."""
    return replace(end, reason=RestartReason.HUNG, message=hang.text) if end.reason is RestartReason.EXITED else end


def culprit(pod: Pod) -> ContainerStatus | None:
    """Return the container that has failed first, an application's if there is one, as one that is terminated.

    The kubelet ends the others because of it. What it says of containers that it has removed is nobody's exit, and an
    earlier run of one that was started again alone is only asked where none is at its end.
    """
    both = (pod.status.container_statuses, pod.status.init_container_statuses)
    for statuses, is_now in ((each, now) for now in (True, False) for each in both):
        ended = [
            (end.finished_at or LATEST, one.name, end)
            for one in statuses
            for end in ((one.state if is_now else one.last_state).terminated,)
            if end is not None and end.exit_code and end.reason != names.RESTARTING_ALL_CONTAINERS
        ]
        if ended:
            _, name, end = min(ended, key=itemgetter(0))
            return ContainerStatus(name, ContainerState(terminated=end))
    return None


def as_failed(pod: Pod) -> Pod:
    """Return the Pod as if the container that failed first had failed it alone."""
    container = culprit(pod)
    statuses = () if container is None else (container,)
    return replace(pod, status=replace(pod.status, init_container_statuses=(), container_statuses=statuses))


def runs_applications(pod: Pod) -> bool:
    """Report whether every application container of the Pod runs."""
    states = [one.state.running is not None for one in pod.status.container_statuses]
    return bool(states) and all(states)


# --- the gang --------------------------------------------------------------------------------------------------------


def decide(
    gate: Gate, restarts: int, limit: int, ends: Sequence[End], *, members: int, succeeded: str = ""
) -> tuple[End | None, str]:
    """Decide what follows from the ends that were seen together, in that order.

    Returns what begins the next epoch, None if nothing does, and why the exits restart nobody, "" if they may: the
    attempts of their Tasks end then. `restarts` are those of the Framework attempt that count for the limit, which is
    0 for none. `members` is how many Tasks the gang has now, and `succeeded` names one that has succeeded, "" for none.
    """
    if not gate.is_open:
        return None, ""
    exits = [end for end in ends if end.reason in BY_EXIT]
    others = [end for end in ends if end.reason not in BY_EXIT]
    why = ""
    if exits and succeeded:
        why = f"{succeeded} has succeeded and cannot start again"
    elif exits and 0 < limit <= restarts:
        why = f"exits have restarted the gang {restarts} times, and {names.RESTART_LIMIT_ANNOTATION} is {limit}"
    if not why and exits:
        return exits[0], ""
    if not others and members != gate.released:
        others = [End(RestartReason.RESCALED, message=f"from {gate.released} to {members} Tasks")]
    return others[0] if others else None, why


def first_epoch(attempt: FrameworkAttemptStatus, *, restarts: bool) -> FrameworkAttemptStatus:
    """Return an attempt that has no Pods yet, with or without epochs as its Pod templates ask for."""
    if restarts is (attempt.gang_epoch is not UNSET):
        return attempt
    start, before = (0, ()) if restarts else (UNSET, UNSET)
    return replace(attempt, gang_epoch=start, gang_released=start, gang_restarts=start, last_gang_restarts=before)


def next_epoch(attempt: FrameworkAttemptStatus, cause: End, now: datetime) -> FrameworkAttemptStatus:
    """Return the attempt with its next epoch, whose gate is closed; an exit counts for the limit."""
    before, epoch = attempt.last_gang_restarts or (), (attempt.gang_epoch or 0) + 1
    found = GangRestart(
        epoch=epoch, time=now, reason=str(cause.reason), task=cause.task, code=cause.code, message=cause.message
    )
    return replace(
        attempt,
        gang_epoch=epoch,
        gang_released=0,
        gang_restarts=(attempt.gang_restarts or 0) + (cause.reason in BY_EXIT),
        last_gang_restarts=(*before, found)[-KEPT_RESTARTS:],
    )


def leave_epoch(attempt: TaskAttemptStatus, epoch: int) -> TaskAttemptStatus:
    """Return the attempt of a member when another epoch begins: one whose instance has ended takes part in that."""
    if attempt.starts is UNSET:
        return attempt
    return replace(attempt, arrived=False, epoch=epoch if attempt.epoch is UNSET else attempt.epoch)
