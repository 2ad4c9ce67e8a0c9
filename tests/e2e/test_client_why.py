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

    def role(name: str, **pod: object) -> Role:
        return Role.container(name, 1, image=pod.pop("image", IMAGE), preset="pytorch", **pod)  # type: ignore[arg-type]  # a template's

    waiting = role("master")
    placed = role("worker", node_selector={"example.org/none": "none"})
    pulled = role("ps", image="docker.io/frameworkcontroller/absent:dev")
    client.create(Framework("stuck", [waiting, placed, pulled]))

    def check() -> None:
        page = ctl.ok("why stuck").output
        assert "master-0, ps-0: waits in the barrier for 1 Task: worker-0" in page, page
        assert "worker-0: its Pod cannot be scheduled" in page
        assert "no node has the labels that nodeSelector or affinity asks for" in page

    eventually(check, timeout=60, interval=1)
    client.stop("stuck")
    template = dict(Role.container("worker", 1, image=IMAGE, command=["true"]).pod)
    template["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "absent"}}]
    client.create(Framework("unconfigured", [Role("worker", 1, template)]))

    def is_named() -> None:
        page = ctl.ok("why unconfigured").output
        assert 'container main cannot be created: CreateContainerConfigError: configmap "absent" not found' in page, (
            page
        )

    eventually(is_named, timeout=60, interval=1)
    client.stop("unconfigured")
