"""A barrier that gives up in a Pod that the kubelet restarts: it ends the Task as if the Pod had failed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from localcluster.client import Json, RawClient
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver
TEXT = "waited 600 s: 1/2 Tasks are ready"


def pod(policy: str, *, sidecar: bool) -> Json:
    barrier = {"name": "frameworkbarrier", "image": "none"} | ({"restartPolicy": "Always"} if sidecar else {})
    main = {"name": "main", "image": "none"}
    return {"spec": {"restartPolicy": policy, "initContainers": [barrier], "containers": [main]}}


def restarted(code: int) -> Json:
    """The status of a Pod whose barrier has exited with this code and waits to be started again."""
    last = {"exitCode": code, "reason": "Error", "message": TEXT}
    common = {"image": "none", "imageID": "", "ready": False, "started": False}
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    barrier = {"name": "frameworkbarrier", "restartCount": 1, "state": waits, "lastState": {"terminated": last}}
    main = {"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}
    return {
        "phase": "Pending",
        "initContainerStatuses": [common | barrier],
        "containerStatuses": [common | main],
    }


@pytest.mark.parametrize(
    ("policy", "sidecar"),
    [("Always", False), ("OnFailure", False), ("Never", True)],
    ids=["restarted always", "restarted on failure", "as a sidecar"],
)
def test_the_attempt_ends_with_its_code_and_the_next_one_runs(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, player: Player, policy: str, *, sidecar: bool
) -> None:
    worker = role("worker", 1, pod=pod(policy, sidecar=sidecar), retry={"fancyRetryPolicy": True})
    frameworks.create("fw", worker)

    def created() -> Json:
        assert frameworks.pods()
        return frameworks.pods()["fw-worker-0"]

    first = eventually(created)["metadata"]["uid"]
    player.kubelet.bind("fw-worker-0")
    path = f"/api/v1/namespaces/{frameworks.namespace}/pods/fw-worker-0"
    raw.merge(f"{path}/status", {"status": restarted(201)})

    def is_being_deleted() -> None:
        task = frameworks.tasks("fw")["worker-0"]
        completion = task["attemptStatus"]["completionStatus"]
        assert completion is not None
        assert (completion["code"], completion["phrase"]) == (201, "ContainerTransientConflictFailed")
        assert completion["diagnostics"] == (
            'Pod failed: PodPattern matched: {"containers":[{"name":"frameworkbarrier","message":"'
            + TEXT
            + '","code":201}]}'
        )
        found = frameworks.pods()["fw-worker-0"]["metadata"]
        assert (found["uid"], "deletionTimestamp" in found) == (first, True)

    eventually(is_being_deleted, timeout=20)
    with player.playing():
        status = frameworks.wait("fw", "Completed", timeout=10)
    assert status["attemptStatus"]["completionStatus"]["code"] == 0
    assert frameworks.tasks("fw")["worker-0"]["retryPolicyStatus"]["totalRetriedCount"] == 1
