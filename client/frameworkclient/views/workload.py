"""What Kueue says of a Framework that waits in a queue: its Workload, and the order of the queue."""

from typing import Final

import msgspec

from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.workload import AdmissionCheck, Workload, WorkloadSpec, WorkloadStatus

VISIBILITY_API: Final = "visibility.kueue.x-k8s.io/v1beta2"


class CheckState(AdmissionCheck, frozen=True):
    """An admission check, with its state (Pending, Ready, Retry or Rejected) in words."""

    state: str = ""
    message: str = ""


class _Spec(WorkloadSpec, frozen=True):
    active: bool = True


class _Status(WorkloadStatus, frozen=True):
    admission_checks: tuple[CheckState, ...] = ()


class QueuedWorkload(Workload, frozen=True):
    """A Workload, with what the controller does not read and a person wants to know."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Named(Wire, frozen=True):
    name: str


class _Pending(Wire, frozen=True):
    metadata: _Named
    position_in_local_queue: int = 0


class PendingWorkloads(Wire, frozen=True):
    """The Workloads that wait in a LocalQueue."""

    items: tuple[_Pending, ...] = ()

    def number_of(self, workload: str) -> int | None:
        """Return the number of a Workload in its LocalQueue, from 1; None if it is not among them."""
        found = (one.position_in_local_queue + 1 for one in self.items if one.metadata.name == workload)
        return next(found, None)


WORKLOAD_DECODER: Final = msgspec.json.Decoder(QueuedWorkload)
PENDING_DECODER: Final = msgspec.json.Decoder(PendingWorkloads)
