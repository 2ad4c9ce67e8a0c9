"""One Task: its next state and action, from its Pod as seen (docs/reference/framework-api.md, section 5).

A step may change the state several times, but a state that allows an action, or ends an attempt, is left only once it
is persisted.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.meta import Meta
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.spec import RETAIN_NEVER, RetryPolicy
from frameworkcontroller.api.states import ASSOCIATED, State
from frameworkcontroller.api.status import RetryPolicyStatus, TaskAttemptStatus, TaskStatus
from frameworkcontroller.core.clock import after, duration
from frameworkcontroller.core.machines import barrier_exit, orphans
from frameworkcontroller.core.machines.attempt import Step, complete, follow, move, never_seen
from frameworkcontroller.core.machines.record import logs_awaited_until
from frameworkcontroller.core.machines.retention import may_stay
from frameworkcontroller.core.policies import classification
from frameworkcontroller.core.policies.classification import CodeInfo
from frameworkcontroller.core.policies.readiness import arrival_of, held_of
from frameworkcontroller.core.policies.retry import count_retry, decide_retry
from frameworkcontroller.core.restart import epoch


class Action(Enum):
    """What to do to the Task's Pod."""

    CREATE = auto()
    DELETE = auto()
    """Delete the Task's Pod gracefully."""
    RETAIN = auto()
    """Let go of the Task's Pod, which has ended, so that its logs stay."""
    AWAIT_LOGS = auto()
    """Delete the Task's Pod, which has ended, once the archive keeps its logs."""
    DELETE_ORPHAN = auto()
    """Delete a Pod of ours under the Task's name that the status does not name (see `orphans`)."""
    DELETE_FORCED = auto()
    """Delete the Pod without grace: its graceful deletion took longer than the user allows."""
    DELETE_UNSEEN = auto()
    """Delete a Pod that the cache does not show, until it is not found."""
    FIND = auto()
    """Ask for a Pod that the cache does not show any more."""
    AWAIT_NAME = auto()
    """Say that a Pod of others has the Task's name, and wait until it is gone."""


class TaskFacts(Struct, frozen=True):
    """What the decision on a Task depends on besides the Task and its Pod."""

    now: datetime
    retry_policy: RetryPolicy
    graceful_timeout_sec: int | None
    creation_timeout: timedelta
    codes: Sequence[CodeInfo]
    attempt_ending: bool
    """The end of the Framework attempt is decided: no Pod is created any more."""
    config_map_name: str
    framework_uid: str
    gone: Collection[str] = frozenset()
    """UIDs that the API server was asked for and does not have."""
    waits_for_arrival: bool = False
    """A Task is ready only once its Pod's barrier runs."""
    waits: bool = False
    """The role of the Task waits for others: no Pod is created yet."""
    gate: epoch.Gate | None = None
    """Of a gang that restarts in place."""
    ends_together: bool = False
    """The application of the Task ends together with others."""
    retain_pods: str = RETAIN_NEVER
    """Which Pods stay, as the spec says it."""
    not_retained: Collection[str] = frozenset()
    """UIDs of Pods that cannot be let go, so that they are deleted."""
    kept: Collection[str] | None = None
    """UIDs of Pods whose logs the archive keeps; None without an archive."""
    next_attempt: bool = False
    """The Framework attempt ends and is retried: the next one needs the names of its Pods."""


TaskStep: TypeAlias = Step[TaskStatus, Action]


def new_task(index: int, uid: str, pod_name: str, now: datetime) -> TaskStatus:
    """Return a Task that was just added."""
    return TaskStatus(
        index=index,
        instance_uid=uid,
        start_time=now,
        state=State.CREATION_PENDING,
        transition_time=now,
        attempt_status=TaskAttemptStatus(id=0, start_time=now, pod_name=pod_name),
        retry_policy_status=RetryPolicyStatus(),
    )


def conclude(task: TaskStatus, now: datetime) -> TaskStatus:
    """Return the Task as Completed, whatever its state: the Framework attempt and its Pods are gone."""
    task = complete(task, ATTEMPT_ENDED)
    if task.state not in {State.ATTEMPT_COMPLETED, State.COMPLETED}:
        task = move(task, State.ATTEMPT_COMPLETED, now)
    return task if task.state is State.COMPLETED else move(task, State.COMPLETED, now)


# The Pod of a Task in one of these states is not expected to disappear.
UNEXPECTED: Final = frozenset({State.PREPARING, State.RUNNING, State.DELETION_PENDING})
# A Pod in one of these phases may be held back by its barrier.
STARTING: Final = frozenset({"Pending", "Running"})
ATTEMPT_ENDED: Final = classification.predefined(
    Code.FRAMEWORK_ATTEMPT_COMPLETION, "Stop to complete current FrameworkAttempt"
)
SCALED_DOWN: Final = classification.predefined(
    Code.DELETE_TASK_REQUESTED, "User has requested to delete the Task by Framework ScaleDown"
)


