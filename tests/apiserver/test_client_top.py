"""`top` against a real API server, with and without the API of metrics-server.

No metrics-server runs here: a definition of the same group, version, kind and plural gives its paths, its lists, its
selectors and its answer where it is not installed. What it measures is the test's own, in its formats.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from localcluster.client import ApiStatusError
from localcluster.frameworks import role
from localcluster.waiting import eventually
from tests.support.frameworkctl import Frameworkctl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import Json, RawClient
    from localcluster.frameworks import ControllerProcess, Frameworks
    from tests.support.player import Player

pytestmark = [pytest.mark.apiserver, pytest.mark.long]

GROUP, PLURAL = "metrics.k8s.io", "pods"
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"{PLURAL}.{GROUP}",
        # Groups of Kubernetes' own need this.
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": PLURAL, "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


@pytest.fixture
def metrics(raw: RawClient, namespace: str) -> Iterator[str]:
    """The path of the metrics of Pods, which is served while the test runs."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    path = f"/apis/{GROUP}/v1beta1/namespaces/{namespace}/{PLURAL}"
    raw.create(definitions, DEFINITION)

    def served() -> None:
        try:
            raw.get(path)
        except ApiStatusError as error:
            raise AssertionError(str(error)) from error

    eventually(served, 30)
    yield path
    raw.delete(f"{definitions}/{PLURAL}.{GROUP}")


def test_top_says_what_each_task_uses_or_that_nobody_measures(
    cluster: Cluster,
    namespace: str,
    tmp_path: Path,
    controller: ControllerProcess,
    frameworks: Frameworks,
    player: Player,
    raw: RawClient,
    request: pytest.FixtureRequest,
) -> None:
    ctl = Frameworkctl(cluster.kubeconfig, namespace, tmp_path)
    player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
    frameworks.create("training", role("worker", 2))
    with player.playing():
        ctl.ok("wait training", "--for=ready", "--timeout=300s")
        missing = ctl("top training")
        assert missing.code == 1
        assert missing.errors == (
            f"frameworkctl: cannot read what {namespace}/training uses: the cluster does not measure Pods; ask an "
            "administrator to install metrics-server\n"
        )
        path = request.getfixturevalue("metrics")
        labels = {"FC_FRAMEWORK_NAME": "training"}
        used = [{"name": "main", "usage": {"cpu": "1250300200n", "memory": "2097152Ki"}}]
        document = {"apiVersion": f"{GROUP}/v1beta1", "kind": "PodMetrics", "window": "15s", "containers": used}
        for name, marks in (("training-worker-0", labels), ("another-worker-1", {})):
            metadata = {"name": name, "labels": marks}
            raw.create(path, document | {"metadata": metadata, "timestamp": "2026-01-01T12:00:00Z"})
        done = ctl.ok("top training")
        assert done.table == [
            ["worker-0", "played-node", "1250m", "2048Mi"],
            ["worker-1", "played-node", "-", "-"],
            ["all", "-", "1250m", "2048Mi"],
        ]
        assert "1 Pod not measured yet" in done.errors
        (first, second) = json.loads(ctl.ok("top training", "-o", "json").output)["items"]
        assert (first["memory"], second["memory"]) == (2 << 30, None)
        refused = ctl("top training", "--as=nobody")
        assert refused.code == 1
        none = ctl("top nobody")
        assert "there is none; check the name" in none.errors
