"""One Task: what its state becomes when its Pod is seen as it is (source: the Framework API, section 5).

A step may change the state several times, but only until something must be shown by the API server first: a state that
allows an action, or ends an attempt, is left only once it is *persisted*.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.states import ASSOCIATED, NEXT, State
from frameworkcontroller.api.types import RetryPolicy, RetryPolicyStatus, TaskAttemptStatus, TaskStatus

from . import classify, strays
from .policy import count_retry, decide_retry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frameworkcontroller.api.types import Pod, PodStatus, TaskCompletion

    from .classify import CodeInfo

# A forced deletion that did not show is asked for again after this time.
FORCE_AGAIN: Final = timedelta(seconds=5)


class Action(Enum):
    """What to do to the Task's Pod."""

    CREATE = auto()
    DELETE = auto()
    """Gracefully, by its recorded UID."""
    DELETE_STRAY = auto()
    """A Pod of ours under the Task's name that is not recorded: its controller died between create and write."""
    DELETE_FORCED = auto()
    """The graceful deletion took longer than the user allows."""
    DELETE_UNSEEN = auto()
    """The Pod was created but never showed up: delete it by UID and go on only once it is not found."""


@dataclass(frozen=True)
class TaskContext:
    """What a Task must know beyond itself and its Pod."""

    now: datetime
    retry_policy: RetryPolicy
    graceful_timeout_sec: int | None
    creation_timeout: timedelta
    codes: Sequence[CodeInfo]
    attempt_ending: bool
    """The Framework attempt's end is decided: nothing new starts."""
    config_map_name: str
    framework_uid: str
    waits_for_arrival: bool = False
    """The gang waits until each Pod's barrier runs, not only for its address."""


@dataclass(frozen=True)
class Step:
    """The outcome: the Task as it is now, at most one action, and when to look again without being told."""

    task: TaskStatus
    action: Action | None = None
    pod_uid: str | None = None
    wake_at: datetime | None = None


def new_task(index: int, uid: str, pod_name: str, now: datetime) -> TaskStatus:
    """A Task that has just been asked for."""
    return TaskStatus(
        index=index,
        instance_uid=uid,
        start_time=now,
        state=State.CREATION_PENDING,
        transition_time=now,
        attempt_status=TaskAttemptStatus(id=0, start_time=now, pod_name=pod_name),
        retry_policy_status=RetryPolicyStatus(),
    )


def move(task: TaskStatus, state: State, now: datetime) -> TaskStatus:
    """Change the state, with the times that go with it. Raises AssertionError on a change that the machine forbids."""
    assert state in NEXT[task.state], f"{task.attempt_status.pod_name}: {task.state} -> {state}"
    attempt = task.attempt_status
    if state is State.RUNNING:
        attempt = replace(attempt, run_time=now)
        return replace(task, state=state, transition_time=now, attempt_status=attempt, run_time=task.run_time or now)
    if state is State.ATTEMPT_COMPLETED:
        attempt = replace(attempt, completion_time=now)
    completion_time = now if state is State.COMPLETED else task.completion_time
    return replace(task, state=state, transition_time=now, attempt_status=attempt, completion_time=completion_time)


def complete(task: TaskStatus, completion: TaskCompletion) -> TaskStatus:
    """Record why the attempt ends; the first reason stays."""
    if task.completion is not None:
        return task
    return replace(task, attempt_status=replace(task.attempt_status, completion_status=completion))


def conclude(task: TaskStatus, now: datetime) -> TaskStatus:
    """To Completed, whatever its state: the Framework attempt is gone and its Pods with it."""
    task = complete(task, classify.predefined(Code.FRAMEWORK_ATTEMPT_COMPLETION, ATTEMPT_ENDED))
    if task.state not in {State.ATTEMPT_COMPLETED, State.COMPLETED}:
        task = move(task, State.ATTEMPT_COMPLETED, now)
    return task if task.state is State.COMPLETED else move(task, State.COMPLETED, now)


ATTEMPT_ENDED: Final = "Stop to complete current FrameworkAttempt"
SCALED_DOWN: Final = "User has requested to delete the Task by Framework ScaleDown"


def record_pod(task: TaskStatus, uid: str, now: datetime) -> TaskStatus:
    """The create succeeded: from now on this UID is the Task's Pod."""
    attempt = replace(
        task.attempt_status, pod_uid=uid, instance_uid=names.attempt_instance_uid(task.attempt_status.id, uid)
    )
    return move(replace(task, attempt_status=attempt), State.CREATION_REQUESTED, now)


