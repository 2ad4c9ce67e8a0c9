"""The scene of the controller's benchmark: the cluster, the Pods of all rows, and what is counted there."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
import psutil

from bench.controller.shapes import Kind, Shape
from bench.metrics import counted
from bench.scene import component, new_cluster
from frameworkcontroller.api import names
from frameworkkube.errors import TransportError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import from_kubeconfig
from frameworkkube.paths import resource_path
from localcluster import Cluster, Depth
from localcluster.client import RawClient
from localcluster.cluster.kwok import RUN_SECONDS

NAMESPACE = "bench"
IN_FLIGHT = 64
CLUSTER = "bench"
API_SERVER = "kube-apiserver"
COMPONENTS = (API_SERVER, "etcd", "kube-scheduler", "kube-controller-manager", "kwok")
"""The processes of the cluster, by the names that `localcluster` gives them."""
BENCHMARK = "benchmark"
"""The process that makes the Frameworks, or in the bare loop the Pods, and watches."""
_REST_SECONDS = 5.0
_PAST_PODS = 3000


@dataclass(frozen=True)
class Scene:
    """Where one row is made; `raw` is for what is not measured."""

    cluster: Cluster
    raw: RawClient
    client: KubeClient

    def processes(self) -> dict[str, psutil.Process]:
        """Return the processes whose CPU seconds are columns, by the names of these."""
        return {name: component(self.cluster, name) for name in COMPONENTS} | {BENCHMARK: psutil.Process()}

    async def counted(self) -> dict[str, float]:
        """Return what the API server has counted so far, as columns."""
        return counted(await asyncio.to_thread(self.raw.text, "/metrics"))

    def pod_template(self, shape: Shape) -> dict[str, Any]:
        """Return a Pod template of a usual size."""
        annotations = {} if shape.run_seconds is None else {RUN_SECONDS: str(shape.run_seconds)}
        # The gate of a gang is for its barriers.
        labels = {names.BARRIER_LABEL: "enabled"} if shape.kind is Kind.BESIDE else {}
        main = {
            "name": "main",
            "image": "none",
            "command": ["python3", "train.py", "--index", "{{FC_TASK_INDEX}}"],
            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        }
        return {
            "metadata": {"annotations": annotations, "labels": labels},
            "spec": {"restartPolicy": "Never", "containers": [main]},
        }


@contextlib.asynccontextmanager
async def new_scene() -> AsyncIterator[Scene]:
    """Make a cluster with simulated nodes for the block."""
    with new_cluster(CLUSTER, Depth.KWOK, NAMESPACE) as (cluster, raw):
        # The namespace gets its service account, and the components come to rest.
        await asyncio.sleep(_REST_SECONDS)
        client = KubeClient(from_kubeconfig(cluster.kubeconfig), max_connections=2 * IN_FLIGHT)
        try:
            await _fill_watch_cache(client)
            yield Scene(cluster, raw, client)
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
