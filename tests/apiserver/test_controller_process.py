"""The controller as a process: health, metrics, a bad start, two replicas."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api import definition as crd
from frameworkcontroller.api import names
from localcluster.ports import free_port
from testkit.frameworks import ControllerProcess, apply_definition, role, two_controllers
from testkit.waiting import eventually, patience
from tests.support.http import fetch

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import RawClient
    from testkit.frameworks import Frameworks
    from tests.support.player import Player

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]

# Under the manifest's own Role: that Lease and no other.
ELECTION = {"enabled": True, "namespace": "frameworkcontroller-system"}


def test_metrics_count_what_has_happened(
    cluster: Cluster,
    namespace: str,
    frameworks: Frameworks,
    player: Player,
    tmp_path: Path,
) -> None:
    port = free_port()
    controller = ControllerProcess(cluster, tmp_path, {"namespace": namespace}, health_port=port)
    controller.start()
    try:
        assert fetch(port, "/healthz") == (200, "ok\n")
        assert fetch(port, "/readyz") == (200, "ok\n")
        player.plan = {"worker-0": [3, 0]}
        frameworks.create("fw", role("worker", 2, retry={"fancyRetryPolicy": False, "maxRetryCount": 1}))
        with player.playing():
            frameworks.wait("fw", "Completed")

        def counted() -> None:
            text = fetch(port, "/metrics")[1]
            for line in (
                'frameworkcontroller_frameworks{state="Completed"} 1.0',
                'frameworkcontroller_tasks{state="Completed"} 0.0',  # it is at rest
                "frameworkcontroller_waiting_tasks 0.0",
                'frameworkcontroller_attempts_total{kind="framework"} 1.0',
                'frameworkcontroller_attempts_total{kind="task"} 3.0',
                'attempt_completions_total{code="other",kind="task",phrase="ContainerUnrecognizedFailed"} 1.0',
                'frameworkcontroller_attempt_completions_total{code="0",kind="framework",phrase="Succeeded"} 1.0',
                'frameworkcontroller_gang_start_seconds_count{phase="created"} 1.0',
                'frameworkcontroller_gang_start_seconds_count{phase="addressed"} 1.0',
                'workqueue_depth{controller="framework",name="framework"} 0.0',
                'controller_runtime_reconcile_total{controller="framework",result="error"} 0.0',
            ):
                assert line in text, line
            assert 'rest_client_requests_total{code="201"' in text

        eventually(counted)
    finally:
        assert controller.stop() == 0


def test_a_configuration_that_is_not_usable_stops_the_start_with_one_line(tmp_path: Path) -> None:
    config = tmp_path / "frameworkcontroller.yaml"
    config.write_text("largeFrameworkCompresion: true\n")
    done = subprocess.run(
        [sys.executable, "-m", "frameworkcontroller"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patience(30),
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "largeFrameworkCompresion" in done.stderr


def test_a_definition_without_the_status_subresource_is_named_and_waited_for(
    cluster: Cluster,
    raw: RawClient,
    namespace: str,
    frameworks: Frameworks,
    player: Player,
    tmp_path: Path,
) -> None:
    """Microsoft's controller installs such a definition; it accepts no status."""
    definition = crd.crd()
    del definition["spec"]["versions"][0]["subresources"]
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.CRD_NAME}"
    discovery = f"/apis/{names.API_VERSION}"

    def is_taken_away() -> None:
        assert "frameworks/status" not in {found["name"] for found in raw.get(discovery)["resources"]}

    port = free_port()
    controller = ControllerProcess(cluster, tmp_path, {"namespace": namespace}, health_port=port)
    raw.apply(path, definition)
    try:
        eventually(is_taken_away)
        controller.start(works=False)

        def is_said() -> None:
            assert "has no status subresource" in controller.log

        eventually(is_said)
        assert fetch(port, "/readyz")[0] == 503
    finally:
        apply_definition(raw)
    try:
        frameworks.create("fw", role("worker", 1))
        with player.playing():
            frameworks.wait("fw", "Completed")
    finally:
        assert controller.stop() == 0


def test_of_two_replicas_one_works_and_the_other_takes_over_when_it_is_stopped(
    cluster: Cluster,
    namespace: str,
    frameworks: Frameworks,
    player: Player,
    tmp_path: Path,
) -> None:
    first, second = replicas = two_controllers(cluster, tmp_path, {"namespace": namespace, "leaderElection": ELECTION})
    first.start()
    second.start(works=False)
    try:
        player.plan = {"worker-0": ["stay"]}
        frameworks.create("fw", role("worker", 1))
        with player.playing():
            frameworks.wait("fw", "AttemptRunning")
            assert "state changed" not in second.log
            uid = frameworks.pods()["fw-worker-0"]["metadata"]["uid"]
            assert first.stop() == 0

            def follows() -> None:
                assert "caches are full" in second.log

            eventually(follows)
            player.plan = {}
            frameworks.wait("fw", "Completed")
        assert frameworks.tasks("fw")["worker-0"]["attemptStatus"]["podUID"] == uid
    finally:
        for replica in replicas:
            replica.stop()


def test_a_killed_replica_is_replaced_and_nothing_is_done_twice(
    cluster: Cluster,
    namespace: str,
    frameworks: Frameworks,
    player: Player,
    tmp_path: Path,
) -> None:
    """How soon is tested in virtual time, in `tests/kube/test_election`."""
    first, second = two_controllers(cluster, tmp_path, {"namespace": namespace, "leaderElection": ELECTION})
    first.start()
    second.start(works=False)
    try:
        player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
        frameworks.create("fw", role("worker", 2))
        with player.playing():
            frameworks.wait("fw", "AttemptRunning")

            def waits() -> None:
                assert "waiting for the lease" in second.log

            eventually(waits)
            uids = {name: pod["metadata"]["uid"] for name, pod in frameworks.pods().items()}
            first.kill()

            def follows() -> None:
                assert "became the leader" in second.log, second.log[-1000:]

            eventually(follows, 30)
            player.plan = {}
            frameworks.wait("fw", "Completed", 30)
        tasks = frameworks.tasks("fw")
        assert {f"fw-{slot}": task["attemptStatus"]["podUID"] for slot, task in tasks.items()} == uids
        assert [task["retryPolicyStatus"]["totalRetriedCount"] for task in tasks.values()] == [0, 0]
    finally:
        second.stop()
