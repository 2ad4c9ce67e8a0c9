"""What Kueue's own integration for Pods, which is on by default, does to the Pods of Frameworks.

Their controller is the ConfigMap of the attempt, at which Kueue's search for a managed owner ends, unless the
administrator names its kind as that of a job of others and lets Kueue read it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from localcluster.client import ApiStatusError
from testkit import kueue
from testkit.waiting import eventually
from tests.support.clusters import require_node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import Json, RawClient

pytestmark = [pytest.mark.apiserver, pytest.mark.long, pytest.mark.turns("kueue")]
QUEUED = {"kueue.x-k8s.io/queue-name": "main"}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GATED = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]


@pytest.fixture(scope="module")
def process(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kueue.Kueue]:
    require_node()
    folder: Path = tmp_path_factory.mktemp("kueue")
    made = kueue.Kueue(cluster, folder)
    made.install()
    yield made
    made.stop()


@contextlib.contextmanager
def reading_config_maps(raw: RawClient) -> Iterator[None]:
    """Let Kueue read ConfigMaps."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kueue-frameworks"}
    subject = {"kind": "ServiceAccount", "name": kueue.ACCOUNT, "namespace": kueue.SYSTEM}
    named = {"metadata": {"name": role["name"]}}
    raw.create(f"{RBAC}/clusterroles", {**named, "rules": [rule]})
    raw.create(f"{RBAC}/clusterrolebindings", {**named, "roleRef": role, "subjects": [subject]})
    yield
    raw.delete(f"{RBAC}/clusterrolebindings/{role['name']}")
    raw.delete(f"{RBAC}/clusterroles/{role['name']}")


def restarted(process: kueue.Kueue, *external: str, **changes: Any) -> None:
    """Run Kueue with these kinds of jobs of others, and other changes of its configuration."""
    process.stop()
    integrations = process.configuration()["integrations"] | {"externalFrameworks": list(external)}
    process.start(integrations=integrations, **changes)


def created(raw: RawClient, namespace: str, labels: dict[str, str]) -> list[str]:
    """Create a Pod whose controller is a ConfigMap with these labels; return its gates."""
    maps, pods = f"/api/v1/namespaces/{namespace}/configmaps", f"/api/v1/namespaces/{namespace}/pods"
    made = raw.create(maps, {"metadata": {"generateName": "attempt-", "labels": labels}})["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": made["name"], "uid": made["uid"], "controller": True}
    body: Json = {
        "metadata": {"name": f"{made['name']}-0", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }

    def answer() -> Json:
        try:
            return raw.create(pods, body)
        except ApiStatusError as error:
            raise AssertionError(str(error)) from error

    return [gate["name"] for gate in eventually(answer, 30)["spec"].get("schedulingGates", [])]


def test_the_chart_as_it_is_leaves_pods_without_a_queue_alone(
    process: kueue.Kueue, raw: RawClient, namespace: str
) -> None:
    restarted(process)
    kueue.quota(raw, namespace, cpu="4")
    assert created(raw, namespace, QUEUED) == created(raw, namespace, {}) == []


@pytest.mark.parametrize("external", [(), ("Framework.v1.frameworkcontroller.microsoft.com",)])
def test_a_queue_named_default_takes_pods_of_frameworks(
    process: kueue.Kueue, raw: RawClient, namespace: str, external: tuple[str, ...]
) -> None:
    restarted(process, *external)
    kueue.quota(raw, namespace, local="default", cpu="4")

    def taken() -> None:
        assert created(raw, namespace, QUEUED) == GATED

    eventually(taken, 30)


def test_config_maps_that_kueue_reads_keep_their_pods(process: kueue.Kueue, raw: RawClient, namespace: str) -> None:
    kueue.quota(raw, namespace, local="default", cpu="4")
    with reading_config_maps(raw):
        restarted(process, "ConfigMap.v1.")
        assert created(raw, namespace, QUEUED) == []
        restarted(process, "ConfigMap.v1.", manageJobsWithoutQueueName=True)
        assert created(raw, namespace, QUEUED) == created(raw, namespace, {}) == []
