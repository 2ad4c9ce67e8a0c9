"""Frameworks that are suspended and resumed, on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from localcluster.client import Json
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver


def test_a_framework_is_suspended_before_and_while_it_runs_and_goes_on_when_it_is_resumed(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": ["stay", "stay", 0], "worker-1": ["stay", "stay", 0]}
    frameworks.create("fw", role("worker", 2), suspend=True)

    def suspended() -> Json:
        found = frameworks.conditions("fw")["Suspended"]
        assert (found["status"], found["reason"]) == ("True", "Suspended")
        assert frameworks.pods() == {}
        return frameworks.status("fw")

    with player.playing():
        assert eventually(suspended)["attempts"] == 1
        frameworks.merge("fw", suspend=False)
        frameworks.wait("fw", "AttemptRunning")
        frameworks.merge("fw", suspend=True)
        status = eventually(suspended)
        assert (status["state"], status["attempts"]) == ("AttemptCreationPending", 2)
        assert status["retryPolicyStatus"] == {
            "totalRetriedCount": 1,
            "accountableRetriedCount": 0,
            "retryDelaySec": None,
        }
        assert status["suspendedSince"]
        # Numbers may change meanwhile; and it is resumed, and suspended again while it runs, with nobody there.
        frameworks.merge("fw", taskRoles=[role("worker", 1)])
        frameworks.merge("fw", suspend=False)
        frameworks.wait("fw", "AttemptRunning")
        controller.kill()
        frameworks.merge("fw", suspend=True)
        controller.start()
        assert eventually(suspended)["attempts"] == 3
        controller.kill()
        frameworks.merge("fw", suspend=False)
        controller.start()
        status = frameworks.wait("fw", "Completed")
    assert status["attemptStatus"]["completionStatus"]["code"] == 0
    assert status["retryPolicyStatus"]["accountableRetriedCount"] == 0
    assert "suspendedSince" not in status
    assert isinstance(status["suspendedSec"], int)

    def said() -> None:
        assert {event["reason"] for event in frameworks.events("fw")} >= {"FrameworkSuspended", "FrameworkResumed"}
        assert not [event for event in frameworks.events("fw") if event["reason"] == "AttemptRetried"]

    eventually(said)
