"""Simulated nodes: kwok writes the statuses that kubelets would write; the stages are data, in `kwok-stages.yaml`.

A Pod on a simulated node gets an IP and becomes Running at once. Two annotations say how it ends:
`localcluster.frameworkcontroller/run-seconds` and `localcluster.frameworkcontroller/exit-code`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localcluster import controlplane
from localcluster.api import Api, ApiError, answers_ok
from localcluster.errors import LocalClusterError
from localcluster.progress import task

if TYPE_CHECKING:
    from localcluster.context import Context

RUN_SECONDS = "localcluster.frameworkcontroller/run-seconds"
EXIT_CODE = "localcluster.frameworkcontroller/exit-code"
STAGES = Path(__file__).with_name("kwok-stages.yaml")
_READY_SECONDS = 60.0


def start(context: Context) -> None:
    """Start kwok and make the cluster's nodes; return when all of them are Ready.

    Raises:
        StartError: kwok did not become ready.
        LocalClusterError: The nodes did not.
    """
    port = context.port("kwok")
    config = context.kubeconfig("kwok", user="kwok", groups=["system:masters"])
    command = [
        str(context.binary("kwok")),
        f"--kubeconfig={config}",
        f"--config={STAGES}",
        "--manage-all-nodes=true",
        f"--cidr={context.network.simulated_pods}",
        f"--node-ip={context.network.bridge_address}",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{port}",
    ]
    with task(context.progress, f"kwok with {context.nodes} nodes"):
        context.processes.start(
            "kwok",
            command,
            ready=lambda: answers_ok(f"http://127.0.0.1:{port}/healthz"),
            timeout_seconds=_READY_SECONDS,
        )
        api = controlplane.api(context)
        for number in range(context.nodes):
            _make_node(api, f"simulated-{number}")
        _wait_until_ready(api, context.nodes)


def _make_node(api: Api, name: str) -> None:
    labels = {"kubernetes.io/hostname": name, "type": "kwok"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    try:
        api.create("/api/v1/nodes", node)
    except ApiError as error:
        if error.status != 409:
            raise


def _wait_until_ready(api: Api, count: int) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while (ready := sum(map(_is_ready, api.get("/api/v1/nodes")["items"]))) < count:
        if time.monotonic() > deadline:
            raise LocalClusterError(f"only {ready} of {count} simulated nodes became Ready in {_READY_SECONDS:g} s")
        time.sleep(0.1)


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    # The node controller's taint goes only after it saw the Node Ready; until then nothing is scheduled there.
    return ready and not node["spec"].get("taints")
