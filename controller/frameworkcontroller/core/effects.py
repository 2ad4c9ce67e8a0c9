"""What a reconciler wants done, and the possible outcomes, as values.

At most one effect per key is in flight. Its outcome goes back to the reconciler, which alone decides whether the effect
is wanted again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Meta
from frameworkcontroller.api.status import FrameworkStatus, TaskRoleStatus
from frameworkcontroller.core.pods.template import PodSource, PodTemplate
from frameworkcontroller.core.restart.epoch import Gate

EffectKey: TypeAlias = tuple[str | int, ...]

CONFIG_MAP: Final[EffectKey] = ("configmap",)
WORKLOAD: Final[EffectKey] = ("workload",)
GROUP: Final[EffectKey] = ("group",)


@dataclass(frozen=True)
class Owner:
    """An object that owns others, or that an Event is about."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class Subject:
    """The Framework instance that an effect is for, or the gang of another controller."""

    namespace: str
    name: str
    uid: str
    gang: tuple[Owner, ...] = ()
    """Of another controller: the object that is the gang, or else its Pods."""

    @property
    def object(self) -> Owner:
        """What Events are about."""
        return self.gang[0] if self.gang else Owner(names.API_VERSION, names.KIND, self.name, self.uid)


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """How far a gang is, for its roster."""

    ready: int
    total: int
    """Tasks of the gang: of all TaskRoles but those that wait for others."""
    by_arrival: bool
    """Ready means that a Task's barrier runs; otherwise that its Pod has an address."""
    member_revision: int
    waiting: int = 0
    """Tasks of the TaskRoles that wait for others."""
    has_barriers: bool = True
    """A Pod template has a barrier, which reads rosters of incomplete gangs, too."""
    gate: Gate | None = None
    """Of a gang that restarts in place."""
    may_end: bool = False
    """All Tasks whose applications end together want to end."""

    @property
    def complete(self) -> bool:
        """Whether every Task of the gang is ready, and the gate of the epoch, if it has epochs, is open."""
        return self.ready == self.total > 0 and (self.gate is None or self.gate.is_open)


@dataclass(frozen=True, kw_only=True)
class RolesSummary(Readiness):
    """The roles as one write of the status contains them, with what was counted then."""

    roles: tuple[TaskRoleStatus, ...]
    order: tuple[str, ...]
    """The names of the TaskRoles, in the order of the spec."""
    others: tuple[int, int] = (0, 0)
    """Tasks that are ready, and all, of TaskRoles without a barrier: a gang restarts in place without them."""
    gpus: Mapping[str, int] = field(default_factory=dict)
    """GPUs that each Pod of a role asks for, of the roles that do."""
    progress: Collection[str] = ()
    """The roles whose applications say how far they are."""

    @property
    def tasks(self) -> tuple[int, int]:
        """Tasks that are ready, and all Tasks."""
        return self.ready + self.others[0], self.total + self.waiting + self.others[1]

    @property
    def size(self) -> int:
        """Tasks that are written, those that are to go included, or TaskRoles if these are more."""
        return max(len(self.roles), sum(len(role.task_statuses) for role in self.roles))


@dataclass(frozen=True)
class WriteStatus:
    """Replace the status, provided that no other writer has changed it since `resource_version`."""

    status: FrameworkStatus
    summary: RolesSummary
    revision: int
    resource_version: str
    previous: FrameworkStatus | None
    """The status that is written upon: if it is unchanged after a conflict, only the rest of the object changed."""
    previous_roles: int | None = None
    """Its `status.roles_digest` as it is stored, if that is known."""
    rest_bytes: int = 0
    """The size of the Framework without its status, in JSON."""
    text_bytes: int = 0
    """Of what others have written about the ends of Tasks."""

    key: ClassVar[EffectKey] = ("status",)


