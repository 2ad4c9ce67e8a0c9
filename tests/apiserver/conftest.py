"""A controller under its own ClusterRole, and the Frameworks of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.frameworks import ControllerProcess, Frameworks, Player, apply_rights

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster
    from support.kubelet import Kubelet
    from support.raw import Raw


@pytest.fixture(scope="session")
def controller_rights(cluster: Cluster, frameworks_crd: None) -> None:
    """What the controller may do, from its manifest."""
    apply_rights(cluster)


@pytest.fixture
def controller(
    cluster: Cluster, namespace: str, controller_rights: None, tmp_path: Path
) -> Iterator[ControllerProcess]:
    """A controller of the test's namespace, running."""
    process = ControllerProcess(cluster, tmp_path, {"namespace": namespace})
    process.start()
    yield process
    assert process.stop() == 0, process.log[-3000:]
    assert "Traceback" not in process.log, process.log


@pytest.fixture
def frameworks(raw: Raw, namespace: str) -> Frameworks:
    """The Frameworks of the test's namespace."""
    return Frameworks(raw, namespace)


@pytest.fixture
def player(kubelet: Kubelet, frameworks: Frameworks) -> Player:
    """Who lets the Pods of the test's namespace live; its plan may be changed while it plays."""
    return Player(kubelet, frameworks)
