"""What the Tasks of a Framework use, as metrics-server measures it.

The format is that of `metrics.k8s.io/v1beta1`. Source: Kubernetes, k8s.io/metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from frameworkbarrier.values import BadValueError
from frameworkcontroller.api.meta import Wire
from frameworkinjector import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frameworkclient.pods import TaskPod

API_VERSION: Final = "metrics.k8s.io/v1beta1"
_MEBIBYTE: Final = 1 << 20


class _Amounts(Wire, frozen=True):
    cpu: str = "0"
    memory: str = "0"


class _Container(Wire, frozen=True):
    name: str
    usage: _Amounts = _Amounts()


class _Identity(Wire, frozen=True):
    name: str


class PodMetrics(Wire, frozen=True):
    """What the containers of one Pod used."""

    metadata: _Identity
    timestamp: datetime | None = None
    containers: tuple[_Container, ...] = ()


POD_METRICS_DECODER: Final = msgspec.json.Decoder(PodMetrics)


@dataclass(frozen=True)
class TaskUsage:
    """What a Task uses.

    Attributes:
        task: Its name, such as `worker-0`.
        pod: That of its Pod.
        node: Where it runs, "" if it is not scheduled.
        cpu: Cores, over the last measured seconds; None if it is not measured yet.
        memory: Bytes that cannot be taken back (working set); None if it is not measured yet.
        time: When it was measured, in UTC.
    """

    task: str
    pod: str
    node: str
    cpu: float | None = None
    memory: int | None = None
    time: datetime | None = None

    @property
    def cpu_text(self) -> str:
        """The cores as kubectl writes them: `250m`, "-" if they are not known."""
        return "-" if self.cpu is None else f"{round(self.cpu * 1000)}m"

    @property
    def memory_text(self) -> str:
        """The memory as kubectl writes it: `64Mi`, "-" if it is not known."""
        return "-" if self.memory is None else f"{round(self.memory / _MEBIBYTE)}Mi"


def usages(pods: Iterable[TaskPod], measured: Iterable[PodMetrics]) -> tuple[TaskUsage, ...]:
    """Return what each Pod uses, in the order of the Pods.

    Args:
        pods: Of the Framework.
        measured: Pods that were measured; others are left out.
    """
    known = {one.metadata.name: one for one in measured}
    return tuple(_usage(pod, known.get(pod.metadata.name)) for pod in pods)


def _usage(pod: TaskPod, found: PodMetrics | None) -> TaskUsage:
    name, node = pod.metadata.name, pod.spec.node_name
    if found is None:
        return TaskUsage(pod.task, name, node)
    try:
        cpu = sum(quantity.read(one.usage.cpu).value for one in found.containers)
        memory = sum(quantity.read(one.usage.memory).value for one in found.containers)
    except BadValueError:
        return TaskUsage(pod.task, name, node)
    return TaskUsage(pod.task, name, node, float(cpu), int(memory), found.timestamp)
