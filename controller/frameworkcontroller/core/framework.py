"""The Framework attempt: what its state becomes when its ConfigMap is seen as it is (the Framework API, section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Attribute, Code
from frameworkcontroller.api.states import COMPLETING, ENDED, NEXT, State
from frameworkcontroller.api.types import FrameworkAttemptStatus, FrameworkStatus

from . import strays
from .completion import predefined
from .policy import count_retry, decide_retry

if TYPE_CHECKING:
    from frameworkcontroller.api.types import FrameworkCompletion, FrameworkSpec, Partial

    from .policy import Retry

STOPPED: Final = "User has requested to stop the Framework"


class Action(Enum):
    """What to do about the ConfigMap, or the Framework itself."""

    CREATE = auto()
    DELETE = auto()
    """By its recorded UID, Pods first."""
    DELETE_STRAY = auto()
    """A ConfigMap of ours that is not recorded: its controller died between create and write."""
    DELETE_UNSEEN = auto()
    """It was created but never showed up: delete it by UID and go on only once it is not found."""
    DELETE_FRAMEWORK = auto()
    """It has been Completed for as long as it is kept."""
    RENEW = auto()
    """The next attempt begins: all Tasks are new."""


@dataclass(frozen=True)
class AttemptContext:
    """What a Framework attempt must know beyond itself and its ConfigMap."""

    now: datetime
    name: str
    uid: str
    spec: FrameworkSpec
    being_deleted: bool
    creation_timeout: timedelta
    completed_retain: timedelta
    conflict_delay_sec: int
    """The random delay to use should this attempt be retried for a conflict."""
    requests_in_flight: bool
    """About Pods or the ConfigMap, sent and not answered: the attempt is not over while one may still happen."""
    creates_pods: bool
    """A Pod's creation is among them: if the ConfigMap were deleted before it happens, nothing would hold the ConfigMap
    until that Pod is gone too."""
    has_pods: bool
    """A Task's Pod is recorded and not seen to be gone: the attempt is not over while one may run."""

    @property
    def stop(self) -> bool:
        """The user wants it to end."""
        return self.spec.execution_type == "Stop"


@dataclass(frozen=True)
class Step:
    """The outcome: the status (without roles) as it is now, at most one action, and when to look again."""

    status: FrameworkStatus
    action: Action | None = None
    uid: str | None = None
    wake_at: datetime | None = None


def new_attempt(name: str, attempt_id: int, now: datetime) -> FrameworkAttemptStatus:
    """An attempt that has just been decided on."""
    return FrameworkAttemptStatus(id=attempt_id, start_time=now, config_map_name=names.config_map_name(name))


def new_status(name: str, now: datetime) -> FrameworkStatus:
    """The status of a Framework seen for the first time."""
    return FrameworkStatus(
        start_time=now,
        state=State.CREATION_PENDING,
        transition_time=now,
        attempt_status=new_attempt(name, 0, now),
    )


def move(status: FrameworkStatus, state: State, now: datetime) -> FrameworkStatus:
    """Change the state, with the times that go with it. Raises AssertionError on a change that the machine forbids."""
    assert state in NEXT[status.state], f"{status.state} -> {state}"
    attempt = status.attempt_status
    run_time, completion_time = status.run_time, status.completion_time
    if state is State.RUNNING:
        attempt, run_time = replace(attempt, run_time=now), run_time or now
    elif state is State.ATTEMPT_COMPLETED:
        attempt = replace(attempt, completion_time=now)
    elif state is State.COMPLETED:
        completion_time = now
    return replace(
        status,
        state=state,
        transition_time=now,
        attempt_status=attempt,
        run_time=run_time,
        completion_time=completion_time,
    )


def complete(status: FrameworkStatus, completion: FrameworkCompletion) -> FrameworkStatus:
    """Record why the attempt ends; the first reason stays."""
    if status.completion is not None:
        return status
    return replace(status, attempt_status=replace(status.attempt_status, completion_status=completion))


def record_config_map(status: FrameworkStatus, uid: str, now: datetime) -> FrameworkStatus:
    """The create succeeded: from now on this UID is the attempt's ConfigMap."""
    attempt = replace(
        status.attempt_status,
        config_map_uid=uid,
        instance_uid=names.attempt_instance_uid(status.attempt_status.id, uid),
    )
    return move(replace(status, attempt_status=attempt), State.CREATION_REQUESTED, now)


def is_ending(status: FrameworkStatus) -> bool:
    """Whether the attempt's end is decided: nothing new starts, and no rescale is looked at."""
    return status.state in COMPLETING or status.state in ENDED or status.completion is not None


def step(status: FrameworkStatus, config_map: Partial | None, ctx: AttemptContext, *, persisted: bool) -> Step:
    """Follow the ConfigMap as far as the state machine allows now; the Tasks and their policies come after it.

    Args:
        status: as last decided.
        config_map: what the cache has under the attempt's ConfigMap name, whoever made it.
        ctx: the surroundings.
        persisted: whether the API server shows the status as given.
    """
    while True:
        outcome = _advance(status, config_map, ctx, persisted=persisted)
        if outcome.status == status or outcome.action is Action.RENEW:
            return outcome
        status, persisted = outcome.status, False


def _advance(status: FrameworkStatus, config_map: Partial | None, ctx: AttemptContext, *, persisted: bool) -> Step:
    match status.state:
        case State.COMPLETED:
            if persisted and config_map is not None and _is_stray(config_map, ctx):
                return _delete_stray(status, config_map, ctx)
            deadline = status.transition_time + ctx.completed_retain
            if ctx.now < deadline:
                return Step(status, wake_at=deadline)
            return Step(status, Action.DELETE_FRAMEWORK) if persisted else Step(status)
        case State.ATTEMPT_COMPLETED:
            return _retry_or_complete(status, ctx, persisted=persisted)
        case State.CREATION_PENDING:
            return _create(status, config_map, ctx, persisted=persisted)
    if config_map is None or config_map.metadata.uid != status.attempt_status.config_map_uid:
        return _without_config_map(status, ctx, persisted=persisted)
    return _with_config_map(status, config_map, ctx, persisted=persisted)


