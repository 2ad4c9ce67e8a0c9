"""Fixtures of the suites against a real API server: a controller with its ClusterRole, the Frameworks of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import ControllerProcess, Frameworks, two_controllers
from tests.injector.replica_processes import called, identity_of, installed_on
from tests.support.player import Player

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import RawClient
    from tests.injector.replica_processes import Replica
    from tests.support.kubelet import Kubelet


@pytest.fixture
def controller(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A running controller for the test's namespace; at its end it must stop cleanly and have logged no traceback."""
    process = ControllerProcess(cluster, tmp_path, {"namespace": namespace})
    process.start()
    yield process
    stop_cleanly(process)


@pytest.fixture
def competitors(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[None]:
    """Two running controllers for the test's namespace, without a Lease; their ends are as that of `controller`."""
    replicas = two_controllers(cluster, tmp_path, {"namespace": namespace})
    for replica in replicas:
        replica.start()
    yield
    for replica in replicas:
        stop_cleanly(replica)


def stop_cleanly(process: ControllerProcess) -> None:
    assert process.stop() == 0, process.log[-3000:]
    assert "Traceback" not in process.log, process.log


@pytest.fixture
def frameworks(raw: RawClient, namespace: str) -> Frameworks:
    """The Frameworks of the test's namespace."""
    return Frameworks(raw, namespace)


@pytest.fixture
def player(kubelet: Kubelet, frameworks: Frameworks) -> Player:
    """The driver of the Pods of the test's namespace."""
    return Player(kubelet, frameworks)


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
