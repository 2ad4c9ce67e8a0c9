"""The commands of docs/migrate/frameworkcontroller.md about completion policies that Microsoft's controller has."""

import shlex
from typing import NamedTuple

import pytest

from frameworkcontroller.api import names
from localcluster import Cluster
from localcluster.client import Json, RawClient
from testkit.waiting import eventually
from tests.apiserver.conftest import Served
from tests.support.pages import blocks

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]

GUIDE = "docs/migrate/frameworkcontroller.md"
ABSENT = "<no value>"


def command(first_words: str, group: str, **replaced: str) -> list[str]:
    """The arguments of the guide's command that begins so, for Frameworks of another group."""
    (text,) = [block.text for block in blocks(GUIDE) if not block.kind and block.text.startswith(first_words)]
    for word, value in replaced.items():
        text = text.replace(word, value)
    return shlex.split(text.replace(f"frameworks.{names.GROUP}", f"frameworks.{group}"))[1:]


def counts(failed: object, succeeded: object) -> Json:
    return {"minFailedTaskCount": failed, "minSucceededTaskCount": succeeded}


def role(name: str, policy: object = ABSENT) -> Json:
    pod = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    found: Json = {"name": name, "taskNumber": 1, "task": {"pod": pod}}
    return found if policy == ABSENT else {**found, "frameworkAttemptCompletionPolicy": policy}


class Case(NamedTuple):
    """The roles of a Framework, what the guide's command lists of it, and what its policy is read as afterwards."""

    roles: list[Json]
    listed: str = ""
    afterwards: Json | None = None


CASES = {
    "complete": Case([role("worker", counts(1, -1)), role("ps", counts(-1, -1))]),
    "absent": Case([role("ps", counts(-1, -1)), role("worker")], f"{ABSENT} {ABSENT}", counts(1, -1)),
    # This one is patched as the guide says.
    "empty": Case([role("worker", {})], f"{ABSENT} {ABSENT}", counts(-1, -1)),
    "null": Case([role("worker", None)], f"{ABSENT} {ABSENT}", counts(1, -1)),
    "half": Case([role("worker", {"minFailedTaskCount": 2})], f"2 {ABSENT}", counts(2, -1)),
    "otherhalf": Case([role("worker", {"minSucceededTaskCount": 2})], f"{ABSENT} 2", counts(1, 2)),
    "zero": Case([role("worker", counts(0, 0))], "0 0", counts(0, 0)),
    "norole": Case([]),
}


def test_the_guide_finds_every_framework_whose_completion_policy_changes_and_keeps_its_meaning(
    cluster: Cluster, raw: RawClient, namespace: str, schemaless: Served
) -> None:
    group, collection = schemaless.group, schemaless.collection
    bare: Json = {"apiVersion": f"{group}/v1", "kind": names.KIND}
    raw.create(collection, {**bare, "metadata": {"name": "nospec"}})
    for name, case in CASES.items():
        raw.create(collection, {**bare, "metadata": {"name": name}, "spec": {"taskRoles": case.roles}})

    def listed() -> set[str]:
        lines = cluster.kubectl(*command("kubectl get frameworks", group)).splitlines()
        assert all(line.startswith(f"{namespace}/") for line in lines)
        return {line.removeprefix(f"{namespace}/") for line in lines}

    expected = {f"{name} worker {case.listed}" for name, case in CASES.items() if case.listed}
    assert listed() == expected
    cluster.kubectl(*command("kubectl patch frameworks", group, NAMESPACE=namespace, NAME="empty"))
    assert listed() == expected - {f"empty worker {ABSENT} {ABSENT}"}

    raw.delete(f"{collection}/nospec")
    raw.apply(schemaless.definition, schemaless.today)

    def read_as_the_guide_says() -> None:
        for name, case in CASES.items():
            if case.afterwards:
                roles = raw.get(f"{collection}/{name}")["spec"]["taskRoles"]
                found = [one.get("frameworkAttemptCompletionPolicy") for one in roles if one["name"] == "worker"]
                assert found == [case.afterwards], name

    eventually(read_as_the_guide_says, timeout=30)
    assert listed() == {"zero worker 0 0"}
