"""Healthy gangs beside hostile Frameworks of each kind: `make hostile`.

What is hostile is in `tests/hostile/kinds.py`. Each kind is compared with a plain client that makes the same objects at
the same API server, because no controller can help what those cost.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING

import pytest

from localcluster.client import RawClient
from localcluster.frameworks import apply_definition, apply_permissions
from localcluster.ports import free_port
from tests.hostile.gauge import ReadController
from tests.hostile.kinds import KINDS
from tests.hostile.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.frameworks import Frameworks

pytestmark = [pytest.mark.apiserver, pytest.mark.long]
SECONDS = float(os.environ.get("HOSTILE_SECONDS", "600"))
CHOSEN = os.environ.get("HOSTILE_KINDS", "")


@pytest.fixture(scope="session")
def cluster(kwok_cluster: Cluster) -> Cluster:
    return kwok_cluster


@pytest.fixture(scope="session")
def controller_permissions(cluster: Cluster) -> None:
    with contextlib.closing(RawClient(cluster)) as raw:
        apply_definition(raw)
    apply_permissions(cluster)


@pytest.fixture
def other(raw: RawClient) -> Iterator[str]:
    """A namespace in which no controller works."""
    name = f"plain-{secrets.token_hex(4)}"
    raw.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    raw.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def controller(
    cluster: Cluster, namespace: str, controller_permissions: None, tmp_path: Path
) -> Iterator[ReadController]:
    """A controller with a lease, whose log somebody reads."""
    election = {"enabled": True, "namespace": "frameworkcontroller-system"}
    process = ReadController(
        cluster, tmp_path, {"namespace": namespace, "leaderElection": election}, health_port=free_port()
    )
    try:
        process.start()
        yield process
    finally:
        process.stop()
        process.close()


def test_healthy_gangs_start_beside_hostile_frameworks_as_beside_a_plain_client(
    cluster: Cluster, controller: ReadController, frameworks: Frameworks, other: str
) -> None:
    kinds = tuple(kind for kind in KINDS if CHOSEN in kind.name)
    Run(cluster, frameworks, other, controller, SECONDS, kinds).play()
    assert "Traceback" not in controller.log, controller.log[-5000:]
