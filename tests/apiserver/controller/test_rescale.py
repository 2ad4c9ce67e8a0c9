"""Frameworks that are rescaled and suspended while they run, and roles that wait, on a real API server."""

import base64
import gzip
import json
from datetime import datetime

import pytest

from localcluster.client import Json
from testkit.frameworks import ControllerProcess, Frameworks, role
from testkit.waiting import eventually
from tests.support.beside.kubelet import Kubelet
from tests.support.beside.player import Player

pytestmark = pytest.mark.apiserver


def until_running(frameworks: Frameworks, *slots: str) -> dict[str, Json]:
    """Exactly these Tasks are in the status, and all run."""

    def check() -> dict[str, Json]:
        tasks = frameworks.tasks("fw")
        assert {name: task["state"] for name, task in tasks.items()} == dict.fromkeys(slots, "AttemptRunning")
        return tasks

    return eventually(check, 30)


@pytest.mark.usefixtures("controller")
def test_a_task_that_is_added_again_while_it_is_deleted_is_a_new_one_and_begins_when_the_old_one_is_gone(
    frameworks: Frameworks, player: Player
) -> None:
    player.plan = {f"worker-{index}": ["stay"] for index in range(3)}
    frameworks.create("fw", role("worker", 2))
    with player.playing():
        first, before = until_running(frameworks, "worker-0", "worker-1").values()
    # No kubelet is simulated: the Pod is being deleted and stays.
    frameworks.merge("fw", taskRoles=[role("worker", 1)])

    def goes() -> None:
        task = frameworks.tasks("fw")["worker-1"]
        assert (task["deletionPending"], task["state"]) == (True, "AttemptDeleting")
        assert task["attemptStatus"]["completionStatus"]["code"] == -230

    eventually(goes)
    frameworks.merge("fw", taskRoles=[role("worker", 3)])

    frameworks.created("fw-worker-0", "fw-worker-1", "fw-worker-2")
    still = frameworks.tasks("fw")["worker-1"]
    assert (still["instanceUID"], still["deletionPending"]) == (before["instanceUID"], True)
    assert frameworks.pods()["fw-worker-1"]["metadata"]["uid"] == before["attemptStatus"]["podUID"]
    with player.playing():
        untouched, after, _ = until_running(frameworks, "worker-0", "worker-1", "worker-2").values()
    assert untouched["attemptStatus"]["podUID"] == first["attemptStatus"]["podUID"]
    assert after["instanceUID"] != before["instanceUID"]
    assert after["attemptStatus"]["podUID"] != before["attemptStatus"]["podUID"]
    assert (after["attemptStatus"]["id"], after["retryPolicyStatus"]["totalRetriedCount"]) == (0, 0)


def test_a_status_too_large_for_one_object_is_compressed_and_the_next_controller_reads_it(
    controller: ControllerProcess, frameworks: Frameworks
) -> None:
    controller.stop()
    controller.settings["largeFrameworkCompression"] = True
    controller.start()
    name = "f" * 60
    frameworks.create(name, role("w" * 60, 1000))

    def uids() -> list[str]:
        attempt = frameworks.status(name)["attemptStatus"]
        assert attempt["taskRoleStatuses"] is None
        (packed,) = json.loads(gzip.decompress(base64.b64decode(attempt["taskRoleStatusesCompressed"])))
        found = [task["attemptStatus"]["podUID"] for task in packed["taskStatuses"]]
        assert all(found)
        assert len(found) == 1000
        return found

    before = eventually(uids, 60)
    controller.kill()
    controller.start()
    frameworks.merge(name, description="seen by the next one")

    def seen() -> None:
        assert frameworks.status(name)["observedGeneration"] == frameworks.get(name)["metadata"]["generation"]

    eventually(seen, 30)
    assert uids() == before


