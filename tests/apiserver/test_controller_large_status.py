"""What the API server says of a status that is too large for it, and what the performer makes of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import Done, Refused, RolesSummary, Subject, WriteStatus
from frameworkcontroller.core.machines import attempt
from frameworkcontroller.core.policies import completion
from frameworkcontroller.engine.requests.performer import Performer
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import from_kubeconfig
from tests.controller.core.values import framework

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import RawClient

pytestmark = pytest.mark.apiserver
SUMMARY = RolesSummary(roles=(), order=(), ready=0, total=0, by_arrival=False, member_revision=1)


@pytest.mark.parametrize(
    ("size", "fits"),
    [(1_000_000, True), (1_700_000, False), (2_500_000, False), (3_500_000, False)],
    ids=["below the limit", "beyond the limit of etcd", "beyond that of its client", "beyond that of a request"],
)
async def test_a_status_beyond_any_limit_is_refused_as_too_large(
    cluster: Cluster, raw: RawClient, namespace: str, size: int, *, fits: bool
) -> None:
    collection = f"/apis/{names.API_VERSION}/namespaces/{namespace}/frameworks"
    made = raw.create(
        collection, {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": "fw"}, "spec": {}}
    )
    meta = made["metadata"]
    end = completion.predefined(Code.POD_CREATION_PERMANENT_ERROR, "x" * size)
    status = attempt.complete(framework(State.CREATION_PENDING), end)
    status = replace(status, attempt_status=replace(status.attempt_status, task_role_statuses=()))
    client = KubeClient(from_kubeconfig(cluster.kubeconfig))
    effect = WriteStatus(status, SUMMARY, 1, meta["resourceVersion"], None)
    outcome = await Performer(client).perform(Subject(namespace, "fw", meta["uid"]), effect)
    await client.close()
    if fits:
        assert isinstance(outcome, Done)
    else:
        assert isinstance(outcome, Refused)
        assert outcome.code == 413
