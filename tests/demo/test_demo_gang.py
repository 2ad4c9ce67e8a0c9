"""What the demo sees of its gang, and what it makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frameworkclient.logs.lines import LogLine, LogSource
from frameworkclient.moments import Moment
from frameworkdemo.gang import LOG_TAIL, Record, missing_image
from tests.client.documents import SUCCEEDED, completion, container, framework, pod, role

if TYPE_CHECKING:
    from frameworkclient.pods import TaskPod

BARRIER = container("frameworkbarrier", "running")


def moment(*pods: TaskPod) -> Moment:
    return Moment(framework(role("worker", len(pods))), {one.task: one for one in pods})


def record(*pods: TaskPod) -> Record:
    seen = Record(image_seconds=20.0)
    seen.changed(moment(*pods))
    return seen


def no_image(reason: str = "ImagePullBackOff") -> TaskPod:
    return pod("worker-1", statuses=[container("main", "waiting", reason=reason, message="not found")])


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled_is_named_with_its_task(reason: str) -> None:
    assert missing_image([pod(statuses=[container()]), no_image(reason)]) == f"worker-1: main: {reason}: not found"


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", "CrashLoopBackOff"])
def test_other_reasons_to_wait_are_no_missing_image(reason: str) -> None:
    assert missing_image([no_image(reason)]) == ""


def test_an_image_may_be_missing_for_a_while() -> None:
    seen = record(no_image())
    assert [bool(seen.problem(now)) for now in (0.0, 19.0)] == [False, False]
    seen.changed(moment(pod("worker-1", statuses=[container()])))
    assert seen.problem(30.0) == ""
    seen.changed(moment(no_image()))
    assert [bool(seen.problem(now)) for now in (40.0, 59.0, 60.0)] == [False, False, True]
    assert "worker-1: main: ImagePullBackOff: not found" in seen.problem(60.0)


def test_a_barrier_that_is_missing_is_a_problem_only_where_it_was_asked_for() -> None:
    labels = {
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "0",
        "frameworkcontroller.microsoft.com/barrier": "enabled",
    }
    asked = {"metadata": {"labels": labels}}
    assert "no barrier was injected" in record(pod(**asked)).problem(0.0)
    assert record(pod(init=[BARRIER], **asked)).problem(0.0) == ""
    assert record(pod()).problem(0.0) == ""
    assert Record(0.0).problem(0.0) == ""


def test_the_state_of_a_gang_has_one_line() -> None:
    assert Record(0.0).state == "it was not seen"
    assert record(pod(statuses=[container()]), pod("worker-1")).state == (
        "AttemptRunning, worker-0 running, worker-1 not scheduled"
    )
    seen = Record(0.0)
    seen.changed(Moment(framework(state="")))
    assert seen.state == "not seen by the controller"


def test_how_it_failed_is_told_with_the_reason() -> None:
    seen = record()
    assert seen.failure == ""
    end = completion(7, "ContainerUnrecognizedFailed", diagnostics="the data is not there")
    seen.changed(Moment(framework(state="Completed", end=end)))
    assert seen.failure == "training: Completed, ContainerUnrecognizedFailed (7): the data is not there"
    seen.changed(Moment(framework(state="Completed", end=SUCCEEDED)))
    assert seen.failure == ""


def test_the_ends_of_all_logs_are_kept_and_those_of_barriers_where_nothing_else_was_written() -> None:
    seen = Record(0.0)
    for task, name, number in (
        ("worker-0", "main", 99),
        ("worker-0", "frameworkbarrier", 2),
        ("worker-1", "frameworkbarrier", 1),
    ):
        source = LogSource(task, (0, 0), f"training-{task}", "uid", name, 0, task)
        for index in range(number):
            seen.logged(LogLine(source, "2026-01-01T12:00:00Z", str(index)))
    assert list(seen.logs()) == [
        ("worker-0, log of main", [str(index) for index in range(99 - LOG_TAIL, 99)]),
        ("worker-1, log of frameworkbarrier", ["0"]),
    ]
