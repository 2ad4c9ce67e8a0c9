"""What a user of kubectl expects of a Framework, and rare cases of its life, on a real API server."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api.names import BARRIER_LABEL
from localcluster.client import RawClient
from testkit.frameworks import POD, apply_permissions, role
from testkit.waiting import eventually
from tests.support.refusals import refusal_of

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import Json
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.kubelet import Kubelet
    from tests.support.player import Player

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]


def conditions(status: Json) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in status["conditions"]}


def events(frameworks: Frameworks) -> list[Json]:
    found = frameworks.raw.get(f"/api/v1/namespaces/{frameworks.namespace}/events")["items"]
    return [event for event in found if event["involvedObject"]["kind"] == "Framework"]


def reasons(frameworks: Frameworks) -> set[str]:
    return {event["reason"] for event in events(frameworks)}


def test_conditions_follow_the_life_and_name_the_generation(
    controller: ControllerProcess, frameworks: Frameworks, player: Player, cluster: Cluster
) -> None:
    player.plan = {"worker-0": ["stay"]}
    frameworks.create("fw", role("worker", 1), executionType="Create")

    def suspended() -> None:
        assert conditions(frameworks.status("fw"))["Suspended"] == "True"

    eventually(suspended)
    assert frameworks.pods() == {}
    frameworks.merge("fw", executionType="Start")
    with player.playing():
        where = ("-n", frameworks.namespace, "framework/fw", "--timeout=200s")
        cluster.kubectl("wait", "--for=condition=Running", *where)
        status = frameworks.status("fw")
        assert conditions(status) == {"Complete": "False", "Failed": "False", "Running": "True", "Suspended": "False"}
        generation = frameworks.get("fw")["metadata"]["generation"]
        assert status["observedGeneration"] == generation == 2
        assert {condition["observedGeneration"] for condition in status["conditions"]} == {2}
        frameworks.merge("fw", description="another generation")

        def observed() -> None:
            assert frameworks.status("fw")["observedGeneration"] == 3

        eventually(observed)
        player.plan = {}
        cluster.kubectl("wait", "--for=condition=Complete", *where)
    assert conditions(frameworks.status("fw")) == {
        "Complete": "True",
        "Failed": "False",
        "Running": "False",
        "Suspended": "False",
    }


def test_events_report_what_a_person_cares_about(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": [1, "stay"], "worker-1": ["stay"]}
    frameworks.create("fw", role("worker", 2, retry={"fancyRetryPolicy": False, "maxRetryCount": 1}))
    with player.playing():

        def retried_and_all_there() -> None:
            assert {"AttemptStarted", "AttemptRunning", "TaskRetried", "GangReady"} <= reasons(frameworks)
            assert frameworks.status("fw")["ready"] == "2/2"

        eventually(retried_and_all_there, 30)
        spec = frameworks.get("fw")["spec"]
        spec["taskRoles"][0]["taskNumber"] = 1
        frameworks.merge("fw", taskRoles=spec["taskRoles"])

        def rescaled() -> None:
            assert "Rescaled" in reasons(frameworks)

        eventually(rescaled, 30)
        frameworks.merge("fw", executionType="Stop")
        frameworks.wait("fw", "Completed")

    def reported() -> None:
        assert "FrameworkFailed" in reasons(frameworks)

    eventually(reported)
    texts = {event["reason"]: event["message"] for event in events(frameworks)}
    assert texts["TaskRetried"].startswith("worker-0: ContainerUnrecognizedFailed (1): Pod failed: ")
    assert texts["Rescaled"] == "TaskRole worker: from 2 to 1 Tasks"
    assert "StopFrameworkRequested (-210)" in texts["FrameworkFailed"]


def test_a_gang_that_waits_names_the_missing_tasks_after_half_a_minute(
    controller: ControllerProcess, frameworks: Frameworks, kubelet: Kubelet, cluster: Cluster
) -> None:
    frameworks.create("fw", role("worker", 2, pod={"metadata": {"labels": {BARRIER_LABEL: "enabled"}}, **POD}))

    def created() -> None:
        assert len(frameworks.pods()) == 2

    eventually(created)
    kubelet.run("fw-worker-0")
    kubelet.pending("fw-worker-1", "Unschedulable", "0/5 nodes are available: 5 Insufficient cpu")

    def late() -> None:
        """The condition comes first, after ten seconds."""
        (found,) = [one for one in frameworks.status("fw")["conditions"] if one["type"] == "GangReady"] or [{}]
        assert found.get("message") == "1/2: worker-1 Unschedulable: 5 Insufficient cpu"

    eventually(late, 20)
    where = ("-n", frameworks.namespace)
    head, line = cluster.kubectl("get", "fw", *where).strip().splitlines()
    assert line[head.index("GANG") :].split()[0] == "Unschedulable"
    assert "worker-1 Unschedulable: 5 Insufficient cpu" in cluster.kubectl("get", "fw", *where, "-o", "wide")

    def reported() -> Json:
        assert "GangWaiting" in reasons(frameworks)
        return next(event for event in events(frameworks) if event["reason"] == "GangWaiting")

    event = eventually(reported, 45, 0.5)
    assert event["type"] == "Warning"
    said = re.match(
        r"1/2 Tasks are ready after (\d+) s, not worker-1: Pending: Unschedulable: 0/5 nodes", event["message"]
    )
    assert said, event["message"]
    assert int(said[1]) >= 30
    kubelet.run("fw-worker-1")
    cluster.kubectl("wait", "--for=condition=GangReady", "framework/fw", "--timeout=200s", *where)


def test_history_lines_hold_the_last_state_of_deleted_objects(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": [9, 0]}
    frameworks.create("fw", role("worker", 1, retry={"fancyRetryPolicy": False, "maxRetryCount": 1}))
    with player.playing():
        frameworks.wait("fw", "Completed")
        frameworks.raw.delete(f"{frameworks.path}/fw")

        def kept() -> dict[str, list[Json]]:
            found: dict[str, list[Json]] = {}
            for line in controller.log.splitlines():
                if match := re.search(r": (\w+): ObjectSnapshot: (.+)", line):
                    found.setdefault(match[1], []).append(json.loads(match[2]))
            assert set(found) == {"OnTaskRetry", "OnPodDeletion", "OnFrameworkDeletion"}
            return found

        history = eventually(kept)
    retried = history["OnTaskRetry"][0]
    assert (retried["kind"], retried["metadata"]["name"]) == ("Task", "fw-worker-0")
    assert retried["status"]["state"] == "AttemptCompleted"
    assert retried["status"]["attemptStatus"]["completionStatus"]["code"] == 9
    assert retried["metadata"]["uid"] == retried["status"]["instanceUID"]
    assert "FC_TASK_UID" not in retried["metadata"]["annotations"]
    assert retried["spec"]["pod"]["spec"]["containers"][0]["image"] == "none"
    ends = [pod["status"]["containerStatuses"][0]["state"] for pod in history["OnPodDeletion"]]
    assert [end["terminated"]["exitCode"] for end in ends] == [9, 0]
    assert history["OnPodDeletion"][0]["kind"] == "Pod"
    last = history["OnFrameworkDeletion"][-1]
    assert (last["kind"], last["status"]["state"]) == ("Framework", "Completed")
    assert last["spec"]["taskRoles"][0]["name"] == "worker"


def test_a_pod_that_asked_for_the_barrier_and_came_without_it_is_reported(
    controller: ControllerProcess, frameworks: Frameworks
) -> None:
    # No webhook is registered here.
    pod = POD | {"metadata": {"labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"}}}
    frameworks.create("fw", role("worker", 1, pod=pod))

    def reported() -> Json:
        assert "BarrierMissing" in reasons(frameworks)
        return next(event for event in events(frameworks) if event["reason"] == "BarrierMissing")

    event = eventually(reported, 20)
    assert event["type"] == "Warning"
    assert "Pod fw-worker-0 carries the label frameworkcontroller.microsoft.com/barrier" in event["message"]


def test_a_quota_is_waited_for(controller: ControllerProcess, frameworks: Frameworks, player: Player) -> None:
    quotas = f"/api/v1/namespaces/{frameworks.namespace}/resourcequotas"
    quota: Json = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "1"}},
    }
    frameworks.raw.create(quotas, quota)

    def counted() -> None:
        assert frameworks.raw.get(f"{quotas}/few").get("status", {}).get("hard") == {"pods": "1"}

    eventually(counted)
    player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
    frameworks.create("fw", role("worker", 2))
    with player.playing():

        def reported() -> None:
            assert any("exceeded quota" in event["message"] for event in events(frameworks))

        eventually(reported, 20)

        def one_runs() -> None:
            states = sorted(task["state"] for task in frameworks.tasks("fw").values())
            assert states == ["AttemptCreationPending", "AttemptRunning"]

        eventually(one_runs)
        frameworks.raw.delete(f"{quotas}/few")
        player.plan = {}
        frameworks.wait("fw", "Completed", 60)


def test_a_permission_that_the_controller_lacks_is_waited_for(
    controller: ControllerProcess, cluster: Cluster, frameworks: Frameworks, player: Player
) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    role_of_controller = frameworks.raw.get(f"{roles}/frameworkcontroller")
    for rule in role_of_controller["rules"]:
        if "pods" in rule["resources"]:
            rule["verbs"].remove("create")
    own = RawClient(cluster, cluster.token("frameworkcontroller-system", "frameworkcontroller"))
    try:
        frameworks.raw.replace(f"{roles}/frameworkcontroller", role_of_controller)

        def refused() -> None:
            pods = f"/api/v1/namespaces/{frameworks.namespace}/pods"
            assert "pods is forbidden: User" in refusal_of(own, pods, {"metadata": {"name": "x"}, **POD})

        eventually(refused)
        frameworks.create("fw", role("worker", 1))

        def reported() -> None:
            assert any('cannot create resource "pods"' in event["message"] for event in events(frameworks))

        eventually(reported, 20)
        assert frameworks.tasks("fw")["worker-0"]["state"] == "AttemptCreationPending"
    finally:
        apply_permissions(cluster)
    with player.playing():
        frameworks.wait("fw", "Completed", 60)
    assert frameworks.tasks("fw")["worker-0"]["retryPolicyStatus"]["totalRetriedCount"] == 0


def test_a_lost_node_is_a_failed_pod_and_phase_unknown_is_waited_for(
    controller: ControllerProcess, frameworks: Frameworks, kubelet: Kubelet
) -> None:
    frameworks.create("fw", role("worker", 2, completion={"minFailedTaskCount": 1}))

    def created() -> None:
        assert len(frameworks.pods()) == 2

    eventually(created)
    for name in ("fw-worker-0", "fw-worker-1"):
        kubelet.run(name)
    frameworks.wait("fw", "AttemptRunning")
    path = f"/api/v1/namespaces/{frameworks.namespace}/pods/fw-worker-0/status"
    frameworks.raw.merge(path, {"status": {"phase": "Unknown", "reason": "NodeLost"}})

    def seen() -> None:
        assert frameworks.pods()["fw-worker-0"]["status"]["phase"] == "Unknown"

    eventually(seen)
    assert frameworks.tasks("fw")["worker-0"]["state"] == "AttemptRunning"
    kubelet.lose("fw-worker-1")

    def over() -> Json:
        for pod in frameworks.pods().values():
            if pod["metadata"].get("deletionTimestamp"):
                kubelet.finish_deletion(pod)
        status = frameworks.status("fw")
        assert status["state"] == "Completed", status["state"]
        return status

    status = eventually(over, 30)
    completion = status["attemptStatus"]["completionStatus"]
    assert completion["phrase"] in {"PodNodeLost", "PodFailedWithoutFailedContainer"}
    assert "NodeLost" in completion["diagnostics"]
    assert completion["trigger"]["taskRoleName"] == "worker"


def test_a_framework_without_tasks_waits_and_can_be_stopped(
    controller: ControllerProcess, frameworks: Frameworks
) -> None:
    frameworks.create("fw", role("none", 0))
    frameworks.create("empty")
    frameworks.wait("fw", "AttemptPreparing")
    frameworks.wait("empty", "AttemptPreparing")
    frameworks.merge("fw", executionType="Stop")
    status = frameworks.wait("fw", "Completed")
    assert status["attemptStatus"]["completionStatus"]["code"] == -210


def test_a_pod_that_does_not_terminate_is_force_deleted_after_its_graceful_timeout(
    controller: ControllerProcess, frameworks: Frameworks, kubelet: Kubelet
) -> None:
    frameworks.create("fw", role("worker", 1, podGracefulDeletionTimeoutSec=2))

    def created() -> None:
        assert "fw-worker-0" in frameworks.pods()

    eventually(created)
    kubelet.run("fw-worker-0")
    frameworks.wait("fw", "AttemptRunning")
    frameworks.merge("fw", executionType="Stop")
    # The simulated kubelet has stopped: without force the Pod would stay for ever.
    frameworks.wait("fw", "Completed", 20)
    assert frameworks.pods() == {}


def test_a_namespace_that_terminates_takes_its_frameworks_along(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"]}
    frameworks.create("fw", role("worker", 1, retry={"fancyRetryPolicy": True, "maxRetryCount": -2}))
    with player.playing():
        frameworks.wait("fw", "AttemptRunning")
        frameworks.raw.delete(f"/api/v1/namespaces/{frameworks.namespace}")

        def gone() -> None:
            assert frameworks.raw.get(frameworks.path)["items"] == []
            assert frameworks.pods() == {}

        eventually(gone, 60)