def record_pod(task: TaskStatus, uid: str, now: datetime) -> TaskStatus:
    """Return the Task with the UID of the Pod that was created for it."""
    attempt = replace(
        task.attempt_status, pod_uid=uid, instance_uid=names.attempt_instance_uid(task.attempt_status.id, uid)
    )
    return move(replace(task, attempt_status=attempt), State.CREATION_REQUESTED, now)


def step(task: TaskStatus, pod: Pod | None, facts: TaskFacts, *, persisted: bool) -> TaskStep:
    """Follow the Pod, which is what the cache has under its name no matter who created it, as far as is allowed now."""
    return follow(lambda task, persisted: _advance(task, pod, facts, persisted=persisted), task, persisted=persisted)


def _advance(task: TaskStatus, pod: Pod | None, facts: TaskFacts, *, persisted: bool) -> TaskStep:
    match task.state:
        case State.COMPLETED:
            # Only a creation whose answer was lost can have left a Pod behind.
            orphan = (
                persisted
                and pod is not None
                and pod.metadata.deletion_timestamp is None
                and is_ours(pod.metadata, facts)
            )
            return _delete_orphan(task, pod, facts) if pod and orphan else Step(task)
        case State.ATTEMPT_COMPLETED:
            return Step(_retry_or_complete(task, facts)) if persisted else Step(task)
        case State.CREATION_PENDING:
            return _create(task, pod, facts, persisted=persisted)
    if pod is None or pod.metadata.uid != task.attempt_status.pod_uid:
        return _without_pod(task, facts, persisted=persisted)
    return _with_pod(task, pod, facts, persisted=persisted)


def _retry_or_complete(task: TaskStatus, facts: TaskFacts) -> TaskStatus:
    completion = task.completion
    assert completion is not None
    retry = decide_retry(facts.retry_policy, task.retry_policy_status, completion)
    if not retry.wanted or facts.attempt_ending or task.deletion_pending:
        return move(task, State.COMPLETED, facts.now)
    counts = count_retry(task.retry_policy_status, retry)
    attempt = TaskAttemptStatus(
        id=counts.total_retried_count, start_time=facts.now, pod_name=task.attempt_status.pod_name
    )
    return replace(move(task, State.CREATION_PENDING, facts.now), retry_policy_status=counts, attempt_status=attempt)


def _create(task: TaskStatus, pod: Pod | None, facts: TaskFacts, *, persisted: bool) -> TaskStep:
    if task.deletion_pending and task.completion is None:
        return Step(complete(task, SCALED_DOWN))
    ours = pod is not None and is_ours(pod.metadata, facts)
    if task.completion is not None and not ours:
        return Step(move(task, State.ATTEMPT_COMPLETED, facts.now))
    if not persisted:
        return Step(task)
    if pod is None:
        return Step(task) if facts.attempt_ending or facts.waits else Step(task, Action.CREATE)
    # An orphan is deleted also if the attempt is ending: the attempt is not over while a Pod of it runs. A foreign Pod
    # is never touched; the Task waits until its name is free.
    if not ours:
        is_told = not (facts.attempt_ending or facts.waits)
        return Step(task, Action.AWAIT_NAME, pod.metadata.uid) if is_told else Step(task)
    if orphans.may_yet_be_named(pod.metadata, task.transition_time, facts.now):
        return Step(replace(task, transition_time=facts.now))
    return _delete_orphan(task, pod, facts)


def _delete_orphan(task: TaskStatus, pod: Pod, facts: TaskFacts) -> TaskStep:
    if pod.metadata.deletion_timestamp is not None:
        return _force(task, pod, pod.metadata.deletion_timestamp, facts)
    wake_at = orphans.grace_deadline(pod.metadata, facts.now)
    return Step(task, wake_at=wake_at) if wake_at else Step(task, Action.DELETE_ORPHAN, pod.metadata.uid)


def _force(task: TaskStatus, pod: Pod, deletion: datetime, facts: TaskFacts) -> TaskStep:
    """Wait until the Pod is deleted; force it only after `podGracefulDeletionTimeoutSec`."""
    if facts.graceful_timeout_sec is None:
        return Step(task)
    started = after(deletion, duration(-(pod.metadata.deletion_grace_period_seconds or 0)))
    deadline = after(started, duration(facts.graceful_timeout_sec))
    if facts.now < deadline:
        return Step(task, wake_at=deadline)
    return Step(task, Action.DELETE_FORCED, pod.metadata.uid)


def is_ours(metadata: Meta, facts: TaskFacts) -> bool:
    """Report whether this Framework instance owns the Pod, in this or an earlier attempt."""
    owner = metadata.controller
    if owner is None or metadata.annotations.get(names.FRAMEWORK_UID) != facts.framework_uid:
        return False
    # The Framework owns a Pod that was let go.
    return (owner.kind, owner.name) == ("ConfigMap", facts.config_map_name) or owner.uid == facts.framework_uid


