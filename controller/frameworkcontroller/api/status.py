"""What the controller knows of a Framework (docs/reference/framework-api.md, section 3).

Values are frozen and name the fields of the stored JSON that this program uses. Times are aware datetimes in UTC, in
whole seconds where the controller writes them.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, field

from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.pod_group import GangScheduling
from frameworkcontroller.api.states import State

MAX_ATTRIBUTES: Final = 64
MAX_STACK: Final = 8
"""Culprits of a hang, lines of a stack, and nodes that a Framework avoids."""
MAX_HUNG_NODES: Final = 32
Word: TypeAlias = Annotated[str, Meta(max_length=1024)]
"""A name, an address or a UID: no controller writes one that is so long, and each is kept, and logged."""

_MARK: Final = re.compile(r"\.\.\. \(cut: (\d{1,9}) characters\)\Z")


class CompletionType(Wire, frozen=True):
    """Succeeded, or Failed with what is known about the failure."""

    name: str
    attributes: Annotated[tuple[str, ...], Meta(max_length=MAX_ATTRIBUTES)] | None = ()

    def has(self, attribute: str) -> bool:
        """Report whether the failure is known to be of this kind."""
        return attribute in (self.attributes or ())


class Trigger(Wire, frozen=True, omit_defaults=True):
    """Which Task, by which rule, completed the Framework attempt."""

    message: str
    task_role_name: Word = ""
    task_index: int | None = None


class ContainerEnd(Wire, frozen=True, omit_defaults=True, kw_only=True):
    """How one container ended; the exit code is always written, also 0. Diagnostics show it in this order of fields."""

    name: str
    reason: str = ""
    message: str = ""
    signal: int = 0
    code: int


class PodEnd(Wire, frozen=True, omit_defaults=True):
    """How a Pod ended."""

    reason: str = ""
    message: str = ""
    containers: tuple[ContainerEnd, ...] = ()


class Completion(Wire, frozen=True, omit_defaults=True):
    """Why an attempt ended."""

    code: int
    phrase: str
    type: CompletionType
    diagnostics: str


class TaskCompletion(Completion, frozen=True):
    """Why a Task attempt ended."""

    pod: PodEnd | None = None


class FrameworkCompletion(Completion, frozen=True):
    """Why a Framework attempt ended."""

    trigger: Trigger | None = None


class RetryPolicyStatus(Wire, frozen=True):
    """What has been counted against the retry policy; `retryDelaySec` is set once a retry is decided."""

    total_retried_count: int = 0
    accountable_retried_count: int = 0
    retry_delay_sec: int | None = None


class TaskAttemptStatus(Wire, frozen=True):
    """The current attempt of a Task and its Pod."""

    id: int
    start_time: datetime
    pod_name: Word
    run_time: datetime | None = None
    completion_time: datetime | None = None
    instance_uid: Word | None = field(default=None, name="instanceUID")
    pod_uid: Word | None = field(default=None, name="podUID")
    pod_node_name: Word | None = None
    pod_ip: Word | None = field(default=None, name="podIP")
    pod_host_ip: Word | None = field(default=None, name="podHostIP")
    arrived: bool | msgspec.UnsetType = msgspec.UNSET
    """An addition of this controller: the Pod's barrier runs. Set only if the gang waits for that."""
    starts: int | msgspec.UnsetType = msgspec.UNSET
    """An addition, only for gangs that restart in place: with the UID of the Pod it names the instance of the Task."""
    epoch: int | msgspec.UnsetType = msgspec.UNSET
    """An addition, only for gangs that restart in place: the epoch of this instance, unset while it has none."""
    held: bool | msgspec.UnsetType = msgspec.UNSET
    """An addition, only where applications end together: this one wants to end, and waits for others."""
    completion_status: TaskCompletion | None = None


class TaskStatus(Wire, frozen=True):
    """One Task; its position in the array is its index."""

    index: int
    instance_uid: Word = field(name="instanceUID")
    start_time: datetime
    state: State
    transition_time: datetime
    attempt_status: TaskAttemptStatus
    run_time: datetime | None = None
    completion_time: datetime | None = None
    deletion_pending: bool = False
    retry_policy_status: RetryPolicyStatus = RetryPolicyStatus()

    @property
    def completion(self) -> TaskCompletion | None:
        """Why the current attempt ended, None while it is not decided."""
        return self.attempt_status.completion_status


TaskT = TypeVar("TaskT")


