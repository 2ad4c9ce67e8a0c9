"""The definition or the permissions of a cluster are not what the controller needs, or once were otherwise."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api import definition, names
from frameworkcontroller.api.spec import MAX_ROLES
from localcluster.client import ApiStatusError, RawClient
from localcluster.ports import free_port
from testkit.frameworks import POD, ControllerProcess, apply_definition, apply_permissions, framework, role
from testkit.waiting import eventually
from tests.apiserver.conftest import ends_cleanly
from tests.support.http import fetch
from tests.support.refusals import refusal_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import Json
    from testkit.frameworks import Frameworks
    from tests.support.player import Player

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]


@contextlib.contextmanager
def another_definition(raw: RawClient, changed: Json) -> Iterator[None]:
    """Let the cluster have another definition of Frameworks for a while."""
    raw.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.CRD_NAME}", changed)
    try:
        yield
    finally:
        apply_definition(raw)


def test_a_definition_without_the_status_subresource_is_named_and_waited_for(
    cluster: Cluster, raw: RawClient, frameworks: Frameworks, player: Player, tmp_path: Path
) -> None:
    """Microsoft's controller installs such a definition; it accepts no status."""
    without = definition.crd()
    del without["spec"]["versions"][0]["subresources"]

    def is_taken_away() -> None:
        served = raw.get(f"/apis/{names.API_VERSION}")["resources"]
        assert "frameworks/status" not in {found["name"] for found in served}

    def is_said() -> None:
        assert "has no status subresource" in controller.log

    port, settings = free_port(), {"namespaces": [frameworks.namespace]}
    controller = ControllerProcess(cluster, tmp_path, settings, health_port=port)
    with ends_cleanly(controller):
        with another_definition(raw, without):
            eventually(is_taken_away)
            controller.start(works=False)
            eventually(is_said)
            assert fetch(port, "/readyz")[0] == 503
        frameworks.create("fw", role("worker", 1))
        with player.playing():
            frameworks.wait("fw", "Completed")


TOO_MANY: dict[str, tuple[list[Json], str, str]] = {
    "TooManyTasks": (
        [role("ps", 10_000), role("worker", 10_000)],
        "the sum of taskRoles",
        "spec.taskRoles asks for 20000 Tasks in all",
    ),
    "TooManyTaskRoles": (
        [role(f"r{number}", 1) for number in range(MAX_ROLES + 1)],
        "taskRoles must have at most 1000 items",
        "spec.taskRoles has 1001 TaskRoles, and a Framework may have 1000",
    ),
}


@pytest.mark.parametrize("reason", TOO_MANY)
def test_what_is_too_large_waits_with_an_event_and_a_condition_while_others_run_and_starts_when_it_asks_for_fewer(
    raw: RawClient, frameworks: Frameworks, player: Player, request: pytest.FixtureRequest, reason: str
) -> None:
    """It was stored before the definition refused it."""
    roles, refusal, text = TOO_MANY[reason]
    manifest = framework(frameworks.namespace, "large", *roles)
    earlier = definition.crd()
    rules = earlier["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    rules["x-kubernetes-validations"] = rules["x-kubernetes-validations"][:1]

    def is_stored() -> None:
        try:
            raw.create(frameworks.path, manifest)
        except ApiStatusError as error:
            raise AssertionError(error) from error

    def is_refused() -> None:
        assert refusal in refusal_of(raw, frameworks.path, manifest | {"metadata": {"name": "again"}})

    with another_definition(raw, earlier):
        eventually(is_stored)
    eventually(is_refused)
    request.getfixturevalue("controller")

    def is_said() -> None:
        found = frameworks.conditions("large")["Suspended"]
        assert (found["status"], found["reason"]) == ("True", reason)
        assert text in found["message"]
        assert reason in {event["reason"] for event in frameworks.events("large")}

    eventually(is_said)
    if reason == "TooManyTaskRoles":
        attempt = frameworks.status("large")["attemptStatus"]
        assert not attempt["taskRoleStatuses"]
        assert not attempt.get("taskRoleStatusesCompressed")
    with player.playing():
        frameworks.create("small", role("worker", 1))
        frameworks.wait("small", "Completed")
        assert frameworks.status("large")["state"] == "AttemptCreationPending"
        assert frameworks.pods() == {}
        frameworks.merge("large", taskRoles=[role("worker", 2)])
        frameworks.wait("large", "Completed")


def test_a_permission_that_the_controller_lacks_is_waited_for(
    controller: ControllerProcess, cluster: Cluster, frameworks: Frameworks, player: Player
) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/frameworkcontroller"
    changed = frameworks.raw.get(path)
    for rule in changed["rules"]:
        if "pods" in rule["resources"]:
            rule["verbs"].remove("create")
    own = RawClient(cluster, cluster.token("frameworkcontroller-system", "frameworkcontroller"))
    try:
        frameworks.raw.replace(path, changed)

        def refused() -> None:
            pod = {"metadata": {"name": "x"}, **POD}
            assert "pods is forbidden: User" in refusal_of(own, frameworks.pods_path, pod)

        eventually(refused)
        frameworks.create("fw", role("worker", 1))

        def reported() -> None:
            assert any('cannot create resource "pods"' in event["message"] for event in frameworks.events("fw"))

        eventually(reported, 20)
        assert frameworks.tasks("fw")["worker-0"]["state"] == "AttemptCreationPending"
    finally:
        apply_permissions(cluster)
    with player.playing():
        frameworks.wait("fw", "Completed", 60)
    assert frameworks.tasks("fw")["worker-0"]["retryPolicyStatus"]["totalRetriedCount"] == 0
