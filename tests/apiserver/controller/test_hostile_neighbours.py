"""Healthy gangs beside hostile Frameworks of each kind: `make hostile`.

What is hostile is in `tests/hostile/kinds.py`. Each kind is compared with a plain client that makes the same Pods at
the same API server, while the tenant creates and edits the same Frameworks, with the statuses that they had, and no
controller works on these: no controller can help what all that costs.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import Cluster
from localcluster.client import Json, RawClient
from localcluster.processes.ports import free_port
from testkit.frameworks import Frameworks
from tests.hostile.gauge import ReadController
from tests.hostile.kinds import KINDS
from tests.hostile.run import GANGS, SECONDS, Run
from tests.support.apiserver import fresh_namespace
from tests.support.beside.foreign_gangs import grant

pytestmark = [pytest.mark.apiserver, pytest.mark.long, pytest.mark.turns("long")]


@pytest.fixture(scope="module")
def cluster(kwok_cluster: Cluster) -> Cluster:
    return kwok_cluster


@pytest.fixture
def places(raw: RawClient) -> Iterator[list[str]]:
    """Namespaces for the healthy gangs, for what is hostile, and for the plain client."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(fresh_namespace(raw, what)) for what in ("healthy", "hostile", "plain")]


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[ReadController]:
    """A controller with a lease, whose log somebody reads; it is started for each round."""
    grant(cluster)
    settings: Json = {
        "leaderElection": {"enabled": True, "namespace": "frameworkcontroller-system"},
        "foreignGangs": {"enabled": True},
    }
    if os.environ.get("HOSTILE_CRASH_PAUSE") == "0":
        settings["crashLoopPause"] = False
    process = ReadController(cluster, tmp_path, settings, health_port=free_port())
    try:
        yield process
    finally:
        if process.process is not None:
            process.stop()
        process.close()


def test_healthy_gangs_start_beside_hostile_frameworks_as_beside_a_plain_client(
    cluster: Cluster, raw: RawClient, controller: ReadController, places: list[str]
) -> None:
    healthy, hostile, plain = (Frameworks(raw, name) for name in places)
    kinds = tuple(kind for kind in KINDS if re.search(os.environ.get("HOSTILE_KINDS", ""), kind.name))
    seconds = float(os.environ.get("HOSTILE_SECONDS") or SECONDS)
    gangs = int(os.environ.get("HOSTILE_GANGS") or GANGS)
    Run(cluster, controller, healthy, hostile, plain, seconds, gangs, kinds).play()
    assert "Traceback" not in controller.log, controller.log[-5000:]