class _Role(Wire, Generic[TaskT], frozen=True):
    name: Word
    instance_uid: Word = field(name="instanceUID")
    pod_graceful_deletion_timeout_sec: int | None = None
    task_statuses: tuple[TaskT, ...] = ()
    dependencies_met: bool | msgspec.UnsetType = msgspec.UNSET
    """An addition of this controller, set only for roles with `dependsOn`: the role has begun, or still waits."""
    rank_order: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """Another, set where ranks may follow the topology: the indices of the Tasks in the order of their ranks, as it was
    found when the gate opened; empty for that of the indices."""


class TaskRoleStatus(_Role[TaskStatus], frozen=True):
    """All Tasks of a role, those that are deletionPending included."""

    def tasks(self) -> Iterator[TaskStatus]:
        """Iterate over the Tasks."""
        return iter(self.task_statuses)


class EncodedRole(_Role[msgspec.Raw], frozen=True):
    """A role whose Tasks are not decoded yet."""

    def tasks(self) -> Iterator[TaskStatus]:
        """Decode one Task after the other."""
        return map(TASK_DECODER.decode, self.task_statuses)


class RestartReason(StrEnum):
    """What ends an epoch of a gang that restarts in place."""

    EXITED = "Exited"
    """An instance has ended in its Pod."""
    POD_REPLACED = "PodReplaced"
    """A Task is retried with a new Pod."""
    HUNG = "Hung"
    """It made no progress."""
    RESCALED = "Rescaled"
    """The gang has another number of Tasks."""


class GangRestart(Wire, frozen=True, omit_defaults=True, kw_only=True):
    """One restart of a gang in its Pods: the epoch that began, and why the one before it has ended."""

    epoch: int
    time: datetime
    reason: str
    task: str = ""
    code: int | None = None
    message: str = ""

    @property
    def why(self) -> str:
        """Why the epoch before has ended, in one line."""
        match self.reason:
            case RestartReason.EXITED if self.code is None:
                return f"{self.task} has ended; its exit code was not seen"
            case RestartReason.EXITED:
                return f"{self.task} exited with {self.code}" + (f": {self.message}" if self.message else "")
            case RestartReason.HUNG:
                return self.message
            case RestartReason.POD_REPLACED:
                return f"{self.task} gets a new Pod"
            case _:
                return f"the gang was rescaled {self.message}".rstrip()


class Culprit(Wire, frozen=True, omit_defaults=True):
    """A Task that keeps its gang waiting, as far as its sidecar knows where that is."""

    task: Word
    node: Word = ""
    section: Word = ""
    stack: Annotated[tuple[Word, ...], Meta(max_length=MAX_STACK)] = ()
    """The innermost lines of the thread that makes the steps, the innermost first."""


class Hang(Wire, frozen=True, omit_defaults=True, kw_only=True):
    """A gang that made no progress: in which epoch of which attempt, since when, and who kept it waiting."""

    time: datetime
    attempt: int
    epoch: int = 0
    step: int | None = None
    """The last one of the slowest rank."""
    silent: int
    """Seconds since the last progress of any rank, until that was a hang, as is said by `limit`."""
    limit: int
    why: Word
    """The culprits are those."""
    culprits: Annotated[tuple[Culprit, ...], Meta(max_length=MAX_STACK)] = ()

    @property
    def text(self) -> str:
        """The hang in one line."""
        named = [
            f"{one.task} on {one.node or '?'}{f' at {one.stack[0]}' if one.stack else ''}" for one in self.culprits
        ]
        after = "" if self.step is None else f" after step {self.step}"
        return (
            f"the gang made no progress for {self.silent} s{after} (limit {self.limit} s); "
            f"culprit: {', '.join(named) or 'not known'} ({self.why})"
        )


class GangProgress(Wire, frozen=True, omit_defaults=True, kw_only=True):
    """How far the gang is, as its lead has said."""

    time: datetime
    """When it was asked."""
    slowest: int | None = None
    """The step of the slowest rank."""
    fastest: int | None = None
    per_minute: float | None = None
    """Steps of the slowest rank, over the last minutes."""
    checkpoint: int | None = None
    """The step of the last checkpoint."""
    checkpoint_time: datetime | None = None
    ranks: int = 0
    """Tasks whose progress is known."""
    left_out: Annotated[tuple[Word, ...], Meta(max_length=MAX_STACK)] = ()
    """Some of those of which nothing is known."""
    hang: Hang | None = None
    """It makes none now."""


class HungNode(Wire, frozen=True):
    """A node on which Tasks have kept their gang waiting."""

    name: Word
    times: int


class Hangs(Wire, frozen=True, omit_defaults=True, kw_only=True):
    """The hangs of a Framework, over all its attempts."""

    in_a_row: int
    """Without a step beyond the best one before."""
    best_step: int
    last: Hang
    nodes: Annotated[tuple[HungNode, ...], Meta(max_length=MAX_HUNG_NODES)] = ()
    """Those of culprits, the last one last."""
    avoided: Annotated[tuple[Word, ...], Meta(max_length=MAX_STACK)] = ()
    """Those to which no Pod goes any more: of a culprit for the second time."""


