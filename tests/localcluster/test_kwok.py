"""Simulated nodes: Pods run at once and end as their annotations say."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any

import pytest

from localcluster.errors import LocalClusterError
from localcluster.kwok import EXIT_CODE, RUN_SECONDS
from localcluster.logs import complete_lines
from testkit.waiting import eventually

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import RawClient

pytestmark = pytest.mark.apiserver


@pytest.fixture(scope="module")
def cluster(kwok_cluster: Cluster) -> Cluster:
    return kwok_cluster


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def make(raw: RawClient, pods: str, name: str, **annotations: str) -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    known = {"run_seconds": RUN_SECONDS, "exit_code": EXIT_CODE}
    metadata = {"name": name, "annotations": {known[key]: value for key, value in annotations.items()}}
    raw.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def in_phase(raw: RawClient, pods: str, name: str, phase: str) -> dict[str, Any]:
    def check() -> dict[str, Any]:
        status: dict[str, Any] = raw.get(f"{pods}/{name}")["status"]
        assert status["phase"] == phase, status
        return status

    return eventually(check, timeout=20)


def log_of_kwok(cluster: Cluster) -> list[dict[str, Any]]:
    return [json.loads(line) for line in complete_lines(cluster.state / "kwok.log") if line.startswith("{")]


def test_five_nodes_are_ready(raw: RawClient) -> None:
    nodes = raw.get("/api/v1/nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == [f"simulated-{number}" for number in range(5)]


def test_pods_run_with_addresses_of_their_own_and_keep_running(raw: RawClient, pods: str) -> None:
    for number in range(20):
        make(raw, pods, f"pod-{number}")
    addresses = {in_phase(raw, pods, f"pod-{number}", "Running")["podIP"] for number in range(20)}
    assert len(addresses) == 20
    assert len({ipaddress.ip_network(f"{address}/18", strict=False) for address in addresses}) == 1


@pytest.mark.parametrize(
    ("annotations", "phase", "code", "reason"),
    [
        ({"run_seconds": "0.5"}, "Succeeded", 0, "Completed"),
        ({"run_seconds": "0", "exit_code": "201"}, "Failed", 201, "Error"),
    ],
    ids=["succeeds", "fails"],
)
def test_a_pod_ends_as_its_annotations_say(
    raw: RawClient, pods: str, annotations: dict[str, str], phase: str, code: int, reason: str
) -> None:
    make(raw, pods, "short", **annotations)
    ended = in_phase(raw, pods, "short", phase)["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)


def test_a_node_deletes_a_deleted_pod_unless_it_is_being_removed_already(
    cluster: Cluster, raw: RawClient, pods: str, namespace: str
) -> None:
    for name in ("removed", "later"):
        make(raw, pods, name)
        in_phase(raw, pods, name, "Running")
    raw.merge(f"{pods}/removed", {"metadata": {"finalizers": ["localcluster.frameworkcontroller/test"]}})
    raw.delete(f"{pods}/removed", {"gracePeriodSeconds": 0})
    raw.delete(f"{pods}/later")

    def is_gone() -> None:
        assert [pod["metadata"]["name"] for pod in raw.get(pods)["items"]] == ["removed"]

    eventually(is_gone, timeout=20)
    raw.merge(f"{pods}/removed", {"metadata": {"finalizers": None}})
    deleted = [record["pod"] for record in log_of_kwok(cluster) if record["msg"] == "Delete pod"]
    assert [pod for pod in deleted if pod.startswith(f"{namespace}/")] == [f"{namespace}/later"]


def test_a_node_removes_no_pod_that_nobody_has_deleted(
    cluster: Cluster, raw: RawClient, pods: str, namespace: str
) -> None:
    # kwok deletes by name: a late deletion of what is gone would hit the next Pod of that name.
    make(raw, pods, "later")
    in_phase(raw, pods, "later", "Running")
    at_once = ("--grace-period=0", "--force")
    with pytest.raises(LocalClusterError, match="nobody has deleted this Pod"):
        cluster.kubectl("--as=kwok", "--as-group=system:masters", "-n", namespace, "delete", "pod", "later", *at_once)
    raw.delete(f"{pods}/later")
