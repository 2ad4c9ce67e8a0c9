"""The barrier on a real API server: Pods of our controller, with the permissions that the controller grants them."""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from localcluster.client import ApiStatusError, RawClient
from testkit.frameworks import POD, role
from testkit.waiting import eventually
from tests.barrier.cluster import account, grant, start

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import Json
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.barrier.process import Barrier
    from tests.support.kubelet import Kubelet

pytestmark = pytest.mark.apiserver

__all__ = ["account", "start"]  # fixtures


def waiting(name: str, number: int) -> Json:
    """A TaskRole whose Pods say that they have a barrier, so that the controller lets them read the roster."""
    labels = {"frameworkcontroller.microsoft.com/barrier": "enabled"}
    return role(name, number, pod={"metadata": {"labels": labels}, **POD})


def pods(frameworks: Frameworks, count: int) -> dict[str, Json]:
    def created() -> dict[str, Json]:
        found = frameworks.pods()
        assert len(found) == count
        return found

    return eventually(created)


def test_a_gang_opens_when_its_last_pod_has_an_address_and_is_recorded(
    controller: ControllerProcess,
    frameworks: Frameworks,
    kubelet: Kubelet,
    start: Callable[..., Barrier],
) -> None:
    frameworks.create("fw", waiting("ps", 1), waiting("worker", 2))
    found = pods(frameworks, 3)
    barriers = {name: start(pod, FB_PRESET="tensorflow") for name, pod in found.items()}
    ips = {"fw-ps-0": "10.255.9.1", "fw-worker-0": "10.255.9.2", "fw-worker-1": "10.255.9.3"}
    kubelet.run(found["fw-ps-0"], ips["fw-ps-0"])
    kubelet.run(found["fw-worker-0"], ips["fw-worker-0"])
    with pytest.raises(subprocess.TimeoutExpired):
        barriers["fw-ps-0"].process.wait(2)
    kubelet.run(found["fw-worker-1"], ips["fw-worker-1"])
    for name, barrier in barriers.items():
        code, last = barrier.ends(10)
        assert code == 0, barrier.lines
        assert "3/3 Tasks" in last
        roster = json.loads(barrier.read("roster.json"))
        assert [entry["name"] for entry in roster["taskRoles"]] == ["ps", "worker"]
        tasks = {f"fw-{entry['name']}-{task[0]}": task for entry in roster["taskRoles"] for task in entry["tasks"]}
        assert {pod: task[1] for pod, task in tasks.items()} == ips
        assert tasks[name][2] == found[name]["metadata"]["uid"][:8]
    shell = '. "$0/injector.sh"; echo "$FB_WORKER_ADDRESSES $TF_CONFIG"'
    out = subprocess.run(
        ["dash", "-euc", shell, str(barriers["fw-worker-1"].folder)], capture_output=True, text=True, check=True
    ).stdout
    addresses, config = out.split(" ", 1)
    assert addresses == "10.255.9.2:2222,10.255.9.3:2222"
    assert json.loads(config)["task"] == {"type": "worker", "index": 1}


def test_who_is_missing_and_why_stands_in_the_log_and_in_the_last_line(
    controller: ControllerProcess,
    frameworks: Frameworks,
    kubelet: Kubelet,
    start: Callable[..., Barrier],
) -> None:
    frameworks.create("fw", waiting("worker", 2))
    found = pods(frameworks, 2)
    kubelet.run(found["fw-worker-0"])
    kubelet.pending(found["fw-worker-1"], message="0/3 nodes are available: 3 Insufficient cpu")

    def says_why() -> None:
        assert "Insufficient cpu" in frameworks.config_map("fw")["data"]["roster"]

    eventually(says_why)
    code, last = start(found["fw-worker-0"], BARRIER_CHECK_TIMEOUT_SEC="12").ends(30)
    assert code == 201
    assert "1/2: worker-1 " in last
    assert "0/3 nodes are available: 3 Insufficient cpu" in last


def test_a_framework_that_is_deleted_ends_the_wait_with_210(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, start: Callable[..., Barrier]
) -> None:
    # The controller's Role goes with the attempt. Where the watch is not open at that moment, only the end of the Pod
    # tells the barrier; so here it keeps the permission.
    grant(raw, frameworks.namespace, "", "configmaps", "get", "watch")
    frameworks.create("fw", waiting("worker", 2))
    found = pods(frameworks, 2)
    barrier = start(found["fw-worker-0"])
    barrier.reports("waiting 0/2")
    raw.delete(f"{frameworks.path}/fw", {"propagationPolicy": "Background"})
    for pod in found.values():
        # The garbage collector may have been faster.
        with contextlib.suppress(ApiStatusError):
            raw.delete(f"/api/v1/namespaces/{frameworks.namespace}/pods/{pod['metadata']['name']}")
    code, last = barrier.ends()
    assert code == 210, barrier.lines
    assert "Framework attempt is over" in last


def test_the_token_of_the_pod_can_read_nothing_but_its_own_roster(
    controller: ControllerProcess, frameworks: Frameworks, cluster: Cluster, account: Path
) -> None:
    frameworks.create("fw", waiting("worker", 1))
    pods(frameworks, 1)
    pod_side = RawClient(cluster, (account / "token").read_text())
    base = f"/api/v1/namespaces/{frameworks.namespace}"
    own = f"{base}/configmaps/fw-attempt"

    def may_read() -> None:
        try:
            assert pod_side.get(own)["metadata"]["name"] == "fw-attempt"
        except ApiStatusError as refusal:
            raise AssertionError(refusal) from refusal

    eventually(may_read)
    for path in (
        f"{base}/configmaps",
        f"{base}/configmaps/kube-root-ca.crt",
        f"{base}/pods",
        f"{base}/secrets",
        f"{frameworks.path}/fw",
        "/api/v1/nodes",
        "/api/v1/namespaces/default/configmaps",
    ):
        with pytest.raises(ApiStatusError, match="403"):
            pod_side.get(path)
    with pytest.raises(ApiStatusError, match="403"):
        pod_side.merge(own, {"data": {"roster": "{}"}})
    pod_side.close()


def test_without_any_right_it_ends_with_210_after_30_seconds_and_names_the_role(
    raw: RawClient, namespace: str, start: Callable[..., Barrier]
) -> None:
    pod = {"metadata": {"uid": "11111111-0000-4000-8000-000000000000"}, "spec": {"containers": [{}]}}
    environ = {
        "FC_FRAMEWORK_NAMESPACE": namespace,
        "FC_FRAMEWORK_NAME": "other",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "0",
    }
    code, last = start(pod, **environ).ends(60)
    assert code == 210
    assert "create a Role with the rule" in last
    assert "resourceNames: [other-attempt], verbs: [get, watch]" in last
    assert f"system:serviceaccount:{namespace}:default" in last


def test_a_kubeconfig_will_do_where_there_is_no_cluster_around(
    controller: ControllerProcess,
    frameworks: Frameworks,
    kubelet: Kubelet,
    cluster: Cluster,
    start: Callable[..., Barrier],
) -> None:
    frameworks.create("fw", waiting("worker", 1))
    pod = pods(frameworks, 1)["fw-worker-0"]
    barrier = start(pod, KUBE_APISERVER_ADDRESS="", KUBECONFIG=str(cluster.kubeconfig))
    kubelet.run(pod)
    code, _ = barrier.ends(30)
    assert code == 0, barrier.lines
    assert json.loads(barrier.read("framework.json"))["metadata"]["name"] == "fw"
