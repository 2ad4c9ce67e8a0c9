"""How long a Framework may run and how long it is kept, on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver


def gone(frameworks: Frameworks, name: str) -> None:
    assert name not in {one["metadata"]["name"] for one in frameworks.raw.get(frameworks.path)["items"]}


def test_a_framework_ends_when_its_deadline_is_over(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"]}
    always = {"fancyRetryPolicy": True, "maxRetryCount": -2}
    frameworks.create("fw", role("worker", 1), activeDeadlineSeconds=2, retryPolicy=always)
    with player.playing():
        status = frameworks.wait("fw", "Completed")
    completion = status["attemptStatus"]["completionStatus"]
    assert (completion["code"], completion["phrase"]) == (-240, "FrameworkDeadlineExceeded")
    assert completion["type"] == {"name": "Failed", "attributes": ["Permanent"]}
    assert "activeDeadlineSeconds 2" in completion["diagnostics"]
    assert status["attemptStatus"]["id"] == 0
    conditions = {one["type"]: one for one in status["conditions"]}
    assert (conditions["Failed"]["status"], conditions["Failed"]["reason"]) == ("True", "FrameworkDeadlineExceeded")
    assert frameworks.pods() == {}


def test_a_deadline_that_passed_while_no_controller_ran_ends_the_framework(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"]}
    frameworks.create("fw", role("worker", 1))
    with player.playing():
        frameworks.wait("fw", "AttemptRunning")
        assert controller.stop() == 0
        frameworks.merge("fw", activeDeadlineSeconds=1)
        controller.start()
        status = frameworks.wait("fw", "Completed")
    assert status["attemptStatus"]["completionStatus"]["code"] == -240


def test_a_framework_is_deleted_when_its_time_to_live_is_over(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    frameworks.create("now", role("worker", 1), ttlSecondsAfterFinished=0)
    frameworks.create("kept", role("worker", 1))
    with player.playing():
        eventually(lambda: gone(frameworks, "now"), 30)
        frameworks.wait("kept", "Completed")
        frameworks.merge("kept", ttlSecondsAfterFinished=1)
        eventually(lambda: gone(frameworks, "kept"), 30)
    assert frameworks.pods() == {}
    assert ": OnFrameworkDeletion: ObjectSnapshot: " in controller.log