def _retry_or_complete(status: FrameworkStatus, ctx: AttemptContext, *, persisted: bool) -> Step:
    if not persisted:
        return Step(status)
    completion = status.completion
    assert completion is not None
    counts = status.retry_policy_status
    retry = decide_retry(ctx.spec.retry_policy, counts, completion, conflict_delay_sec=ctx.conflict_delay_sec)
    if counts.retry_delay_sec is None:
        if not retry.wanted:
            return Step(move(status, State.COMPLETED, ctx.now))
        # Decided once: the delay is drawn here, shown, and kept through restarts and changes of the policy.
        return Step(replace(status, retry_policy_status=replace(counts, retry_delay_sec=retry.delay_sec)))
    due = status.transition_time + timedelta(seconds=counts.retry_delay_sec)
    if ctx.now < due and not ctx.stop:
        return Step(status, wake_at=due)
    return Step(_next_attempt(status, retry, ctx), Action.RENEW)


def _next_attempt(status: FrameworkStatus, retry: Retry, ctx: AttemptContext) -> FrameworkStatus:
    counts = count_retry(status.retry_policy_status, retry)
    return replace(
        move(status, State.CREATION_PENDING, ctx.now),
        retry_policy_status=counts,
        attempt_status=new_attempt(ctx.name, counts.total_retried_count, ctx.now),
    )


def _create(status: FrameworkStatus, config_map: Partial | None, ctx: AttemptContext, *, persisted: bool) -> Step:
    if ctx.being_deleted:
        return Step(status)
    if status.completion is not None or ctx.stop:
        if ctx.requests_in_flight:
            return Step(status)
        status = complete(status, predefined(Code.STOP_FRAMEWORK_REQUESTED, STOPPED))
        return Step(move(status, State.ATTEMPT_COMPLETED, ctx.now))
    if ctx.spec.execution_type == "Create" or not persisted:
        return Step(status)
    if config_map is None:
        return Step(status, Action.CREATE)
    if _is_stray(config_map, ctx):
        return _delete_stray(status, config_map, ctx)
    # Somebody else's ConfigMap, or one on its way out: never touched, only waited for.
    return Step(status)


def _is_stray(config_map: Partial, ctx: AttemptContext) -> bool:
    """Whether an unrecorded ConfigMap is ours to delete."""
    owner = config_map.metadata.controller
    return owner is not None and owner.uid == ctx.uid and config_map.metadata.deletion_timestamp is None


def _delete_stray(status: FrameworkStatus, config_map: Partial, ctx: AttemptContext) -> Step:
    wake_at = strays.young_until(config_map.metadata, ctx.now)
    return Step(status, wake_at=wake_at) if wake_at else Step(status, Action.DELETE_STRAY, config_map.metadata.uid)


def _without_config_map(status: FrameworkStatus, ctx: AttemptContext, *, persisted: bool) -> Step:
    """The recorded ConfigMap is not in the cache."""
    if status.state is not State.CREATION_REQUESTED:
        status = complete(status, predefined(Code.CONFIG_MAP_EXTERNAL_DELETED, "ConfigMap was deleted by others"))
        if ctx.requests_in_flight or ctx.has_pods:
            return Step(status)
        return Step(move(status, State.ATTEMPT_COMPLETED, ctx.now))
    if ctx.requests_in_flight:
        return Step(status)
    if status.completion is None:
        if ctx.stop:
            return Step(complete(status, predefined(Code.STOP_FRAMEWORK_REQUESTED, STOPPED)))
        deadline = status.transition_time + ctx.creation_timeout
        if ctx.now < deadline:
            return Step(status, wake_at=deadline)
        seconds = int(ctx.creation_timeout.total_seconds())
        text = (
            f"ConfigMap does not appear in the local cache within timeout {seconds}s, "
            "so consider it was deleted and force delete it"
        )
        return Step(complete(status, predefined(Code.CONFIG_MAP_LOCAL_CACHE_CREATION_TIMEOUT, text)))
    return Step(status, Action.DELETE_UNSEEN, status.attempt_status.config_map_uid) if persisted else Step(status)


def _with_config_map(status: FrameworkStatus, config_map: Partial, ctx: AttemptContext, *, persisted: bool) -> Step:
    """The recorded ConfigMap is there."""
    if config_map.metadata.deletion_timestamp is not None:
        lost = predefined(Code.CONFIG_MAP_EXTERNAL_DELETED, "ConfigMap is being deleted by others")
        status = complete(status, lost)
        return Step(status if status.state is State.DELETING else move(status, State.DELETING, ctx.now))
    if status.state is State.CREATION_REQUESTED:
        status = move(status, State.PREPARING, ctx.now)
    if status.state in {State.PREPARING, State.RUNNING}:
        if ctx.stop:
            status = complete(status, predefined(Code.STOP_FRAMEWORK_REQUESTED, STOPPED))
        if status.completion is not None:
            status = move(status, State.DELETION_PENDING, ctx.now)
        return Step(status)
    if status.state is State.DELETION_PENDING and persisted and not ctx.creates_pods:
        return Step(status, Action.DELETE, config_map.metadata.uid)
    return Step(status)


def may_conflict(status: FrameworkStatus) -> bool:
    """Whether a delay has to be drawn should the attempt be retried."""
    completion = status.completion
    return completion is not None and completion.type.has(Attribute.CONFLICT)
