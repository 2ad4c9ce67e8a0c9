"""Which requests a change of a Framework becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from frameworkclient.cluster import actions
from frameworkclient.errors import ArgumentError
from tests.client.documents import SUCCEEDED, framework, role, task, workers

if TYPE_CHECKING:
    from frameworkclient.views.framework import FrameworkView

FANCY = {"fancyRetryPolicy": True}


def test_a_scale_checks_that_the_role_is_still_at_its_place() -> None:
    view = framework(role("chief", 1), role("worker", 2))
    assert actions.scale_patch(view, {"worker": 5}) == [
        {"op": "test", "path": "/spec/taskRoles/1/name", "value": "worker"},
        {"op": "add", "path": "/spec/taskRoles/1/taskNumber", "value": 5},
    ]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({"wroker": 3}, "role wroker: Framework training has no such role; there are worker"),
        ({"worker": -1}, "must be 0 or more"),
        ({}, "name at least one role"),
    ],
    ids=["unknown", "negative", "empty"],
)
def test_a_scale_that_cannot_be_done_names_the_role(tasks: dict[str, int], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        actions.scale_patch(framework(role("worker", 1)), tasks)


def live(**more: Any) -> FrameworkView:
    return workers(
        more.pop("task", task(0)), retry=more.pop("task_retry", {}), spec={"retryPolicy": more.pop("retry", {})}, **more
    )


def test_a_retry_deletes_the_config_map_of_what_lives_or_the_pod_of_a_task_or_submits_what_is_completed_again() -> None:
    assert actions.retry_of(live(retry=FANCY)) == actions.DeleteConfigMap("training-attempt", "config-map-uid")
    assert actions.retry_of(live(state="Completed", end=SUCCEEDED)) == actions.SubmitAgain()
    found = actions.retry_of(live(task_retry={"maxRetryCount": 1}), "worker-0")
    assert found == actions.DeletePod("training-worker-0", "pod-worker-0-0")


REFUSED: dict[str, tuple[FrameworkView, str, str]] = {
    "policy of the framework": (live(), "", "its retryPolicy would end it instead .no retries."),
    "policy of the task": (live(retry=FANCY), "worker-0", r"taskRoles\[worker\].task.retryPolicy"),
    "retries used": (
        live(task_retry={"maxRetryCount": 1}, task=task(0, attempt=1)),
        "worker-0",
        "would end it instead .1 retry.",
    ),
    "no pod": (
        live(task_retry=FANCY, task=task(0, "AttemptCreationPending")),
        "worker-0",
        "it has no Pod that could be replaced",
    ),
    "no such task": (live(), "worker-7", "has no such Task"),
    "no such role": (live(), "ps-0", "there is no role ps; there are worker"),
    "no name of a task": (live(), "worker", "must be a role and an index, like worker-0"),
    "ending": (live(retry=FANCY, state="AttemptDeleting"), "", "its attempt ends already"),
    "not begun": (framework(role("worker", 1), state=""), "", "no attempt runs"),
}


@pytest.mark.parametrize(("view", "name", "message"), REFUSED.values(), ids=REFUSED)
def test_a_retry_that_would_do_harm_is_refused(view: FrameworkView, name: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        actions.retry_of(view, name)


def test_what_the_api_server_added_is_not_submitted_again() -> None:
    view = framework(
        role("worker", 1),
        spec={"executionType": "Stop"},
        metadata={
            "labels": {"team": "vision"},
            "annotations": {"note": "mine", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "managedFields": [],
        },
    )
    again = actions.again(view.to_dict())
    assert again["metadata"] == {
        "name": "training",
        "namespace": "demo",
        "labels": {"team": "vision"},
        "annotations": {"note": "mine"},
    }
    assert "status" not in again
    assert again["spec"]["executionType"] == "Start"
