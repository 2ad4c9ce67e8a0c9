"""The audit on a real API server."""

import asyncio
import io
import json
from typing import Any

import pytest

from frameworkinjector.offline.audit import audit, findings
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint, from_kubeconfig
from localcluster import Cluster
from localcluster.client import RawClient
from tests.injector.replica_processes import LABEL, create, framework_pod
from tests.support.beside.kubelet import Kubelet

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]


def ask(endpoint: Endpoint, namespace: str | None, *, as_json: bool = False) -> tuple[int, str, str]:
    """Return the exit code of the command, and what it writes to stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    code = audit(endpoint, namespace, as_json=as_json, out=out, err=err)
    return code, out.getvalue(), err.getvalue()


def test_each_living_pod_with_the_label_and_without_the_barrier_is_found_and_told_by_the_exit_code(
    raw: RawClient, cluster: Cluster, kubelet: Kubelet, namespace: str
) -> None:
    endpoint = from_kubeconfig(cluster.kubeconfig)
    has, did_not_ask = framework_pod(namespace, "has"), framework_pod(namespace, "did-not-ask")
    has["spec"]["initContainers"] = [{"name": "frameworkbarrier", "image": "barrier"}]
    del did_not_ask["metadata"]["labels"][LABEL]
    for pod in (has, did_not_ask):
        create(raw, namespace, pod)
    assert ask(endpoint, namespace) == (0, "", "0 Pods carry the label and lack the barrier\n")
    for index in range(5):
        create(raw, namespace, framework_pod(namespace, f"lacks-{index}"))
    kubelet.run("lacks-0")
    kubelet.succeed("lacks-1")
    code, out, _ = ask(endpoint, namespace)
    header, *rows = (line.split() for line in out.splitlines())
    assert (code, header) == (1, ["NAMESPACE", "NAME", "PHASE", "CREATED"])
    expected = {"lacks-0": "Running", "lacks-2": "Pending", "lacks-3": "Pending", "lacks-4": "Pending"}
    assert {row[1]: row[2] for row in rows} == expected
    assert {row[0] for row in rows} == {namespace}
    code, out, _ = ask(endpoint, namespace, as_json=True)
    assert (code, {one["name"] for one in json.loads(out)}) == (1, set(expected))

    async def in_pages(**options: Any) -> set[str]:
        client = KubeClient(endpoint)
        try:
            return {one.name async for one in findings(client, **options) if one.namespace == namespace}
        finally:
            await client.close()

    for options in ({"namespace": namespace, "page": 2}, {}):
        assert asyncio.run(in_pages(**options)) == set(expected)


def test_a_server_that_does_not_answer_is_reported(cluster: Cluster) -> None:
    code, _, err = ask(Endpoint("https://127.0.0.1:1", ca_file=cluster.ca_file), None)
    assert (code, err.startswith("frameworkinjector: ")) == (2, True)
