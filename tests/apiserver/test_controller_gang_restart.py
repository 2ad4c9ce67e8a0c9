"""Restarts of a gang in its Pods on a real API server, where the tests report what kubelets would."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from frameworkbarrier.source import roster as barrier_roster
from testkit.frameworks import role, two_controllers
from testkit.restarting_gang import RestartingGang
from testkit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import Json
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.kubelet import Kubelet

pytestmark = pytest.mark.apiserver

TASKS, CRASHES = 3, 5
RETRY = {"fancyRetryPolicy": True, "maxRetryCount": 3}


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


def begins(gang: RestartingGang, frameworks: Frameworks, kubelet: Kubelet, tools: int) -> None:
    """All Tasks are there, and the gate of epoch 0 opens."""

    def has_begun() -> None:
        gang.has_pods()
        gang.report_all(0)
        for index in range(tools):
            assert f"fw-tool-{index}" in frameworks.pods()
            kubelet.run(f"fw-tool-{index}")
        gang.is_open(0)

    eventually(has_begun)


def attempt_of(frameworks: Frameworks) -> tuple[int, int, int]:
    """The number of the Framework attempt, its epoch, and the Tasks with which the gate is open."""
    attempt = frameworks.status("fw")["attemptStatus"]
    return attempt["id"], attempt["gangEpoch"], attempt["gangReleased"]


def gang_ready(frameworks: Frameworks) -> Json:
    """The condition GangReady."""
    found: Json = next(one for one in frameworks.status("fw")["conditions"] if one["type"] == "GangReady")
    return found


def test_a_role_without_a_barrier_that_begins_late_leaves_the_gate_open(
    controller: ControllerProcess, frameworks: Frameworks, gang: RestartingGang, kubelet: Kubelet
) -> None:
    gang.create({**role("tool", 2, retry=RETRY), "dependsOn": [{"name": "worker", "status": "Ready"}]})
    begins(gang, frameworks, kubelet, 0)
    before = frameworks.config_map("fw")["metadata"]["resourceVersion"]
    for name in gang.has_pods():
        kubelet.run(name)

    def tools_run() -> None:
        for index in (1, 0):
            assert f"fw-tool-{index}" in frameworks.pods()
            kubelet.run(f"fw-tool-{index}")

    eventually(tools_run)
    path, seen = f"/api/v1/namespaces/{frameworks.namespace}/configmaps", list[tuple[bool, int | None, int]]()

    def is_told() -> None:
        for event in frameworks.raw.watch(path, before, 5):
            roster = barrier_roster.decode(event["object"]["data"]["roster"])
            seen.append((roster.complete, roster.epoch, roster.total))
            if not roster.complete or roster.total == TASKS + 2:
                return
        raise AssertionError(seen)

    eventually(is_told)
    assert {(complete, epoch) for complete, epoch, _ in seen} == {(True, 0)}, "those that run would start again"
    assert attempt_of(frameworks) == (0, 0, TASKS)


def test_a_gang_restarts_without_a_task_that_has_no_barrier_and_finds_no_node(
    controller: ControllerProcess, frameworks: Frameworks, gang: RestartingGang, kubelet: Kubelet
) -> None:
    gang.create(role("tool", 2, retry=RETRY))
    begins(gang, frameworks, kubelet, 2)
    pods = gang.has_pods()
    frameworks.raw.delete(f"/api/v1/namespaces/{frameworks.namespace}/pods/fw-tool-0")

    def finds_no_node() -> None:
        gang.confirm_deletions()
        tool = frameworks.tasks("fw")["tool-0"]["attemptStatus"]
        assert (tool["id"], bool(tool.get("podUID"))) == (1, True)
        kubelet.pending("fw-tool-0")

    eventually(finds_no_node)
    assert attempt_of(frameworks) == (0, 0, TASKS)
    gang.report(1, 0, restarting=True)
    closed = eventually(lambda: gang.is_closed(1))
    assert closed["total"] == TASKS
    assert {one["task"] for one in closed["waitingFor"]} <= {"worker-0", "worker-1", "worker-2"}
    found = gang_ready(frameworks)
    assert (found["reason"], found["message"].partition(":")[0]) == ("Restarting", f"{closed['ready']}/{TASKS}")
    gang.report_all(1)
    again = barrier_roster.decode(json.dumps(eventually(lambda: gang.is_open(1))))
    assert {one.name: len(one.tasks) for one in again.roles} == {"worker": TASKS, "tool": 0}
    assert (gang.has_pods(), attempt_of(frameworks)) == (pods, (0, 1, TASKS))
    assert gang_ready(frameworks)["message"] == f"{TASKS}/{TASKS}"
    assert frameworks.status("fw")["ready"] == f"{TASKS + 1}/{TASKS + 2}"


def test_only_another_number_of_tasks_with_a_barrier_restarts_a_gang(
    controller: ControllerProcess, frameworks: Frameworks, gang: RestartingGang, kubelet: Kubelet
) -> None:
    gang.create(role("tool", 1, retry=RETRY))
    with kubelet.autopilot(lambda pod: pod["metadata"]["name"].startswith("fw-tool-")):
        begins(gang, frameworks, kubelet, 0)
        pods = gang.has_pods()
        worker, tool = frameworks.get("fw")["spec"]["taskRoles"]

        def has_scaled(number: int, generation: int) -> None:
            assert frameworks.status("fw")["observedGeneration"] == generation
            assert frameworks.status("fw")["ready"] == f"{TASKS + number}/{TASKS + number}"
            assert sum(name.startswith("tool") for name in frameworks.tasks("fw")) == number

        for number in (3, 1, 0, 2):
            scaled = frameworks.merge("fw", taskRoles=[worker, {**tool, "taskNumber": number}])
            generation = scaled["metadata"]["generation"]
            eventually(lambda number=number, generation=generation: has_scaled(number, generation))
            assert attempt_of(frameworks) == (0, 0, TASKS)
        frameworks.merge("fw", taskRoles=[{**worker, "taskNumber": TASKS + 1}, {**tool, "taskNumber": 2}])
        larger = RestartingGang(frameworks, "fw", TASKS + 1)
        eventually(lambda: larger.is_closed(1))
        eventually(larger.has_pods)
        larger.report_all(1)
        eventually(lambda: larger.is_open(1))
        assert attempt_of(frameworks) == (0, 1, TASKS + 1)
        assert larger.has_pods().items() > pods.items()
