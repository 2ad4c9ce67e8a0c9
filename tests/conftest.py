"""Fixtures of all suites: real clusters of the run, a namespace per test, a fake kubelet."""

import contextlib
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from kubernetes.client import ApiClient

from localcluster import Cluster
from localcluster.client import RawClient
from tests.support.apiserver import fresh_namespace
from tests.support.beside.kubelet import Kubelet

pytest_plugins = ["tests.support.clusters", "tests.support.s3", "tests.support.select", "tests.support.versions"]

# A busy machine must not fail an example. The profile is loaded before the modules of the tests read its values.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


@pytest.fixture(scope="module")
def cluster(control_plane: Cluster) -> Cluster:
    """The cluster that `kube`, `raw`, `namespace` and `kubelet` use.

    A suite on another depth overrides this fixture, in its conftest or module.
    """
    return control_plane


@pytest.fixture(scope="module")
def kube(cluster: Cluster) -> Iterator[ApiClient]:
    """The official Kubernetes client, as the administrator."""
    from kubernetes import config

    with config.new_client_from_config(str(cluster.kubeconfig)) as api:
        yield api


@pytest.fixture(scope="module")
def raw(cluster: Cluster) -> Iterator[RawClient]:
    """A client for the API server's plain JSON, as the administrator."""
    with contextlib.closing(RawClient(cluster)) as api:
        yield api


@pytest.fixture
def namespace(raw: RawClient, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for this test, ready for Pods. The test ends when its deletion has begun."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    with fresh_namespace(raw, words[:50].strip("-") or "test") as name:
        yield name


@pytest.fixture
def kubelet(raw: RawClient, namespace: str) -> Kubelet:
    """The fake kubelet for the Pods of the test's namespace."""
    return Kubelet(raw, namespace)