def _without_pod(task: TaskStatus, facts: TaskFacts, *, persisted: bool) -> TaskStep:
    assert task.state in ASSOCIATED
    if task.state in UNEXPECTED and task.attempt_status.pod_uid not in facts.gone:
        # It may run without the label by which the cache finds it, or the cache may be older than the status.
        if not persisted:
            return Step(task)
        may_be_retained = facts.retain_pods != RETAIN_NEVER and task.attempt_status.pod_uid not in facts.not_retained
        if task.completion is None or may_be_retained:
            return Step(task, Action.FIND)
        return Step(task, Action.DELETE_UNSEEN, task.attempt_status.pod_uid)
    if task.state is not State.CREATION_REQUESTED:
        task = complete(task, classification.predefined(Code.POD_EXTERNAL_DELETED, "Pod was deleted by others"))
        return Step(move(task, State.ATTEMPT_COMPLETED, facts.now))
    # The Pod was created, so it will appear in the cache, or it was deleted before it did.
    if task.completion is None:
        deadline = after(task.transition_time, facts.creation_timeout)
        if task.deletion_pending:
            return Step(complete(task, SCALED_DOWN))
        if facts.now < deadline:
            return Step(task, wake_at=deadline)
        text = never_seen("Pod", facts.creation_timeout)
        return Step(complete(task, classification.predefined(Code.POD_LOCAL_CACHE_CREATION_TIMEOUT, text)))
    return Step(task, Action.DELETE_UNSEEN, task.attempt_status.pod_uid) if persisted else Step(task)


def _with_pod(task: TaskStatus, pod: Pod, facts: TaskFacts, *, persisted: bool) -> TaskStep:
    deletion = pod.metadata.deletion_timestamp
    if deletion is not None:
        return _under_deletion(task, pod, deletion, facts, persisted=persisted)
    task = _take_over(task, pod, facts)
    status = pod.status
    if task.state is State.CREATION_REQUESTED:
        task = move(task, State.PREPARING, facts.now)
    if task.completion is not None:
        pass  # the first reason stays, and another one costs a search of all that the containers say
    elif status.phase == "Succeeded":
        task = complete(task, classification.succeeded(pod))
    elif status.phase == "Failed":
        task = complete(task, classification.failed(pod, facts.codes))
    elif status.phase in STARTING:
        failed = barrier_exit.failed_by_barrier(pod)
        task = task if failed is None else complete(task, classification.failed(failed, facts.codes))
    if task.state in {State.PREPARING, State.RUNNING} and task.completion is not None:
        return Step(move(task, State.DELETION_PENDING, facts.now))
    if task.state is State.PREPARING and status.phase == "Running":
        return Step(move(task, State.RUNNING, facts.now))
    if task.state is State.DELETION_PENDING and persisted:
        if stays(task, pod, facts):
            return Step(task, Action.RETAIN, pod.metadata.uid)
        until = logs_awaited_until(task, pod, facts.kept, facts.now)
        return Step(task, Action.AWAIT_LOGS if until else Action.DELETE, pod.metadata.uid, until)
    return Step(task)


def stays(task: TaskStatus, pod: Pod, facts: TaskFacts) -> bool:
    """Report whether the Pod of a Task that has ended is to stay: the Task does not need its name for a retry."""
    if task.completion is None or pod.metadata.uid in facts.not_retained or not may_stay(facts.retain_pods, pod):
        return False
    if facts.attempt_ending or task.deletion_pending:
        return not facts.next_attempt
    return not decide_retry(facts.retry_policy, task.retry_policy_status, task.completion).wanted


def _under_deletion(task: TaskStatus, pod: Pod, deletion: datetime, facts: TaskFacts, *, persisted: bool) -> TaskStep:
    task = complete(task, classification.predefined(Code.POD_EXTERNAL_DELETED, "Pod is being deleted by others"))
    if task.state is not State.DELETING:
        task = move(task, State.DELETING, facts.now)
    step = _force(task, pod, deletion, facts)
    return step if persisted or step.action is None else Step(task)


def _take_over(task: TaskStatus, pod: Pod, facts: TaskFacts) -> TaskStatus:
    attempt, node, status = task.attempt_status, pod.spec.node_name, pod.status
    if facts.gate is not None:
        attempt = epoch.observe(attempt, pod, facts.gate)
    else:
        attempt = replace(attempt, arrived=arrival_of(attempt, pod, waits_for_arrival=facts.waits_for_arrival))
    if facts.ends_together:
        attempt = replace(attempt, held=held_of(attempt, pod))
    attempt = replace(attempt, pod_node_name=node, pod_ip=status.pod_ip, pod_host_ip=status.host_ip)
    return task if attempt == task.attempt_status else replace(task, attempt_status=attempt)
