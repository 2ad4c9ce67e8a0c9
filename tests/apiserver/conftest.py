"""Fixtures of the suites against a real API server: a controller with its ClusterRole, the Frameworks of a test."""

import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from frameworkcontroller.api import definition as crd
from localcluster import Cluster
from localcluster.client import Json, RawClient
from testkit import kueue
from testkit.frameworks import ControllerProcess, Frameworks
from testkit.waiting import eventually
from tests.injector.replica_processes import Replica, called, identity_of, installed_on
from tests.support.beside.kubelet import Kubelet
from tests.support.beside.player import Player
from tests.support.beside.queued import CONFIG_MAPS, Queued, restarted
from tests.support.beside.refusals import refusal_of
from tests.support.clusters import require_node
from tests.support.frameworkctl import Frameworkctl


@pytest.fixture
def controller(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A running controller for the test's namespace; at its end it must stop cleanly and have logged no traceback."""
    yield from run(ControllerProcess(cluster, tmp_path, {"namespaces": [namespace]}))


@pytest.fixture
def queueing(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A controller as `controller`, whose Frameworks Kueue queues."""
    yield from run(ControllerProcess(cluster, tmp_path, {"namespaces": [namespace], "kueue": {"enabled": True}}))


def run(process: ControllerProcess) -> Iterator[ControllerProcess]:
    """Run a controller for a fixture; see `ends_cleanly`."""
    with ends_cleanly(process):
        process.start()
        yield process


@contextlib.contextmanager
def ends_cleanly(*processes: ControllerProcess) -> Iterator[None]:
    """Stop these controllers in the end, as far as they were started; none may fail or have logged a traceback."""
    try:
        yield
    finally:
        codes = [(process, process.stop()) for process in processes if process.starts]
    for process, code in codes:
        assert code == 0, process.log[-3000:]
        assert "Traceback" not in process.log, process.log


@pytest.fixture
def queued(raw: RawClient, frameworks: Frameworks, player: Player) -> Queued:
    """The Frameworks of the test's namespace in queues of Kueue."""
    return Queued(raw, frameworks, player)


@pytest.fixture(scope="module")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kueue.Kueue]:
    """Kueue, which may read what our chart lets it read, and which a test starts as it wants it."""
    require_node()
    kueue.grant(cluster)
    process = kueue.Kueue(cluster, tmp_path_factory.mktemp("kueue"))
    yield process
    process.stop()


@pytest.fixture(scope="module")
def running(installed: kueue.Kueue) -> None:
    """Kueue runs with the configuration of its chart, and leaves Pods of Frameworks alone."""
    restarted(installed, CONFIG_MAPS)


@pytest.fixture
def frameworks(raw: RawClient, namespace: str) -> Frameworks:
    """The Frameworks of the test's namespace."""
    return Frameworks(raw, namespace)


@pytest.fixture
def player(kubelet: Kubelet, frameworks: Frameworks) -> Player:
    """The driver of the Pods of the test's namespace."""
    return Player(kubelet, frameworks)


@pytest.fixture
def ctl(cluster: Cluster, namespace: str, tmp_path: Path) -> Frameworkctl:
    """The command line of the administrator."""
    return Frameworkctl(cluster.kubeconfig, namespace, tmp_path)


@pytest.fixture(scope="module")
def identity(cluster: Cluster, raw: RawClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of the injector, which is installed for the module."""
    with installed_on(raw):
        yield identity_of(cluster, raw, tmp_path_factory.mktemp("identity"))


@pytest.fixture(scope="module")
def injector(raw: RawClient, identity: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """A replica of the injector that is ready and called by the API server."""
    with called(raw, identity, tmp_path_factory.mktemp("injector")) as replica:
        yield replica


class Served(NamedTuple):
    """Frameworks of a namespace in a group of its own, and the definition of today."""

    group: str
    definition: str
    collection: str
    today: Json


@pytest.fixture
def schemaless(raw: RawClient, namespace: str) -> Iterator[Served]:
    """Frameworks are served without a schema, as an installation of Microsoft's controller may have them."""
    group = f"{namespace}.example.org"
    today = crd.crd()
    today["metadata"]["name"] = f"frameworks.{group}"
    today["spec"]["group"] = group
    today["spec"]["names"] |= {"shortNames": [], "categories": []}
    before = copy.deepcopy(today)
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    before["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = loose
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/frameworks.{group}"
    collection = f"/apis/{group}/v1/namespaces/{namespace}/frameworks"
    raw.apply(path, before)

    def is_served() -> None:
        probe = {"apiVersion": f"{group}/v1", "kind": "Framework", "metadata": {"name": "probe"}}
        assert refusal_of(raw, collection, probe) == ""

    try:
        eventually(is_served, timeout=30)
        yield Served(group, path, collection, today)
    finally:
        raw.delete(path)
