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


def test_a_pod_runs_with_an_ip_of_its_own(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    first = kubelet.run(make(raw, pods, "first", initContainers=[{"name": "init", "image": "none"}, SIDECAR]))
    second = kubelet.run(make(raw, pods, "second"))
    assert first["status"]["phase"] == "Running"
    assert first["status"]["podIP"] != second["status"]["podIP"]
    assert first["spec"]["nodeName"] == "played-node"
    assert "running" in state(first, "main")
    assert "running" in state(first, "sidecar")
    assert state(first, "init")["terminated"]["exitCode"] == 0
    conditions = {entry["type"]: entry["status"] for entry in first["status"]["conditions"]}
    assert conditions == dict.fromkeys(["PodScheduled", "Initialized", "ContainersReady", "Ready"], "True")


def test_a_pod_runs_with_the_ip_that_the_test_gives(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    make(raw, pods)
    assert kubelet.run("pod", ip="10.1.2.3")["status"]["podIP"] == "10.1.2.3"


def test_a_pod_succeeds_with_all_its_containers(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    pod = kubelet.succeed(kubelet.run(make(raw, pods)))
    assert pod["status"]["phase"] == "Succeeded"
    assert [state(pod, name)["terminated"]["exitCode"] for name in ("main", "other")] == [0, 0]


def test_one_container_fails_with_code_reason_message_and_signal(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    pod = kubelet.run(make(raw, pods))
    pod = kubelet.fail(pod, 137, reason="OOMKilled", message="no memory", container="other", signal=9)
    assert pod["status"]["phase"] == "Failed"
    ended = state(pod, "other")["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"], ended["signal"]) == (137, "OOMKilled", "no memory", 9)
    assert state(pod, "main")["terminated"]["exitCode"] == 0


def test_a_failure_of_an_unknown_container_is_an_error_of_the_test(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    pod = kubelet.run(make(raw, pods))
    with pytest.raises(AssertionError, match="no container 'absent'"):
        kubelet.fail(pod, container="absent")


def test_an_evicted_pod_has_a_reason_of_its_own(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    pod = kubelet.fail(kubelet.run(make(raw, pods)), 143, pod_reason="Evicted", pod_message="low on memory")
    assert (pod["status"]["reason"], pod["status"]["message"]) == ("Evicted", "low on memory")


def test_a_lost_pod_failed_while_its_containers_were_last_seen_running(
    raw: RawClient, pods: str, kubelet: Kubelet
) -> None:
    pod = kubelet.lose(kubelet.run(make(raw, pods)))
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "NodeLost")
    assert "running" in state(pod, "main")


def test_a_pod_that_cannot_be_scheduled_has_the_reason_in_its_condition(
    raw: RawClient, pods: str, kubelet: Kubelet
) -> None:
    pod = kubelet.pending(make(raw, pods), message="0/3 nodes are available: 3 Insufficient cpu.")
    (condition,) = [entry for entry in pod["status"]["conditions"] if entry["type"] == "PodScheduled"]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert "Insufficient cpu" in condition["message"]
    assert kubelet.run(pod)["status"]["phase"] == "Running"


def test_a_deleted_pod_stays_until_its_deletion_is_finished(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    pod = kubelet.run(make(raw, pods))
    raw.delete(f"{pods}/pod")
    assert kubelet.get("pod")["metadata"]["deletionTimestamp"]
    kubelet.finish_deletion(pod)
    with pytest.raises(ApiStatusError) as refusal:
        kubelet.get("pod")
    assert refusal.value.status == 404
    kubelet.finish_deletion(pod)


def test_a_successor_of_the_same_name_is_never_touched(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    first = make(raw, pods)
    kubelet.finish_deletion(first)
    second = make(raw, pods)
    with pytest.raises(ApiStatusError) as refusal:
        kubelet.run(first)
    assert refusal.value.status == 409
    kubelet.finish_deletion(first)
    assert kubelet.get("pod")["metadata"]["uid"] == second["metadata"]["uid"]


def test_the_autopilot_runs_new_pods_and_finishes_deletions(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    make(raw, pods, "early")
    with kubelet.autopilot(runs=lambda pod: bool(pod["metadata"]["name"] != "held")):
        make(raw, pods, "late")
        make(raw, pods, "held")

        def both_run() -> None:
            phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in raw.get(pods)["items"]}
            assert phases == {"early": "Running", "late": "Running", "held": "Pending"}

        eventually(both_run)
        raw.delete(f"{pods}/late")

        def late_is_gone() -> None:
            assert "late" not in [pod["metadata"]["name"] for pod in raw.get(pods)["items"]]

        eventually(late_is_gone)


def test_an_error_in_the_autopilot_is_raised_in_the_test(raw: RawClient, pods: str, kubelet: Kubelet) -> None:
    called = threading.Event()

    def broken(pod: dict[str, Any]) -> bool:
        called.set()
        raise LookupError(pod["metadata"]["name"])

    def fly() -> None:
        with kubelet.autopilot(runs=broken):
            make(raw, pods, "broken-pod")
            assert called.wait(patience(10))

    with pytest.raises(LookupError, match="broken-pod"):
        fly()
