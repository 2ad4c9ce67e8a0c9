"""The life of a Framework on a real API server, under the controller's own ClusterRole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from localcluster.client import ApiStatusError
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
    made = frameworks.created("fw-worker-0", "fw-worker-1")["fw-worker-1"]
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
    first = frameworks.created("fw-worker-0")["fw-worker-0"]
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
        assert frameworks.pods()["fw-worker-0"]["metadata"]["uid"] != first["metadata"]["uid"]

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
