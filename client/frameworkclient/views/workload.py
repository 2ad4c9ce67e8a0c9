"""The Workload of a Framework, with what the controller does not read of it and a person wants to know."""

from typing import Final

import msgspec

from frameworkcontroller.api.workload import AdmissionCheck, Workload, WorkloadSpec, WorkloadStatus


class _Check(AdmissionCheck, frozen=True):
    state: str = ""
    message: str = ""


class _Spec(WorkloadSpec, frozen=True):
    active: bool = True


class _Status(WorkloadStatus, frozen=True):
    admission_checks: tuple[_Check, ...] = ()


class QueuedWorkload(Workload, frozen=True):
    """What Kueue says of a Framework that waits in a queue."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


WORKLOAD_DECODER: Final = msgspec.json.Decoder(QueuedWorkload)
