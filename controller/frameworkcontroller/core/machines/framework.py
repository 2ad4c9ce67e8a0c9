"""The Framework attempt: its next state and action, by its ConfigMap (docs/reference/framework-api.md, section 5)."""

from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final, TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.meta import Meta, Partial
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import COMPLETING, ENDED, GOING, State
from frameworkcontroller.api.status import FrameworkAttemptStatus, FrameworkCompletion, FrameworkStatus
from frameworkcontroller.api.workload import Workload
from frameworkcontroller.core.clock import after, duration
from frameworkcontroller.core.machines import orphans
from frameworkcontroller.core.machines.attempt import Step, complete, follow, move, never_seen
from frameworkcontroller.core.policies.completion import predefined
from frameworkcontroller.core.policies.retry import count_retry, decide_retry
from frameworkcontroller.core.queue.verdict import FREE, Verdict

SUSPENDED: Final = "User has requested to suspend the Framework"
STOPPED: Final = "User has requested to stop the Framework"
DELETED: Final = "User has requested to delete the Framework"
OVERDUE: Final = "Framework has run for longer than its activeDeadlineSeconds {seconds}, retries included"


class Action(Enum):
    """What to do to the ConfigMap, or to the Framework itself."""

    CREATE = auto()
    DELETE = auto()
    """Delete the attempt's ConfigMap, its Pods first."""
    DELETE_ORPHAN = auto()
    """Delete a ConfigMap of ours that the status does not name (see `orphans`)."""
    DELETE_UNSEEN = auto()
    """Delete a ConfigMap that the cache does not show, until it is not found."""
    FIND = auto()
    """Ask for a ConfigMap that the cache does not show any more."""
    AWAIT_NAME = auto()
    """Say that a ConfigMap of others has the name, and wait until it is gone."""
    DELETE_FRAMEWORK = auto()
    """Delete the Framework: its retention time is over."""
    NEXT_ATTEMPT = auto()
    """Start the next attempt: all Tasks are new."""


class AttemptFacts(Struct, frozen=True):
    """What the decision on a Framework attempt depends on besides the attempt and its ConfigMap."""

    now: datetime
    name: str
    uid: str
    spec: FrameworkSpec
    being_deleted: bool
    held_back: bool
    """The spec asks for more TaskRoles or Tasks than a Framework may have: no attempt begins."""
    creation_timeout: timedelta
    completed_retain: timedelta
    conflict_delay_sec: int
    """The random delay of a retry for a conflict."""
    requests_in_flight: bool
    """Requests about Pods or the ConfigMap are in flight: while one may take effect, the attempt is not over."""
    creates_pods: bool
    """The creation of a Pod is among them. If the ConfigMap were deleted first, its deletion would not wait for that
    Pod."""
    retains_pods: bool
    """Pods that have ended are still to be let go, or read: the deletion of the ConfigMap would take them along."""
    config_map_gone: bool
    """The API server was asked for the ConfigMap and does not have it."""
    has_pods: bool
    """A Task has a Pod that is not seen to be gone: the attempt is not over while it may run."""
    is_paused: bool = False
    """Attempts have ended at once, or the next one can only fail: it waits for a while."""
    queueing: Verdict = FREE
    """What its queue, and its groups at the scheduler, mean for it."""
    hung: FrameworkCompletion | None = None
    """How the attempt is to end whose gang hangs."""
    is_held: bool = False
    """It is being deleted and waits for the archive, and the garbage collector for it: nobody else ends the attempt."""

    @property
    def is_to_wait(self) -> bool:
        """Whether no attempt may begin yet."""
        return self.spec.is_to_wait or self.held_back or self.queueing.hold is not None

    def ordered_end(self, status: FrameworkStatus) -> FrameworkCompletion | None:
        """Return the end that the spec asks for, whatever the Tasks do: the user stops it, or its deadline is over."""
        if self.spec.execution_type == "Stop":
            return predefined(Code.STOP_FRAMEWORK_REQUESTED, STOPPED)
        deadline = deadline_of(status, self.spec)
        if deadline is None or self.now < deadline:
            return None
        overdue = OVERDUE.format(seconds=self.spec.active_deadline_seconds)
        return predefined(Code.FRAMEWORK_DEADLINE_EXCEEDED, overdue)

    def end_of_run(self, status: FrameworkStatus) -> FrameworkCompletion | None:
        """Return the end that is asked for of an attempt that has begun: it may also be suspended, or preempted."""
        if self.is_held:
            return predefined(Code.STOP_FRAMEWORK_REQUESTED, DELETED)
        if (ordered := self.ordered_end(status)) is not None:
            return ordered
        if self.spec.suspend:
            return predefined(Code.FRAMEWORK_SUSPENDED, SUSPENDED)
        return predefined(Code.FRAMEWORK_PREEMPTED, why) if (why := self.queueing.eviction) else self.hung


