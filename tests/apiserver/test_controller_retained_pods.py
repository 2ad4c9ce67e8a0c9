"""Pods that have ended and stay for their logs, on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from testkit.frameworks import Frameworks
    from tests.support.player import Player

pytestmark = [pytest.mark.apiserver, pytest.mark.usefixtures("controller")]

ONE_FAILS = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}


def test_what_has_failed_stays_until_its_framework_is_deleted(frameworks: Frameworks, player: Player) -> None:
    player.plan = {"worker-0": ["stay"], "worker-1": [210]}
    frameworks.create("fw", role("worker", 2, completion=ONE_FAILS), retainPods="OnFailure")
    with player.playing():
        status = frameworks.wait("fw", "Completed")
    assert status["attemptStatus"]["completionStatus"]["code"] == 210
    (kept,) = frameworks.pods().values()
    assert (kept["metadata"]["name"], kept["status"]["phase"]) == ("fw-worker-1", "Failed")
    assert kept["metadata"]["labels"]["frameworkcontroller.microsoft.com/retained"] == "true"
    (owner,) = kept["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Framework", frameworks.get("fw")["metadata"]["uid"])
    frameworks.raw.delete(f"{frameworks.path}/fw?propagationPolicy=Foreground")

    def gone() -> None:
        assert frameworks.pods() == {}

    eventually(gone, 30)


def test_a_retry_of_all_takes_the_names_of_what_has_stayed(frameworks: Frameworks, player: Player) -> None:
    player.plan = {"worker-0": [1, 0]}
    retry = {"fancyRetryPolicy": False, "maxRetryCount": 1}
    frameworks.create("fw", role("worker", 1, completion=ONE_FAILS), retainPods="OnFailure", retryPolicy=retry)
    with player.playing():
        status = frameworks.wait("fw", "Completed", 60)
    assert (status["attemptStatus"]["id"], status["attemptStatus"]["completionStatus"]["code"]) == (1, 0)
    assert frameworks.pods() == {}
