"""TaskRoles that wait for others, on a real API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from localcluster.client import Json
    from testkit.frameworks import Frameworks
    from tests.support.kubelet import Kubelet

pytestmark = pytest.mark.apiserver


@pytest.mark.usefixtures("controller")
def test_a_role_begins_when_the_pods_of_the_others_are_ready_and_its_gang_has_them_all(
    frameworks: Frameworks, kubelet: Kubelet
) -> None:
    waits = [{"name": "server", "status": "Ready"}]
    frameworks.create("fw", {**role("client", 1), "dependsOn": waits}, role("server", 1))
    frameworks.created("fw-server-0")

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
    condition = frameworks.conditions("fw")["WaitingForDependency"]
    assert (condition["status"], condition["message"]) == ("True", "client waits until server is Ready")
    assert set(frameworks.pods()) == {"fw-server-0"}
    kubelet.run("fw-server-0")
    frameworks.created("fw-server-0", "fw-client-0")
    # From now on it makes no difference whether the server is Ready.
    frameworks.raw.merge(path, {"status": unready})
    kubelet.run("fw-client-0")
    found = eventually(lambda: complete(2), 60)
    assert [(one["name"], len(one["tasks"])) for one in found["taskRoles"]] == [("client", 1), ("server", 1)]
    assert found["generation"] == 2

    def said() -> None:
        texts = {event["reason"]: event["message"] for event in frameworks.events("fw")}
        assert texts["WaitingForDependency"] == "client waits until server is Ready"
        assert texts["DependenciesMet"] == "TaskRole client begins: server is Ready"

    eventually(said, 60)
    assert frameworks.conditions("fw")["WaitingForDependency"]["status"] == "False"
    roles = frameworks.status("fw")["attemptStatus"]["taskRoleStatuses"]
    assert {one["name"]: one.get("dependenciesMet") for one in roles} == {"client": True, "server": None}
