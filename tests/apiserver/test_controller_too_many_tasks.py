"""A Framework of more TaskRoles or Tasks than one may have, stored before the definition refused it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api import definition, names
from frameworkcontroller.api.spec import MAX_ROLES
from localcluster.client import ApiStatusError
from testkit.frameworks import apply_definition, framework, role
from testkit.waiting import eventually
from tests.support.refusals import refusal_of

if TYPE_CHECKING:
    from localcluster.client import Json, RawClient
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.player import Player

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.CRD_NAME}"


def store(raw: RawClient, frameworks: Frameworks, manifest: Json, message: str) -> None:
    """Store a Framework as an earlier definition allowed, and wait until one like it is refused with this message."""
    earlier = definition.crd()
    rules = earlier["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    rules["x-kubernetes-validations"] = rules["x-kubernetes-validations"][:1]
    raw.apply(DEFINITION, earlier)
    try:

        def is_stored() -> None:
            try:
                raw.create(frameworks.path, manifest)
            except ApiStatusError as error:
                raise AssertionError(error) from error

        eventually(is_stored, timeout=10)
    finally:
        apply_definition(raw)

    def is_refused() -> None:
        assert message in refusal_of(raw, frameworks.path, manifest | {"metadata": {"name": "again"}})

    eventually(is_refused, timeout=10)


@pytest.fixture
def huge(raw: RawClient, frameworks: Frameworks) -> str:
    """Store a Framework of 20,000 Tasks."""
    manifest = framework(frameworks.namespace, "huge", role("ps", 10_000), role("worker", 10_000))
    store(raw, frameworks, manifest, "the sum of taskRoles")
    return "huge"


@pytest.fixture
def crowded(raw: RawClient, frameworks: Frameworks) -> str:
    """Store a Framework of 1,001 TaskRoles."""
    roles = [role(f"r{number}", 1) for number in range(MAX_ROLES + 1)]
    store(raw, frameworks, framework(frameworks.namespace, "crowded", *roles), "taskRoles must have at most 1000 items")
    return "crowded"


def test_it_waits_with_an_event_and_a_condition_while_others_run_and_starts_when_it_asks_for_fewer(
    huge: str, controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    def is_said() -> None:
        found = {one["type"]: one for one in frameworks.status(huge)["conditions"]}["Suspended"]
        assert (found["status"], found["reason"]) == ("True", "TooManyTasks")
        assert "spec.taskRoles asks for 20000 Tasks in all" in found["message"]
        events = frameworks.raw.get(f"/api/v1/namespaces/{frameworks.namespace}/events")["items"]
        assert "TooManyTasks" in {one["reason"] for one in events if one["involvedObject"]["name"] == huge}

    eventually(is_said, timeout=10)
    with player.playing():
        frameworks.create("small", role("worker", 1))
        frameworks.wait("small", "Completed", timeout=10)
        assert frameworks.status(huge)["state"] == "AttemptCreationPending"
        assert frameworks.pods() == {}
        frameworks.merge(huge, taskRoles=[role("worker", 2)])
        frameworks.wait(huge, "Completed", timeout=10)


def test_one_of_too_many_roles_waits_likewise_and_has_none_of_them_in_its_status(
    crowded: str, controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    def is_said() -> None:
        found = {one["type"]: one for one in frameworks.status(crowded)["conditions"]}["Suspended"]
        assert (found["status"], found["reason"]) == ("True", "TooManyTaskRoles")
        assert "spec.taskRoles has 1001 TaskRoles, and a Framework may have 1000" in found["message"]
        events = frameworks.raw.get(f"/api/v1/namespaces/{frameworks.namespace}/events")["items"]
        assert "TooManyTaskRoles" in {one["reason"] for one in events if one["involvedObject"]["name"] == crowded}

    eventually(is_said, timeout=10)
    attempt = frameworks.status(crowded)["attemptStatus"]
    assert not attempt["taskRoleStatuses"]
    assert not attempt.get("taskRoleStatusesCompressed")
    with player.playing():
        frameworks.create("small", role("worker", 1))
        frameworks.wait("small", "Completed", timeout=10)
        assert frameworks.status(crowded)["state"] == "AttemptCreationPending"
        frameworks.merge(crowded, taskRoles=[role("worker", 2)])
        frameworks.wait(crowded, "Completed", timeout=10)