def test_a_framework_is_suspended_before_and_while_it_runs_and_goes_on_when_it_is_resumed(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": ["stay", "stay", 0], "worker-1": ["stay", "stay", 0]}
    frameworks.create("fw", role("worker", 2), suspend=True)

    def suspended() -> Json:
        found = frameworks.conditions("fw")["Suspended"]
        assert (found["status"], found["reason"]) == ("True", "Suspended")
        assert frameworks.pods() == {}
        return frameworks.status("fw")

    with player.playing():
        assert eventually(suspended)["attempts"] == 1
        frameworks.merge("fw", suspend=False)
        frameworks.wait("fw", "AttemptRunning")
        frameworks.merge("fw", suspend=True)
        status = eventually(suspended)
        assert (status["state"], status["attempts"]) == ("AttemptCreationPending", 2)
        counts = {"totalRetriedCount": 1, "accountableRetriedCount": 0, "retryDelaySec": None}
        assert status["retryPolicyStatus"] == counts
        assert status["suspendedSince"]
        # Numbers may change meanwhile; and it is resumed, and suspended again while it runs, with nobody there.
        frameworks.merge("fw", taskRoles=[role("worker", 1)])
        frameworks.merge("fw", suspend=False)
        frameworks.wait("fw", "AttemptRunning")
        controller.kill()
        frameworks.merge("fw", suspend=True)
        controller.start()
        assert eventually(suspended)["attempts"] == 3
        controller.kill()
        frameworks.merge("fw", suspend=False)
        controller.start()
        status = frameworks.wait("fw", "Completed")
    assert status["attemptStatus"]["completionStatus"]["code"] == 0
    assert status["retryPolicyStatus"]["accountableRetriedCount"] == 0
    assert "suspendedSince" not in status
    assert isinstance(status["suspendedSec"], int)
    spent = status["ledger"]["total"]
    assert "state" not in status["ledger"]
    assert spent.keys() >= {"queued", "scheduling", "running", "ending"}
    assert spent.pop("lost") is None, "two attempts were ended while they ran"
    begun, over = (datetime.fromisoformat(status[name]) for name in ("startTime", "completionTime"))
    assert abs(sum(spent.values()) - (over - begun).total_seconds()) < 2

    def said() -> None:
        reasons = {event["reason"] for event in frameworks.events("fw")}
        assert reasons >= {"FrameworkSuspended", "FrameworkResumed"}
        assert "AttemptRetried" not in reasons

    eventually(said)


@pytest.mark.usefixtures("controller")
def test_a_role_begins_when_the_pods_of_the_others_are_ready_and_its_gang_has_them_all(
    frameworks: Frameworks, kubelet: Kubelet
) -> None:
    """What people are told of it is tested in `core/test_dependencies`."""
    waits = [{"name": "server", "status": "Ready"}]
    frameworks.create("fw", {**role("client", 1), "dependsOn": waits}, role("server", 1))
    frameworks.created("fw-server-0")

    def roster(total: int, *, complete: bool) -> Json:
        found: Json = json.loads(frameworks.config_map("fw")["data"]["roster"])
        assert (found["complete"], found["total"]) == (complete, total)
        return found

    roster(1, complete=False)
    kubelet.bind("fw-server-0")
    path = f"{frameworks.pods_path}/fw-server-0/status"
    unready = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": None}]}
    address = {"podIP": "10.9.0.1", "podIPs": [{"ip": "10.9.0.1"}]}
    frameworks.raw.merge(path, {"status": {"phase": "Running", **address, **unready}})
    found = eventually(lambda: roster(1, complete=True), 60)
    assert [(one["name"], len(one["tasks"])) for one in found["taskRoles"]] == [("client", 0), ("server", 1)]
    assert frameworks.conditions("fw")["WaitingForDependency"]["status"] == "True"
    assert set(frameworks.pods()) == {"fw-server-0"}
    kubelet.run("fw-server-0")
    frameworks.created("fw-server-0", "fw-client-0")
    # From now on it makes no difference whether the server is Ready.
    frameworks.raw.merge(path, {"status": unready})
    kubelet.run("fw-client-0")
    found = eventually(lambda: roster(2, complete=True), 60)
    assert [(one["name"], len(one["tasks"])) for one in found["taskRoles"]] == [("client", 1), ("server", 1)]
    assert found["generation"] == 2

    def is_over() -> None:
        assert frameworks.conditions("fw")["WaitingForDependency"]["status"] == "False"

    eventually(is_over)
    roles = frameworks.status("fw")["attemptStatus"]["taskRoleStatuses"]
    assert {one["name"]: one.get("dependenciesMet") for one in roles} == {"client": True, "server": None}
