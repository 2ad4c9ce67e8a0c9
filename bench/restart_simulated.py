"""A gang of many Tasks that restarts in place on a control plane alone: the benchmark reports what kubelets would."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from controller_observer import counted

import localcluster
from frameworkcontroller.api import names
from frameworkkube.credentials import from_kubeconfig
from frameworkkube.rest import KubeClient
from frameworkrelease.scale.results import Request
from localcluster import Depth
from localcluster.client import RawClient
from localcluster.frameworks import ControllerProcess, Frameworks, apply_definition, apply_permissions, role
from localcluster.waiting import eventually

if TYPE_CHECKING:
    from controller_observer import Counted

    from localcluster import Cluster
    from localcluster.client import Json

CLUSTER = "bench-restart"
NAMESPACE, NAME = "gang", "gang"
_NODE, _HOST_IP = "bench-node", "192.0.2.1"
_WRITERS = 16
_SECONDS = 600.0


def simulate(tasks: int) -> list[str]:
    """Restart a gang of so many Tasks once, and return the lines of a table."""
    localcluster.down(CLUSTER)
    cluster = localcluster.up(CLUSTER, Depth.CONTROL_PLANE)
    try:
        with contextlib.closing(RawClient(cluster)) as raw, TemporaryDirectory() as folder:
            apply_definition(raw)
            apply_permissions(cluster)
            raw.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            controller = ControllerProcess(cluster, Path(folder), {})
            controller.start()
            try:
                return _SimulatedGang(cluster, raw, tasks).restart()
            finally:
                controller.stop()
    finally:
        localcluster.down(CLUSTER)


class _SimulatedGang:
    """Pods that no kubelet runs; their barriers are in the template, because no webhook is there."""

    def __init__(self, cluster: Cluster, raw: RawClient, tasks: int) -> None:
        self._cluster, self._raw, self._tasks = cluster, raw, tasks
        self._frameworks = Frameworks(raw, NAMESPACE)

    def restart(self) -> list[str]:
        """Start the gang, end one instance, start all again, and return what that has cost."""
        self._frameworks.create(NAME, role("worker", self._tasks, pod=_TEMPLATE))
        eventually(self._has_pods, _SECONDS, 0.5)
        self._report_all(0)
        eventually(lambda: self._is_open(0), _SECONDS, 0.2)
        before = self._counted()
        begun = time.monotonic()
        self._report(0, 0, restarting=True)
        eventually(lambda: self._is_closed(1), _SECONDS, 0.02)
        closed = time.monotonic() - begun
        self._report_all(1)
        reported = time.monotonic() - begun
        eventually(lambda: self._is_open(1), _SECONDS, 0.02)
        opened = time.monotonic() - begun
        cost = self._counted().since(before)
        writes = ", ".join(f"{kind}: {number}" for kind, number in cost.requests.items() if kind is not Request.OTHERS)
        return [
            f"| {self._tasks} simulated Pods restart in place | |",
            "| --- | --- |",
            f"| seconds from the end of an instance until the gate is closed | {closed:.2f} |",
            f"| from the last report of a Pod until the gate is open | {opened - reported:.2f} |",
            f"| all, with {self._tasks} reports of Pods by {_WRITERS} writers | {opened:.1f} |",
            f"| writes of the controller, by kind | {writes} |",
        ]

    def _has_pods(self) -> None:
        assert len(self._frameworks.pods()) == self._tasks

    def _report_all(self, restarts: int) -> None:
        with ThreadPoolExecutor(_WRITERS) as writers:
            list(writers.map(lambda index: self._report(index, restarts), range(self._tasks)))

    def _report(self, index: int, restarts: int, *, restarting: bool = False) -> None:
        """Report as a kubelet that the barrier of a Pod runs, for the first time or again."""
        address = f"10.{index // 65536}.{index // 256 % 256}.{index % 256}"
        barrier = {
            "name": names.BARRIER_CONTAINER,
            "restartCount": restarts,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "image": "none",
            "imageID": "",
            "ready": False,
        }
        status: Json = {"phase": "Pending", "hostIP": _HOST_IP, "hostIPs": [{"ip": _HOST_IP}]}
        status |= {"podIP": address, "podIPs": [{"ip": address}], "initContainerStatuses": [barrier]}
        status["conditions"] = [{"type": names.ALL_CONTAINERS_RESTARTING, "status": str(restarting)}]
        pod = names.pod_name(NAME, "worker", index)
        self._raw.merge(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/status", {"status": status})

    def _roster(self) -> Json:
        notes = self._frameworks.config_map(NAME)["metadata"]["annotations"]
        assert names.ROSTER_ANNOTATION in notes, "no roster is written yet"
        found: Json = json.loads(notes[names.ROSTER_ANNOTATION])
        return found

    def _is_open(self, epoch: int) -> None:
        assert self._frameworks.status(NAME)["attemptStatus"].get("gangEpoch") == epoch
        assert self._roster()["complete"]

    def _is_closed(self, epoch: int) -> None:
        assert self._frameworks.status(NAME)["attemptStatus"].get("gangEpoch") == epoch
        assert not self._roster()["complete"]

    def _counted(self) -> Counted:
        async def read() -> Counted:
            client = KubeClient(from_kubeconfig(self._cluster.kubeconfig))
            try:
                return await counted(client)
            finally:
                await client.close()

        return asyncio.run(read())


_TEMPLATE = {
    "metadata": {
        "labels": {names.BARRIER_LABEL: "enabled"},
        "annotations": {names.RESTART_ANNOTATION: names.IN_PLACE, names.RESTART_LIMIT_ANNOTATION: "0"},
    },
    "spec": {
        "restartPolicy": "Never",
        # There is no such node: the Pods are scheduled, and no kubelet runs them.
        "nodeName": _NODE,
        "initContainers": [{"name": names.BARRIER_CONTAINER, "image": "none", "restartPolicy": "Always"}],
        "containers": [{"name": "main", "image": "none"}],
    },
}
