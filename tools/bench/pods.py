"""Pods that no kubelet runs: they are bound to a node that does not exist, and the benchmark reports their statuses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from frameworkcontroller.api import names
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from localcluster.client import Json, RawClient

_HOST_IP = "192.0.2.1"
_WRITERS = 16
_SECONDS = 300.0


class Gangs:
    """Frameworks of one role, `worker`, in one namespace.

    Args:
        raw: The client of the API server.
        namespace: The namespace.
    """

    def __init__(self, raw: RawClient, namespace: str) -> None:
        self.frameworks = Frameworks(raw, namespace)
        self.raw = raw
        self._pods = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, name: str, tasks: int, **labels: str) -> list[Json]:
        """Create a Framework, and return its Pods by index when all are there.

        Args:
            name: Of the Framework.
            tasks: The number of its Tasks.
            labels: Of the Pods.
        """
        container = {"name": "main", "image": "none", "command": ["python3", "train.py"]}
        spec = {"restartPolicy": "Never", "nodeName": "absent-node", "containers": [container]}
        pod = {"metadata": {"labels": labels}, "spec": spec}
        self.frameworks.create(name, role("worker", tasks, pod=pod))
        return self.find(name, tasks)

    def find(self, name: str, tasks: int) -> list[Json]:
        """Return the Pods of a Framework by index when all are there."""

        def all_there() -> list[Json]:
            found = self.raw.get(f"{self._pods}?labelSelector={names.FRAMEWORK_NAME}%3D{name}")["items"]
            assert len(found) == tasks, f"{len(found)} of {tasks} Pods"
            return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][names.TASK_INDEX]))

        return eventually(all_there, _SECONDS, 0.5)

    def report(self, pods: Iterable[Json], status: Callable[[int], Json]) -> None:
        """Write the statuses of Pods as kubelets do, many at a time.

        Args:
            pods: The Pods.
            status: Returns the status by the index of the Task.
        """

        def one(pod: Json) -> None:
            index = int(pod["metadata"]["labels"][names.TASK_INDEX])
            self.raw.merge(f"{self._pods}/{pod['metadata']['name']}/status", {"status": status(index)})

        with ThreadPoolExecutor(_WRITERS) as writers:
            list(writers.map(one, pods))


def addressed(index: int) -> Json:
    """Return the status of a Pod that has an address and does not run yet, by the index of its Task."""
    number = index + 1
    address = f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"
    return {
        "phase": "Pending",
        "hostIP": _HOST_IP,
        "hostIPs": [{"ip": _HOST_IP}],
        "podIP": address,
        "podIPs": [{"ip": address}],
    }
