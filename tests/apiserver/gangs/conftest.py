"""Two simulated nodes for the gangs of one test, and a controller that groups their Pods."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import Cluster
from localcluster.client import RawClient
from testkit import kueue
from testkit.frameworks import ControllerProcess
from tests.apiserver.conftest import run
from tests.support.clusters import once

PRIORITIES, NODES = "/apis/scheduling.k8s.io/v1/priorityclasses", "/api/v1/nodes"
ZONE = "topology.kubernetes.io/zone"
SCHEDULERS = ("kubernetes", "volcano", "coscheduling")


@pytest.fixture(scope="module")
def cluster(kwok_cluster: Cluster) -> Cluster:
    def install() -> None:
        groups = f"gangScheduling.schedulers={{{','.join(SCHEDULERS)}}}"
        kueue.grant(kwok_cluster, f"{groups},rankTopology.enabled=true")

    once(kwok_cluster, "groups", install)
    return kwok_cluster


@pytest.fixture(scope="module")
def priorities(raw: RawClient) -> None:
    for name, value in (("low", 1), ("high", 100)):
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        raw.apply(f"{PRIORITIES}/{name}", kind | {"metadata": {"name": name}, "value": value})


@pytest.fixture
def nodes(priorities: None, raw: RawClient, namespace: str) -> Iterator[list[str]]:
    """Two nodes in two zones for the Pods of the test, with room for three of each: kwok gives a node 1,000 CPUs."""
    names = [f"{namespace[:50]}-{number}" for number in range(2)]
    for number, name in enumerate(names):
        labels = {"pool": namespace[:60], ZONE: f"zone-{number}"}
        raw.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    yield names
    for name in names:
        raw.delete(f"{NODES}/{name}")


@pytest.fixture
def grouping(cluster: Cluster, namespace: str, tmp_path: Path, scheduler: str) -> Iterator[ControllerProcess]:
    settings = {"namespaces": [namespace], "gangScheduling": {"schedulers": [scheduler]}}
    yield from run(ControllerProcess(cluster, tmp_path, settings))
