"""From which addresses API servers call, as a replica with the shipped service account and manifests finds out."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from frameworkinjector.serving import callers
from frameworkinjector.serving.callers import Callers
from frameworkkube.http.credentials import from_kubeconfig
from localcluster import Cluster
from localcluster.client import RawClient
from localcluster.processes.logs import complete_lines
from testkit.waiting import eventually_async
from tests.injector.replica_processes import SYSTEM, Replica, manifests, path_of
from tests.support.waiting import has

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]


def test_a_replica_learns_from_where_the_api_server_calls(raw: RawClient, injector: Replica) -> None:
    has(lambda: injector.health("/metrics")[1], "\nframeworkinjector_callers 1.0\n", 30)
    lines = [json.loads(line) for line in complete_lines(injector.log)]
    assert {line["source"] for line in lines if line["msg"] == "an API server calls from here"} == {"127.0.0.1"}
    assert raw.get(f"/api/v1/namespaces/{SYSTEM}/podtemplates")["items"] == [], "the question stores nothing"


async def test_without_permission_it_asks_on(
    cluster: Cluster, raw: RawClient, identity: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "AT_ONCE_SECONDS", 0.1)
    monkeypatch.setattr(callers, "EVERY_SECONDS", 0.1)
    asking = Callers(SYSTEM)
    (permissions,) = [one for one in manifests() if one["kind"] == "RoleBinding"]

    async def has(problem: str) -> None:
        assert problem in asking.problem

    running = asyncio.create_task(asking.run(replace(from_kubeconfig(identity), server=cluster.server)))
    try:
        # The word goes to the replica that the webhook names, which is another one.
        await eventually_async(lambda: has("no question comes back"), 30)
        raw.delete(path_of(permissions))
        await eventually_async(lambda: has("podtemplates is forbidden"), 30)
        raw.apply(path_of(permissions), permissions)
        await eventually_async(lambda: has("no question comes back"), 30)
    finally:
        running.cancel()
