"""The commands of docs/operate/upgrade.md about completion policies that Microsoft's controller has stored."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api import names
from testkit.waiting import eventually

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import Json, RawClient
    from tests.apiserver.conftest import Served

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]

GUIDE = Path(__file__).parents[2] / "docs" / "operate" / "upgrade.md"
ABSENT = "<no value>"
NEVER = {"minFailedTaskCount": -1, "minSucceededTaskCount": -1}


def command(first_words: str, group: str, **replaced: str) -> list[str]:
    """The arguments of the guide's command that begins so, for Frameworks of another group."""
    blocks = [block.strip() for block in GUIDE.read_text().split("```")[1::2]]
    (block,) = [block for block in blocks if block.startswith(first_words)]
    for word, value in replaced.items():
        block = block.replace(word, value)
    return shlex.split(block.replace(f"frameworks.{names.GROUP}", f"frameworks.{group}"))[1:]


def role(name: str, policy: object = ABSENT) -> Json:
    pod = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    found: Json = {"name": name, "taskNumber": 1, "task": {"pod": pod}}
    return found if policy == ABSENT else {**found, "frameworkAttemptCompletionPolicy": policy}


STORED: dict[str, list[Json]] = {
    "complete": [role("worker", {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}), role("ps", NEVER)],
    "absent": [role("ps", NEVER), role("worker")],
    "empty": [role("worker", {})],
    "null": [role("worker", None)],
    "half": [role("worker", {"minFailedTaskCount": 2})],
    "otherhalf": [role("worker", {"minSucceededTaskCount": 2})],
    "zero": [role("worker", {"minFailedTaskCount": 0, "minSucceededTaskCount": 0})],
    "norole": [],
}
LISTED = {
    f"absent worker {ABSENT} {ABSENT}",
    f"empty worker {ABSENT} {ABSENT}",
    f"null worker {ABSENT} {ABSENT}",
    f"half worker 2 {ABSENT}",
    f"otherhalf worker {ABSENT} 2",
    "zero worker 0 0",
}
AFTERWARDS = {
    "absent": (1, -1),
    "empty": (1, -1),
    "null": (1, -1),
    "half": (2, -1),
    "otherhalf": (1, 2),
    "zero": (0, 0),
}


def test_the_guide_finds_every_framework_whose_completion_policy_changes_and_keeps_its_meaning(
    cluster: Cluster, raw: RawClient, namespace: str, schemaless: Served
) -> None:
    group, collection = schemaless.group, schemaless.collection
    bare: Json = {"apiVersion": f"{group}/v1", "kind": names.KIND}
    raw.create(collection, {**bare, "metadata": {"name": "nospec"}})
    for name, roles in STORED.items():
        raw.create(collection, {**bare, "metadata": {"name": name}, "spec": {"taskRoles": roles}})

    def listed() -> set[str]:
        lines = cluster.kubectl(*command("kubectl get frameworks", group)).splitlines()
        assert all(line.startswith(f"{namespace}/") for line in lines)
        return {line.removeprefix(f"{namespace}/") for line in lines}

    assert listed() == LISTED
    words = {"NAMESPACE": namespace, "NAME": "empty"}
    cluster.kubectl(*command("kubectl patch frameworks", group, **words))
    assert listed() == LISTED - {f"empty worker {ABSENT} {ABSENT}"}

    raw.delete(f"{collection}/nospec")
    raw.apply(schemaless.definition, schemaless.today)
    expected = AFTERWARDS | {"empty": (-1, -1)}

    def read_as_the_guide_says() -> None:
        for name, counts in expected.items():
            roles = raw.get(f"{collection}/{name}")["spec"]["taskRoles"]
            (policy,) = [one.get("frameworkAttemptCompletionPolicy") for one in roles if one["name"] == "worker"]
            assert policy == {"minFailedTaskCount": counts[0], "minSucceededTaskCount": counts[1]}, name

    eventually(read_as_the_guide_says, timeout=30)
    assert listed() == {"zero worker 0 0"}
