"""A Framework as it stands on the wire (docs/reference/framework-api.md, sections 2 and 3).

Values are frozen and name the fields of the stored JSON that this program uses; Pod templates are kept as the
bytes that came. Times are aware datetimes in UTC, in whole seconds where the controller writes them.
"""

from __future__ import annotations

import zlib
from base64 import b64decode
from datetime import datetime
from functools import cached_property
from typing import Final

import msgspec
from msgspec import Raw, field
from msgspec.structs import replace

from frameworkcontroller.api.meta import META_DECODER, Meta, Wire
from frameworkcontroller.api.states import State

MAX_TASK_NUMBER: Final = 10_000
MAX_TASKS: Final = 10_000
"""Of all roles together: what etcd holds of a compressed status."""
# 68 years; a longer time overflows what is added to it.
MAX_SECONDS: Final = 2**31 - 1
MAX_ROLES_BYTES: Final = 64 * 1024 * 1024
"""Of a compressed status, unpacked: some 60,000 Tasks. A mebibyte may pretend to be a gibibyte."""


class UnreadableStatusError(ValueError):
    """The compressed roles of a status are corrupt or cut off."""


# --- Framework: what is wanted ---------------------------------------------------------------------------------------


class RetryPolicy(Wire, frozen=True):
    """When a completed attempt is retried."""

    fancy_retry_policy: bool = False
    max_retry_count: int = 0


class CompletionPolicy(Wire, frozen=True):
    """How many Tasks of a role end the whole Framework attempt; -1 means never.

    The percentages are additions of this controller. One that is set takes the place of its count.
    """

    min_failed_task_count: int = 1
    min_succeeded_task_count: int = -1
    min_failed_task_percent: int | None = None
    min_succeeded_task_percent: int | None = None


class TaskSpec(Wire, frozen=True):
    """One Task of a role."""

    retry_policy: RetryPolicy = RetryPolicy()
    pod_graceful_deletion_timeout_sec: int | None = None
    pod: Raw = Raw(b"{}")


READY: Final = "Ready"
COMPLETE: Final = "Complete"


class Dependency(Wire, frozen=True):
    """Another TaskRole, and what all its Tasks must be: `Ready` or `Complete`."""

    name: str
    status: str


class TaskRoleSpec(Wire, frozen=True):
    """A number of Tasks with the same Pod template; `dependsOn` is an addition of this controller."""

    name: str
    task_number: int = 0
    framework_attempt_completion_policy: CompletionPolicy = CompletionPolicy()
    task: TaskSpec = TaskSpec()
    depends_on: tuple[Dependency, ...] | None = None


class FrameworkSpec(Wire, frozen=True):
    """What the user asks for; the last two fields are additions of this controller."""

    description: str | None = None
    execution_type: str = "Start"
    retry_policy: RetryPolicy = RetryPolicy()
    task_roles: tuple[TaskRoleSpec, ...] | None = ()
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None

    @property
    def tasks(self) -> int:
        """The number of Tasks of all roles."""
        return sum(role.task_number for role in self.task_roles or ())


# --- Framework: what is ----------------------------------------------------------------------------------------------


class CompletionType(Wire, frozen=True):
    """Succeeded, or Failed with what is known about the failure."""

    name: str
    attributes: tuple[str, ...] | None = ()

    def has(self, attribute: str) -> bool:
        """Report whether the failure is known to be of this kind."""
        return attribute in (self.attributes or ())


class Trigger(Wire, frozen=True, omit_defaults=True):
    """Which Task, by which rule, completed the Framework attempt."""

    message: str
    task_role_name: str = ""
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
    """What has been counted against the retry policy; `retryDelaySec` is set once a retry is decided."""

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
    """An addition of this controller: the Pod's barrier runs. Set only if the gang waits for that."""
    completion_status: TaskCompletion | None = None


class TaskStatus(Wire, frozen=True):
    """One Task; its position in the array is its index."""

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
    """All Tasks of a role, those that are deletionPending included."""

    name: str
    instance_uid: str = field(name="instanceUID")
    pod_graceful_deletion_timeout_sec: int | None = None
    task_statuses: tuple[TaskStatus, ...] = ()
    dependencies_met: bool | msgspec.UnsetType = msgspec.UNSET
    """An addition of this controller, set only for roles with `dependsOn`: the role has begun, or still waits."""


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
    """Everything that the controller knows of a Framework; the last four fields are additions of this controller."""

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
    """A Framework as the API server has it, decoded part by part when the part is first asked for.

    Raises:
        msgspec.ValidationError: by `metadata`, `spec` and `stored_status`, if that part cannot be decoded.
    """

    raw_metadata: Raw = field(name="metadata")
    raw_spec: Raw = field(name="spec")
    status: Raw = Raw()

    @cached_property
    def metadata(self) -> Meta:
        """What identifies the Framework."""
        return META_DECODER.decode(self.raw_metadata)

    @cached_property
    def spec(self) -> FrameworkSpec:
        """What the user asks for, with its numbers within their bounds."""
        return bounded(SPEC_DECODER.decode(self.raw_spec))

    @property
    def has_status(self) -> bool:
        """Whether a status is stored, whatever it holds."""
        return bytes(self.status) not in {b"", b"null"}

    def stored_status(self) -> FrameworkStatus | None:
        """Decode the status; None if there is none."""
        return STATUS_DECODER.decode(self.status) if self.has_status else None


