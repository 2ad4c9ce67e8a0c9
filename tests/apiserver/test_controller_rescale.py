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

STAY = {f"{name}-{index}": ["stay"] for name in ("worker", "ps", "late") for index in range(4)}


def uids(frameworks: Frameworks) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in frameworks.pods().items()}


def until_running(frameworks: Frameworks, *slots: str) -> dict[str, Json]:
    """Exactly these Tasks are in the status, and all run."""

    def check() -> dict[str, Json]:
        tasks = frameworks.tasks("fw")
        assert {name: task["state"] for name, task in tasks.items()} == dict.fromkeys(slots, "AttemptRunning")
        return tasks

    return eventually(check, 30)


def test_tasks_are_added_and_removed_at_the_end_of_a_role_and_the_others_are_not_touched(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = dict(STAY)
    frameworks.create("fw", role("worker", 2))
    with player.playing():
        until_running(frameworks, "worker-0", "worker-1")
        first = uids(frameworks)
        frameworks.merge("fw", taskRoles=[role("worker", 4)])
        until_running(frameworks, "worker-0", "worker-1", "worker-2", "worker-3")
        assert first.items() < uids(frameworks).items()
        frameworks.merge("fw", taskRoles=[role("worker", 1)])
        until_running(frameworks, "worker-0")
    assert uids(frameworks) == {"fw-worker-0": first["fw-worker-0"]}
    assert frameworks.status("fw")["ready"] == "1/1"


def test_a_role_is_added_and_another_removed_while_the_framework_runs(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = dict(STAY)
    frameworks.create("fw", role("ps", 1), role("worker", 2))
    with player.playing():
        until_running(frameworks, "ps-0", "worker-0", "worker-1")
        kept = uids(frameworks)["fw-worker-1"]
        frameworks.merge("fw", taskRoles=[role("worker", 2), role("late", 1)])
        until_running(frameworks, "worker-0", "worker-1", "late-0")
    assert uids(frameworks)["fw-worker-1"] == kept
    assert [entry["name"] for entry in frameworks.status("fw")["attemptStatus"]["taskRoleStatuses"]] == [
        "worker",
        "late",
    ]


def test_a_task_that_is_added_again_while_it_is_deleted_is_a_new_one_and_begins_when_the_old_one_is_gone(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = dict(STAY)
    frameworks.create("fw", role("worker", 2))
    with player.playing():
        before = until_running(frameworks, "worker-0", "worker-1")["worker-1"]
    # No kubelet is simulated: the Pod is being deleted and stays.
    frameworks.merge("fw", taskRoles=[role("worker", 1)])

    def goes() -> None:
        task = frameworks.tasks("fw")["worker-1"]
        assert (task["deletionPending"], task["state"]) == (True, "AttemptDeleting")
        assert task["attemptStatus"]["completionStatus"]["code"] == -230

    eventually(goes)
    frameworks.merge("fw", taskRoles=[role("worker", 3)])

    def comes() -> None:
        assert "fw-worker-2" in uids(frameworks)

    eventually(comes)
    still = frameworks.tasks("fw")["worker-1"]
    assert (still["instanceUID"], still["deletionPending"]) == (before["instanceUID"], True)
    assert uids(frameworks)["fw-worker-1"] == before["attemptStatus"]["podUID"]
    with player.playing():
        after = until_running(frameworks, "worker-0", "worker-1", "worker-2")["worker-1"]
    assert after["instanceUID"] != before["instanceUID"]
    assert after["attemptStatus"]["podUID"] != before["attemptStatus"]["podUID"]
    assert (after["attemptStatus"]["id"], after["retryPolicyStatus"]["totalRetriedCount"]) == (0, 0)


def test_a_status_too_large_for_one_object_is_compressed_and_the_next_controller_reads_it(
    cluster: Cluster, namespace: str, frameworks: Frameworks, tmp_path: Path
) -> None:
    process = ControllerProcess(cluster, tmp_path, {"namespace": namespace, "largeFrameworkCompression": True})
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
