"""Rosters on a real API server, and other requests of the performer; a roster that somebody else changes is put right.

The controller that does so watches only the metadata of ConfigMaps.
"""

import base64
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import (
    Done,
    Failed,
    GrantRosterAccess,
    Missing,
    Refused,
    RolesSummary,
    Subject,
    WriteRoster,
    WriteStatus,
)
from frameworkcontroller.core.machines import attempt
from frameworkcontroller.core.policies import completion
from frameworkcontroller.engine.requests.manifests import roster_access
from frameworkcontroller.engine.requests.performer import Performer
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import from_kubeconfig
from localcluster import Cluster
from localcluster.client import Json, RawClient
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.controller.core.values import framework
from tests.support.beside.player import Player

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


@pytest.fixture
async def performer(cluster: Cluster) -> AsyncIterator[Performer]:
    client = KubeClient(from_kubeconfig(cluster.kubeconfig))
    yield Performer(client)
    await client.close()


@pytest.fixture
def made(raw: RawClient, namespace: str) -> Json:
    """The metadata of a Framework."""
    manifest: Json = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": "fw"}, "spec": {}}
    created = raw.create(f"/apis/{names.API_VERSION}/namespaces/{namespace}/frameworks", manifest)
    return dict(created["metadata"])


@pytest.fixture
def subject(made: Json, namespace: str) -> Subject:
    """That Framework: the garbage collector would delete the ConfigMap of one that does not exist."""
    return Subject(namespace, "fw", made["uid"])


def roster(tasks: int) -> Json:
    rows = [[index, f"10.0.{index // 250}.{index % 250}", f"{index:08x}", 0, "n", "10.1.0.1"] for index in range(tasks)]
    return {"version": 1, "generation": tasks, "complete": True, "taskRoles": [{"name": "worker", "tasks": rows}]}


async def test_a_large_roster_is_gzipped_and_a_small_one_is_not(
    raw: RawClient, subject: Subject, performer: Performer
) -> None:
    path = f"/api/v1/namespaces/{subject.namespace}/configmaps"
    body: Json = {"metadata": {"name": "fw-attempt"}, "data": {"roster": "{}", "mine": "stays"}}
    uid = raw.create(path, body)["metadata"]["uid"]
    for tasks, packed in ((2, False), (1000, True), (2000, True), (3, False)):
        document = roster(tasks)
        effect = WriteRoster(uid, 0, json.dumps(document).encode(), "{}", complete=True)
        done = await performer.perform(subject, effect)
        stored = raw.get(f"{path}/fw-attempt")
        assert done == Done(resource_version=stored["metadata"]["resourceVersion"])
        assert stored["metadata"]["labels"] == {"FC_FRAMEWORK_NAME": "fw"}
        assert [owner["uid"] for owner in stored["metadata"]["ownerReferences"]] == [subject.uid]
        assert await performer.perform(subject, effect) == done, "what is as it should be keeps its version"
        assert stored["data"]["mine"] == "stays"
        if packed:
            assert "roster" not in stored["data"]
            zipped = base64.b64decode(stored["binaryData"]["roster.gz"])
            assert zipped[4:8] == bytes(4), "the time of day would make the same roster another one"
            found = gzip.decompress(zipped).decode()
        else:
            assert "binaryData" not in stored
            found = stored["data"]["roster"]
        assert json.loads(found) == document
    another = WriteRoster("another-uid", 0, b"{}", "{}", complete=True)
    assert isinstance(await performer.perform(subject, another), Missing)


async def test_access_that_an_earlier_version_granted_for_the_framework_now_ends_with_the_attempt(
    raw: RawClient, namespace: str, subject: Subject, performer: Performer
) -> None:
    made = raw.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "fw-attempt"}})
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    effect = GrantRosterAccess(("default",), made["metadata"]["uid"])
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "fw", "uid": subject.uid, "controller": True}
    for plural, body in roster_access(subject, effect):
        metadata = body["metadata"] | {"ownerReferences": [owner]}
        raw.create(f"{rbac}/{plural}", body | {"metadata": metadata})
    assert await performer.perform(subject, effect) == Done()
    for plural in ("roles", "rolebindings"):
        owners = raw.get(f"{rbac}/{plural}/fw-roster")["metadata"]["ownerReferences"]
        assert [(owner["kind"], owner["uid"]) for owner in owners] == [("ConfigMap", effect.config_map_uid)]
    other = await performer.perform(subject, GrantRosterAccess(("default",), "of-another-attempt"))
    assert isinstance(other, Failed), "until the garbage collector has deleted them"


async def test_a_status_beyond_any_limit_is_refused_as_too_large(
    made: Json, subject: Subject, performer: Performer
) -> None:
    # Beyond the limit of etcd, that of its client, and that of a request; and what fits.
    for size, expected in ((1_700_000, 413), (2_500_000, 413), (3_500_000, 413), (1_000_000, None)):
        end = completion.predefined(Code.POD_CREATION_PERMANENT_ERROR, "x" * size)
        status = attempt.complete(framework(State.CREATION_PENDING), end)
        status = replace(status, attempt_status=replace(status.attempt_status, task_role_statuses=()))
        summary = RolesSummary(roles=(), order=(), ready=0, total=0, by_arrival=False, member_revision=1)
        outcome = await performer.perform(subject, WriteStatus(status, summary, 1, made["resourceVersion"], None))
        assert isinstance(outcome, Refused if expected else Done), size
        assert getattr(outcome, "code", None) == expected, size


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