class FrameworkAttemptStatus(Wire, frozen=True):
    """The current attempt of a Framework, its ConfigMap and its roles (plain, or gzipped when they are large)."""

    id: int
    start_time: datetime
    config_map_name: Word
    run_time: datetime | None = None
    completion_time: datetime | None = None
    instance_uid: Word | None = field(default=None, name="instanceUID")
    config_map_uid: Word | None = field(default=None, name="configMapUID")
    completion_status: FrameworkCompletion | None = None
    task_role_statuses: tuple[TaskRoleStatus, ...] | None = None
    task_role_statuses_compressed: str | msgspec.UnsetType = msgspec.UNSET
    gang_scheduling: GangScheduling | msgspec.UnsetType = msgspec.UNSET
    """An addition of this controller: in which groups a scheduler places the Pods of this attempt."""
    progress: GangProgress | msgspec.UnsetType = msgspec.UNSET
    """Another, where the applications say how far they are."""
    # Additions of this controller, only for gangs that restart in place (docs/reference/restart.md).
    gang_epoch: int | msgspec.UnsetType = msgspec.UNSET
    gang_released: int | msgspec.UnsetType = msgspec.UNSET
    """Tasks with which the gate of this epoch has opened, or may have; 0 while it is closed."""
    gang_restarts: int | msgspec.UnsetType = msgspec.UNSET
    last_gang_restarts: tuple[GangRestart, ...] | msgspec.UnsetType = msgspec.UNSET


class Condition(Wire, frozen=True):
    """A standard Kubernetes condition."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: datetime
    observed_generation: int = 0


class QueueStatus(Wire, frozen=True):
    """The queue of Kueue by which a Framework waits, or under whose admission its attempt runs."""

    name: str
    """Of the LocalQueue."""
    workload: str
    waiting: bool | msgspec.UnsetType = msgspec.UNSET
    """True while no attempt has begun."""


class Spent(Wire, frozen=True, omit_defaults=True):
    """Seconds by what they were spent on (`states.LedgerState`)."""

    queued: float = 0.0
    waiting: float = 0.0
    scheduling: float = 0.0
    starting: float = 0.0
    gate: float = 0.0
    running: float = 0.0
    hung: float = 0.0
    restarting: float = 0.0
    ending: float = 0.0
    backoff: float = 0.0
    lost: float | None = 0.0
    """Of those that it ran, what a failure has made void: None if it is not known how much that is."""


class Ledger(Wire, frozen=True, omit_defaults=True):
    """What the life of a Framework was spent on until `since`, and from then on: "" once it is over."""

    since: datetime
    state: Word = ""
    total: Spent = Spent()
    attempt: Spent = Spent()
    """Of the current attempt alone; the delay before it belongs to the one before."""


class FrameworkStatus(Wire, frozen=True):
    """Everything that the controller knows of a Framework; the last nine fields are additions of this controller."""

    start_time: datetime
    state: State
    transition_time: datetime
    attempt_status: FrameworkAttemptStatus
    run_time: datetime | None = None
    completion_time: datetime | None = None
    retry_policy_status: RetryPolicyStatus = RetryPolicyStatus()
    ready: str | msgspec.UnsetType = msgspec.UNSET
    attempts: int | msgspec.UnsetType = msgspec.UNSET
    observed_generation: int | msgspec.UnsetType = msgspec.UNSET
    conditions: tuple[Condition, ...] | msgspec.UnsetType = msgspec.UNSET
    suspended_since: datetime | msgspec.UnsetType = msgspec.UNSET
    suspended_sec: int | msgspec.UnsetType = msgspec.UNSET
    queue: QueueStatus | msgspec.UnsetType = msgspec.UNSET
    ledger: Ledger | msgspec.UnsetType = msgspec.UNSET
    hangs: Hangs | msgspec.UnsetType = msgspec.UNSET

    @property
    def completion(self) -> FrameworkCompletion | None:
        """Why the current attempt ended, None while it is not decided."""
        return self.attempt_status.completion_status


STATUS_DECODER: Final = msgspec.json.Decoder(FrameworkStatus)
TASK_DECODER: Final = msgspec.json.Decoder(TaskStatus)


def cut(text: str, most: int) -> str:
    """Return the text with at most so many characters, and a sign how long it was, also if that was cut before."""
    earlier = _MARK.search(text)
    kept, length = (text, len(text)) if earlier is None else (text[: earlier.start()], earlier[1])
    return text if len(kept) <= most else f"{kept[:most]}... (cut: {length} characters)"