@dataclass(frozen=True)
class CreateConfigMap:
    """Create the attempt's ConfigMap, with an empty roster."""

    attempt_id: int
    roster: bytes
    queue: str = ""
    """Kueue is to leave Pods of the ConfigMap alone: its Workload of this LocalQueue is the controller's."""

    key: ClassVar[EffectKey] = CONFIG_MAP


@dataclass(frozen=True)
class DeleteConfigMap:
    """Delete the ConfigMap of this UID, its Pods first; with `confirm` it must be asked for until it is not found."""

    uid: str
    confirm: bool = False

    key: ClassVar[EffectKey] = CONFIG_MAP


@dataclass(frozen=True)
class PodEffect:
    """What is wanted of the Pod of a Task."""

    role: str
    index: int

    @property
    def key(self) -> EffectKey:
        """The key of all that is about this Pod."""
        return ("pod", self.role, self.index)


@dataclass(frozen=True)
class CreatePod(PodEffect):
    """Create a Task's Pod. The body is rendered when the effect is performed."""

    task_uid: str
    attempt_id: int
    source: PodSource

    def body(self, template: PodTemplate | None = None) -> bytes:
        """Return the Pod as JSON, of the prepared template if it is at hand.

        Raises:
            TemplateError: there can be no Pod.
        """
        return (template or self.source.prepare()).render(self.index, self.task_uid, self.attempt_id)


@dataclass(frozen=True)
class DeletePod(PodEffect):
    """Delete the Pod of this UID.

    `grace_seconds` None means the Pod's own grace period; with `confirm` it must be asked for until it is not found.
    """

    uid: str
    grace_seconds: int | None = None
    confirm: bool = False
    orphan: bool = False
    """The status does not name this Pod, so the Task's state does not follow its deletion."""
    on_node: bool = False
    """The cache shows it on a node. Another one is deleted only if it is not bound meanwhile, see `Performer`."""


@dataclass(frozen=True)
class RetainPod(PodEffect):
    """Let go of the Pod of this UID, which has ended: it belongs to the Framework, and the caches do not show it."""

    uid: str


@dataclass(frozen=True)
class FindPod(PodEffect):
    """Ask the API server for the Pod of this Task's name, which the cache does not show as expected."""


@dataclass(frozen=True)
class FindConfigMap:
    """Ask the API server for the ConfigMap, which the cache does not show as expected."""

    key: ClassVar[EffectKey] = CONFIG_MAP


@dataclass(frozen=True)
class LabelConfigMap:
    """Give the ConfigMap of this UID back the label by which the cache finds it, and the rest of its metadata."""

    uid: str
    attempt_id: int

    key: ClassVar[EffectKey] = ("label",)
    """Its own, whose delay no Event about the ConfigMap ends."""


@dataclass(frozen=True)
class DeleteFramework:
    """Delete the Framework itself after its retention time, its dependents first."""

    resource_version: str = ""
    """Of the state that is to be deleted, "" for any."""

    key: ClassVar[EffectKey] = ("framework",)


@dataclass(frozen=True)
class WriteRoster:
    """Write the roster into the ConfigMap of this UID, and what else the controller has written there."""

    config_map_uid: str
    attempt_id: int
    document: bytes
    annotation: str
    complete: bool

    key: ClassVar[EffectKey] = ("roster",)


@dataclass(frozen=True)
class FindOwner:
    """Ask the API server for the object of another controller that is the gang, by its UID if Pods say it."""

    kind: str
    name: str
    uid: str = ""

    key: ClassVar[EffectKey] = ("owner",)


@dataclass(frozen=True)
class GrantRosterAccess:
    """Give these service accounts the permission to read the roster in this ConfigMap, as long as that exists."""

    service_accounts: tuple[str, ...]
    config_map_uid: str

    key: ClassVar[EffectKey] = ("access",)


@dataclass(frozen=True)
class OfCompanion:
    """What is wanted of an object beside the ConfigMap: the Workload of a queue, or a group of a scheduler."""

    key: EffectKey
    """`WORKLOAD`, or `GROUP` for all groups of the Framework: one request after another."""
    api_version: str
    name: str


