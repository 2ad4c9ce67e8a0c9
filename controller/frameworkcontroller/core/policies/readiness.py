"""When a Task is ready: the one place that decides what peers wait for (docs/reference/barrier.md, section 1).

A Task is ready when its Pod has an address; where the gang waits for arrival, when its Pod's barrier runs as well.
Whether a gang waits for arrival is read from its Pod templates.
"""

from typing import Final

import msgspec
from msgspec import Struct

from frameworkcontroller.api import names
from frameworkcontroller.api.pod import Pod, PodStatus
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskAttemptStatus, TaskStatus


def is_ready(task: TaskStatus) -> bool:
    """Report whether peers can reach this Task: it stays, and its Pod has an address and, if asked, has arrived."""
    attempt = task.attempt_status
    found = attempt.pod_uid is not None and bool(attempt.pod_ip) and attempt.arrived is not False
    return found and not task.deletion_pending


def membership(task: TaskStatus) -> tuple[object, ...]:
    """Return what peers must learn of when it changes."""
    attempt = task.attempt_status
    return task.deletion_pending, task.instance_uid, attempt.id, attempt.pod_uid, attempt.pod_ip, attempt.arrived


def arrival_of(attempt: TaskAttemptStatus, pod: Pod, *, waits_for_arrival: bool) -> bool | msgspec.UnsetType:
    """Return the attempt's `arrived`: once true it stays so, although the barrier's sidecar ends with its Pod."""
    if not waits_for_arrival:
        return msgspec.UNSET
    return attempt.arrived is True or has_arrived(pod)


def has_arrived(pod: Pod) -> bool:
    """Report whether the Pod's barrier runs or has let it through; a Pod without a barrier has always arrived."""
    if not any(container.name == names.BARRIER_CONTAINER for container in pod.spec.init_containers):
        return True
    barrier = pod.status.barrier
    end = None if barrier is None else barrier.state.terminated
    return barrier is not None and (barrier.state.running is not None or (end is not None and end.exit_code == 0))


def held_of(attempt: TaskAttemptStatus, pod: Pod) -> bool | msgspec.UnsetType:
    """Return the attempt's `held`: the sidecar of its Pod, once it was ready, is not while the application waits.

    A sidecar whose probe was not asked yet is not ready, either: of that nothing follows.
    """
    barrier = pod.status.barrier
    if barrier is None or not barrier.started or barrier.state.running is None:
        return attempt.held
    return False if barrier.ready else attempt.held is not msgspec.UNSET or msgspec.UNSET


class Obstacle(Struct, frozen=True):
    """Why the gang still waits for a Task."""

    phrase: str
    """All of it, for people."""
    reason: str
    """One word for it."""
    detail: str = ""
    """What more others say about it, "" for nothing."""


NOT_CREATED: Final = Obstacle("its Pod is not created yet", "NotCreated")
DELETING: Final = Obstacle("its Pod is being deleted", "Deleting")


def obstacle_of(task: TaskStatus, pod: Pod | None) -> Obstacle:
    """Return why the gang still waits for this Task, of whose name the cache has this Pod."""
    if pod is None or pod.metadata.uid != task.attempt_status.pod_uid:
        return NOT_CREATED if task.state is State.CREATION_PENDING else Obstacle(str(task.state), str(task.state))
    if pod.metadata.deletion_timestamp is not None:
        return DELETING
    if pod.status.pod_ip and isinstance(task.attempt_status.starts, int) and task.attempt_status.arrived is False:
        start, phase = task.attempt_status.starts, pod.status.phase
        return _pending(pod.status) or Obstacle(
            f"{phase}: it restarts in place (start {start})", "Restarting", f"start {start}"
        )
    return why_not_ready(pod.status)


def why_not_ready(status: PodStatus) -> Obstacle:
    """Return why peers still wait for a Pod that stays."""
    if not status.pod_ip:
        return _pending(status) or Obstacle(f"{status.phase}: no IP yet", "NoAddress")
    return _pending(status) or Obstacle(f"{status.phase}: its barrier does not run yet", "BarrierNotRunning")


def _pending(status: PodStatus) -> Obstacle | None:
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            phrase = f"{status.phase}: {condition.reason}: {condition.message}".rstrip(": ")
            return Obstacle(phrase, condition.reason or "NotScheduled", condition.message)
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in {"", "PodInitializing", "ContainerCreating"}:
            detail = f"{container.name}: {waiting.message}".rstrip(": ")
            phrase = f"{status.phase}: {container.name}: {waiting.reason}: {waiting.message}".rstrip(": ")
            return Obstacle(phrase, waiting.reason, detail)
    if status.reason:
        return Obstacle(f"{status.phase}: {status.reason}", status.reason)
    return None
