"""A Framework of more Tasks than a Framework may have, stored before the definition refused it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api import crd, names
from localcluster.client import ApiStatusError
from localcluster.frameworks import apply_definition, framework, role
from localcluster.waiting import eventually
from tests.support.refusals import refusal_of

if TYPE_CHECKING:
    from localcluster.client import RawClient
    from localcluster.frameworks import ControllerProcess, Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.CRD_NAME}"


@pytest.fixture
def huge(raw: RawClient, frameworks: Frameworks, frameworks_crd: None) -> str:
    """Store a Framework of 20,000 Tasks, as an earlier definition allowed."""
    earlier = copy.deepcopy(crd.crd())
    rules = earlier["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    rules["x-kubernetes-validations"] = rules["x-kubernetes-validations"][:1]
    manifest = framework(frameworks.namespace, "huge", role("ps", 10_000), role("worker", 10_000))
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
        assert "the sum of taskRoles" in refusal_of(raw, frameworks.path, manifest | {"metadata": {"name": "again"}})

    eventually(is_refused, timeout=10)
    return "huge"


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
