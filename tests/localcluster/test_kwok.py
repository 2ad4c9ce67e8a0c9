"""Simulated nodes: Pods run at once and end as their annotations say."""

import ipaddress
import json
from typing import Any

import pytest

from localcluster import Cluster
from localcluster.client import RawClient
from localcluster.cluster.kwok import EXIT_CODE, RUN_SECONDS
from localcluster.errors import LocalClusterError
from localcluster.processes.logs import complete_lines
from testkit.waiting import eventually
from tests.support.waiting import becomes

pytestmark = pytest.mark.apiserver


@pytest.fixture(scope="module")
def cluster(kwok_cluster: Cluster) -> Cluster:
    return kwok_cluster


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def make(raw: RawClient, pods: str, name: str, **annotations: str) -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    metadata = {"name": name, "annotations": annotations}
    raw.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def in_phase(raw: RawClient, pods: str, name: str, phase: str) -> dict[str, Any]:
    def check() -> dict[str, Any]:
        status: dict[str, Any] = raw.get(f"{pods}/{name}")["status"]
        assert status["phase"] == phase, status
        return status

    return eventually(check, timeout=20)


def test_pods_run_on_five_nodes_with_addresses_of_their_own_and_keep_running(raw: RawClient, pods: str) -> None:
    nodes = raw.get("/api/v1/nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == [f"simulated-{number}" for number in range(5)]
    for number in range(20):
        make(raw, pods, f"pod-{number}")
    addresses = {in_phase(raw, pods, f"pod-{number}", "Running")["podIP"] for number in range(20)}
    assert len(addresses) == 20
    assert len({ipaddress.ip_network(f"{address}/18", strict=False) for address in addresses}) == 1


def test_a_pod_ends_as_its_annotations_say(raw: RawClient, pods: str) -> None:
    make(raw, pods, "good", **{RUN_SECONDS: "0.5"})
    make(raw, pods, "bad", **{RUN_SECONDS: "0", EXIT_CODE: "201"})
    for name, phase, code, reason in (("good", "Succeeded", 0, "Completed"), ("bad", "Failed", 201, "Error")):
        ended = in_phase(raw, pods, name, phase)["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (code, reason)


def test_a_node_deletes_a_deleted_pod_unless_it_is_being_removed_already_and_no_other(
    cluster: Cluster, raw: RawClient, pods: str, namespace: str
) -> None:
    for name in ("removed", "later"):
        make(raw, pods, name)
        in_phase(raw, pods, name, "Running")
    # kwok deletes by name: a late deletion of what is gone would hit the next Pod of that name.
    delete = ("delete", "pod", "later", "-n", namespace, "--grace-period=0", "--force")
    with pytest.raises(LocalClusterError, match="nobody has deleted this Pod"):
        cluster.kubectl("--as=kwok", "--as-group=system:masters", *delete)
    raw.merge(f"{pods}/removed", {"metadata": {"finalizers": ["localcluster.frameworkcontroller/test"]}})
    raw.delete(f"{pods}/removed", {"gracePeriodSeconds": 0})
    raw.delete(f"{pods}/later")
    becomes(lambda: [pod["metadata"]["name"] for pod in raw.get(pods)["items"]], ["removed"], timeout=20)
    raw.merge(f"{pods}/removed", {"metadata": {"finalizers": None}})
    log = [json.loads(line) for line in complete_lines(cluster.state / "kwok.log") if line.startswith("{")]
    deleted = [record["pod"] for record in log if record["msg"] == "Delete pod"]
    assert [pod for pod in deleted if pod.startswith(f"{namespace}/")] == [f"{namespace}/later"]
