"""TaskRoles that wait for others, on a real API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import POD, role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from localcluster.client import Json
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.kubelet import Kubelet
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver


def waiting(name: str, number: int, status: str, *others: str, pod: Json = POD) -> Json:
    return {**role(name, number, pod=pod), "dependsOn": [{"name": other, "status": status} for other in others]}


def waits(frameworks: Frameworks, name: str) -> Json:
    """The condition WaitingForDependency."""
    found = {one["type"]: one for one in frameworks.status(name)["conditions"]}
    condition = found["WaitingForDependency"]
    assert isinstance(condition, dict)
    return condition


def has_pods(frameworks: Frameworks, *names: str) -> None:
    assert set(frameworks.pods()) == set(names)


def begun(frameworks: Frameworks, name: str) -> dict[str, bool | None]:
    roles = frameworks.status(name)["attemptStatus"]["taskRoleStatuses"]
    return {one["name"]: one.get("dependenciesMet") for one in roles}


def test_a_role_begins_when_the_others_are_complete(
    controller: ControllerProcess, frameworks: Frameworks, player: Player, kubelet: Kubelet
) -> None:
    frameworks.create("fw", role("map", 2), waiting("reduce", 1, "Complete", "map"))
    eventually(lambda: has_pods(frameworks, "fw-map-0", "fw-map-1"))
    condition = waits(frameworks, "fw")
    assert (condition["status"], condition["reason"]) == ("True", "TaskRolesWait")
    assert condition["message"] == "reduce waits until map is Complete"
    assert begun(frameworks, "fw") == {"map": None, "reduce": False}
    kubelet.run("fw-map-0")
    kubelet.succeed("fw-map-0")

    def first_is_over() -> None:
        assert frameworks.tasks("fw")["map-0"]["state"] == "Completed"

    eventually(first_is_over, 30)
    has_pods(frameworks, "fw-map-1")
    with player.playing():
        status = frameworks.wait("fw", "Completed")
    assert status["attemptStatus"]["completionStatus"]["code"] == 0
    tasks = frameworks.tasks("fw")
    assert tasks["reduce-0"]["runTime"] >= tasks["map-1"]["completionTime"]
    assert begun(frameworks, "fw") == {"map": None, "reduce": True}
    assert waits(frameworks, "fw")["status"] == "False"


def test_a_role_begins_when_the_pods_of_the_others_are_ready_and_its_gang_has_them_all(
    controller: ControllerProcess, frameworks: Frameworks, kubelet: Kubelet
) -> None:
    frameworks.create("fw", waiting("client", 1, "Ready", "server"), role("server", 1))
    eventually(lambda: has_pods(frameworks, "fw-server-0"))

    def roster() -> Json:
        found = json.loads(frameworks.config_map("fw")["data"]["roster"])
        assert isinstance(found, dict)
        return found

    def complete(total: int) -> Json:
        found = roster()
        assert (found["complete"], found["total"]) == (True, total)
        return found

    assert roster()["total"] == 1
    kubelet.bind("fw-server-0")
    path = f"/api/v1/namespaces/{frameworks.namespace}/pods/fw-server-0/status"
    unready = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": None}]}
    address = {"podIP": "10.9.0.1", "podIPs": [{"ip": "10.9.0.1"}]}
    frameworks.raw.merge(path, {"status": {"phase": "Running", **address, **unready}})
    found = eventually(lambda: complete(1), 60)
    assert [(one["name"], len(one["tasks"])) for one in found["taskRoles"]] == [("client", 0), ("server", 1)]
    has_pods(frameworks, "fw-server-0")
    kubelet.run("fw-server-0")
    eventually(lambda: has_pods(frameworks, "fw-server-0", "fw-client-0"), 60)
    # From now on it makes no difference whether the server is Ready.
    frameworks.raw.merge(path, {"status": unready})
    kubelet.run("fw-client-0")
    found = eventually(lambda: complete(2), 60)
    assert [(one["name"], len(one["tasks"])) for one in found["taskRoles"]] == [("client", 1), ("server", 1)]
    assert found["generation"] == 2

    def said() -> None:
        path = f"/api/v1/namespaces/{frameworks.namespace}/events"
        texts = {one["reason"]: one["message"] for one in frameworks.raw.get(path)["items"]}
        assert texts["WaitingForDependency"] == "client waits until server is Ready"
        assert texts["DependenciesMet"] == "TaskRole client begins: server is Ready"

    eventually(said, 60)


def test_what_has_begun_goes_on_after_a_crash_of_the_controller(
    controller: ControllerProcess, frameworks: Frameworks, kubelet: Kubelet
) -> None:
    frameworks.create("fw", role("server", 1), waiting("client", 1, "Ready", "server"))

    def is_recorded() -> None:
        assert frameworks.tasks("fw")["server-0"]["attemptStatus"]["podUID"]

    eventually(is_recorded, 30)
    controller.kill()
    kubelet.run("fw-server-0")
    controller.start()
    eventually(lambda: has_pods(frameworks, "fw-server-0", "fw-client-0"), 60)
    assert begun(frameworks, "fw") == {"server": None, "client": True}


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ("serverr", "spec.taskRoles[client].dependsOn[serverr]: there is no such TaskRole, only client, server"),
        ("client", "spec.taskRoles[client].dependsOn: waits for itself: client -> client; remove one of them"),
    ],
    ids=["unknown", "circle"],
)
def test_a_role_that_can_never_begin_fails_with_the_path_of_its_field(
    controller: ControllerProcess, frameworks: Frameworks, player: Player, other: str, text: str
) -> None:
    frameworks.create("fw", role("server", 1), waiting("client", 1, "Ready", other))
    with player.playing():
        completion = frameworks.wait("fw", "Completed")["attemptStatus"]["completionStatus"]
    assert completion["code"] == -200
    assert completion["diagnostics"] == f"Failed to create Pod: {text}"
