"""The audit on a real API server."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from frameworkinjector.offline.audit import audit, findings
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint, from_kubeconfig
from tests.injector.replica_processes import LABEL, create, framework_pod

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import RawClient
    from tests.support.kubelet import Kubelet

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]


def endpoint_of(cluster: Cluster) -> Endpoint:
    return from_kubeconfig(cluster.kubeconfig)


def with_barrier(namespace: str, name: str) -> dict[str, object]:
    pod = framework_pod(namespace, name)
    pod["spec"]["initContainers"] = [{"name": "frameworkbarrier", "image": "barrier"}]
    return pod


async def test_each_living_pod_with_the_label_and_without_the_barrier_is_found_across_pages(
    raw: RawClient, cluster: Cluster, kubelet: Kubelet, namespace: str
) -> None:
    for index in range(5):
        create(raw, namespace, framework_pod(namespace, f"lacks-{index}"))
    create(raw, namespace, with_barrier(namespace, "has"))
    unlabelled = framework_pod(namespace, "did-not-ask")
    del unlabelled["metadata"]["labels"][LABEL]
    create(raw, namespace, unlabelled)
    kubelet.run("lacks-0")
    kubelet.succeed("lacks-1")
    client = KubeClient(endpoint_of(cluster))
    try:
        found = {one.name: one.phase async for one in findings(client, namespace, page=2)}
        everywhere = {one.name async for one in findings(client) if one.namespace == namespace}
    finally:
        await client.close()
    assert found == {"lacks-0": "Running", "lacks-2": "Pending", "lacks-3": "Pending", "lacks-4": "Pending"}
    assert everywhere == set(found)


def test_the_command_prints_them_and_says_so_by_its_exit_code(raw: RawClient, cluster: Cluster, namespace: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    create(raw, namespace, with_barrier(namespace, "has"))
    assert audit(endpoint_of(cluster), namespace, as_json=False, out=out, err=err) == 0
    assert (out.getvalue(), err.getvalue()) == ("", "0 Pods carry the label and lack the barrier\n")
    create(raw, namespace, framework_pod(namespace, "lacks"))
    assert audit(endpoint_of(cluster), namespace, as_json=False, out=out, err=err) == 1
    header, row = out.getvalue().splitlines()
    assert header.split() == ["NAMESPACE", "NAME", "PHASE", "CREATED"]
    assert row.split()[:3] == [namespace, "lacks", "Pending"]
    as_json = io.StringIO()
    assert audit(endpoint_of(cluster), namespace, as_json=True, out=as_json, err=err) == 1
    assert [one["name"] for one in json.loads(as_json.getvalue())] == ["lacks"]


def test_a_server_that_does_not_answer_is_reported(cluster: Cluster) -> None:
    err = io.StringIO()
    unreachable = Endpoint("https://127.0.0.1:1", ca_file=cluster.ca_file)
    assert audit(unreachable, None, as_json=False, out=io.StringIO(), err=err) == 2
    assert err.getvalue().startswith("frameworkinjector: ")
