"""Two controllers that both act as the leader, which no election can rule out completely."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role, two_controllers
from testkit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster import Cluster
    from testkit.frameworks import Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver


def test_two_controllers_that_compete_end_every_framework_as_one_would(
    cluster: Cluster,
    namespace: str,
    frameworks: Frameworks,
    player: Player,
    tmp_path: Path,
) -> None:
    replicas = two_controllers(cluster, tmp_path, {"namespace": namespace})
    for replica in replicas:
        replica.start()
    names = [f"fw{number}" for number in range(5)]
    player.plan = {"worker-0": [3, 0]}
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 1}
    try:
        with player.playing():
            for name in names:
                frameworks.create(
                    name, role("worker", 3, retry=retry, completion={"minSucceededTaskCount": 3}), retryPolicy=retry
                )

            def all_ended() -> None:
                states = Counter(frameworks.status(name)["state"] for name in names)
                assert states == {"Completed": len(names)}, states

            eventually(all_ended, 90)
        for name in names:
            completion = frameworks.status(name)["attemptStatus"]["completionStatus"]
            assert (completion["code"], completion["phrase"]) == (0, "Succeeded"), completion
            # One retry because of the exit code 3; conflicts between the replicas are not counted as retries.
            retried = frameworks.tasks(name)["worker-0"]["retryPolicyStatus"]
            assert retried["accountableRetriedCount"] == 1, retried
    finally:
        for replica in replicas:
            replica.stop()
    for replica in replicas:
        assert "Traceback" not in replica.log, replica.log
