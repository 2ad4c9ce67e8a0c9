"""A controller whose way to the API server is cut: nothing is lost, done twice or restarted."""

from __future__ import annotations

import time
import urllib.error
from typing import TYPE_CHECKING

import pytest

from localcluster.ports import free_port
from testkit.frameworks import ControllerProcess, role
from testkit.waiting import eventually
from tests.support.background import in_background
from tests.support.http import fetch
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster
    from testkit.frameworks import Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver

RETRY = {"fancyRetryPolicy": True, "maxRetryCount": 1}


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    with Proxy(cluster) as between:
        yield between


@pytest.fixture
def behind(cluster: Cluster, proxy: Proxy, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A controller that knows the API server only through the proxy."""
    server = proxy.url
    process = ControllerProcess(cluster, tmp_path, {"namespaces": [namespace]}, health_port=free_port(), server=server)
    process.start()
    yield process
    assert process.stop() == 0, process.log[-3000:]
    assert "Traceback" not in process.log, process.log


def test_connections_that_break_all_the_time_change_nothing_but_the_pace(
    behind: ControllerProcess, proxy: Proxy, frameworks: Frameworks, player: Player
) -> None:
    dropped: list[int] = []

    def drop() -> None:
        # Each time a little later: in a fixed time a busy machine might not even greet the server.
        time.sleep(0.25 * 1.05 ** len(dropped))
        dropped.append(proxy.drop())

    player.plan = {"worker-0": [3, 0], "worker-2": ["stay", "stay"]}
    with in_background(drop), player.playing():
        frameworks.create(
            "fw", role("worker", 4, retry=RETRY, completion={"minSucceededTaskCount": 3}), retryPolicy=RETRY
        )
        frameworks.wait("fw", "Completed", 90)
    assert sum(dropped) >= 5, "the test must have done what it says"
    tasks = frameworks.tasks("fw")
    assert frameworks.status("fw")["attemptStatus"]["completionStatus"]["code"] == 0
    assert [tasks[f"worker-{index}"]["retryPolicyStatus"]["accountableRetriedCount"] for index in range(4)] == [
        1,
        0,
        0,
        0,
    ]
    # A create whose answer was lost is found again, not answered with another attempt.
    assert [tasks[f"worker-{index}"]["attemptStatus"]["id"] for index in range(4)] == [1, 0, 0, 0]


def test_while_the_api_server_is_away_the_process_is_healthy_and_it_continues_afterwards(
    behind: ControllerProcess, proxy: Proxy, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"]}
    with player.playing():
        frameworks.create("fw", role("worker", 1))
        frameworks.wait("fw", "AttemptRunning")
        uid = frameworks.pods()["fw-worker-0"]["metadata"]["uid"]
        proxy.cut()
        # What happens meanwhile is seen later: the Pod ends, and the user asks for another.
        player.plan = {}
        for _ in range(3):
            assert fetch(behind.health_port, "/healthz") == (200, "ok\n")
            time.sleep(0.5)
        assert frameworks.status("fw")["state"] == "AttemptRunning"
        proxy.restore()
        frameworks.wait("fw", "Completed", 60)
    task = frameworks.tasks("fw")["worker-0"]
    assert (task["attemptStatus"]["podUID"], task["attemptStatus"]["completionStatus"]["code"]) == (uid, 0)


def test_a_server_that_was_away_at_the_start_is_waited_for(
    cluster: Cluster, proxy: Proxy, namespace: str, tmp_path: Path
) -> None:
    port, server = free_port(), proxy.url
    process = ControllerProcess(cluster, tmp_path, {"namespaces": [namespace]}, health_port=port, server=server)
    proxy.cut()
    process.start(works=False)
    try:

        def is_up() -> None:
            try:
                assert fetch(port, "/readyz")[0] == 503
            except urllib.error.URLError as error:
                raise AssertionError(str(error)) from error

        eventually(is_up)
        assert fetch(port, "/healthz") == (200, "ok\n")
        proxy.restore()

        def works() -> None:
            assert fetch(port, "/readyz") == (200, "ok\n")

        eventually(works, 60)
    finally:
        assert process.stop() == 0