def step(task: TaskStatus, pod: Pod | None, ctx: TaskContext, *, persisted: bool) -> Step:
    """Follow the Pod as far as the state machine allows now.

    Args:
        task: as last decided.
        pod: what the cache has under the Task's Pod name, whoever made it.
        ctx: the surroundings.
        persisted: whether the API server shows the Task as given.
    """
    while True:
        outcome = _advance(task, pod, ctx, persisted=persisted)
        if outcome.task == task:
            return outcome
        task, persisted = outcome.task, False


def _advance(task: TaskStatus, pod: Pod | None, ctx: TaskContext, *, persisted: bool) -> Step:
    match task.state:
        case State.COMPLETED:
            # Only the answer to a create that was lost on its way can have left a Pod behind.
            stray = persisted and pod is not None and pod.metadata.deletion_timestamp is None and is_ours(pod, ctx)
            return _delete_stray(task, pod, ctx) if pod and stray else Step(task)
        case State.ATTEMPT_COMPLETED:
            return Step(_retry_or_complete(task, ctx)) if persisted else Step(task)
        case State.CREATION_PENDING:
            return _create(task, pod, ctx, persisted=persisted)
    if pod is None or pod.metadata.uid != task.attempt_status.pod_uid:
        return _without_pod(task, ctx, persisted=persisted)
    return _with_pod(task, pod, ctx, persisted=persisted)


def _retry_or_complete(task: TaskStatus, ctx: TaskContext) -> TaskStatus:
    completion = task.completion
    assert completion is not None
    retry = decide_retry(ctx.retry_policy, task.retry_policy_status, completion)
    if not retry.wanted or ctx.attempt_ending or task.deletion_pending:
        return move(task, State.COMPLETED, ctx.now)
    counts = count_retry(task.retry_policy_status, retry)
    attempt = TaskAttemptStatus(
        id=counts.total_retried_count, start_time=ctx.now, pod_name=task.attempt_status.pod_name
    )
    return replace(move(task, State.CREATION_PENDING, ctx.now), retry_policy_status=counts, attempt_status=attempt)


def _create(task: TaskStatus, pod: Pod | None, ctx: TaskContext, *, persisted: bool) -> Step:
    if task.deletion_pending and task.completion is None:
        return Step(complete(task, classify.predefined(Code.DELETE_TASK_REQUESTED, SCALED_DOWN)))
    ours = pod is not None and is_ours(pod, ctx)
    if task.completion is not None and not ours:
        return Step(move(task, State.ATTEMPT_COMPLETED, ctx.now))
    if not persisted:
        return Step(task)
    if pod is None:
        return Step(task) if ctx.attempt_ending else Step(task, Action.CREATE)
    # Ours is deleted also if nobody wants the Task any more: it is not over while this runs. Somebody else's is never
    # touched, only waited for.
    return _delete_stray(task, pod, ctx) if ours else Step(task)


def _delete_stray(task: TaskStatus, pod: Pod, ctx: TaskContext) -> Step:
    if pod.metadata.deletion_timestamp is not None:
        return _force(task, pod, pod.metadata.deletion_timestamp, ctx)
    wake_at = strays.young_until(pod.metadata, ctx.now)
    return Step(task, wake_at=wake_at) if wake_at else Step(task, Action.DELETE_STRAY, pod.metadata.uid)


def _force(task: TaskStatus, pod: Pod, deletion: datetime, ctx: TaskContext) -> Step:
    """The Pod is being deleted: wait, by force only after the time that the user has set."""
    if ctx.graceful_timeout_sec is None:
        return Step(task)
    started = deletion - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
    deadline = started + timedelta(seconds=ctx.graceful_timeout_sec)
    if ctx.now < deadline:
        return Step(task, wake_at=deadline)
    return Step(task, Action.DELETE_FORCED, pod.metadata.uid)


def is_ours(pod: Pod, ctx: TaskContext) -> bool:
    """Whether the Pod was made by a controller of this Framework instance, in this or an earlier attempt."""
    owner = pod.metadata.controller
    return (
        owner is not None
        and owner.kind == "ConfigMap"
        and owner.name == ctx.config_map_name
        and pod.metadata.annotations.get(names.FRAMEWORK_UID) == ctx.framework_uid
    )


