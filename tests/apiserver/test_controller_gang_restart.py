"""Restarts of a gang in its Pods on a real API server, where the tests report what kubelets would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from localcluster.frameworks import two_controllers
from localcluster.restartinggang import RestartingGang
from localcluster.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.frameworks import ControllerProcess, Frameworks

pytestmark = pytest.mark.apiserver

TASKS, CRASHES = 3, 5


@pytest.fixture
def gang(frameworks: Frameworks) -> RestartingGang:
    return RestartingGang(frameworks, "fw", TASKS)


def restarts_again_and_again(gang: RestartingGang) -> None:
    """Each time another rank ends, two at once every other time; the others follow."""

    def begun() -> None:
        # Controllers that compete may replace Pods before all are in the status.
        gang.confirm_deletions()
        gang.has_pods()
        gang.report_all(0)
        gang.is_open(0)

    eventually(begun)
    pods = gang.has_pods()
    for crash in range(1, CRASHES + 1):
        for index in {crash % TASKS, (crash + crash % 2) % TASKS}:
            gang.report(index, crash - 1, restarting=True)
        roster = eventually(lambda epoch=crash: gang.is_closed(epoch))
        assert "worker-" in roster["why"]
        gang.report_all(crash)
        eventually(lambda epoch=crash: gang.is_open(epoch))
    assert gang.has_pods() == pods, "restarts need no new Pods"


def test_a_gang_restarts_in_its_pods_and_says_so(
    controller: ControllerProcess, frameworks: Frameworks, gang: RestartingGang
) -> None:
    gang.create()
    restarts_again_and_again(gang)
    attempt = frameworks.status("fw")["attemptStatus"]
    assert (attempt["id"], attempt["gangEpoch"], attempt["gangRestarts"]) == (0, CRASHES, CRASHES)
    assert [one["epoch"] for one in attempt["lastGangRestarts"]] == list(range(1, CRASHES + 1))
    assert {task["attemptStatus"]["starts"] for task in frameworks.tasks("fw").values()} == {CRASHES + 1}

    def said() -> None:
        found = frameworks.raw.get(f"/api/v1/namespaces/{frameworks.namespace}/events")["items"]
        assert {"GangRestarting", "GangRestarted"} <= {one["reason"] for one in found}

    eventually(said)


def test_two_controllers_that_compete_restart_a_gang_as_one_would(
    cluster: Cluster,
    namespace: str,
    controller_permissions: None,
    frameworks: Frameworks,
    gang: RestartingGang,
    tmp_path: Path,
) -> None:
    replicas = two_controllers(cluster, tmp_path, {"namespace": namespace})
    for replica in replicas:
        replica.start()
    try:
        gang.create()
        restarts_again_and_again(gang)
        attempt = frameworks.status("fw")["attemptStatus"]
        assert (attempt["id"], attempt["gangEpoch"], attempt["gangRestarts"]) == (0, CRASHES, CRASHES)
    finally:
        for replica in replicas:
            replica.stop()
    for replica in replicas:
        assert "Traceback" not in replica.log, replica.log
