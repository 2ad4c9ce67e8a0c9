"""A gang of many Tasks that restarts in place on a control plane alone: the benchmark reports what kubelets would."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from controller_observer import Request, counted
from newcluster import new_cluster

from frameworkkube.credentials import from_kubeconfig
from frameworkkube.rest import KubeClient
from localcluster import Depth
from testkit.frameworks import ControllerProcess, Frameworks
from testkit.restarting_gang import RestartingGang
from testkit.waiting import eventually

if TYPE_CHECKING:
    from controller_observer import Counted

    from localcluster import Cluster

CLUSTER = "bench-restart"
NAMESPACE, NAME = "gang", "gang"
_SECONDS = 600.0


def simulate(tasks: int) -> list[str]:
    """Restart a gang of so many Tasks once, and return the lines of a table."""
    with new_cluster(CLUSTER, Depth.CONTROL_PLANE, NAMESPACE) as (cluster, raw), TemporaryDirectory() as folder:
        controller = ControllerProcess(cluster, Path(folder), {})
        controller.start()
        try:
            return _restart(cluster, Frameworks(raw, NAMESPACE), tasks)
        finally:
            controller.stop()


def _restart(cluster: Cluster, frameworks: Frameworks, tasks: int) -> list[str]:
    """Start the gang, end one instance, start all again, and return what that has cost."""
    gang = RestartingGang(frameworks, NAME, tasks)
    gang.create()
    eventually(gang.has_pods, _SECONDS, 0.5)
    gang.report_all(0)
    eventually(lambda: gang.is_open(0), _SECONDS, 0.2)
    before = _counted(cluster)
    begun = time.monotonic()
    gang.report(0, 0, restarting=True)
    eventually(lambda: gang.is_closed(1), _SECONDS, 0.02)
    closed = time.monotonic() - begun
    gang.report_all(1)
    reported = time.monotonic() - begun
    eventually(lambda: gang.is_open(1), _SECONDS, 0.02)
    opened = time.monotonic() - begun
    cost = _counted(cluster).since(before)
    writes = ", ".join(f"{kind}: {number}" for kind, number in cost.requests.items() if kind is not Request.OTHERS)
    return [
        f"| {tasks} simulated Pods restart in place | |",
        "| --- | --- |",
        f"| seconds from the end of an instance until the gate is closed | {closed:.2f} |",
        f"| from the last report of a Pod until the gate is open | {opened - reported:.2f} |",
        f"| all, with {tasks} reports of Pods | {opened:.1f} |",
        f"| writes of the controller, by kind | {writes} |",
    ]


def _counted(cluster: Cluster) -> Counted:
    async def read() -> Counted:
        client = KubeClient(from_kubeconfig(cluster.kubeconfig))
        try:
            return await counted(client)
        finally:
            await client.close()

    return asyncio.run(read())