def bounded(spec: FrameworkSpec) -> FrameworkSpec:
    """Return the spec with its numbers within the bounds of the CRD.

    An object that was stored under another definition may have any number. A negative
    `podGracefulDeletionTimeoutSec` means at once, as in Microsoft's controller.
    """
    deadline = _within(1, spec.active_deadline_seconds, MAX_SECONDS)
    ttl = _within(0, spec.ttl_seconds_after_finished, MAX_SECONDS)
    if (deadline, ttl) != (spec.active_deadline_seconds, spec.ttl_seconds_after_finished):
        spec = replace(spec, active_deadline_seconds=deadline, ttl_seconds_after_finished=ttl)
    roles = spec.task_roles or ()
    inside = tuple(_bounded_role(role) for role in roles)
    changed = any(after is not before for before, after in zip(roles, inside, strict=True))
    return replace(spec, task_roles=inside) if changed else spec


def _within(least: int, number: int | None, most: int) -> int | None:
    return None if number is None else min(max(number, least), most)


def _bounded_role(role: TaskRoleSpec) -> TaskRoleSpec:
    number, timeout = role.task_number, role.task.pod_graceful_deletion_timeout_sec
    number = min(max(number, 0), MAX_TASK_NUMBER)
    timeout = _within(0, timeout, MAX_SECONDS)
    policy = role.framework_attempt_completion_policy
    failed = _within(1, policy.min_failed_task_percent, 100)
    succeeded = _within(1, policy.min_succeeded_task_percent, 100)
    if (failed, succeeded) != (policy.min_failed_task_percent, policy.min_succeeded_task_percent):
        policy = replace(policy, min_failed_task_percent=failed, min_succeeded_task_percent=succeeded)
        role = replace(role, framework_attempt_completion_policy=policy)
    if (number, timeout) == (role.task_number, role.task.pod_graceful_deletion_timeout_sec):
        return role
    return replace(role, task_number=number, task=replace(role.task, pod_graceful_deletion_timeout_sec=timeout))


SPEC_DECODER: Final = msgspec.json.Decoder(FrameworkSpec)
FRAMEWORK_DECODER: Final = msgspec.json.Decoder(Framework)
STATUS_DECODER: Final = msgspec.json.Decoder(FrameworkStatus)
ROLES_DECODER: Final = msgspec.json.Decoder(tuple[TaskRoleStatus, ...])


def roles_of(status: FrameworkStatus) -> tuple[TaskRoleStatus, ...]:
    """Return the roles of a stored status, from the plain field or from the compressed one.

    Raises:
        UnreadableStatusError, msgspec.DecodeError: the compressed field holds something else.
    """
    attempt = status.attempt_status
    if attempt.task_role_statuses is not None:
        return attempt.task_role_statuses
    compressed = attempt.task_role_statuses_compressed
    if isinstance(compressed, str) and compressed:
        return ROLES_DECODER.decode(_unpacked(compressed))
    return ()


def _unpacked(compressed: str) -> bytes:
    gzipped = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        plain = gzipped.decompress(b64decode(compressed, validate=True), MAX_ROLES_BYTES)
    except (ValueError, zlib.error) as error:
        raise UnreadableStatusError(f"status.attemptStatus.taskRoleStatusesCompressed is corrupt: {error}") from error
    if not gzipped.eof:
        limit = f"longer than {MAX_ROLES_BYTES} bytes" if len(plain) >= MAX_ROLES_BYTES else "cut off"
        raise UnreadableStatusError(f"status.attemptStatus.taskRoleStatusesCompressed is {limit}")
    return plain


def uncompressed(status: FrameworkStatus) -> FrameworkStatus:
    """Return the status with its roles in the plain field, so that two statuses can be compared."""
    attempt = replace(
        status.attempt_status, task_role_statuses=roles_of(status), task_role_statuses_compressed=msgspec.UNSET
    )
    return replace(status, attempt_status=attempt)
