"""What Kueue keeps about a Framework, as cached: its Workload, and the flavors of resources (`kueue.x-k8s.io/v1beta2`).

Only the fields that decide anything are read. Of conditions all is kept, since a change of one writes the whole list.
"""

from typing import Final

import msgspec
from msgspec import field

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Companion, Conditions, Meta, Wire

KUEUE: Final = "kueue"
KUEUE_GROUP: Final = "kueue.x-k8s.io"
KUEUE_API: Final = f"{KUEUE_GROUP}/v1beta2"
WORKLOADS: Final = "workloads"
FLAVORS: Final = "resourceflavors"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
SHAPE: Final = f"{names.GROUP}/shape"
"""The annotation by which a podSet is known to be for other Pods."""
# Of Pods: whose they are, and what holds one until Kueue has chosen its node.
POD_SET_LABEL: Final = "kueue.x-k8s.io/podset"
WORKLOAD_ANNOTATION: Final = "kueue.x-k8s.io/workload"
TOPOLOGY_GATE: Final = "kueue.x-k8s.io/topology"

QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
REQUEUED: Final = "Requeued"
PODS_READY: Final = "PodsReady"
FINISHED: Final = "Finished"


class QueueLabels(Wire, frozen=True):
    """The labels of a Framework by which Kueue queues it, "" for none."""

    queue: str = field(default="", name=QUEUE_LABEL)
    priority_class: str = field(default="", name=PRIORITY_LABEL)


class _Marks(Wire, frozen=True):
    shape: str = field(default="", name=SHAPE)


class _PodSetMeta(Wire, frozen=True):
    annotations: _Marks = _Marks()


class _PodSetTemplate(Wire, frozen=True):
    metadata: _PodSetMeta = _PodSetMeta()


class PodSet(Wire, frozen=True):
    """The Pods of one TaskRole, as the Workload asks for them; of their template, its mark."""

    name: str
    count: int = 0
    template: _PodSetTemplate = _PodSetTemplate()

    @property
    def shape(self) -> str:
        """What says for which requests and placement it is."""
        return self.template.metadata.annotations.shape


class WorkloadSpec(Wire, frozen=True):
    """What the controller has asked for."""

    queue_name: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    priority_class_ref: dict[str, str] | None = None
    active: bool = True


class _Given(Wire, frozen=True):
    """An object of which only matters that it is there."""


class PodSetAssignment(Wire, frozen=True):
    """What one podSet was given: a flavor of each resource, and whether nodes are chosen for its Pods."""

    name: str
    flavors: dict[str, str] = field(default_factory=dict)
    topology_assignment: _Given | None = None


class Admission(Wire, frozen=True):
    """What was given."""

    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class Toleration(Wire, frozen=True, omit_defaults=True):
    """What a Pod tolerates."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class PodSetUpdate(Wire, frozen=True):
    """What an admission check adds to Pods."""

    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None


class AdmissionCheck(Wire, frozen=True):
    """The state of an admission check."""

    name: str = ""
    state: str = ""
    message: str = ""
    pod_set_updates: tuple[PodSetUpdate, ...] | None = None


class ReclaimablePods(Wire, frozen=True):
    """Pods of a podSet that need no quota any more."""

    name: str
    count: int


class WorkloadStatus(Conditions, frozen=True):
    """What Kueue says, and what the controller has said to it."""

    admission: Admission | None = None
    admission_checks: tuple[AdmissionCheck, ...] = ()
    reclaimable_pods: tuple[ReclaimablePods, ...] = ()


class Workload(Companion, frozen=True):
    """The Workload of a Framework."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def reclaimed(self) -> dict[str, int]:
        """How many Pods of each podSet need no quota any more."""
        return {one.name: one.count for one in self.status.reclaimable_pods}

    @property
    def is_admitted(self) -> bool:
        """Whether its Pods may run."""
        return self.is_true(ADMITTED) and not self.is_true(EVICTED) and self.status.admission is not None


class FlavorSpec(Wire, frozen=True):
    """What nodes of a flavor have, and what Pods need for them."""

    node_labels: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


class Flavor(Wire, frozen=True):
    """A ResourceFlavor."""

    metadata: Meta
    spec: FlavorSpec = FlavorSpec()


WORKLOAD_DECODER: Final = msgspec.json.Decoder(Workload)
FLAVOR_DECODER: Final = msgspec.json.Decoder(Flavor)
