"""The life of a Framework on a real API server, under the controller's own ClusterRole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from localcluster.client import ApiStatusError, RawClient
from testkit.frameworks import POD, role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from localcluster.client import Json
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.kubelet import Kubelet
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver


def test_a_framework_runs_to_its_end(controller: ControllerProcess, frameworks: Frameworks, player: Player) -> None:
    frameworks.create("fw", role("ps", 1), role("worker", 2))
    with player.playing():
        status = frameworks.wait("fw", "Completed")
    completion = status["attemptStatus"]["completionStatus"]
    assert (completion["code"], completion["phrase"], completion["type"]["name"]) == (0, "Succeeded", "Succeeded")
    assert completion["trigger"]["message"].startswith("CompletedTaskCount 3 has reached TotalTaskCount 3")
    assert status["runTime"]
    assert status["completionTime"]
    assert {task["state"] for task in frameworks.tasks("fw").values()} == {"Completed"}
    assert frameworks.pods() == {}
    with pytest.raises(ApiStatusError, match="404"):
        frameworks.config_map("fw")


def test_a_pod_is_what_its_template_says_with_names_labels_annotations_and_environment(
    controller: ControllerProcess, frameworks: Frameworks
) -> None:
    pod: Json = {
        "metadata": {"labels": {"mine": "x-{{FC_TASK_INDEX}}"}, "annotations": {"other": "{{KEEP}}"}},
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "first", "image": "none"}],
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "args": [
                        "{{FC_FRAMEWORK_NAMESPACE}}/{{FC_FRAMEWORK_NAME}}/{{FC_TASKROLE_NAME}}",
                        "{{FC_POD_NAME}}",
                    ],
                    "env": [{"name": "MINE", "value": "$(FC_TASK_INDEX)"}],
                }
            ],
        },
    }
    frameworks.create("fw", role("worker", 2, pod=pod))

    def created() -> Json:
        pods = frameworks.pods()
        assert set(pods) == {"fw-worker-0", "fw-worker-1"}
        return pods["fw-worker-1"]

    made = eventually(created)
    status = frameworks.status("fw")
    meta = made["metadata"]
    config_map = frameworks.config_map("fw")["metadata"]
    assert meta["labels"] == {
        "mine": "x-1",
        "FC_FRAMEWORK_NAME": "fw",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "1",
    }
    assert meta["annotations"]["other"] == "{{KEEP}}"
    assert meta["annotations"]["FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"] == f"0_{config_map['uid']}"
    owner = meta["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ConfigMap", config_map["uid"], True)
    assert config_map["ownerReferences"][0]["uid"] == frameworks.get("fw")["metadata"]["uid"]
    assert config_map["finalizers"] == ["foregroundDeletion"]
    main, first = made["spec"]["containers"][0], made["spec"]["initContainers"][0]
    assert main["args"] == [f"{meta['namespace']}/fw/worker", "fw-worker-1"]
    names = [entry["name"] for entry in main["env"]]
    assert names[-1] == "MINE"
    assert names[:-1] == [entry["name"] for entry in first["env"]]
    assert names[-3:-1] == ["FC_POD_UID", "FC_TASK_ATTEMPT_INSTANCE_UID"]
    values = {entry["name"]: entry.get("value") for entry in main["env"]}
    assert values["FC_TASK_ATTEMPT_INSTANCE_UID"] == "0_$(FC_POD_UID)"
    assert values["FC_TASKROLE_UID"] == status["attemptStatus"]["taskRoleStatuses"][0]["instanceUID"]
    assert main["terminationMessagePolicy"] == first["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_a_failed_task_is_retried_as_its_policy_says(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": [3, 4, 0]}
    frameworks.create("fw", role("worker", 1, retry={"fancyRetryPolicy": False, "maxRetryCount": 2}))
    with player.playing():
        frameworks.wait("fw", "Completed")
    task = frameworks.tasks("fw")["worker-0"]
    assert task["retryPolicyStatus"] == {"totalRetriedCount": 2, "accountableRetriedCount": 2, "retryDelaySec": None}
    assert task["attemptStatus"]["id"] == 2
    assert task["attemptStatus"]["completionStatus"]["code"] == 0


def test_a_task_that_ends_at_once_five_times_pauses_until_its_template_changes(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": [1, 1, 1, 1, 1, "stay"]}
    worker = role("worker", 1, retry={"fancyRetryPolicy": False, "maxRetryCount": -2})
    frameworks.create("fw", worker)

    def crash_loop() -> Json:
        (found,) = [one for one in frameworks.status("fw")["conditions"] if one["type"] == "CrashLoop"] or [{}]
        return found

    def pauses() -> None:
        task = frameworks.tasks("fw")["worker-0"]
        assert (task["attemptStatus"]["id"], task["state"]) == (5, "AttemptCreationPending")
        assert (crash_loop().get("status"), crash_loop().get("reason")) == ("True", "TasksPaused")

    def goes_on() -> None:
        task = frameworks.tasks("fw")["worker-0"]
        assert (task["attemptStatus"]["id"], task["state"]) == (5, "AttemptRunning")
        assert (crash_loop().get("status"), crash_loop().get("reason")) == ("False", "NoTaskPaused")

    with player.playing():
        eventually(pauses, 30)
        assert crash_loop()["message"].startswith("worker-0 ended within 10 s of their start five times in a row")
        assert frameworks.tasks("fw")["worker-0"]["retryPolicyStatus"]["retryDelaySec"] is None
        worker["task"]["pod"] = {**POD, "metadata": {"annotations": {"corrected": "yes"}}}
        frameworks.merge("fw", taskRoles=[worker])
        # The pause is of 10 s, and has begun at the end of the Pod.
        eventually(goes_on, 6)
    assert frameworks.pods()["fw-worker-0"]["metadata"]["annotations"]["corrected"] == "yes"


def test_a_framework_is_retried_as_a_whole_with_everything_new(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
    frameworks.create("fw", role("worker", 2), retryPolicy={"fancyRetryPolicy": False, "maxRetryCount": 1})
    with player.playing():
        frameworks.wait("fw", "AttemptRunning")
        first = frameworks.config_map("fw")["metadata"]["uid"]
        player.plan = {"worker-1": [5, "stay"], "worker-0": ["stay"]}

        def second_attempt_runs() -> Json:
            status = frameworks.status("fw")
            assert (status["attemptStatus"]["id"], status["state"]) == (1, "AttemptRunning")
            return status

        status = eventually(second_attempt_runs, 30)
        assert status["attemptStatus"]["configMapUID"] != first
        assert status["retryPolicyStatus"]["accountableRetriedCount"] == 1
        frameworks.merge("fw", executionType="Stop")
        status = frameworks.wait("fw", "Completed")
    assert status["attemptStatus"]["completionStatus"]["code"] == -210


def test_a_pod_deleted_by_others_is_a_transient_failure(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"]}
    frameworks.create("fw", role("worker", 1, retry={"fancyRetryPolicy": True, "maxRetryCount": 0}))
    with player.playing():
        frameworks.wait("fw", "AttemptRunning")
        first = frameworks.pods()["fw-worker-0"]["metadata"]["uid"]
        frameworks.raw.delete(f"/api/v1/namespaces/{frameworks.namespace}/pods/fw-worker-0")

        def runs_again() -> None:
            task = frameworks.tasks("fw")["worker-0"]
            assert task["attemptStatus"]["id"] == 1
            assert task["state"] == "AttemptRunning"

        eventually(runs_again, 30)
        task = frameworks.tasks("fw")["worker-0"]
        assert task["attemptStatus"]["podUID"] != first
        assert task["retryPolicyStatus"]["totalRetriedCount"] == 1
        assert task["retryPolicyStatus"]["accountableRetriedCount"] == 0
        player.plan = {}
        frameworks.wait("fw", "Completed")


def test_a_config_map_deleted_by_others_ends_the_attempt(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"]}
    frameworks.create("fw", role("worker", 1))
    with player.playing():
        frameworks.wait("fw", "AttemptRunning")
        frameworks.raw.delete(f"/api/v1/namespaces/{frameworks.namespace}/configmaps/fw-attempt")
        status = frameworks.wait("fw", "Completed")
    completion = status["attemptStatus"]["completionStatus"]
    assert (completion["code"], completion["phrase"]) == (-100, "ConfigMapExternalDeleted")
    assert frameworks.tasks("fw")["worker-0"]["attemptStatus"]["completionStatus"]["code"] == -220


def test_the_roster_is_complete_when_every_task_has_an_address(
    controller: ControllerProcess, frameworks: Frameworks, kubelet: Kubelet
) -> None:
    labels = {"frameworkcontroller.microsoft.com/barrier": "enabled"}
    frameworks.create("fw", role("worker", 2, pod=POD | {"metadata": {"labels": labels}}))

    def roster() -> Json:
        found = json.loads(frameworks.config_map("fw")["data"]["roster"])
        assert isinstance(found, dict)
        return found

    def both() -> None:
        assert len(frameworks.pods()) == 2

    eventually(both)
    first = roster()
    assert (first["complete"], first["total"], first["ready"]) == (False, 2, 0)
    kubelet.run("fw-worker-0", ip="10.9.0.1")
    kubelet.pending("fw-worker-1", "Unschedulable", "0/3 nodes are available")

    def says_who_is_missing() -> None:
        found = roster()
        assert (found["ready"], found["complete"]) == (1, False)
        assert found["waitingFor"] == [{"task": "worker-1", "why": "Pending: Unschedulable: 0/3 nodes are available"}]

    eventually(says_who_is_missing, 15)
    kubelet.run("fw-worker-1", ip="10.9.0.2")

    def is_complete() -> Json:
        found = roster()
        assert found["complete"]
        return found

    found = eventually(is_complete, 10)
    uids = {name: pod["metadata"]["uid"][:8] for name, pod in frameworks.pods().items()}
    assert found["generation"] == 1
    assert found["waitingFor"] == []
    assert found["taskRoles"] == [
        {
            "name": "worker",
            "tasks": [
                [0, "10.9.0.1", uids["fw-worker-0"], 0, "played-node", "192.0.2.1"],
                [1, "10.9.0.2", uids["fw-worker-1"], 0, "played-node", "192.0.2.1"],
            ],
        }
    ]


def test_a_pods_service_account_may_read_the_roster_and_nothing_else_and_only_during_the_attempt(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    waiting: Json = {"metadata": {"labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"}}, **POD}
    frameworks.create("fw", role("worker", 1, pod=waiting))
    frameworks.create("another", role("worker", 1))
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{frameworks.namespace}"

    def granted() -> None:
        bindings = frameworks.raw.get(f"{rbac}/rolebindings")["items"]
        assert [binding["subjects"][0]["name"] for binding in bindings] == ["default"]
        assert len(frameworks.pods()) == 2

    eventually(granted)
    as_pod = RawClient(controller.cluster, controller.cluster.token(frameworks.namespace, "default"))
    here = f"/api/v1/namespaces/{frameworks.namespace}"

    def may_read() -> None:
        try:
            assert as_pod.get(f"{here}/configmaps/fw-attempt")["data"]["roster"]
        except ApiStatusError as refusal:
            # The API server knows a new Role only when its watch has brought it.
            raise AssertionError(refusal) from refusal

    eventually(may_read)
    for forbidden in (f"{here}/configmaps", f"{here}/configmaps/kube-root-ca.crt", f"{here}/pods", frameworks.path):
        with pytest.raises(ApiStatusError, match="403"):
            as_pod.get(forbidden)
    as_pod.close()
    with player.playing():
        frameworks.wait("fw", "Completed")

    def gone() -> None:
        for plural in ("roles", "rolebindings"):
            assert frameworks.raw.get(f"{rbac}/{plural}")["items"] == []

    eventually(gone, 30)


def test_a_foreign_pod_of_that_name_blocks_the_task_and_is_never_touched(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    pods = f"/api/v1/namespaces/{frameworks.namespace}/pods"
    foreign = frameworks.raw.create(
        pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fw-worker-0"}, **POD}
    )
    frameworks.create("fw", role("worker", 1))

    def says_so() -> None:
        assert "the name is in use" in controller.log

    eventually(says_so, 15)
    assert frameworks.pods()["fw-worker-0"]["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert frameworks.tasks("fw")["worker-0"]["state"] == "AttemptCreationPending"
    player.kubelet.finish_deletion(foreign)
    with player.playing():
        frameworks.wait("fw", "Completed", 45)


def test_a_pod_that_loses_its_label_is_deleted_before_its_task_attempt_is_over(
    controller: ControllerProcess, frameworks: Frameworks, kubelet: Kubelet
) -> None:
    frameworks.create("fw", role("worker", 1, retry={"fancyRetryPolicy": True, "maxRetryCount": 0}))
    path = f"/api/v1/namespaces/{frameworks.namespace}/pods/fw-worker-0"

    def created() -> Json:
        pods = frameworks.pods()
        assert "fw-worker-0" in pods
        return pods["fw-worker-0"]

    first = eventually(created, 30)
    kubelet.run("fw-worker-0")
    frameworks.wait("fw", "AttemptRunning")
    frameworks.raw.merge(path, {"metadata": {"labels": {"FC_FRAMEWORK_NAME": None}}})

    def goes() -> Json:
        pod = frameworks.raw.get(path)
        assert pod["metadata"].get("deletionTimestamp")
        return pod

    pod = eventually(goes, 30)
    task = frameworks.tasks("fw")["worker-0"]
    assert (task["state"], task["attemptStatus"]["id"]) == ("AttemptRunning", 0)
    assert "has lost its label" in task["attemptStatus"]["completionStatus"]["diagnostics"]
    kubelet.finish_deletion(pod)

    def is_retried() -> None:
        assert frameworks.tasks("fw")["worker-0"]["attemptStatus"]["id"] == 1
        assert created()["metadata"]["uid"] != first["metadata"]["uid"]

    eventually(is_retried, 30)


def test_a_template_that_the_server_refuses_ends_the_task(
    controller: ControllerProcess, frameworks: Frameworks
) -> None:
    pod: Json = {"spec": {"containers": [{"name": "NOT A NAME", "image": "none"}]}}
    frameworks.create("fw", role("worker", 1, pod=pod, retry={"fancyRetryPolicy": True, "maxRetryCount": 3}))
    status = frameworks.wait("fw", "Completed")
    completion = status["attemptStatus"]["completionStatus"]
    assert (completion["code"], completion["phrase"]) == (-200, "PodCreationPermanentError")
    prefix = "Failed to create Pod: "
    assert completion["diagnostics"].startswith(
        prefix + '{"ErrStatus":{"metadata":{},"status":"Failure","message":"Pod \\"fw-worker-0\\" is invalid: '
    )
    refusal = json.loads(completion["diagnostics"].removeprefix(prefix))["ErrStatus"]
    assert list(refusal) == ["metadata", "status", "message", "reason", "details", "code"]
    assert (refusal["reason"], refusal["code"]) == ("Invalid", 422)
    assert list(refusal["details"]) == ["name", "kind", "causes"]
    assert [list(cause) for cause in refusal["details"]["causes"]] == [["reason", "message", "field"]]
    assert refusal["details"]["causes"][0]["field"] == "spec.containers[0].name"
