"""Simulated nodes: kwok writes the statuses that kubelets would write, as `kwok-stages.yaml` describes.

A Pod on a simulated node gets an IP and becomes Running at once. The annotations `RUN_SECONDS` and `EXIT_CODE` say how
it ends.
"""

import contextlib
from pathlib import Path
from typing import Any

import yaml

from localcluster.client import RawClient
from localcluster.context import Context
from localcluster.processes.health import check_health
from localcluster.progress import task

RUN_SECONDS = "localcluster.frameworkcontroller/run-seconds"
EXIT_CODE = "localcluster.frameworkcontroller/exit-code"
STAGES = Path(__file__).with_name("kwok-stages.yaml")
_POLICY = Path(__file__).with_name("kwok-policy.yaml")


def start(context: Context) -> None:
    """Create the Node objects, start kwok, and return when all nodes are Ready."""
    port = context.port("kwok")
    config = context.component_kubeconfig("kwok", user="kwok", group="system:masters")
    with task(f"kwok with {context.nodes} nodes"), contextlib.closing(RawClient(context)) as client:
        for entry in yaml.safe_load(_POLICY.read_text()):
            client.apply(entry["path"], entry["body"])
        for name in (f"simulated-{number}" for number in range(context.nodes)):
            metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "type": "kwok"}}
            client.apply(f"/api/v1/nodes/{name}", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        context.start(
            "kwok",
            f"--kubeconfig={config}",
            f"--config={STAGES}",
            "--manage-all-nodes=true",
            f"--cidr={context.network.simulated_pods}",
            f"--node-ip={context.network.bridge_address}",
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{port}",
            ready=lambda: _check_ready(client, f"http://127.0.0.1:{port}/healthz", context.nodes),
        )


def _check_ready(client: RawClient, health: str, count: int) -> bool | str:
    """Return True if kwok is healthy and all nodes are Ready, else a sentence that says why not."""
    answer = check_health(health)
    if answer is not True:
        return answer
    ready = sum(map(_is_ready, client.get("/api/v1/nodes")["items"]))
    return ready >= count or f"{ready} of {count} nodes are Ready"


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    # The node controller removes its taint after it has seen the Node Ready; until then no Pod is scheduled there.
    return ready and not node["spec"].get("taints")
