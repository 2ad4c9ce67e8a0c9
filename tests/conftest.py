"""Fixtures of every suite: real clusters per session, a namespace per test, a player of the kubelet's part."""

from __future__ import annotations

import contextlib
import re
import secrets
from typing import TYPE_CHECKING

import pytest

from localcluster import Cluster, Depth, SetupError
from localcluster.cluster import require_root
from support import eventually
from support.clusters import is_required, session_cluster
from support.definition import apply_definition
from support.kubelet import Kubelet
from support.raw import Raw, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.client import ApiClient

# The fixture of the cluster that each client is connected to.
_CLUSTERS = pytest.StashKey[dict[str, object]]()
_CLIENTS = ("kube", "raw")


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
    """The cluster that `kube`, `raw`, `namespace` and `kubelet` are about.

    A suite on another depth overrides this one fixture, in its conftest or module.
    """
    return control_plane


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the session's clients of the API server when a test is about another cluster than the test before it.

    pytest keeps the value of a session's fixture even where a fixture that it was made from is overridden.
    """
    if not isinstance(item, pytest.Function):
        return
    definitions = item._fixtureinfo.name2fixturedefs
    if "cluster" not in definitions:
        return
    now, connected = definitions["cluster"][-1], item.config.stash.setdefault(_CLUSTERS, {})
    # Each client by itself: a test that uses none of them leaves them as they are.
    for name in _CLIENTS:
        if name in definitions:
            if connected.get(name, now) is not now:
                for definition in definitions[name]:
                    definition.finish(item._request)
            connected[name] = now


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
        # A test may have deleted it itself.
        with contextlib.suppress(RefusedError):
            raw.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def kubelet(raw: Raw, namespace: str) -> Kubelet:
    """Who plays the node for the Pods of the test's namespace."""
    return Kubelet(raw, namespace)


@pytest.fixture(scope="session")
def frameworks_crd(control_plane: Cluster) -> None:
    """The definition of Frameworks, applied to the session's control plane and served.

    For another cluster call `support.definition.apply_definition`.
    """
    with contextlib.closing(Raw(control_plane)) as raw:
        apply_definition(raw)