FrameworkStep: TypeAlias = Step[FrameworkStatus, Action]


def deadline_of(status: FrameworkStatus, spec: FrameworkSpec) -> datetime | None:
    """Return when `activeDeadlineSeconds` are over, None if there is no such time: nothing has run, or it stands still.

    It stands still while the Framework is suspended, unless it was over before.
    """
    if spec.active_deadline_seconds is None or status.run_time is None:
        return None
    deadline = after(status.run_time, duration(spec.active_deadline_seconds + (status.suspended_sec or 0)))
    return None if status.suspended_since and deadline > status.suspended_since else deadline


def _count_suspension(status: FrameworkStatus, facts: AttemptFacts) -> FrameworkStatus:
    """Keep since when the Framework is suspended, or queued, and for how long it was since its first Task ran."""
    since = status.suspended_since
    if (facts.spec.suspend or facts.queueing.hold is not None) and status.state is not State.COMPLETED:
        return replace(status, suspended_since=since or facts.now)
    # What waits for admission does so until its attempt begins: to write down that it may costs time.
    if not since or (status.queue and status.queue.waiting):
        return status
    if status.run_time is None:
        return replace(status, suspended_since=UNSET)
    seconds = (status.suspended_sec or 0) + max(0, int((facts.now - since).total_seconds()))
    return replace(status, suspended_since=UNSET, suspended_sec=seconds)


def new_attempt(name: str, attempt_id: int, now: datetime) -> FrameworkAttemptStatus:
    """Return an attempt that begins now."""
    return FrameworkAttemptStatus(id=attempt_id, start_time=now, config_map_name=names.config_map_name(name))


def new_status(name: str, now: datetime) -> FrameworkStatus:
    """Return the status of a Framework that is seen for the first time."""
    return FrameworkStatus(
        start_time=now,
        state=State.CREATION_PENDING,
        transition_time=now,
        attempt_status=new_attempt(name, 0, now),
    )


def record_config_map(status: FrameworkStatus, uid: str, now: datetime) -> FrameworkStatus:
    """Return the status with the UID of the ConfigMap that was created for the attempt."""
    attempt = replace(
        status.attempt_status,
        config_map_uid=uid,
        instance_uid=names.attempt_instance_uid(status.attempt_status.id, uid),
    )
    queue = replace(status.queue, waiting=UNSET) if status.queue else UNSET
    return move(replace(status, attempt_status=attempt, queue=queue), State.CREATION_REQUESTED, now)


def is_ending(status: FrameworkStatus) -> bool:
    """Report whether the end of the attempt is decided: no Pod is created and no rescale is done any more."""
    return status.state in COMPLETING or status.state in ENDED or status.completion is not None


def step(status: FrameworkStatus, config_map: Partial | None, facts: AttemptFacts, *, persisted: bool) -> FrameworkStep:
    """Follow the ConfigMap as far as the state machine allows now; the Tasks and their policies come after it.

    The status has no roles. The ConfigMap is what the cache has under its name, no matter who created it.
    """
    counted = _count_suspension(status, facts)
    found = follow(
        lambda status, persisted: _advance(status, config_map, facts, persisted=persisted),
        counted,
        persisted=persisted and counted == status,
    )
    if found.status.state is State.COMPLETED:
        # It is at rest with this status, and nobody looks again.
        found = replace(found, status=_count_suspension(found.status, facts))
    deadline = deadline_of(found.status, facts.spec)
    if found.status.state is State.COMPLETED or deadline is None or deadline <= facts.now:
        return found
    return replace(found, wake_at=deadline if found.wake_at is None else min(deadline, found.wake_at))


