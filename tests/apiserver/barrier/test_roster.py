"""The barrier on a real API server: Pods of our controller, with the permissions that the controller grants them."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from localcluster import Cluster
from localcluster.client import ApiStatusError, Json, RawClient
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.barrier.cluster import account, exported, grant, start, waiting
from tests.barrier.process import Barrier
from tests.support.beside.kubelet import Kubelet
from tests.support.beside.player import Player
from tests.support.waiting import answered, becomes, has

pytestmark = [pytest.mark.apiserver, pytest.mark.usefixtures("controller")]

__all__ = ["account", "start"]  # fixtures


def test_a_gang_opens_when_its_last_pod_has_an_address_and_is_recorded(
    cluster: Cluster, frameworks: Frameworks, kubelet: Kubelet, start: Callable[..., Barrier]
) -> None:
    frameworks.create("fw", waiting("ps", 1), waiting("worker", 2))
    found = frameworks.created("fw-ps-0", "fw-worker-0", "fw-worker-1")
    barriers = {name: start(pod, FB_PRESET="tensorflow") for name, pod in found.items()}
    # A kubeconfig will do where there is no cluster around.
    environ = {"KUBE_APISERVER_ADDRESS": "", "KUBECONFIG": str(cluster.kubeconfig)}
    barriers["outside"] = start(found["fw-ps-0"], **environ)
    first = roster(frameworks)
    assert (first["complete"], first["total"], first["ready"]) == (False, 3, 0)
    kubelet.run("fw-ps-0", "10.255.9.1")
    kubelet.run("fw-worker-0", "10.255.9.2")
    kubelet.pending("fw-worker-1", message="0/3 nodes are available: 3 Insufficient cpu")
    why = "Pending: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu"
    becomes(lambda: roster(frameworks)["waitingFor"], [{"task": "worker-1", "why": why}], 15)
    start(found["fw-ps-0"]).reports(f"waiting 2/3: worker-1 {why}")
    assert {barrier.process.poll() for barrier in barriers.values()} == {None}
    kubelet.run("fw-worker-1", "10.255.9.3")
    uids = {name: pod["metadata"]["uid"][:8] for name, pod in found.items()}
    node = (0, "played-node", "192.0.2.1")
    workers = [[0, "10.255.9.2", uids["fw-worker-0"], *node], [1, "10.255.9.3", uids["fw-worker-1"], *node]]
    for barrier in barriers.values():
        code, last = barrier.ends(10)
        assert code == 0, barrier.lines
        assert "3/3 Tasks" in last
        assert json.loads(barrier.read("roster.json"))["taskRoles"] == [
            {"name": "ps", "tasks": [[0, "10.255.9.1", uids["fw-ps-0"], *node]]},
            {"name": "worker", "tasks": workers},
        ]
    assert json.loads(barriers["outside"].read("framework.json"))["metadata"]["name"] == "fw"
    last_one = roster(frameworks)
    assert (last_one["complete"], last_one["generation"], last_one["waitingFor"]) == (True, 1, [])
    addresses, config = exported(barriers["fw-worker-1"], "FB_WORKER_ADDRESSES", "TF_CONFIG")
    assert addresses == "10.255.9.2:2222,10.255.9.3:2222"
    assert json.loads(config)["task"] == {"type": "worker", "index": 1}


def roster(frameworks: Frameworks) -> Json:
    found = json.loads(frameworks.config_map("fw")["data"]["roster"])
    assert isinstance(found, dict)
    return found


def test_a_framework_that_is_deleted_ends_the_wait_with_210(
    frameworks: Frameworks, raw: RawClient, start: Callable[..., Barrier]
) -> None:
    # The controller's Role goes with the attempt. Where the watch is not open at that moment, only the end of the Pod
    # tells the barrier; so here it keeps the permission.
    grant(raw, frameworks.namespace, "", "configmaps", "get", "watch")
    frameworks.create("fw", waiting("worker", 2))
    found = frameworks.created("fw-worker-0", "fw-worker-1")
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


def test_the_token_of_the_pod_can_read_its_own_roster_during_the_attempt_and_nothing_else(
    frameworks: Frameworks, cluster: Cluster, account: Path, player: Player
) -> None:
    frameworks.create("fw", waiting("worker", 1))
    frameworks.create("without", role("worker", 1))
    frameworks.created("fw-worker-0", "without-worker-0")
    base = f"/api/v1/namespaces/{frameworks.namespace}"
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{frameworks.namespace}"
    own = f"{base}/configmaps/fw-attempt"
    with contextlib.closing(RawClient(cluster, (account / "token").read_text())) as pod_side:
        # The API server knows a new Role only when its watch has brought it.
        assert answered(lambda: pod_side.get(own)["data"]["roster"])
        (binding,) = frameworks.raw.get(f"{rbac}/rolebindings")["items"]
        assert [subject["name"] for subject in binding["subjects"]] == ["default"]
        for path in (
            f"{base}/configmaps",
            f"{base}/configmaps/kube-root-ca.crt",
            f"{base}/pods",
            f"{base}/secrets",
            frameworks.path,
            f"{frameworks.path}/fw",
            "/api/v1/nodes",
            "/api/v1/namespaces/default/configmaps",
        ):
            with pytest.raises(ApiStatusError, match="403"):
                pod_side.get(path)
        with pytest.raises(ApiStatusError, match="403"):
            pod_side.merge(own, {"data": {"roster": "{}"}})
    with player.playing():
        frameworks.wait("fw", "Completed")
    for plural in ("roles", "rolebindings"):
        becomes(lambda plural=plural: frameworks.raw.get(f"{rbac}/{plural}")["items"], [], 30)  # type: ignore[misc]


def test_a_pod_that_a_rescale_adds_finds_the_rendezvous_of_those_that_run_whose_name_survives_a_retry(
    frameworks: Frameworks, kubelet: Kubelet, start: Callable[..., Barrier]
) -> None:
    environ = {"FB_MODE": "sidecar", "FB_PRESET": "pytorch", "FB_NNODES": "1:3", "FB_ADDRESSES": "name"}
    shared = ["PET_NNODES", "PET_RDZV_BACKEND", "PET_RDZV_ID", "PET_RDZV_ENDPOINT", "MASTER_ADDR"]
    retry = {"retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 1}}
    one, two = ({**(made := waiting("worker", number)), "task": made["task"] | retry} for number in (1, 2))
    frameworks.create("fw", one)
    first = frameworks.created("fw-worker-0")["fw-worker-0"]
    old = start(first, **environ)
    kubelet.run(first, "10.255.9.1")
    old.reports("open after")
    before = exported(old, *shared)
    attempt = frameworks.status("fw")["attemptStatus"]["instanceUID"]
    assert before == ["1:3", "c10d", attempt, "fw-worker-0:29500", "fw-worker-0"]
    frameworks.merge("fw", taskRoles=[two])
    second = frameworks.created("fw-worker-0", "fw-worker-1")["fw-worker-1"]
    new = start(second, **environ)
    kubelet.run(second, "10.255.9.2")
    new.reports("open after")
    assert exported(new, *shared) == before
    assert exported(new, "PET_LOCAL_ADDR", "NODE_RANK") == ["10.255.9.2", "1"]

    assert "10.255.9.1\tfw-worker-0 " in new.read("hosts")
    has(lambda: old.read("hosts"), "10.255.9.2\tfw-worker-1 ", 30)
    assert exported(old, *shared) == before
    kubelet.fail(first, 1)

    def retried() -> Json:
        again = frameworks.pods().get("fw-worker-0", first)
        assert again["metadata"]["uid"] != first["metadata"]["uid"]
        return again

    kubelet.run(eventually(retried, 60), "10.255.9.77")
    has(lambda: new.read("hosts"), "10.255.9.77\tfw-worker-0 ", 30)
    assert exported(new, *shared) == before
