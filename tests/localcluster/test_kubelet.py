"""The fake kubelet, against a real API server."""

import threading
from typing import Any

import pytest

from localcluster.client import ApiStatusError, RawClient
from testkit.waiting import patience
from tests.support.beside.kubelet import Kubelet

pytestmark = pytest.mark.apiserver

SIDECAR = {"name": "sidecar", "image": "none", "restartPolicy": "Always"}


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def make(raw: RawClient, pods: str, name: str = "pod", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "none"}, {"name": "other", "image": "none"}]
    spec = {"restartPolicy": "Never", "containers": containers, **spec}
    return raw.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def test_a_pod_runs_with_an_ip_of_its_own_after_its_init_containers_and_is_lost_as_it_was(
    raw: RawClient, pods: str, kubelet: Kubelet
) -> None:
    first = kubelet.run(make(raw, pods, "first", initContainers=[{"name": "init", "image": "none"}, SIDECAR]))
    assert first["status"]["podIP"] != kubelet.run(make(raw, pods, "second"))["status"]["podIP"]
    assert first["spec"]["nodeName"] == "played-node"
    conditions = {entry["type"]: entry["status"] for entry in first["status"]["conditions"]}
    assert conditions == dict.fromkeys(["PodScheduled", "Initialized", "ContainersReady", "Ready"], "True")
    lost = kubelet.lose(first)
    assert (lost["status"]["phase"], lost["status"]["reason"]) == ("Failed", "NodeLost")
    for status in (first["status"], lost["status"]):
        entries = [*status["initContainerStatuses"], *status["containerStatuses"]]
        init, *others = (entry["state"] for entry in entries)
        assert init["terminated"]["exitCode"] == 0
        # Of a lost Pod, they were last seen running.
        assert [list(state) for state in others] == [["running"]] * 3


def test_a_deleted_pod_stays_until_its_deletion_is_finished_and_a_successor_is_never_touched(
    raw: RawClient, pods: str, kubelet: Kubelet
) -> None:
    first = kubelet.run(make(raw, pods))
    raw.delete(f"{pods}/pod")
    assert kubelet.get("pod")["metadata"]["deletionTimestamp"]
    for _ in range(2):
        kubelet.finish_deletion(first)
        assert raw.get(pods)["items"] == []
    second = make(raw, pods)
    with pytest.raises(ApiStatusError, match="HTTP 409"):
        kubelet.run(first)
    kubelet.finish_deletion(first)
    assert kubelet.get("pod")["metadata"]["uid"] == second["metadata"]["uid"]


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
