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
    from testkit.frameworks import Frameworks
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


ROLES = {
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


@pytest.mark.parametrize("reason", ROLES)
def test_it_waits_with_an_event_and_a_condition_while_others_run_and_starts_when_it_asks_for_fewer(
    raw: RawClient, frameworks: Frameworks, player: Player, request: pytest.FixtureRequest, reason: str
) -> None:
    roles, refusal, text = ROLES[reason]
    store(raw, frameworks, framework(frameworks.namespace, "large", *roles), refusal)
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
