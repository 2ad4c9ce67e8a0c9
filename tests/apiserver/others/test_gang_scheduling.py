"""Frameworks whose Pods a real kube-scheduler places in groups, on two simulated nodes with room for three each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from localcluster.cluster.kwok import RUN_SECONDS
from testkit import kueue
from testkit.frameworks import ControllerProcess, Frameworks, role
from testkit.operators import apply_all, rendered
from testkit.waiting import eventually
from tests.apiserver.conftest import run
from tests.support.clusters import once

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import Json, RawClient
    from tests.support.frameworkctl import Frameworkctl

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.turns("gangs"),
    pytest.mark.requires_kubernetes("1.37", "kube-scheduler places groups of scheduling.k8s.io/v1beta1"),
    pytest.mark.usefixtures("nodes", "grouping"),
]
PRIORITIES, NODES = "/apis/scheduling.k8s.io/v1/priorityclasses", "/api/v1/nodes"
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def cluster(kwok_cluster: Cluster) -> Cluster:
    def install() -> None:
        values = "--set=gangScheduling.schedulers={kubernetes}"
        manifests = rendered(kwok_cluster, "frameworkcontroller", kueue.CHART, kueue.OUR_SYSTEM, values)
        apply_all(kwok_cluster, [one for one in manifests if one["kind"] == "ClusterRole"])

    once(kwok_cluster, "groups", install)
    return kwok_cluster


@pytest.fixture(scope="module")
def grouped_raw(raw: RawClient) -> RawClient:
    for name, value in (("low", 1), ("high", 100)):
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        raw.apply(f"{PRIORITIES}/{name}", kind | {"metadata": {"name": name}, "value": value})
    return raw


@pytest.fixture
def nodes(grouped_raw: RawClient, namespace: str) -> Iterator[list[str]]:
    """Two nodes in two zones for the Pods of the test, with room for three of each: kwok gives a node 1,000 CPUs."""
    names = [f"{namespace[:50]}-{number}" for number in range(2)]
    for number, name in enumerate(names):
        labels = {"pool": namespace[:60], ZONE: f"zone-{number}"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        grouped_raw.create(NODES, node)
    yield names
    for name in names:
        grouped_raw.delete(f"{NODES}/{name}")


@pytest.fixture
def grouping(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A controller that makes groups for kube-scheduler."""
    settings = {"namespaces": [namespace], "gangScheduling": {"schedulers": ["kubernetes"]}}
    yield from run(ControllerProcess(cluster, tmp_path, settings))


def workers(frameworks: Frameworks, number: int, *, priority: str = "low", **more: Any) -> Json:
    """A TaskRole of so many Tasks, each of which runs for long."""
    spec = {
        "nodeSelector": {"pool": frameworks.namespace[:60]},
        "priorityClassName": priority,
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "300"}}}],
    }
    return role("worker", number, pod={"metadata": {"annotations": {RUN_SECONDS: "1000"}}, "spec": spec}, **more)


def create(frameworks: Frameworks, name: str, number: int, *, priority: str = "low", **asked: str) -> None:
    """Create a gang whose Pods are placed together."""
    groups = {"scheduler": "kubernetes", "priorityClassName": priority, **asked}
    frameworks.create(name, workers(frameworks, number, priority=priority), gangScheduling=groups)


def nodes_of(frameworks: Frameworks, name: str) -> list[str]:
    """The nodes of the Pods of a Framework that have one."""
    pods = [pod for pod in frameworks.pods().values() if pod["metadata"]["labels"]["FC_FRAMEWORK_NAME"] == name]
    return [pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"]]


def runs_whole(frameworks: Frameworks, name: str, number: int) -> None:
    """Wait until so many Pods of a Framework have nodes and run."""
    eventually(lambda: _assert_whole(frameworks, name, number))


def _assert_whole(frameworks: Frameworks, name: str, number: int) -> None:
    assert frameworks.status(name)["ready"] == f"{number}/{number}"
    assert len(nodes_of(frameworks, name)) == number


def waits(frameworks: Frameworks, name: str, number: int) -> str:
    """Wait until it is said that there is no place for so many; what is said."""

    def said() -> str:
        condition = frameworks.conditions(name)["GangScheduled"]
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert f"no place for {number} of {number}" in condition["message"]
        return str(condition["message"])

    return eventually(said)


def test_of_two_gangs_that_would_each_hold_half_one_is_placed_after_the_other(
    frameworks: Frameworks, ctl: Frameworkctl
) -> None:
    create(frameworks, "first", 4)
    create(frameworks, "second", 4)

    def one_has_all() -> str:
        placed = {name: len(nodes_of(frameworks, name)) for name in ("first", "second")}
        assert sorted(placed.values()) == [0, 4]
        return max(placed, key=placed.__getitem__)

    running = eventually(one_has_all)
    waiting = {"first": "second", "second": "first"}[running]
    assert "minCount (4)" in waits(frameworks, waiting, 4)
    assert "the scheduler has found no place for 4 of 4" in ctl("why", waiting).output
    frameworks.merge(running, executionType="Stop")
    runs_whole(frameworks, waiting, 4)
    assert eventually(lambda: frameworks.conditions(waiting)["GangScheduled"])["reason"] == "Scheduled"


def test_a_gang_is_preempted_whole_and_is_retried_without_being_counted(frameworks: Frameworks) -> None:
    create(frameworks, "low", 4)
    runs_whole(frameworks, "low", 4)
    create(frameworks, "high", 5, priority="high")
    runs_whole(frameworks, "high", 5)

    def is_next() -> None:
        status = frameworks.status("low")
        assert status["attemptStatus"]["id"] == 1
        assert status["retryPolicyStatus"]["totalRetriedCount"] == 1
        assert status["retryPolicyStatus"]["accountableRetriedCount"] == 0

    eventually(is_next)
    (event,) = [event for event in frameworks.events("low") if event["reason"] == "FrameworkPreempted"]
    assert "preempting to accommodate a higher priority podgroup" in event["message"]
    waits(frameworks, "low", 4)


def test_all_pods_of_a_group_are_in_one_zone(frameworks: Frameworks, nodes: list[str]) -> None:
    create(frameworks, "three", 3, topologyKey=ZONE)
    runs_whole(frameworks, "three", 3)
    assert set(nodes_of(frameworks, "three")) in [{node} for node in nodes]
    create(frameworks, "four", 4, topologyKey=ZONE)
    waits(frameworks, "four", 4)


def test_a_pod_that_is_made_again_is_placed_alone_in_its_group(raw: RawClient, frameworks: Frameworks) -> None:
    retried = workers(frameworks, 4, retry={"maxRetryCount": 3})
    frameworks.create("gang", retried, gangScheduling={"scheduler": "kubernetes"})
    runs_whole(frameworks, "gang", 4)
    before = frameworks.pods()["gang-worker-2"]["metadata"]["uid"]
    raw.delete(f"{frameworks.pods_path}/gang-worker-2")

    def is_another() -> None:
        assert frameworks.pods()["gang-worker-2"]["metadata"]["uid"] != before
        _assert_whole(frameworks, "gang", 4)

    eventually(is_another)


def test_a_rescale_changes_how_many_are_placed_together(frameworks: Frameworks) -> None:
    name = "g" * 63
    create(frameworks, name, 8, groupPer="TaskRole")
    waits(frameworks, name, 8)
    for number in (3, 6):
        frameworks.merge(name, taskRoles=[workers(frameworks, number)])
        runs_whole(frameworks, name, number)
