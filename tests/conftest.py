"""Fixtures of every suite: real clusters per session, a namespace per test, a player of the kubelet's part."""

from __future__ import annotations

import contextlib
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from localcluster import Cluster, Depth, SetupError
from localcluster.cluster import require_root
from support import eventually
from support.clusters import is_required, session_cluster
from support.kubelet import Kubelet
from support.raw import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.client import ApiClient

CRD = Path(__file__).parent.parent / "controller" / "manifests" / "crd.yaml"


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A control plane without nodes."""
    with session_cluster(pytestconfig, Depth.CONTROL_PLANE) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kwok_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster with five simulated nodes."""
    with session_cluster(pytestconfig, Depth.KWOK) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def node_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster with a real node; skipped without root, unless a cluster is required (CI)."""
    try:
        require_root()
    except SetupError as error:
        if is_required():
            raise
        pytest.skip(str(error))
    with session_cluster(pytestconfig, Depth.NODE) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster(control_plane: Cluster) -> Cluster:
    """The cluster that `kube`, `raw`, `namespace`, `kubelet` and `frameworks_crd` are about.

    A suite on another depth overrides this one fixture in its own conftest.
    """
    return control_plane


@pytest.fixture(scope="session")
def kube(cluster: Cluster) -> Iterator[ApiClient]:
    """The official client, as the administrator."""
    from kubernetes import config

    with config.new_client_from_config(str(cluster.kubeconfig)) as api:
        yield api


@pytest.fixture(scope="session")
def raw(cluster: Cluster) -> Iterator[Raw]:
    """The API server's JSON as it is, as the administrator."""
    with contextlib.closing(Raw(cluster)) as api:
        yield api


@pytest.fixture
def namespace(raw: Raw, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, ready for Pods; its deletion begins at the end and is not waited for."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    name = f"{words[:50].strip('-') or 'test'}-{secrets.token_hex(4)}"
    raw.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def has_service_account() -> None:
        accounts = raw.get(f"/api/v1/namespaces/{name}/serviceaccounts")["items"]
        assert "default" in [account["metadata"]["name"] for account in accounts]

    try:
        # Without it the API server refuses Pods.
        eventually(has_service_account, timeout=30)
        yield name
    finally:
        raw.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def kubelet(raw: Raw, namespace: str) -> Kubelet:
    """Who plays the node for the Pods of the test's namespace."""
    return Kubelet(raw, namespace)


@pytest.fixture(scope="session")
def frameworks_crd(raw: Raw) -> None:
    """The definition of Frameworks, applied and served."""
    for definition in filter(None, yaml.safe_load_all(CRD.read_text())):
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"
        raw.apply(path, definition)

        def is_established(path: str = path) -> None:
            conditions = raw.get(path).get("status", {}).get("conditions") or []
            values = {condition["type"]: condition["status"] for condition in conditions}
            assert values.get("Established") == "True", conditions

        eventually(is_established, timeout=30)