@dataclass(frozen=True)
class CreateCompanion(OfCompanion):
    """Create it; it belongs to the ConfigMap of this UID, or else to the Framework."""

    spec: Mapping[str, Any]
    config_map_uid: str = ""
    priority: tuple[str, str] | None = None
    """Of a Workload: the name of its class, and where that is "", of that of its Pods; without both, the cluster's
    default counts."""


@dataclass(frozen=True)
class PatchCompanion(OfCompanion):
    """Change its spec or status, by a merge patch; with a resourceVersion of this version alone."""

    uid: str
    patch: Mapping[str, Any]
    resource_version: str = ""


@dataclass(frozen=True)
class DeleteCompanion(OfCompanion):
    """Delete that of this UID."""

    uid: str


@dataclass(frozen=True)
class AskProgress:
    """Ask the sidecar at this address how far its gang is."""

    ip: str
    port: int
    uid8: str
    """The first characters of the UID of its Pod: addresses are used again."""
    attempt_id: int
    """Of the Framework."""

    key: ClassVar[EffectKey] = ("progress",)


@dataclass(frozen=True)
class SetFinalizers:
    """Replace the finalizers of this version of the Framework."""

    finalizers: bytes
    """As JSON."""
    resource_version: str
    size: int = 0
    """The size of the Framework, in bytes."""

    key: ClassVar[EffectKey] = ("finalizers",)


@dataclass(frozen=True)
class AskLogs:
    """Ask the archive of which of these Pods it keeps the logs."""

    uids: tuple[str, ...]

    key: ClassVar[EffectKey] = ("logs",)


CompanionEffect: TypeAlias = CreateCompanion | PatchCompanion | DeleteCompanion
Effect: TypeAlias = (
    WriteStatus
    | CreateConfigMap
    | DeleteConfigMap
    | CreatePod
    | DeletePod
    | RetainPod
    | FindPod
    | FindConfigMap
    | LabelConfigMap
    | DeleteFramework
    | WriteRoster
    | GrantRosterAccess
    | FindOwner
    | CompanionEffect
    | AskProgress
    | SetFinalizers
    | AskLogs
)


@dataclass(frozen=True)
class Done:
    """The effect took place: a creation returns the UID of the object; it and a write return the resourceVersion."""

    uid: str = ""
    resource_version: str = ""
    roles: int | None = None
    """The `status.roles_digest` of what was written."""
    conflicts: int = 0
    """Tries before it that met a change of the object: each cost as much."""


@dataclass(frozen=True)
class Missing:
    """The instance of the object that was meant does not exist."""


@dataclass(frozen=True)
class Refused:
    """The API server refuses it, and would refuse it again; a Pod that cannot be made was not sent."""

    code: int
    message: str
    sent: bool = True


@dataclass(frozen=True)
class Failed:
    """It failed, or its answer was lost: it may be asked for again later."""

    message: str
    retry_after_seconds: float | None = None
    refused: bool = False
    """The API server has refused it, and may do so as long as the tenant likes: the next try takes its turn."""
    nothing_happened: bool = False
    """It was not sent, or not looked at: it certainly had no effect."""


@dataclass(frozen=True)
class Found:
    """The object of this name, as it is now."""

    metadata: Meta
    has_ended: bool = False
    """It is a Pod of which nothing runs any more, nor will."""
    document: bytes = b""
    """All of it, of an owner."""


@dataclass(frozen=True)
class Told:
    """A Pod, or the archive, has answered with this; None if it has not."""

    body: bytes | None


@dataclass(frozen=True)
class NameTaken:
    """It was not created: there is an object of that name."""

    message: str


@dataclass(frozen=True)
class StaleStatus:
    """Another writer, such as a second leader, has changed the status: everything decided here is void."""


@dataclass(frozen=True)
class Dropped:
    """It was not sent: it was not wanted any more when its turn came."""


Outcome: TypeAlias = Done | Missing | Refused | Failed | Found | NameTaken | StaleStatus | Dropped | Told
