"""A roster that somebody else changes is put right, by a controller that watches only the metadata of ConfigMaps."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from testkit.frameworks import role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from localcluster.client import Json, RawClient
    from testkit.frameworks import Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver

ANNOTATION = "frameworkcontroller.microsoft.com/roster"
FORGED = json.dumps({"version": 1, "generation": 99, "complete": True, "taskRoles": []})
SUMMARY = json.dumps({"generation": 99, "complete": True, "digest": "x"})
CHANGES: dict[str, Json] = {
    "data": {"data": {"roster": FORGED}},
    "deleted": {"data": {"roster": None}},
    "alldata": {"data": None},
    "binary": {"binaryData": {"roster.gz": base64.b64encode(b"forged").decode()}},
    "summary": {"metadata": {"annotations": {ANNOTATION: SUMMARY}}},
    "annotations": {"metadata": {"annotations": {"FC_FRAMEWORK_UID": "another", ANNOTATION: None}}},
    "label": {"metadata": {"labels": {"FC_FRAMEWORK_NAME": "another"}}},
    "nolabel": {"metadata": {"labels": None}},
    "owner": {"metadata": {"ownerReferences": None}},
    "everything": {
        "data": {"roster": FORGED},
        "metadata": {"labels": {"FC_FRAMEWORK_NAME": "another"}, "annotations": {ANNOTATION: SUMMARY}},
    },
}


def written(found: Json) -> dict[str, Any]:
    """What the controller writes of a ConfigMap."""
    return {
        "data": found.get("data"),
        "binaryData": found.get("binaryData"),
        **{field: found["metadata"].get(field) for field in ("uid", "labels", "annotations", "ownerReferences")},
    }


def complete(frameworks: Frameworks, name: str) -> dict[str, Any]:
    """Wait until the gang is complete, and return what its ConfigMap is like."""
    frameworks.wait(name, "AttemptRunning")

    def check() -> dict[str, Any]:
        found = frameworks.config_map(name)
        assert json.loads(found["data"]["roster"])["complete"] is True
        return written(found)

    return eventually(check)


@pytest.mark.usefixtures("controller")
def test_whatever_is_changed_of_a_live_roster_is_written_again_and_what_is_added_is_left_alone(
    frameworks: Frameworks, raw: RawClient, player: Player
) -> None:
    path = f"/api/v1/namespaces/{frameworks.namespace}/configmaps"
    player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
    with player.playing():
        for name in ("added", *CHANGES):
            frameworks.create(name, role("worker", 2))
        before = {name: complete(frameworks, name) for name in ("added", *CHANGES)}
        mine: Json = {"data": {"mine": "stays"}, "metadata": {"labels": {"mine": "too"}}}
        version = raw.merge(f"{path}/added-attempt", mine)["metadata"]["resourceVersion"]
        # What is changed later is answered later.
        for name, change in CHANGES.items():
            raw.merge(f"{path}/{name}-attempt", change)

        def is_as_it_was() -> None:
            for name in CHANGES:
                assert written(frameworks.config_map(name)) == before[name], name
                assert "RosterRestored" in {event["reason"] for event in frameworks.events(name)}, name

        eventually(is_as_it_was)
        assert {frameworks.status(name)["attemptStatus"]["id"] for name in CHANGES} == {0}
        found = frameworks.config_map("added")
        assert (found["data"]["mine"], found["metadata"]["labels"]["mine"]) == ("stays", "too")
        assert found["metadata"]["resourceVersion"] == version, "the answer changes nothing"
        assert "RosterRestored" not in {event["reason"] for event in frameworks.events("added")}
