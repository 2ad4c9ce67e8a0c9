"""Restarts of a gang in its Pods on a real API server, where the tests report what kubelets would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testkit.restarting_gang import RestartingGang
from testkit.waiting import eventually

if TYPE_CHECKING:
    from testkit.frameworks import Frameworks

pytestmark = pytest.mark.apiserver

TASKS, CRASHES = 3, 5


def restart_again_and_again(frameworks: Frameworks) -> None:
    """Each time another rank ends, two at once every other time; the others follow."""
    gang = RestartingGang(frameworks, "fw", TASKS)
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
    attempt = frameworks.status("fw")["attemptStatus"]
    assert (attempt["id"], attempt["gangEpoch"], attempt["gangRestarts"]) == (0, CRASHES, CRASHES)


@pytest.mark.usefixtures("controller")
def test_a_gang_restarts_in_its_pods_and_says_so(frameworks: Frameworks) -> None:
    restart_again_and_again(frameworks)
    restarts = frameworks.status("fw")["attemptStatus"]["lastGangRestarts"]
    assert [one["epoch"] for one in restarts] == list(range(1, CRASHES + 1))
    assert {task["attemptStatus"]["starts"] for task in frameworks.tasks("fw").values()} == {CRASHES + 1}

    def said() -> None:
        assert {"GangRestarting", "GangRestarted"} <= {event["reason"] for event in frameworks.events("fw")}

    eventually(said)


@pytest.mark.usefixtures("competitors")
def test_two_controllers_that_compete_restart_a_gang_as_one_would(frameworks: Frameworks) -> None:
    restart_again_and_again(frameworks)
