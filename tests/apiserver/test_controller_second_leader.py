"""Two controllers that both act as the leader, which no election can rule out completely."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role

if TYPE_CHECKING:
    from testkit.frameworks import Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver


@pytest.mark.usefixtures("competitors")
def test_two_controllers_that_compete_end_every_framework_as_one_would(frameworks: Frameworks, player: Player) -> None:
    names = [f"fw{number}" for number in range(5)]
    player.plan = {"worker-0": [3, 0]}
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 1}
    workers = role("worker", 3, retry=retry, completion={"minSucceededTaskCount": 3})
    with player.playing():
        for name in names:
            frameworks.create(name, workers, retryPolicy=retry)
        for name in names:
            completion = frameworks.wait(name, "Completed", 90)["attemptStatus"]["completionStatus"]
            assert (completion["code"], completion["phrase"]) == (0, "Succeeded"), completion
            # One retry because of the exit code 3; conflicts between the replicas are not counted as retries.
            retried = frameworks.tasks(name)["worker-0"]["retryPolicyStatus"]
            assert retried["accountableRetriedCount"] == 1, retried
