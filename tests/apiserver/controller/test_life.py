"""The life of a Framework on a real API server, under the controller's own ClusterRole."""

import json

import pytest

from localcluster.client import ApiStatusError, Json
from testkit.frameworks import POD, ControllerProcess, Frameworks, role
from testkit.waiting import eventually
from tests.support.beside.player import Player

pytestmark = pytest.mark.apiserver


def code_of(status: Json) -> int:
    return int(status["attemptStatus"]["completionStatus"]["code"])


def test_frameworks_come_to_their_ends_and_are_kept_with_their_pods_as_they_say(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"fails-0": ["stay"], "fails-1": [210], "again-0": [1, 0]}
    keeps: Json = {"completion": {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}}
    retry = {"fancyRetryPolicy": False, "maxRetryCount": 1}
    frameworks.create("fw", role("ps", 1), role("worker", 2))
    frameworks.create("now", role("worker", 1), ttlSecondsAfterFinished=0)
    frameworks.create("failed", role("fails", 2, **keeps), retainPods="OnFailure")
    frameworks.create("retried", role("again", 1, **keeps), retainPods="OnFailure", retryPolicy=retry)

    def are_there(*names: str) -> None:
        assert {one["metadata"]["name"] for one in frameworks.raw.get(frameworks.path)["items"]} == set(names)

    with player.playing():
        found = {name: frameworks.wait(name, "Completed", 60) for name in ("fw", "failed", "retried")}
        eventually(lambda: are_there(*found), 30)
        with pytest.raises(ApiStatusError, match="HTTP 404"):
            frameworks.config_map("fw")
        frameworks.merge("fw", ttlSecondsAfterFinished=1)
        eventually(lambda: are_there("failed", "retried"), 30)
    status = found["fw"]
    end = status["attemptStatus"]["completionStatus"]
    assert (end["code"], end["phrase"], end["type"]["name"]) == (0, "Succeeded", "Succeeded")
    assert end["trigger"]["message"].startswith("CompletedTaskCount 3 has reached TotalTaskCount 3")
    assert status["runTime"]
    assert status["completionTime"]
    roles = status["attemptStatus"]["taskRoleStatuses"]
    assert {task["state"] for one in roles for task in one["taskStatuses"]} == {"Completed"}

    # What has failed stays until its Framework is deleted; a retry of all takes the names of what has stayed.
    assert code_of(found["failed"]) == 210
    assert (found["retried"]["attemptStatus"]["id"], code_of(found["retried"])) == (1, 0)
    (kept,) = frameworks.pods().values()
    assert (kept["metadata"]["name"], kept["status"]["phase"]) == ("failed-fails-1", "Failed")
    assert kept["metadata"]["labels"]["frameworkcontroller.microsoft.com/retained"] == "true"
    (owner,) = kept["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Framework", frameworks.get("failed")["metadata"]["uid"])
    frameworks.raw.delete(f"{frameworks.path}/failed?propagationPolicy=Foreground")
    frameworks.created()


