"""Pods that no kubelet runs: they are bound to a node that does not exist, and the caller reports their statuses."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from frameworkcontroller.api import foreign, names
from localcluster.client import Json
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually

NODE = "absent-node"
_HOST_IP = "192.0.2.1"
WRITERS = 16
_SECONDS = 300.0


def create(frameworks: Frameworks, name: str, tasks: int, **labels: str) -> list[Json]:
    """Create a Framework of one role, `worker`, whose Pods have labels; return them by index when all are there."""
    container = {"name": "main", "image": "none", "command": ["python3", "train.py"]}
    spec = {"restartPolicy": "Never", "nodeName": NODE, "containers": [container]}
    frameworks.create(name, role("worker", tasks, pod={"metadata": {"labels": labels}, "spec": spec}))
    return find(frameworks, name, tasks)


def find(frameworks: Frameworks, name: str, tasks: int, label: str = names.FRAMEWORK_NAME) -> list[Json]:
    """Return the Pods of a Framework, or of what else a label names, by index when all are there."""
    path = f"{frameworks.pods_path}?labelSelector={label}%3D{name}"

    def all_there() -> list[Json]:
        found = frameworks.raw.get(path)["items"]
        assert len(found) == tasks, f"{len(found)} of {tasks} Pods"
        return sorted(found, key=index_of)

    return eventually(all_there, _SECONDS, 0.5)


def report(frameworks: Frameworks, pods: Iterable[Json], status: Callable[[int], Json]) -> None:
    """Write the statuses of Pods, by the index of the Task or Job, as kubelets do, many at a time."""

    def one(pod: Json) -> None:
        path = f"{frameworks.pods_path}/{pod['metadata']['name']}/status"
        frameworks.raw.merge(path, {"status": status(index_of(pod))})

    with ThreadPoolExecutor(WRITERS) as writers:
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


def index_of(pod: Json) -> int:
    """Return the index of a Pod in its TaskRole or Job."""
    labels = pod["metadata"]["labels"]
    return int(labels.get(names.TASK_INDEX) or labels[foreign.JOB.index])
