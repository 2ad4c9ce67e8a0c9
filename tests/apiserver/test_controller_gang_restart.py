"""Restarts of a gang in its Pods, where the tests report what kubelets would; and controllers that compete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role, two_controllers
from testkit.restarting_gang import RestartingGang
from testkit.waiting import eventually
from tests.apiserver.conftest import ends_cleanly

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster import Cluster
    from testkit.frameworks import Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver

TASKS, CRASHES = 3, 5


def restart_again_and_again(frameworks: Frameworks) -> None:
    """Each time another rank ends, two at once every other time; the others follow."""
    gang = RestartingGang(frameworks, "gang", TASKS)
    gang.create()

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
    attempt = frameworks.status("gang")["attemptStatus"]
    assert (attempt["id"], attempt["gangEpoch"], attempt["gangRestarts"]) == (0, CRASHES, CRASHES)


@pytest.mark.usefixtures("controller")
def test_a_gang_restarts_in_its_pods_and_says_so(frameworks: Frameworks) -> None:
    restart_again_and_again(frameworks)
    restarts = frameworks.status("gang")["attemptStatus"]["lastGangRestarts"]
    assert [one["epoch"] for one in restarts] == list(range(1, CRASHES + 1))
    assert {task["attemptStatus"]["starts"] for task in frameworks.tasks("gang").values()} == {CRASHES + 1}

    def said() -> None:
        assert {"GangRestarting", "GangRestarted"} <= {event["reason"] for event in frameworks.events("gang")}

    eventually(said)


def test_two_controllers_that_compete_do_as_one_would(
    cluster: Cluster, frameworks: Frameworks, player: Player, tmp_path: Path
) -> None:
    """Both act as the leader, which no election can rule out completely."""
    names = [f"fw{number}" for number in range(5)]
    player.plan = {"worker-0": [3, 0]}
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 1}
    workers = role("worker", 3, retry=retry, completion={"minSucceededTaskCount": 3})
    competitors = two_controllers(cluster, tmp_path, {"namespaces": [frameworks.namespace]})
    with ends_cleanly(*competitors):
        for controller in competitors:
            controller.start()
        with player.playing():
            for name in names:
                frameworks.create(name, workers, retryPolicy=retry)
            for name in names:
                completion = frameworks.wait(name, "Completed", 90)["attemptStatus"]["completionStatus"]
                assert (completion["code"], completion["phrase"]) == (0, "Succeeded"), completion
                # One retry because of the exit code 3; conflicts between the replicas are not counted as retries.
                retried = frameworks.tasks(name)["worker-0"]["retryPolicyStatus"]
                assert retried["accountableRetriedCount"] == 1, retried
        restart_again_and_again(frameworks)
