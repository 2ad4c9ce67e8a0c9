"""The objects as they stand on the wire, as frozen values that decode only what this program uses.

Field names are those of the stored JSON (source: the Framework API, sections 2 and 3). What is not used is skipped, Pod
templates are kept as the bytes that came. Times are aware datetimes in UTC, in whole seconds where we write them.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from .states import State


class Wire(Struct, frozen=True, rename="camel", gc=False):
    """Base of all wire values: frozen, camelCase names, and no cycles for the garbage collector to look for."""


class OwnerReference(Wire, frozen=True):
    """Who owns an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(Wire, frozen=True):
    """The part of ``metadata`` that decides anything here."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages this object."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Partial(Wire, frozen=True):
    """Any object of which only the metadata matters (Kubernetes' PartialObjectMetadata)."""

    metadata: Meta


# --- Framework: what is wanted ---------------------------------------------------------------------------------------


class RetryPolicy(Wire, frozen=True):
    """When a completed attempt is tried again."""

    fancy_retry_policy: bool = False
    max_retry_count: int = 0


class CompletionPolicy(Wire, frozen=True):
    """How many Tasks of a role end the whole Framework attempt; -1 means never."""

    min_failed_task_count: int = 1
    min_succeeded_task_count: int = -1


class TaskSpec(Wire, frozen=True):
    """One Task of a role."""

    retry_policy: RetryPolicy = RetryPolicy()
    pod_graceful_deletion_timeout_sec: int | None = None
    pod: Raw = Raw(b"{}")


class TaskRoleSpec(Wire, frozen=True):
    """A number of alike Tasks."""

    name: str
    task_number: int = 0
    framework_attempt_completion_policy: CompletionPolicy = CompletionPolicy()
    task: TaskSpec = TaskSpec()


class FrameworkSpec(Wire, frozen=True):
    """What the user asks for."""

    description: str | None = None
    execution_type: str = "Start"
    retry_policy: RetryPolicy = RetryPolicy()
    task_roles: tuple[TaskRoleSpec, ...] | None = ()


# --- Framework: what is ----------------------------------------------------------------------------------------------


class CompletionType(Wire, frozen=True):
    """Succeeded, or Failed with what is known about the failure."""

    name: str
    attributes: tuple[str, ...] | None = ()

    def has(self, attribute: str) -> bool:
        """Whether the failure is known to be of this kind."""
        return attribute in (self.attributes or ())


class Trigger(Wire, frozen=True, omit_defaults=True):
    """Which Task, by which rule, completed the Framework attempt."""

    message: str
    task_role_name: str = ""
    task_index: int | None = None


class ContainerEnd(Wire, frozen=True, omit_defaults=True):
    """How one container ended; the exit code is always written, also 0."""

    name: str
    code: int
    reason: str = ""
    message: str = ""
    signal: int = 0


class PodEnd(Wire, frozen=True, omit_defaults=True):
    """How a Pod ended."""

    reason: str = ""
    message: str = ""
    containers: tuple[ContainerEnd, ...] = ()


class TaskCompletion(Wire, frozen=True, omit_defaults=True):
    """Why a Task attempt ended."""

    code: int
    phrase: str
    type: CompletionType
    diagnostics: str
    pod: PodEnd | None = None


class FrameworkCompletion(Wire, frozen=True, omit_defaults=True):
    """Why a Framework attempt ended."""

    code: int
    phrase: str
    type: CompletionType
    diagnostics: str
    trigger: Trigger | None = None


class RetryPolicyStatus(Wire, frozen=True):
    """What has been counted against the retry policy; ``retryDelaySec`` is set once a retry is decided."""

    total_retried_count: int = 0
    accountable_retried_count: int = 0
    retry_delay_sec: int | None = None


class TaskAttemptStatus(Wire, frozen=True):
    """The current attempt of a Task and its Pod."""

    id: int
    start_time: datetime
    pod_name: str
    run_time: datetime | None = None
    completion_time: datetime | None = None
    instance_uid: str | None = field(default=None, name="instanceUID")
    pod_uid: str | None = field(default=None, name="podUID")
    pod_node_name: str | None = None
    pod_ip: str | None = field(default=None, name="podIP")
    pod_host_ip: str | None = field(default=None, name="podHostIP")
    arrived: bool | msgspec.UnsetType = msgspec.UNSET
    """Ours: whether the Pod's barrier runs; only where the gang waits for that."""
    completion_status: TaskCompletion | None = None


class TaskStatus(Wire, frozen=True):
    """One Task; its place in the array is its index."""

    index: int
    instance_uid: str = field(name="instanceUID")
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


class TaskRoleStatus(Wire, frozen=True):
    """All Tasks of a role, those on their way out included."""

    name: str
    instance_uid: str = field(name="instanceUID")
    pod_graceful_deletion_timeout_sec: int | None = None
    task_statuses: tuple[TaskStatus, ...] = ()


class FrameworkAttemptStatus(Wire, frozen=True):
    """The current attempt of a Framework, its ConfigMap and its roles (plain, or gzipped when they are large)."""

    id: int
    start_time: datetime
    config_map_name: str
    run_time: datetime | None = None
    completion_time: datetime | None = None
    instance_uid: str | None = field(default=None, name="instanceUID")
    config_map_uid: str | None = field(default=None, name="configMapUID")
    completion_status: FrameworkCompletion | None = None
    task_role_statuses: tuple[TaskRoleStatus, ...] | None = None
    task_role_statuses_compressed: str | msgspec.UnsetType = msgspec.UNSET


class Condition(Wire, frozen=True):
    """A standard Kubernetes condition."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: datetime
    observed_generation: int = 0


class FrameworkStatus(Wire, frozen=True):
    """Everything the controller knows of a Framework; the last four fields are ours, beside the compatible ones."""

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

    @property
    def completion(self) -> FrameworkCompletion | None:
        """Why the current attempt ended, None while it is not decided."""
        return self.attempt_status.completion_status


class Framework(Wire, frozen=True, dict=True, gc=True):
    """A Framework as the API server shows it, decoded as far as somebody asks.

    The status is read only when none is known yet, and a spec that is the same to the letter is not read again.
    """

    raw_metadata: Raw = field(name="metadata")
    raw_spec: Raw = field(name="spec")
    status: Raw = Raw()

    @cached_property
    def metadata(self) -> Meta:
        """What identifies it. Raises msgspec.ValidationError if it is not readable, as the next two do."""
        return META_DECODER.decode(self.raw_metadata)

    @cached_property
    def spec(self) -> FrameworkSpec:
        """What the user asks for."""
        return SPEC_DECODER.decode(self.raw_spec)

    def stored_status(self) -> FrameworkStatus | None:
        """The status, None if nobody has written one."""
        return STATUS_DECODER.decode(self.status) if bytes(self.status) not in {b"", b"null"} else None


# --- Pod -------------------------------------------------------------------------------------------------------------


class Terminated(Wire, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


class Waiting(Wire, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Running(Wire, frozen=True):
    """A container runs."""


class ContainerState(Wire, frozen=True):
    """At most one of these is set."""

    running: Running | None = None
    terminated: Terminated | None = None
    waiting: Waiting | None = None


class ContainerStatus(Wire, frozen=True):
    """One container of a Pod."""

    name: str
    state: ContainerState = ContainerState()


class PodCondition(Wire, frozen=True):
    """Only ``PodScheduled`` is looked at, to tell people why a Pod waits."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Wire, frozen=True):
    """What the kubelet and the scheduler say."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = field(default="", name="podIP")
    host_ip: str = field(default="", name="hostIP")
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Container(Wire, frozen=True):
    """An init container; one that restarts always is a sidecar."""

    name: str = ""
    restart_policy: str = ""


class PodSpec(Wire, frozen=True):
    """Where the Pod is, and what runs before its application."""

    node_name: str = ""
    init_containers: tuple[Container, ...] = ()


class Pod(Wire, frozen=True):
    """A Pod as cached: about 1 KB, not the 30 KB of a dict."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


META_DECODER: Final = msgspec.json.Decoder(Meta)
SPEC_DECODER: Final = msgspec.json.Decoder(FrameworkSpec)
FRAMEWORK_DECODER: Final = msgspec.json.Decoder(Framework)
STATUS_DECODER: Final = msgspec.json.Decoder(FrameworkStatus)
ROLES_DECODER: Final = msgspec.json.Decoder(tuple[TaskRoleStatus, ...])
POD_DECODER: Final = msgspec.json.Decoder(Pod)
PARTIAL_DECODER: Final = msgspec.json.Decoder(Partial)
