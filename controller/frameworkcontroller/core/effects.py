"""What a reconciler wants done, and what may become of it, as values.

An effect is performed at most once at a time per key; its outcome goes back to the reconciler, which alone decides
whether it is wanted again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from frameworkcontroller.api.types import FrameworkStatus, TaskRoleStatus

    from .template import PodTemplate

Key: TypeAlias = tuple[str | int, ...]

STATUS: Final[Key] = ("status",)
CONFIG_MAP: Final[Key] = ("configmap",)
ROSTER: Final[Key] = ("roster",)
ACCESS: Final[Key] = ("access",)
FRAMEWORK: Final[Key] = ("framework",)


@dataclass(frozen=True)
class Shown:
    """The roles as one write of the status shows them, with what was counted then."""

    roles: tuple[TaskRoleStatus, ...]
    order: tuple[str, ...]
    """TaskRoles of the spec, in its order."""
    ready: int
    total: int
    by_arrival: bool
    """Ready means: its barrier runs; otherwise: it has an address."""
    member_revision: int

    @property
    def complete(self) -> bool:
        """Whether every Task that the spec asks for is ready."""
        return self.ready == self.total > 0


@dataclass(frozen=True)
class WriteStatus:
    """Replace the status, provided that nobody else wrote it since ``resource_version``."""

    status: FrameworkStatus
    shown: Shown
    revision: int
    resource_version: str
    previous: FrameworkStatus | None
    """What the API server showed before: by it, a conflict that is nobody's is told from another writer's."""

    @property
    def key(self) -> Key:
        """One write at a time."""
        return STATUS


@dataclass(frozen=True)
class CreateConfigMap:
    """Create the attempt's ConfigMap, with the roster of a gang that is not there yet."""

    attempt_id: int
    roster: bytes

    @property
    def key(self) -> Key:
        """One ConfigMap."""
        return CONFIG_MAP


@dataclass(frozen=True)
class DeleteConfigMap:
    """Delete the ConfigMap of this UID, Pods first; ``confirm``: go on only once it is not found."""

    uid: str
    confirm: bool = False

    @property
    def key(self) -> Key:
        """One ConfigMap."""
        return CONFIG_MAP


@dataclass(frozen=True)
class CreatePod:
    """Create a Task's Pod. The body is rendered only when its turn has come."""

    role: str
    index: int
    task_uid: str
    attempt_id: int
    template: PodTemplate

    @property
    def key(self) -> Key:
        """One Pod a Task."""
        return ("pod", self.role, self.index)

    def body(self) -> bytes:
        """The Pod as JSON."""
        return self.template.render(self.index, self.task_uid, self.attempt_id)


@dataclass(frozen=True)
class DeletePod:
    """Delete the Pod of this UID; ``grace_seconds`` None means the Pod's own; ``confirm``: until it is not found."""

    role: str
    index: int
    uid: str
    grace_seconds: int | None = None
    confirm: bool = False
    recorded: bool = True
    """False for a stray: the Task's state does not follow."""

    @property
    def key(self) -> Key:
        """One Pod a Task."""
        return ("pod", self.role, self.index)


@dataclass(frozen=True)
class DeleteFramework:
    """Delete the Framework itself after it has been kept long enough, its dependents first."""

    @property
    def key(self) -> Key:
        """One Framework."""
        return FRAMEWORK


@dataclass(frozen=True)
class WriteRoster:
    """Publish the roster in the ConfigMap of this UID."""

    config_map_uid: str
    document: bytes
    annotation: str
    complete: bool

    @property
    def key(self) -> Key:
        """One write at a time."""
        return ROSTER


@dataclass(frozen=True)
class GrantRosterAccess:
    """Let these service accounts read the Framework's roster, and nothing else."""

    service_accounts: tuple[str, ...]

    @property
    def key(self) -> Key:
        """One grant at a time."""
        return ACCESS


Effect: TypeAlias = (
    WriteStatus
    | CreateConfigMap
    | DeleteConfigMap
    | CreatePod
    | DeletePod
    | DeleteFramework
    | WriteRoster
    | GrantRosterAccess
)


@dataclass(frozen=True)
class Done:
    """It was done; for a create the new object's UID, for a write its new resourceVersion."""

    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True)
class Missing:
    """The object, in the instance that was meant, is not there (any more)."""


@dataclass(frozen=True)
class Refused:
    """The API server will not do it, however often it is asked."""

    code: int
    message: str


@dataclass(frozen=True)
class Failed:
    """It was not done, or its answer was lost: ask again later."""

    message: str
    retry_after_seconds: float | None = None


@dataclass(frozen=True)
class Outpaced:
    """Somebody else wrote the status meanwhile: all that was decided here is void."""


@dataclass(frozen=True)
class Dropped:
    """It was not done: while it waited for its turn it ceased to be wanted."""


Outcome: TypeAlias = Done | Missing | Refused | Failed | Outpaced | Dropped
