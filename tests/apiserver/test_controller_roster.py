"""The roster as it lies in its ConfigMap: plain while it is small, gzipped when it is large, never both."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.cluster.credentials import from_kubeconfig
from frameworkcontroller.cluster.rest import KubeClient
from frameworkcontroller.core.effects import Done, Missing, WriteRoster
from frameworkcontroller.engine.manifests import Subject
from frameworkcontroller.engine.performer import Performer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from localcluster import Cluster
    from support.raw import Json, Raw

pytestmark = pytest.mark.apiserver


@pytest.fixture
async def performer(cluster: Cluster) -> AsyncIterator[Performer]:
    client = KubeClient(from_kubeconfig(cluster.kubeconfig))
    yield Performer(client)
    await client.close()


def roster(tasks: int) -> Json:
    rows = [
        [index, f"10.0.{index // 250}.{index % 250}", f"{index:08x}", 0, "node", "10.1.0.1"] for index in range(tasks)
    ]
    return {"version": 1, "generation": tasks, "complete": True, "taskRoles": [{"name": "worker", "tasks": rows}]}


async def test_a_large_roster_is_gzipped_and_a_small_one_is_not(raw: Raw, namespace: str, performer: Performer) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    body: Json = {"metadata": {"name": "fw-attempt"}, "data": {"roster": "{}", "mine": "stays"}}
    uid = raw.create(path, body)["metadata"]["uid"]
    subject = Subject(namespace, "fw", "framework-uid")
    for tasks, packed in ((2, False), (1000, True), (2000, True), (3, False)):
        document = roster(tasks)
        effect = WriteRoster(uid, json.dumps(document).encode(), "{}", complete=True)
        assert isinstance(await performer.perform(subject, effect), Done)
        stored = raw.get(f"{path}/fw-attempt")
        assert stored["data"]["mine"] == "stays"
        if packed:
            assert "roster" not in stored["data"]
            found = gzip.decompress(base64.b64decode(stored["binaryData"]["roster.gz"])).decode()
        else:
            assert "binaryData" not in stored
            found = stored["data"]["roster"]
        assert json.loads(found) == document
    another = WriteRoster("another-uid", b"{}", "{}", complete=True)
    assert isinstance(await performer.perform(subject, another), Missing)
