"""A roster that somebody else changes is put right, by a controller that watches only the metadata of ConfigMaps."""

from __future__ import annotations

import base64
import json
import math
import time
from typing import TYPE_CHECKING, Any

import pytest

from testkit.frameworks import role
from testkit.waiting import eventually
from tests.support.background import in_background

if TYPE_CHECKING:
    from localcluster.client import Json, RawClient
    from testkit.frameworks import ControllerProcess, Frameworks
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


def config_map(raw: RawClient, frameworks: Frameworks, name: str) -> str:
    return f"/api/v1/namespaces/{frameworks.namespace}/configmaps/{name}-attempt"


def written(found: Json) -> dict[str, Any]:
    """What the controller writes of a ConfigMap."""
    return {
        "data": found.get("data"),
        "binaryData": found.get("binaryData"),
        **{field: found["metadata"].get(field) for field in ("uid", "labels", "annotations", "ownerReferences")},
    }


def complete(raw: RawClient, frameworks: Frameworks, name: str) -> dict[str, Any]:
    """Wait until the gang is complete, and return what its ConfigMap is like."""
    frameworks.wait(name, "AttemptRunning", timeout=10)

    def check() -> dict[str, Any]:
        found = raw.get(config_map(raw, frameworks, name))
        assert json.loads(found["data"]["roster"])["complete"] is True
        return written(found)

    return eventually(check, timeout=10)


def events(frameworks: Frameworks, name: str) -> list[Json]:
    found = frameworks.raw.get(f"/api/v1/namespaces/{frameworks.namespace}/events")["items"]
    return [event for event in found if event["involvedObject"]["name"] == name]


def reasons(frameworks: Frameworks, name: str) -> list[str]:
    return [event["reason"] for event in events(frameworks, name)]


def test_whatever_is_changed_of_a_live_roster_is_written_again(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
    with player.playing():
        for name in CHANGES:
            frameworks.create(name, role("worker", 2))
        before = {name: complete(raw, frameworks, name) for name in CHANGES}
        for name, change in CHANGES.items():
            raw.merge(config_map(raw, frameworks, name), change)

        def is_as_it_was() -> None:
            for name in CHANGES:
                assert written(raw.get(config_map(raw, frameworks, name))) == before[name], name
                assert "RosterRestored" in reasons(frameworks, name), name

        eventually(is_as_it_was, timeout=10)
        assert {frameworks.status(name)["attemptStatus"]["id"] for name in CHANGES} == {0}


def test_what_the_controller_has_not_written_is_left_alone_and_no_event(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"]}
    with player.playing():
        for name in ("fw", "later"):
            frameworks.create(name, role("worker", 1))
        before = {name: complete(raw, frameworks, name) for name in ("fw", "later")}
        mine: Json = {"data": {"mine": "stays"}, "metadata": {"labels": {"mine": "too"}}}
        version = raw.merge(config_map(raw, frameworks, "fw"), mine)["metadata"]["resourceVersion"]
        # What is changed later is answered later.
        raw.merge(config_map(raw, frameworks, "later"), CHANGES["data"])
        eventually(lambda: _is(raw, config_map(raw, frameworks, "later"), before["later"]), timeout=10)
        found = raw.get(config_map(raw, frameworks, "fw"))
        assert (found["data"]["mine"], found["metadata"]["labels"]["mine"]) == ("stays", "too")
        assert found["metadata"]["resourceVersion"] == version, "the answer changes nothing"
        assert "RosterRestored" not in reasons(frameworks, "fw")


def test_a_roster_that_was_changed_while_no_controller_looked_is_put_right_by_the_next_one(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"]}
    with player.playing():
        frameworks.create("fw", role("worker", 1))
        before = complete(raw, frameworks, "fw")
        controller.kill()
        raw.merge(config_map(raw, frameworks, "fw"), CHANGES["data"])
        controller.start()

        def is_as_it_was() -> None:
            assert written(raw.get(config_map(raw, frameworks, "fw"))) == before
            assert "RosterRestored" in reasons(frameworks, "fw")

        eventually(is_as_it_was, timeout=10)


def test_somebody_who_changes_it_for_ever_is_answered_less_and_less(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"]}
    with player.playing():
        frameworks.create("fw", role("worker", 1))
        before = complete(raw, frameworks, "fw")
        path = config_map(raw, frameworks, "fw")

        def answers() -> int:
            return sum(one.get("count", 1) for one in events(frameworks, "fw") if one["reason"] == "RosterRestored")

        def answered_again() -> None:
            assert answers() >= 3

        begun = time.monotonic()
        with in_background(lambda: raw.merge(path, CHANGES["data"]), every=0.02):
            frameworks.create("other", role("worker", 1))
            frameworks.wait("other", "AttemptRunning", timeout=10)
            eventually(answered_again, timeout=10)
            seconds = time.monotonic() - begun
            # After 0, 1, 3, 7, ... s; whoever reads the count may be a moment late.
            assert answers() <= 3 + math.log2(1 + seconds)
        eventually(lambda: _is(raw, path, before), timeout=20)


def _is(raw: RawClient, path: str, expected: dict[str, Any]) -> None:
    assert written(raw.get(path)) == expected
