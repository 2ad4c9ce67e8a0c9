"""The fake kubelet, against a real API server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from localcluster.client import ApiStatusError, RawClient
from testkit.waiting import eventually, patience

if TYPE_CHECKING:
    from tests.support.kubelet import Kubelet

pytestmark = pytest.mark.apiserver

SIDECAR = {"name": "sidecar", "image": "none", "restartPolicy": "Always"}


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def make(raw: RawClient, pods: str, name: str = "pod", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "none"}, {"name": "other", "image": "none"}]
    spec = {"restartPolicy": "Never", "containers": containers, **spec}
    return raw.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def state(pod: dict[str, Any], container: str) -> dict[str, Any]:
    every = [*pod["status"].get("initContainerStatuses", []), *pod["status"]["containerStatuses"]]
    found: dict[str, Any] = next(entry["state"] for entry in every if entry["name"] == container)
    return found


def names(raw: RawClient, pods: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in raw.get(pods)["items"]]


def test_a_pod_runs_with_an_ip_of_its_own_or_the_one_that_the_test_gives_once_it_is_scheduled(
    raw: RawClient, pods: str, kubelet: Kubelet
) -> None:
    first = kubelet.run(make(raw, pods, "first", initContainers=[{"name": "init", "image": "none"}, SIDECAR]))
    assert first["status"]["phase"] == "Running"
    assert first["spec"]["nodeName"] == "played-node"
    assert "running" in state(first, "main")
    assert "running" in state(first, "sidecar")
    assert state(first, "init")["terminated"]["exitCode"] == 0
    conditions = {entry["type"]: entry["status"] for entry in first["status"]["conditions"]}
    assert conditions == dict.fromkeys(["PodScheduled", "Initialized", "ContainersReady", "Ready"], "True")
    second = kubelet.pending(make(raw, pods, "second"), message="0/3 nodes are available: 3 Insufficient cpu.")
    (condition,) = [entry for entry in second["status"]["conditions"] if entry["type"] == "PodScheduled"]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert "Insufficient cpu" in condition["message"]
    second = kubelet.run(second)
    assert second["status"]["phase"] == "Running"
    assert second["status"]["podIP"] != first["status"]["podIP"]
    make(raw, pods, "third")
    assert kubelet.run("third", ip="10.1.2.3")["status"]["podIP"] == "10.1.2.3"


def test_a_pod_ends_as_the_test_says(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    good, bad, lost = (kubelet.run(make(raw, pods, name)) for name in ("good", "bad", "lost"))
    good = kubelet.succeed(good)
    assert good["status"]["phase"] == "Succeeded"
    assert [state(good, name)["terminated"]["exitCode"] for name in ("main", "other")] == [0, 0]
    bad = kubelet.fail(bad, 137)
    assert bad["status"]["phase"] == "Failed"
    assert [state(bad, name)["terminated"]["exitCode"] for name in ("main", "other")] == [137, 0]
    lost = kubelet.lose(lost)
    assert (lost["status"]["phase"], lost["status"]["reason"]) == ("Failed", "NodeLost")
    # Its containers were last seen running.
    assert "running" in state(lost, "main")


def test_a_deleted_pod_stays_until_its_deletion_is_finished_and_a_successor_is_never_touched(
    raw: RawClient, pods: str, kubelet: Kubelet
) -> None:
    first = kubelet.run(make(raw, pods))
    raw.delete(f"{pods}/pod")
    assert kubelet.get("pod")["metadata"]["deletionTimestamp"]
    for _ in range(2):
        kubelet.finish_deletion(first)
        assert names(raw, pods) == []
    second = make(raw, pods)
    with pytest.raises(ApiStatusError, match="HTTP 409"):
        kubelet.run(first)
    kubelet.finish_deletion(first)
    assert kubelet.get("pod")["metadata"]["uid"] == second["metadata"]["uid"]


def test_the_autopilot_runs_new_pods_and_finishes_deletions(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    def both_run() -> None:
        phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in raw.get(pods)["items"]}
        assert phases == {"early": "Running", "late": "Running"}

    def late_is_gone() -> None:
        assert "late" not in names(raw, pods)

    make(raw, pods, "early")
    with kubelet.autopilot():
        make(raw, pods, "late")
        eventually(both_run)
        raw.delete(f"{pods}/late")
        eventually(late_is_gone)


def test_an_error_in_the_autopilot_is_raised_in_the_test(
    raw: RawClient, pods: str, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = threading.Event()

    def broken(pod: dict[str, Any]) -> None:
        called.set()
        raise LookupError(pod["metadata"]["name"])

    monkeypatch.setattr(kubelet, "run", broken)
    make(raw, pods, "broken-pod")
    with pytest.raises(LookupError, match="broken-pod"), kubelet.autopilot():
        assert called.wait(patience(10))
