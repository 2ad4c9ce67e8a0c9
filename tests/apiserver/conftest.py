"""Fixtures of the suites against a real API server: a controller with its ClusterRole, the Frameworks of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import ControllerProcess, Frameworks
from tests.support.player import Player

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import RawClient
    from tests.support.kubelet import Kubelet


@pytest.fixture
def controller(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A running controller for the test's namespace; at its end it must stop cleanly and have logged no traceback."""
    process = ControllerProcess(cluster, tmp_path, {"namespace": namespace})
    process.start()
    yield process
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
