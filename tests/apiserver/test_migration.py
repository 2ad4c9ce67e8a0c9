"""The commands of docs/operate/migrate.md about completion policies that Microsoft's controller has stored."""

from __future__ import annotations

import copy
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from frameworkcontroller.api import definition as crd
from frameworkcontroller.api import names
from localcluster.client import ApiStatusError, RawClient
from testkit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster import Cluster
    from localcluster.client import Json

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]

GUIDE = Path(__file__).parents[2] / "docs" / "operate" / "migrate.md"
ABSENT = "<no value>"
NEVER = {"minFailedTaskCount": -1, "minSucceededTaskCount": -1}


class Definition(NamedTuple):
    """The CustomResourceDefinition of Frameworks in a group of its own, before and after the switch."""

    group: str
    path: str
    collection: str
    today: Json


@pytest.fixture
def definition(raw: RawClient, namespace: str) -> Iterator[Definition]:
    """Frameworks are served without a schema, as an installation of Microsoft's controller may have them."""
    group = f"{namespace}.example.org"
    today = crd.crd()
    today["metadata"]["name"] = f"frameworks.{group}"
    today["spec"]["group"] = group
    today["spec"]["names"] |= {"shortNames": [], "categories": []}
    before = copy.deepcopy(today)
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    before["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = loose
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{today['metadata']['name']}"
    raw.apply(path, before)
    yield Definition(group, path, f"/apis/{group}/v1/namespaces/{namespace}/frameworks", today)
    with suppress(ApiStatusError):
        raw.delete(path)


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
    cluster: Cluster, raw: RawClient, namespace: str, definition: Definition
) -> None:
    version = f"{definition.group}/v1"

    def stored() -> None:
        try:
            raw.create(definition.collection, {**framework("nospec"), "apiVersion": version})
        except ApiStatusError as error:
            raise AssertionError(error) from error

    eventually(stored, timeout=30)
    for name, roles in STORED.items():
        raw.create(definition.collection, {**framework(name), "apiVersion": version, "spec": {"taskRoles": roles}})

    def listed() -> set[str]:
        lines = cluster.kubectl(*command("kubectl get frameworks", definition.group)).splitlines()
        assert all(line.startswith(f"{namespace}/") for line in lines)
        return {line.removeprefix(f"{namespace}/") for line in lines}

    assert listed() == LISTED
    words = {"NAMESPACE": namespace, "NAME": "empty"}
    cluster.kubectl(*command("kubectl patch frameworks", definition.group, **words))
    assert listed() == LISTED - {f"empty worker {ABSENT} {ABSENT}"}

    raw.delete(f"{definition.collection}/nospec")
    raw.apply(definition.path, definition.today)
    expected = AFTERWARDS | {"empty": (-1, -1)}

    def read_as_the_guide_says() -> None:
        for name, counts in expected.items():
            roles = raw.get(f"{definition.collection}/{name}")["spec"]["taskRoles"]
            (policy,) = [one.get("frameworkAttemptCompletionPolicy") for one in roles if one["name"] == "worker"]
            assert policy == {"minFailedTaskCount": counts[0], "minSucceededTaskCount": counts[1]}, name

    eventually(read_as_the_guide_says, timeout=30)
    assert listed() == {"zero worker 0 0"}


def framework(name: str) -> Json:
    return {"kind": names.KIND, "metadata": {"name": name}}