def _advance(
    status: FrameworkStatus, config_map: Partial | None, facts: AttemptFacts, *, persisted: bool
) -> FrameworkStep:
    match status.state:
        case State.COMPLETED:
            if persisted and config_map is not None and is_held(config_map, facts.uid):
                return _delete_orphan(status, config_map, facts)
            if facts.being_deleted:
                # Somebody's finalizer may hold it; a second request would change nothing.
                return Step(status)
            expiry = expiry_of(status.transition_time, facts.spec.ttl_seconds_after_finished, facts.completed_retain)
            if facts.now < expiry:
                return Step(status, wake_at=expiry)
            return Step(status, Action.DELETE_FRAMEWORK) if persisted else Step(status)
        case State.ATTEMPT_COMPLETED:
            return _retry_or_complete(status, facts, persisted=persisted)
        case State.CREATION_PENDING:
            return _create(status, config_map, facts, persisted=persisted)
    if config_map is None or config_map.metadata.uid != status.attempt_status.config_map_uid:
        return _without_config_map(status, facts, persisted=persisted)
    return _with_config_map(status, config_map, facts, persisted=persisted)


def expiry_of(completed: datetime, ttl_seconds: int | None, retain: timedelta) -> datetime:
    """Return when a Completed Framework is to be deleted: after its own time to live, or after that of all."""
    return after(completed, retain if ttl_seconds is None else duration(ttl_seconds))


def _retry_or_complete(status: FrameworkStatus, facts: AttemptFacts, *, persisted: bool) -> FrameworkStep:
    if not persisted:
        return Step(status)
    completion = status.completion
    assert completion is not None
    counts = status.retry_policy_status
    retry = decide_retry(facts.spec.retry_policy, counts, completion, conflict_delay_sec=facts.conflict_delay_sec)
    if counts.retry_delay_sec is None:
        if not retry.wanted:
            return Step(move(status, State.COMPLETED, facts.now))
        # The delay is decided once and persisted, so it survives restarts and changes of the policy.
        return Step(replace(status, retry_policy_status=replace(counts, retry_delay_sec=retry.delay_sec)))
    if facts.is_held:
        # The next attempt would never begin, and this one is what is to be recorded.
        return Step(status)
    due = after(status.transition_time, duration(counts.retry_delay_sec))
    if (facts.now < due or facts.is_paused) and facts.ordered_end(status) is None:
        return Step(status, wake_at=due if facts.now < due else None)
    counts = count_retry(counts, retry)
    attempt = new_attempt(facts.name, counts.total_retried_count, facts.now)
    status = move(status, State.CREATION_PENDING, facts.now)
    return Step(replace(status, retry_policy_status=counts, attempt_status=attempt), Action.NEXT_ATTEMPT)


def _create(
    status: FrameworkStatus, config_map: Partial | None, facts: AttemptFacts, *, persisted: bool
) -> FrameworkStep:
    if facts.being_deleted:
        return Step(status)
    end = status.completion or facts.ordered_end(status)
    if end is not None:
        if facts.requests_in_flight:
            return Step(status)
        return Step(move(complete(status, end), State.ATTEMPT_COMPLETED, facts.now))
    if not persisted:
        return Step(status)
    if config_map is None:
        return Step(status, None if facts.is_to_wait or facts.is_paused else Action.CREATE)
    if is_held(config_map, facts.uid):
        if orphans.may_yet_be_named(config_map.metadata, status.transition_time, facts.now):
            return Step(replace(status, transition_time=facts.now))
        return _delete_orphan(status, config_map, facts)
    # A foreign ConfigMap, or one that is being deleted, is never touched; the attempt waits until the name is free.
    is_told = not (is_ours(config_map.metadata, facts.uid) or facts.is_to_wait or facts.is_paused)
    return Step(status, Action.AWAIT_NAME, config_map.metadata.uid) if is_told else Step(status)


def is_going(found: Partial | Workload | None) -> bool:
    """Report whether nothing is left to be done about an object: it is gone, or its finalizers alone keep it."""
    return found is None or found.metadata.deletion_timestamp is not None


