"""What the API server lets in and the controller cannot read stops nobody else: healthy Frameworks complete."""

from __future__ import annotations

import gzip
import json
import time
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest
import urllib3

from testkit.frameworks import framework, role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import Json
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver

DEPTHS = {"deep": 990, "deeper": 1100, "deepest": 9900}
"""Nested arrays in a template: about, and far beyond, what Python follows by itself; the server takes nearly 10,000."""
SMALL_STACK = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
runpy.run_module("frameworkcontroller", run_name="__main__", alter_sys=True)
"""
"""A controller that may not follow more than Python does."""
CUT_OFF = b64encode(gzip.compress(b"[" + b"1," * 5000 + b"1]")[:-9]).decode()


def create_nested(cluster: Cluster, frameworks: Frameworks, name: str, depth: int) -> None:
    """Create a Framework whose template has so many nested arrays, which no JSON library of this process can write."""
    pod: Json = {"spec": {"containers": [{"name": "main", "image": "none"}], "nested": "HERE"}}
    body = json.dumps(framework(frameworks.namespace, name, role("worker", 1, pod=pod)))
    body = body.replace('"HERE"', "[" * depth + "]" * depth)
    pool = urllib3.PoolManager(ca_certs=str(cluster.ca_file), retries=False)
    headers = {"Authorization": f"Bearer {cluster.admin_token}", "Content-Type": "application/json"}
    answer = pool.request("POST", cluster.server + frameworks.path, body=body, headers=headers)
    assert answer.status == 201, answer.data[:300]


def make_hostile(cluster: Cluster, frameworks: Frameworks, when: str) -> None:
    """Create the Frameworks that cannot be read, each between healthy ones."""
    for name, depth in DEPTHS.items():
        create_nested(cluster, frameworks, f"{name}{when}", depth)
        frameworks.create(f"{name}{when}good", role("worker", 1))
    # Not started, so that nothing but its status can be wrong.
    frameworks.create(f"corrupt{when}", role("worker", 1), executionType="Create")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    attempt = {"id": 0, "startTime": now, "configMapName": f"corrupt{when}-attempt"}
    status = {
        "startTime": now,
        "state": "AttemptCreationPending",
        "transitionTime": now,
        "attemptStatus": attempt | {"taskRoleStatuses": None, "taskRoleStatusesCompressed": CUT_OFF},
    }
    path = f"{frameworks.path}/corrupt{when}"
    # The controller, where it runs, writes too: a patch names no version that could be an old one.
    frameworks.raw.merge(f"{path}/status", {"status": status})
    # One that rests is read only when it is to start.
    frameworks.raw.merge(path, {"spec": {"executionType": "Start"}})
    frameworks.create(f"corrupt{when}good", role("worker", 1))


@pytest.mark.parametrize("small", [True, False], ids=["small stack", "stack"])
def test_frameworks_that_cannot_be_read_stop_no_other_when_they_are_listed_or_watched(
    cluster: Cluster, controller: ControllerProcess, frameworks: Frameworks, player: Player, *, small: bool
) -> None:
    assert controller.stop() == 0
    if small:
        controller.program = ("-c", SMALL_STACK)
    make_hostile(cluster, frameworks, "listed")
    controller.start()
    make_hostile(cluster, frameworks, "watched")

    def is_said() -> None:
        for name, reason in (("deepest", "Unreadable" if small else "FrameworkSucceeded"), ("corrupt", "Quarantined")):
            for when in ("listed", "watched"):
                assert reason in {event["reason"] for event in frameworks.events(f"{name}{when}")}, (name, when)

    with player.playing():
        for name in (*DEPTHS, "corrupt"):
            for when in ("listed", "watched"):
                frameworks.wait(f"{name}{when}good", "Completed", timeout=60)
        frameworks.create("last", role("worker", 1))
        frameworks.wait("last", "Completed", timeout=60)
        eventually(is_said)
    assert controller.process is not None
    assert controller.process.poll() is None
