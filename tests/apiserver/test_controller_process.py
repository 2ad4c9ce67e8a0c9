"""The controller as a process: health, metrics, a definition that lacks something, two replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api import definition as crd
from frameworkcontroller.api import names
from localcluster.ports import free_port
from testkit.frameworks import ControllerProcess, apply_definition, role, two_controllers
from testkit.waiting import eventually
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
    controller = ControllerProcess(cluster, tmp_path, {"namespaces": [namespace]}, health_port=port)
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
    controller = ControllerProcess(cluster, tmp_path, {"namespaces": [namespace]}, health_port=port)
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


def test_of_two_replicas_one_works_and_the_other_takes_over_when_it_is_stopped_or_killed(
    cluster: Cluster,
    namespace: str,
    frameworks: Frameworks,
    player: Player,
    tmp_path: Path,
) -> None:
    """How soon is tested in virtual time, in `tests/kube/test_election`."""
    first, second = two_controllers(cluster, tmp_path, {"namespaces": [namespace], "leaderElection": ELECTION})
    first.start()
    second.start(works=False)

    def waits() -> None:
        assert "waiting for the lease" in first.log[stopped:]

    def leads(replica: ControllerProcess, times: int) -> None:
        assert replica.log.count("caches are full") == times, replica.log[-1000:]

    try:
        player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
        frameworks.create("fw", role("worker", 2))
        with player.playing():
            frameworks.wait("fw", "AttemptRunning")
            uids = {name: pod["metadata"]["uid"] for name, pod in frameworks.pods().items()}
            assert "state changed" not in second.log
            assert first.stop() == 0
            stopped = len(first.log)
            eventually(lambda: leads(second, 1))
            first.start(works=False)
            eventually(waits)
            second.kill()
            eventually(lambda: leads(first, 2), 30)
            player.plan = {}
            frameworks.wait("fw", "Completed")
        tasks = frameworks.tasks("fw")
        assert {f"fw-{slot}": task["attemptStatus"]["podUID"] for slot, task in tasks.items()} == uids
        assert [task["retryPolicyStatus"]["totalRetriedCount"] for task in tasks.values()] == [0, 0]
    finally:
        for replica in (first, second):
            replica.stop()