def only_tells(state: str | None, spec: FrameworkSpec) -> bool:
    """Report whether nothing but its status will be written: it is Completed, not to start, or to stop as it is.

    A new one has no state.
    """
    if spec.execution_type == "Stop":
        return state in (None, State.CREATION_PENDING, State.ATTEMPT_COMPLETED, State.COMPLETED)
    return state == State.COMPLETED or (spec.is_to_wait and state in (None, State.CREATION_PENDING))


def is_held(config_map: Partial | None, uid: str) -> bool:
    """Report whether the Framework of this UID owns a ConfigMap that is to stay, as far as it knows."""
    return config_map is not None and is_ours(config_map.metadata, uid) and not is_going(config_map)


def is_ours(metadata: Meta, uid: str) -> bool:
    """Report whether the Framework of this UID owns the ConfigMap."""
    owner = metadata.controller
    return owner is not None and owner.uid == uid


def _delete_orphan(status: FrameworkStatus, config_map: Partial, facts: AttemptFacts) -> FrameworkStep:
    wake_at = orphans.grace_deadline(config_map.metadata, facts.now)
    return Step(status, wake_at=wake_at) if wake_at else Step(status, Action.DELETE_ORPHAN, config_map.metadata.uid)


def _without_config_map(status: FrameworkStatus, facts: AttemptFacts, *, persisted: bool) -> FrameworkStep:
    if status.state is not State.CREATION_REQUESTED:
        if not facts.config_map_gone:
            return _look_for(status, persisted=persisted)
        status = complete(status, predefined(Code.CONFIG_MAP_EXTERNAL_DELETED, "ConfigMap was deleted by others"))
        if facts.requests_in_flight or facts.has_pods:
            return Step(status)
        return Step(move(status, State.ATTEMPT_COMPLETED, facts.now))
    if facts.requests_in_flight:
        return Step(status)
    if status.completion is None:
        end = facts.end_of_run(status)
        if end is not None:
            return Step(complete(status, end))
        deadline = after(status.transition_time, facts.creation_timeout)
        if facts.now < deadline:
            return Step(status, wake_at=deadline)
        text = never_seen("ConfigMap", facts.creation_timeout)
        return Step(complete(status, predefined(Code.CONFIG_MAP_LOCAL_CACHE_CREATION_TIMEOUT, text)))
    return Step(status, Action.DELETE_UNSEEN, status.attempt_status.config_map_uid) if persisted else Step(status)


def _look_for(status: FrameworkStatus, *, persisted: bool) -> FrameworkStep:
    """Ask for a ConfigMap that has disappeared, or delete it if the attempt ends anyway.

    It may be there without the label by which the cache finds it, or the cache may be older than the status.
    """
    if status.state in GOING:
        # The attempt is not over before: Pods that no status names go with it. To ask changes nothing.
        return Step(status, Action.FIND)
    if not persisted:
        return Step(status)
    if status.completion is None:
        return Step(status, Action.FIND)
    return Step(status, Action.DELETE_UNSEEN, status.attempt_status.config_map_uid)


def _with_config_map(
    status: FrameworkStatus, config_map: Partial, facts: AttemptFacts, *, persisted: bool
) -> FrameworkStep:
    if config_map.metadata.deletion_timestamp is not None:
        lost = predefined(Code.CONFIG_MAP_EXTERNAL_DELETED, "ConfigMap is being deleted by others")
        status = complete(status, lost)
        return Step(status if status.state is State.DELETING else move(status, State.DELETING, facts.now))
    if status.state is State.CREATION_REQUESTED:
        status = move(status, State.PREPARING, facts.now)
    if status.state in {State.PREPARING, State.RUNNING}:
        end = facts.end_of_run(status)
        if end is not None:
            status = complete(status, end)
        if status.completion is not None:
            status = move(status, State.DELETION_PENDING, facts.now)
        return Step(status)
    if status.state is State.DELETION_PENDING and persisted and not (facts.creates_pods or facts.retains_pods):
        return Step(status, Action.DELETE, config_map.metadata.uid)
    return Step(status)
