"""Simulated nodes: kwok writes the statuses that kubelets would write, as `kwok-stages.yaml` describes.

A Pod on a simulated node gets an IP and becomes Running at once. The annotations `RUN_SECONDS` and `EXIT_CODE` say how
it ends.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from localcluster.client import ApiStatusError, RawClient
from localcluster.errors import LocalClusterError
from localcluster.health import check_health
from localcluster.progress import task

if TYPE_CHECKING:
    from localcluster.context import Context

RUN_SECONDS = "localcluster.frameworkcontroller/run-seconds"
EXIT_CODE = "localcluster.frameworkcontroller/exit-code"
STAGES = Path(__file__).with_name("kwok-stages.yaml")
_POLICY = Path(__file__).with_name("kwok-policy.yaml")
_READY_SECONDS = 120.0


def start(context: Context) -> None:
    """Start kwok, create the Node objects, and return when all nodes are Ready.

    Raises:
        StartError: kwok did not become ready.
        LocalClusterError: A node did not become Ready.
    """
    port = context.port("kwok")
    config = context.component_kubeconfig("kwok", user="kwok", group="system:masters")
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
    with task(context.progress, f"kwok with {context.nodes} nodes"), contextlib.closing(RawClient(context)) as client:
        for entry in yaml.safe_load(_POLICY.read_text()):
            client.apply(entry["path"], entry["body"])
        context.processes.start(
            "kwok",
            command,
            ready=lambda: check_health(f"http://127.0.0.1:{port}/healthz"),
            timeout_seconds=_READY_SECONDS,
        )
        for number in range(context.nodes):
            _make_node(client, f"simulated-{number}")
        _wait_until_ready(client, context.nodes)


def _make_node(client: RawClient, name: str) -> None:
    labels = {"kubernetes.io/hostname": name, "type": "kwok"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    try:
        client.create("/api/v1/nodes", node)
    except ApiStatusError as error:
        if error.status != 409:
            raise


def _wait_until_ready(client: RawClient, count: int) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while (ready := sum(map(_is_ready, client.get("/api/v1/nodes")["items"]))) < count:
        if time.monotonic() > deadline:
            raise LocalClusterError(f"only {ready} of {count} simulated nodes became Ready in {_READY_SECONDS:g} s")
        time.sleep(0.1)


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    # The node controller removes its taint after it has seen the Node Ready; until then no Pod is scheduled there.
    return ready and not node["spec"].get("taints")