def test_a_pod_and_its_config_map_have_the_uids_that_the_server_gave(
    controller: ControllerProcess, frameworks: Frameworks
) -> None:
    """All else that a Pod has of its template and its Task is tested in `core/test_template`."""
    container = {"name": "main", "image": "none", "args": ["{{FC_POD_NAME}}"]}
    frameworks.create("fw", role("worker", 2, pod={"spec": POD["spec"] | {"containers": [container]}}))
    made = frameworks.created("fw-worker-0", "fw-worker-1")["fw-worker-1"]
    config_map, meta = frameworks.config_map("fw")["metadata"], made["metadata"]
    assert meta["labels"] == {"FC_FRAMEWORK_NAME": "fw", "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "1"}
    assert meta["annotations"]["FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"] == f"0_{config_map['uid']}"
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ConfigMap", config_map["uid"], True)
    assert config_map["ownerReferences"][0]["uid"] == frameworks.get("fw")["metadata"]["uid"]
    assert config_map["finalizers"] == ["foregroundDeletion"]
    (main,) = made["spec"]["containers"]
    assert (main["args"], main["terminationMessagePolicy"]) == (["fw-worker-1"], "FallbackToLogsOnError")
    values = {entry["name"]: entry.get("value") for entry in main["env"]}
    assert values["FC_TASK_ATTEMPT_INSTANCE_UID"] == "0_$(FC_POD_UID)"
    (worker,) = frameworks.status("fw")["attemptStatus"]["taskRoleStatuses"]
    assert values["FC_TASKROLE_UID"] == worker["instanceUID"]


def test_a_foreign_pod_blocks_its_task_untouched_and_one_that_loses_its_label_goes_before_its_attempt_is_over(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    foreign = frameworks.raw.create(frameworks.pods_path, {"metadata": {"name": "blocked-worker-0"}, **POD})
    frameworks.create("blocked", role("worker", 1))
    frameworks.create("fw", role("worker", 1, retry={"fancyRetryPolicy": True, "maxRetryCount": 0}))
    path = f"{frameworks.pods_path}/fw-worker-0"
    first = frameworks.created("blocked-worker-0", "fw-worker-0")["fw-worker-0"]
    player.kubelet.run("fw-worker-0")
    frameworks.wait("fw", "AttemptRunning")
    frameworks.raw.merge(path, {"metadata": {"labels": {"FC_FRAMEWORK_NAME": None}}})

    def goes() -> Json:
        pod = frameworks.raw.get(path)
        assert pod["metadata"].get("deletionTimestamp")
        assert "the name is in use" in controller.log
        return pod

    pod = eventually(goes, 30)
    task = frameworks.tasks("fw")["worker-0"]
    assert (task["state"], task["attemptStatus"]["id"]) == ("AttemptRunning", 0)
    assert "has lost its label" in task["attemptStatus"]["completionStatus"]["diagnostics"]
    player.kubelet.finish_deletion(pod)

    def is_retried() -> None:
        assert frameworks.tasks("fw")["worker-0"]["attemptStatus"]["id"] == 1
        assert frameworks.pods()["fw-worker-0"]["metadata"]["uid"] != first["metadata"]["uid"]

    eventually(is_retried, 30)
    assert frameworks.pods()["blocked-worker-0"]["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert frameworks.tasks("blocked")["worker-0"]["state"] == "AttemptCreationPending"
    player.kubelet.finish_deletion(foreign)
    with player.playing():
        frameworks.wait("blocked", "Completed", 45)


def test_an_attempt_ends_with_its_config_map_and_with_a_template_that_the_server_refuses(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    pod: Json = {"spec": {"containers": [{"name": "NOT A NAME", "image": "none"}]}}
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 3}
    player.plan = {"worker-0": ["stay"]}
    frameworks.create("deleted", role("worker", 1))
    frameworks.create("refused", role("bad", 1, pod=pod, retry=retry))
    with player.playing():
        frameworks.wait("deleted", "AttemptRunning")
        frameworks.raw.delete(f"/api/v1/namespaces/{frameworks.namespace}/configmaps/deleted-attempt")
        ends = {
            name: frameworks.wait(name, "Completed")["attemptStatus"]["completionStatus"]
            for name in ("deleted", "refused")
        }
    phrases = {name: (end["code"], end["phrase"]) for name, end in ends.items()}
    assert phrases == {"deleted": (-100, "ConfigMapExternalDeleted"), "refused": (-200, "PodCreationPermanentError")}
    # Its Pod goes with the ConfigMap, and may be seen to be gone first.
    assert code_of(frameworks.tasks("deleted")["worker-0"]) in {-220, -101}
    prefix = "Failed to create Pod: "
    assert ends["refused"]["diagnostics"].startswith(
        prefix + '{"ErrStatus":{"metadata":{},"status":"Failure","message":"Pod \\"refused-bad-0\\" is invalid: '
    )
    refusal = json.loads(ends["refused"]["diagnostics"].removeprefix(prefix))["ErrStatus"]
    assert (refusal["reason"], refusal["code"]) == ("Invalid", 422)
    assert refusal["details"]["causes"][0]["field"] == "spec.containers[0].name"
