"""Why a gang does not start, on a real node: a Task that no node takes, barriers that wait, what does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frameworkclient import Client, Framework, Role
from testkit.waiting import eventually
from tests.support.frameworkctl import Frameworkctl

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster import Cluster

pytestmark = [pytest.mark.node, pytest.mark.long]
IMAGE = "docker.io/frameworkcontroller/barrier:dev"


def test_each_reason_of_a_gang_that_does_not_start_is_named(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    ctl = Frameworkctl(cluster.kubeconfig, namespace, tmp_path)
    waiting = Role.container("master", 1, image=IMAGE, preset="pytorch")
    placed = Role.container("worker", 1, image=IMAGE, preset="pytorch", node_selector={"example.org/none": "none"})
    pulled = Role.container("ps", 1, image="docker.io/frameworkcontroller/absent:dev", preset="pytorch")
    client.create(Framework("stuck", [waiting, placed, pulled]))
    template = dict(Role.container("worker", 1, image=IMAGE, command=["true"]).pod)
    template["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "absent"}}]
    client.create(Framework("unconfigured", [Role("worker", 1, template)]))

    def is_said(name: str, *texts: str) -> None:
        page = ctl.ok(f"why {name}").output
        for text in texts:
            assert text in page, page

    told = {
        "stuck": (
            "master-0, ps-0: waits in the barrier for 1 Task: worker-0",
            "worker-0: its Pod cannot be scheduled",
            "no node has the labels that nodeSelector or affinity asks for",
        ),
        "unconfigured": ('container main cannot be created: CreateContainerConfigError: configmap "absent" not found',),
    }
    for name, texts in told.items():
        eventually(lambda name=name, texts=texts: is_said(name, *texts), timeout=60, interval=1)  # type: ignore[misc]
        client.stop(name)
