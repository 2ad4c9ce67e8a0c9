"""Rescaling on a real API server: Tasks are added and removed, and the others are not touched."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import ControllerProcess, role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import Json
    from testkit.frameworks import Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver


def until_running(frameworks: Frameworks, *slots: str) -> dict[str, Json]:
    """Exactly these Tasks are in the status, and all run."""

    def check() -> dict[str, Json]:
        tasks = frameworks.tasks("fw")
        assert {name: task["state"] for name, task in tasks.items()} == dict.fromkeys(slots, "AttemptRunning")
        return tasks

    return eventually(check, 30)


@pytest.mark.usefixtures("controller")
def test_a_task_that_is_added_again_while_it_is_deleted_is_a_new_one_and_begins_when_the_old_one_is_gone(
    frameworks: Frameworks, player: Player
) -> None:
    player.plan = {f"worker-{index}": ["stay"] for index in range(3)}
    frameworks.create("fw", role("worker", 2))
    with player.playing():
        first, before = until_running(frameworks, "worker-0", "worker-1").values()
    # No kubelet is simulated: the Pod is being deleted and stays.
    frameworks.merge("fw", taskRoles=[role("worker", 1)])

    def goes() -> None:
        task = frameworks.tasks("fw")["worker-1"]
        assert (task["deletionPending"], task["state"]) == (True, "AttemptDeleting")
        assert task["attemptStatus"]["completionStatus"]["code"] == -230

    eventually(goes)
    frameworks.merge("fw", taskRoles=[role("worker", 3)])

    frameworks.created("fw-worker-0", "fw-worker-1", "fw-worker-2")
    still = frameworks.tasks("fw")["worker-1"]
    assert (still["instanceUID"], still["deletionPending"]) == (before["instanceUID"], True)
    assert frameworks.pods()["fw-worker-1"]["metadata"]["uid"] == before["attemptStatus"]["podUID"]
    with player.playing():
        untouched, after, _ = until_running(frameworks, "worker-0", "worker-1", "worker-2").values()
    assert untouched["attemptStatus"]["podUID"] == first["attemptStatus"]["podUID"]
    assert after["instanceUID"] != before["instanceUID"]
    assert after["attemptStatus"]["podUID"] != before["attemptStatus"]["podUID"]
    assert (after["attemptStatus"]["id"], after["retryPolicyStatus"]["totalRetriedCount"]) == (0, 0)


def test_a_status_too_large_for_one_object_is_compressed_and_the_next_controller_reads_it(
    cluster: Cluster, namespace: str, frameworks: Frameworks, tmp_path: Path
) -> None:
    process = ControllerProcess(cluster, tmp_path, {"namespaces": [namespace], "largeFrameworkCompression": True})
    process.start()
    try:
        name = "f" * 60
        frameworks.create(name, role("w" * 60, 1000))

        def packed() -> list[Json]:
            attempt = frameworks.status(name)["attemptStatus"]
            assert attempt["taskRoleStatuses"] is None
            roles = json.loads(gzip.decompress(base64.b64decode(attempt["taskRoleStatusesCompressed"])))
            assert all(task["attemptStatus"]["podUID"] for task in roles[0]["taskStatuses"])
            assert len(roles[0]["taskStatuses"]) == 1000
            return list(roles[0]["taskStatuses"])

        before = eventually(packed, 60)
        process.kill()
        process.start()
        frameworks.merge(name, description="seen by the next one")

        def seen() -> None:
            status = frameworks.status(name)
            assert status["observedGeneration"] == frameworks.get(name)["metadata"]["generation"]

        eventually(seen, 30)
        assert [task["attemptStatus"]["podUID"] for task in packed()] == [
            task["attemptStatus"]["podUID"] for task in before
        ]
    finally:
        assert process.stop() == 0
