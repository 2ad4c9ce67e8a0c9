"""Fixtures of the end-to-end suites: a real node, and the programs from their images and manifests."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import yaml

from frameworkclient import Client
from frameworkdemo import deploy, manifests
from frameworkdemo.cluster import local_cluster
from localcluster import Cluster, LocalClusterError
from localcluster.client import RawClient
from localcluster.images import images
from testkit.frameworks import Frameworks, apply_definition
from tests.e2e.gangs.ranks import Gang
from tests.e2e.onenamespace import PROGRAMS, release_for
from tests.e2e.pods import TRAINING
from tests.support.clusters import once

# Each test installs the chart for its namespace, as somebody without permissions of the cluster has it.
ROLES_ONLY = os.environ.get("FRAMEWORKCONTROLLER_ROLES_ONLY") == "1"


@pytest.fixture(scope="module")
def cluster(node_cluster: Cluster) -> Cluster:
    """The cluster with a real node, for all other fixtures."""
    return node_cluster


@pytest.fixture(scope="module")
def loaded(cluster: Cluster) -> None:
    """The images of the three programs, built and loaded."""

    def load() -> None:
        for archive in images.build_all(PROGRAMS).values():
            cluster.load(archive)

    once(cluster, "images", load)


@pytest.fixture(scope="module")
def installed(cluster: Cluster, loaded: None) -> None:
    """The three programs, deployed with their manifests, and ready."""

    def install() -> None:
        deploy.install(local_cluster(cluster), manifests.programs(manifests.ImageNames()))

    once(cluster, "programs", install)


@pytest.fixture(scope="module")
def training_image(cluster: Cluster) -> None:
    """The image with PyTorch, JAX and MPI, which takes long to load."""
    for archive in images.build_all([TRAINING]).values():
        cluster.load(archive)


@pytest.fixture
def frameworks(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    raw: RawClient,
    namespace: str,
    loaded: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Frameworks]:
    """The Frameworks of the test's namespace, with the programs for all namespaces, or with Roles in this one."""
    if not ROLES_ONLY:
        request.getfixturevalue("installed")
        yield Frameworks(raw, namespace)
        return
    apply_definition(raw)
    folder = tmp_path_factory.mktemp("release")
    with release_for(cluster, namespace, folder, "--set=crds.enabled=false", "--set=image.tag=dev"):
        yield Frameworks(raw, namespace)


@pytest.fixture
def gang(cluster: Cluster, frameworks: Frameworks) -> Gang:
    """A gang of ranks that restarts in place."""
    return Gang(cluster, frameworks)


@pytest.fixture
def client(cluster: Cluster, namespace: str, frameworks: Frameworks) -> Iterator[Client]:
    """The client of the SDK for the test's namespace."""
    with Client(kubeconfig=os.fspath(cluster.kubeconfig), namespace=namespace) as made:
        yield made


@pytest.fixture
def kubeconfig(cluster: Cluster, namespace: str, tmp_path: Path) -> Path:
    """A kubeconfig whose namespace is the test's."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a test that fails show its namespace, as it is then: what has happened on a node seldom happens again."""
    made = yield
    fixtures = getattr(item, "funcargs", {})
    if made.when == "call" and made.failed and fixtures.keys() >= {"cluster", "namespace"}:
        for command in (
            "get frameworks -o yaml",
            "get pods -o wide",
            "get events --sort-by=.metadata.creationTimestamp",
        ):
            try:
                shown = fixtures["cluster"].kubectl(*command.split(), "-n", fixtures["namespace"])
            except LocalClusterError as error:
                shown = str(error)
            made.sections.append((f"kubectl {command}", "\n".join(shown.splitlines()[-200:])))
    return made


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With Roles only, keep the tests of Frameworks in one namespace."""
    if not ROLES_ONLY:
        return
    names = {item: set(getattr(item, "fixturenames", ())) for item in items}
    kept = [item for item in items if {"frameworks", "loaded"} <= names[item] and "installed" not in names[item]]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
