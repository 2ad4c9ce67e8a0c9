"""The scene of the controller's benchmark: the cluster, the Pods of all rows, and what a stretch of time has cost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
from controller_observer import Counted, Request, counted
from controller_shapes import Kind
from newcluster import new_cluster
from proc import cpu_seconds

import localcluster
from frameworkcontroller.api import names
from frameworkkube.credentials import from_kubeconfig
from frameworkkube.errors import TransportError
from frameworkkube.rest import KubeClient, resource_path
from frameworkrelease.performance import origin
from localcluster import Depth
from localcluster.kwok import RUN_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from controller_shapes import Shape

    from localcluster import Cluster

NAMESPACE = "bench"
IN_FLIGHT = 64
CLUSTER = "bench"
_REST_SECONDS = 5.0
_PAST_PODS = 3000


class Part(StrEnum):
    """The processes of the cluster, by the names that `localcluster` gives them; their CPU seconds are columns."""

    API_SERVER = "kube-apiserver"
    ETCD = "etcd"
    SCHEDULER = "kube-scheduler"
    CONTROLLERS = "kube-controller-manager"
    NODES = "kwok"


BENCHMARK = "benchmark"
"""The process that makes the Frameworks, or in the bare loop the Pods, and watches."""
CONTROLLER = "controller"


@dataclass(frozen=True)
class Scene:
    """Where all rows are made.

    Attributes:
        cluster: The cluster.
        client: A client of its API server.
        origin: Of the figures, as columns.
        barrier: Whether the Pods carry the label of the barrier, so that the controller grants access to the roster.
    """

    cluster: Cluster
    client: KubeClient
    origin: dict[str, str]
    barrier: bool = False

    def pod_template(self, shape: Shape) -> dict[str, Any]:
        """Return a Pod template of a usual size."""
        annotations = {} if shape.run_seconds is None else {RUN_SECONDS: str(shape.run_seconds)}
        # The gate of a gang is for its barriers.
        barrier = self.barrier or shape.kind is Kind.BESIDE
        labels = {names.BARRIER_LABEL: "enabled"} if barrier else {}
        return {
            "metadata": {"annotations": annotations, "labels": labels},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "main",
                        "image": "none",
                        "command": ["python3", "train.py", "--index", "{{FC_TASK_INDEX}}"],
                        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
                    }
                ],
            },
        }


@contextlib.asynccontextmanager
async def new_scene(*, barrier: bool) -> AsyncIterator[Scene]:
    """Make a cluster for the block: what one row leaves in the memory of the API server slows down the next."""
    with new_cluster(CLUSTER, Depth.KWOK, NAMESPACE) as (cluster, _):
        # The namespace gets its service account, and the components come to rest.
        await asyncio.sleep(_REST_SECONDS)
        client = KubeClient(from_kubeconfig(cluster.kubeconfig), max_connections=2 * IN_FLIGHT)
        try:
            await _fill_watch_cache(client)
            yield Scene(cluster, client, origin(cluster.version), barrier)
        finally:
            await client.close()


async def _fill_watch_cache(client: KubeClient) -> None:
    """Let the API server see so many Pods come and go that its watches get buffers of more than ten events.

    It gives a watch the buffer for one second of the changes of the last 75, so on a new cluster it ends all of them
    many times a second in the first burst. kwok then begins anew with all Pods, and sets them running again.
    """
    path = resource_path("v1", "pods", namespace="default")
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def come_and_go(number: int) -> None:
        spec = {"nodeName": "nowhere", "containers": [{"name": "main", "image": "none"}]}
        pod = {"metadata": {"name": f"past-{number}"}, "spec": spec}
        # A server may close a connection while it is used again; one Pod less does not matter.
        async with limit:
            with contextlib.suppress(TransportError):
                await client.create(path, msgspec.json.encode(pod))
                await client.delete(f"{path}/past-{number}", grace_period_seconds=0)

    async with asyncio.TaskGroup() as group:
        for number in range(_PAST_PODS):
            group.create_task(come_and_go(number))


def pid_of(cluster: Cluster, component: str) -> int:
    """Return the PID of a component of the cluster."""
    status = localcluster.status(cluster.name)
    pid = status and status.processes.get(component)
    assert pid, f"{component} of cluster {cluster.name} is not running"
    return pid


class Meter:
    """What the time since its beginning has cost. Make one by `begin`.

    Attributes:
        start: When it began, in monotonic seconds.
    """

    def __init__(self, client: KubeClient, cpu: Callable[[], dict[str, float]], before: Counted) -> None:
        self._client, self._cpu, self._before = client, cpu, before
        self._cpu_before, self._running_cpu = cpu(), dict[str, float]()
        self.start = time.monotonic()

    @classmethod
    async def begin(cls, scene: Scene, controller: int | None = None) -> Meter:
        """Begin.

        Args:
            scene: The scene.
            controller: The PID of the controller, None if the benchmark makes the Pods itself.
        """
        pids = {str(part): pid_of(scene.cluster, part) for part in Part} | {BENCHMARK: os.getpid()}
        if controller is not None:
            pids[CONTROLLER] = controller
        before = await counted(scene.client)
        return cls(scene.client, lambda: {name: cpu_seconds(pid) for name, pid in pids.items()}, before)

    def note_running(self) -> None:
        """Note that all Pods have run."""
        self._running_cpu = self._spent()

    async def read(self, tasks: int) -> dict[str, float]:
        """Return the cost so far, as columns.

        Args:
            tasks: The Tasks of all Frameworks.
        """
        spent = self._spent()
        cpu = spent.get(CONTROLLER, spent[BENCHMARK])
        counts = (await counted(self._client)).since(self._before)
        return {
            "CPU ms/Task": 1000 * cpu / tasks,
            "CPU s": cpu,
            "API server CPU s": spent[Part.API_SERVER],
            **self._running_cpu,
            **({"all processes": sum(self._running_cpu.values())} if self._running_cpu else {}),
            **{str(kind): counts.requests[kind] for kind in Request},
            "all requests": counts.requests.total(),
            "MB written": counts.written / 1e6,
        }

    def _spent(self) -> dict[str, float]:
        return {name: seconds - self._cpu_before[name] for name, seconds in self._cpu().items()}


async def arrivals(shape: Shape) -> AsyncIterator[int]:
    """Yield the numbers of the Frameworks when they arrive."""
    begin = time.monotonic()
    for number in range(shape.frameworks):
        wait = begin + number * shape.over / shape.frameworks - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        yield number
