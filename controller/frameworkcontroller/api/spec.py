"""What the user of a Framework asks for (docs/reference/framework-api.md, section 2), with the bounds of its numbers.

Values are frozen and name the fields of the stored JSON that this program uses; Pod templates are kept as the
bytes that came.
"""

from functools import cached_property
from operator import is_
from typing import Final

import msgspec
from msgspec import Raw, field
from msgspec.structs import replace

from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.pod_group import GangScheduling

MAX_TASK_NUMBER: Final = 10_000
MAX_TASKS: Final = 10_000
"""Of all roles together: what etcd holds of a compressed status."""
MAX_ROLES: Final = 1_000
MAX_DEPENDENCIES: Final = 16
"""Entries of `dependsOn` of one role."""
MAX_EDGES: Final = 10_000
"""Entries of `dependsOn` of all roles together."""
# 68 years; a longer time overflows what is added to it.
MAX_SECONDS: Final = 2**31 - 1


class RetryPolicy(Wire, frozen=True):
    """When a completed attempt is retried.

    Attributes:
        fancy_retry_policy: Retry by what is known about a failure: transient ones always, permanent ones never;
            `max_retry_count` decides about all others.
        max_retry_count: How often a failed attempt is retried. -1: every failure, -2: also a success.
    """

    fancy_retry_policy: bool = False
    max_retry_count: int = 0


class CompletionPolicy(Wire, frozen=True):
    """How many Tasks of a role end the whole Framework attempt; -1 means never.

    The percentages are additions of this controller. One that is set takes the place of its count.

    Attributes:
        min_failed_task_count: So many failed Tasks fail the attempt.
        min_succeeded_task_count: So many succeeded Tasks complete the attempt, which has succeeded then.
        min_failed_task_percent: So many percent of the Tasks of the role, rounded up; None: the count holds.
        min_succeeded_task_percent: So many percent of the Tasks of the role, rounded up; None: the count holds.
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


RETAIN_NEVER: Final = "Never"
RETAIN_ON_FAILURE: Final = "OnFailure"
RETAIN_ALWAYS: Final = "Always"

READY: Final = "Ready"
COMPLETE: Final = "Complete"


class Dependency(Wire, frozen=True):
    """Another TaskRole, and what all its Tasks must be.

    Attributes:
        name: Its name.
        status: `Ready`: the Pods of its Tasks are Ready. `Complete`: its Tasks are Completed.
    """

    name: str
    status: str


class TaskRoleSpec(Wire, frozen=True):
    """A number of Tasks with the same Pod template; `dependsOn` is an addition of this controller."""

    name: str
    task_number: int = 0
    framework_attempt_completion_policy: CompletionPolicy = CompletionPolicy()
    task: TaskSpec = TaskSpec()
    depends_on: tuple[Dependency, ...] | None = None


class Waiting(Wire, frozen=True):
    """The part of a spec that says whether the Framework is to wait."""

    execution_type: str = "Start"
    suspend: bool = False
    """An addition of this controller."""

    @property
    def is_to_wait(self) -> bool:
        """Whether the user does not want an attempt to begin yet."""
        return self.execution_type == "Create" or (self.suspend and self.execution_type != "Stop")


class FrameworkSpec(Waiting, frozen=True, dict=True, gc=True):
    """What the user asks for; the last four fields are additions of this controller."""

    raw_description: Raw = field(name="description", default=Raw(b"null"))
    retry_policy: RetryPolicy = RetryPolicy()
    task_roles: tuple[TaskRoleSpec, ...] | None = ()
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    retain_pods: str = RETAIN_NEVER
    gang_scheduling: GangScheduling | None = None

    @property
    def description(self) -> str | None:
        """What the user says about the Framework; text of any length, which decisions do not need."""
        return msgspec.json.decode(self.raw_description, type=str | None)

    @cached_property
    def tasks(self) -> int:
        """The number of Tasks of all roles."""
        return sum(role.task_number for role in self.task_roles or ())

    def task_of(self, role: str) -> TaskSpec:
        """Return what the role's Tasks are to be, the defaults for a role that was removed."""
        found = self.by_name.get(role)
        return TaskSpec() if found is None else found.task

    @cached_property
    def by_name(self) -> dict[str, TaskRoleSpec]:
        """The roles by name; of several with one name, in an object of another definition, the first."""
        return {role.name: role for role in reversed(self.task_roles or ())}


def bounded(spec: FrameworkSpec) -> FrameworkSpec:
    """Return the spec with its numbers within the bounds of the CRD.

    An object that was stored under another definition may have any number. A negative
    `podGracefulDeletionTimeoutSec` means at once, as in Microsoft's controller.
    """
    deadline = _within(1, spec.active_deadline_seconds, MAX_SECONDS)
    ttl = _within(0, spec.ttl_seconds_after_finished, MAX_SECONDS)
    roles = spec.task_roles and tuple(map(_bounded_role, spec.task_roles))
    is_same = (deadline, ttl) == (spec.active_deadline_seconds, spec.ttl_seconds_after_finished)
    if is_same and all(map(is_, roles or (), spec.task_roles or ())):
        return spec
    return replace(spec, active_deadline_seconds=deadline, ttl_seconds_after_finished=ttl, task_roles=roles)


def _within(least: int, number: int | None, most: int) -> int | None:
    return None if number is None else min(max(number, least), most)


def _bounded_role(role: TaskRoleSpec) -> TaskRoleSpec:
    task, policy = role.task, role.framework_attempt_completion_policy
    number = min(max(role.task_number, 0), MAX_TASK_NUMBER)
    timeout = _within(0, task.pod_graceful_deletion_timeout_sec, MAX_SECONDS)
    failed = _within(1, policy.min_failed_task_percent, 100)
    succeeded = _within(1, policy.min_succeeded_task_percent, 100)
    policy_is_same = (failed, succeeded) == (policy.min_failed_task_percent, policy.min_succeeded_task_percent)
    if policy_is_same and (number, timeout) == (role.task_number, task.pod_graceful_deletion_timeout_sec):
        return role
    return replace(
        role,
        task_number=number,
        task=replace(task, pod_graceful_deletion_timeout_sec=timeout),
        framework_attempt_completion_policy=replace(
            policy, min_failed_task_percent=failed, min_succeeded_task_percent=succeeded
        ),
    )


SPEC_DECODER: Final = msgspec.json.Decoder(FrameworkSpec)