def _without_pod(task: TaskStatus, ctx: TaskContext, *, persisted: bool) -> Step:
    """The recorded Pod is not in the cache."""
    assert task.state in ASSOCIATED
    if task.state is not State.CREATION_REQUESTED:
        task = complete(task, classify.predefined(Code.POD_EXTERNAL_DELETED, "Pod was deleted by others"))
        return Step(move(task, State.ATTEMPT_COMPLETED, ctx.now))
    # The create succeeded, so the Pod is on its way into the cache, or was deleted before it got there.
    if task.completion is None:
        deadline = task.transition_time + ctx.creation_timeout
        if task.deletion_pending:
            return Step(complete(task, classify.predefined(Code.DELETE_TASK_REQUESTED, SCALED_DOWN)))
        if ctx.now < deadline:
            return Step(task, wake_at=deadline)
        seconds = int(ctx.creation_timeout.total_seconds())
        text = (
            f"Pod does not appear in the local cache within timeout {seconds}s, "
            "so consider it was deleted and force delete it"
        )
        return Step(complete(task, classify.predefined(Code.POD_LOCAL_CACHE_CREATION_TIMEOUT, text)))
    return Step(task, Action.DELETE_UNSEEN, task.attempt_status.pod_uid) if persisted else Step(task)


def _with_pod(task: TaskStatus, pod: Pod, ctx: TaskContext, *, persisted: bool) -> Step:
    """The recorded Pod is there."""
    deletion = pod.metadata.deletion_timestamp
    if deletion is not None:
        return _under_deletion(task, pod, deletion, ctx, persisted=persisted)
    task = _follow(task, pod, waits_for_arrival=ctx.waits_for_arrival)
    status = pod.status
    if task.state is State.CREATION_REQUESTED:
        task = move(task, State.PREPARING, ctx.now)
    if status.phase == "Succeeded":
        task = complete(task, classify.succeeded(pod))
    elif status.phase == "Failed":
        task = complete(task, classify.failed(pod, ctx.codes))
    if task.state in {State.PREPARING, State.RUNNING} and task.completion is not None:
        return Step(move(task, State.DELETION_PENDING, ctx.now))
    if task.state is State.PREPARING and status.phase == "Running":
        return Step(move(task, State.RUNNING, ctx.now))
    if task.state is State.DELETION_PENDING and persisted:
        return Step(task, Action.DELETE, pod.metadata.uid)
    return Step(task)


def _under_deletion(task: TaskStatus, pod: Pod, deletion: datetime, ctx: TaskContext, *, persisted: bool) -> Step:
    task = complete(task, classify.predefined(Code.POD_EXTERNAL_DELETED, "Pod is being deleted by others"))
    if task.state is not State.DELETING:
        task = move(task, State.DELETING, ctx.now)
    step = _force(task, pod, deletion, ctx)
    return step if persisted or step.action is None else Step(task)


def _follow(task: TaskStatus, pod: Pod, *, waits_for_arrival: bool) -> TaskStatus:
    attempt = task.attempt_status
    node, status = pod.spec.node_name, pod.status
    # For good: that a sidecar ends with its Pod makes nobody absent.
    arrived = (attempt.arrived is True or has_arrived(pod)) if waits_for_arrival else msgspec.UNSET
    known = (attempt.pod_node_name, attempt.pod_ip, attempt.pod_host_ip, attempt.arrived)
    if known == (node, status.pod_ip, status.host_ip, arrived):
        return task
    return replace(
        task,
        attempt_status=replace(
            attempt, pod_node_name=node, pod_ip=status.pod_ip, pod_host_ip=status.host_ip, arrived=arrived
        ),
    )


def has_arrived(pod: Pod) -> bool:
    """Whether the Pod's barrier runs or has let it through; a Pod without a barrier is there once it has an address."""
    if not any(container.name == names.BARRIER_CONTAINER for container in pod.spec.init_containers):
        return True
    states = (one.state for one in pod.status.init_container_statuses if one.name == names.BARRIER_CONTAINER)
    return any(
        state.running is not None or (state.terminated is not None and state.terminated.exit_code == 0)
        for state in states
    )


def why_not_ready(task: TaskStatus, pod: Pod | None) -> str:
    """One phrase for a person: why the gang still waits for this Task."""
    if pod is None or pod.metadata.uid != task.attempt_status.pod_uid:
        return "its Pod is not created yet" if task.state is State.CREATION_PENDING else str(task.state)
    if pod.metadata.deletion_timestamp is not None:
        return "its Pod is being deleted"
    absent = "its barrier does not run yet" if pod.status.pod_ip else "no IP yet"
    return _why_pending(pod.status) or f"{pod.status.phase}: {absent}"


def _why_pending(status: PodStatus) -> str | None:
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"{status.phase}: {condition.reason}: {condition.message}".rstrip(": ")
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in {"", "PodInitializing", "ContainerCreating"}:
            return f"{status.phase}: {container.name}: {waiting.reason}: {waiting.message}".rstrip(": ")
    if status.reason:
        return f"{status.phase}: {status.reason}"
    return None


def utc_seconds(moment: datetime) -> datetime:
    """Times in a status have whole seconds, as Kubernetes writes them."""
    return moment.astimezone(UTC).replace(microsecond=0)
