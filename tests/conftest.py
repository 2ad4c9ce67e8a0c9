"""Fixtures of all suites: real clusters per session, a namespace per test, a fake kubelet."""

from __future__ import annotations

import contextlib
import re
import secrets
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from localcluster import Cluster, Depth
from localcluster.client import ApiStatusError, RawClient
from localcluster.frameworks import apply_definition
from localcluster.waiting import eventually
from tests.support.clusters import require_node, session_cluster
from tests.support.kubelet import Kubelet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.client import ApiClient

pytest_plugins = ["tests.support.versions"]

# A busy machine must not fail an example. The profile is loaded before the modules of the tests read its values.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

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
    """A cluster with a real node; without root its tests are skipped, or fail where a cluster is required (CI)."""
    require_node()
    with session_cluster(pytestconfig, Depth.NODE) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster(control_plane: Cluster) -> Cluster:
    """The cluster that `kube`, `raw`, `namespace` and `kubelet` use.

    A suite on another depth overrides this fixture, in its conftest or module.
    """
    return control_plane


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Drop the session's clients of the API server when a test uses another cluster than the test before it.

    pytest keeps the value of a session fixture even where a fixture that it depends on is overridden.
    """
    if not isinstance(item, pytest.Function):
        return
    definitions = item._fixtureinfo.name2fixturedefs
    if "cluster" not in definitions:
        return
    now, connected = definitions["cluster"][-1], item.config.stash.setdefault(_CLUSTERS, {})
    # Each client on its own, because a test may use one of them, or none.
    for name in _CLIENTS:
        if name in definitions:
            if connected.get(name, now) is not now:
                for definition in definitions[name]:
                    definition.finish(item._request)
            connected[name] = now


@pytest.fixture(scope="session")
def kube(cluster: Cluster) -> Iterator[ApiClient]:
    """The official Kubernetes client, as the administrator."""
    from kubernetes import config

    with config.new_client_from_config(str(cluster.kubeconfig)) as api:
        yield api


@pytest.fixture(scope="session")
def raw(cluster: Cluster) -> Iterator[RawClient]:
    """A client for the API server's plain JSON, as the administrator."""
    with contextlib.closing(RawClient(cluster)) as api:
        yield api


@pytest.fixture
def namespace(raw: RawClient, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for this test, ready for Pods. The test ends when its deletion has begun."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    name = f"{words[:50].strip('-') or 'test'}-{secrets.token_hex(4)}"
    raw.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def has_service_account() -> None:
        accounts = raw.get(f"/api/v1/namespaces/{name}/serviceaccounts")["items"]
        assert "default" in [account["metadata"]["name"] for account in accounts]

    try:
        # Without the service account the API server refuses Pods.
        eventually(has_service_account, timeout=30)
        yield name
    finally:
        # The test may have deleted the namespace.
        with contextlib.suppress(ApiStatusError):
            raw.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def kubelet(raw: RawClient, namespace: str) -> Kubelet:
    """The fake kubelet for the Pods of the test's namespace."""
    return Kubelet(raw, namespace)


@pytest.fixture(scope="session")
def frameworks_crd(control_plane: Cluster) -> None:
    """The CRD of Frameworks, applied to the session's control plane and served.

    For another cluster call `localcluster.frameworks.apply_definition`.
    """
    with contextlib.closing(RawClient(control_plane)) as raw:
        apply_definition(raw)
