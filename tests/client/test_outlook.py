"""What a Framework waits for, and what will happen to it and its Tasks next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from frameworkclient.views.outlook import counts_text, ending, framework_outlook, task_outlook, waiting
from frameworkcontroller.api.spec import RetryPolicy
from tests.client.documents import NOW, SUCCEEDED, completion, condition, framework, role, task, workers

if TYPE_CHECKING:
    from frameworkclient.views.framework import FrameworkView

FANCY = {"fancyRetryPolicy": True, "maxRetryCount": 2}
TRANSIENT = completion(-101, "PodExternalDeleted", "Transient")
PERMANENT = completion(210, "ContainerPermanentFailed", "Permanent")
UNKNOWN = completion(
    1,
    "ContainerUnrecognizedFailed",
    pod={"containers": [{"name": "main", "code": 1, "reason": "Error", "message": "Traceback\nValueError: no data\n"}]},
)


WAITING: dict[str, tuple[FrameworkView, str]] = {
    "unseen": (framework(role("worker", 1), state=""), "the controller has not seen it; does it run?"),
    "running": (workers(task(0, ip="10.0.0.1")), ""),
    "no address": (workers(task(0, ip="10.0.0.1"), task(1, "AttemptPreparing")), "1 Task: worker-1"),
    "many": (
        workers(*(task(number, "AttemptPreparing") for number in range(5))),
        "5 Tasks: worker-0, worker-1, worker-2 and 2 more",
    ),
    "not arrived": (workers(task(0, ip="10.0.0.1", of_attempt={"arrived": False})), "1 Task: worker-0"),
    "late": (
        workers(
            task(0, ip="10.0.0.1"),
            task(1, "AttemptPreparing"),
            conditions=[condition("GangReady", "NoAddress", "1/2: worker-1 NoAddress")],
        ),
        "1 Task: worker-1 NoAddress",
    ),
    "suspended": (
        framework(
            role("worker", 1),
            state="AttemptCreationPending",
            conditions=[condition("Suspended", "ExecutionTypeCreate", "Create")],
        ),
        "somebody to start it (executionType: Create)",
    ),
    "dependency": (
        framework(
            role("map", 1),
            role("reduce", 1, dependsOn=[{"name": "map", "status": "Complete"}]),
            tasks={"map": [task(0, ip="10.0.0.1", role="map")], "reduce": [task(0, "AttemptCreationPending")]},
            waits=frozenset({"reduce"}),
            conditions=[condition("WaitingForDependency", "TaskRolesWait", "reduce waits until map is Complete")],
        ),
        "reduce waits until map is Complete",
    ),
    "ending": (workers(task(0, "AttemptDeleting"), state="AttemptDeleting"), "1 Pod to end: worker-0"),
    "between attempts": (
        framework(
            role("worker", 1),
            state="AttemptCompleted",
            retryPolicyStatus={"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": 360},
        ),
        "attempt 2, in 48s",
    ),
    "completed": (framework(role("worker", 1), state="Completed", end=SUCCEEDED), ""),
    "corrupt": (
        framework(role("worker", 1), state="Nonsense"),
        "cannot be read: Invalid enum value 'Nonsense' - at `$.state`",
    ),
}


@pytest.mark.parametrize(("view", "text"), WAITING.values(), ids=WAITING)
def test_what_a_framework_waits_for(view: FrameworkView, text: str) -> None:
    assert waiting(view, NOW) == text


NEXT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "runs": ({}, task(0), ""),
    "created": ({}, task(0, "AttemptCreationPending"), "its Pod will be created"),
    "transient": (FANCY, task(0, "AttemptDeleting", end=TRANSIENT), "is retried: attempt 2"),
    "permanent": (FANCY, task(0, "AttemptDeleting", end=PERMANENT), "is not retried: the failure is permanent"),
    "used up": (
        {"maxRetryCount": 2},
        task(0, "AttemptCompleted", end=UNKNOWN, attempt=2),
        "is not retried: 2 of 2 retries are used",
    ),
    "none": ({}, task(0, "AttemptDeleting", end=UNKNOWN), "is not retried: its retryPolicy allows none"),
    "succeeded": ({}, task(0, "AttemptDeleting", end=SUCCEEDED), "is not retried: it succeeded"),
    "rescaled": ({}, task(0, "AttemptDeleting", deletionPending=True), "goes, because of a rescale"),
    "stopped": (
        FANCY,
        task(0, "AttemptDeleting", end=completion(-220, "FrameworkAttemptCompletion", "Permanent")),
        "ends with its attempt",
    ),
}


@pytest.mark.parametrize(("policy", "status", "text"), NEXT.values(), ids=NEXT)
def test_what_happens_to_a_task_next(policy: dict[str, Any], status: dict[str, Any], text: str) -> None:
    view = workers(status, retry=policy)
    assert task_outlook(view, view.roles[0], next(view.tasks)) == text


def test_a_framework_whose_attempt_ends_says_whether_another_one_follows() -> None:
    def ending_with(end: dict[str, Any], **policy: Any) -> str:
        return framework_outlook(
            framework(role("worker", 1), spec={"retryPolicy": policy}, state="AttemptDeleting", end=end), NOW
        )

    assert ending_with(UNKNOWN, maxRetryCount=1) == "will be retried: attempt 2"
    assert ending_with(UNKNOWN) == "will not be retried: its retryPolicy allows none"
    assert ending_with(SUCCEEDED) == "will be Completed"
    assert framework_outlook(framework(role("worker", 1)), NOW) == ""


def refused(said: str) -> dict[str, Any]:
    return completion(-310, "PodCreationUnknownError", diagnostics=f"Failed to create Pod: {said}")


STATUS = '{"ErrStatus":{"metadata":{},"message":"a Pod needs a team","code":403}}'
ENDS = {
    "last words": (UNKNOWN, "ContainerUnrecognizedFailed (1): ValueError: no data"),
    "status": (refused(STATUS), "PodCreationUnknownError (-310): a Pod needs a team"),
    "template": (refused("spec must be a list"), "PodCreationUnknownError (-310): spec must be a list"),
    "no message": (refused('{"ErrStatus":{}}'), 'PodCreationUnknownError (-310): {"ErrStatus":{}}'),
    "nothing": (refused(""), "PodCreationUnknownError (-310)"),
}


@pytest.mark.parametrize(("stored", "text"), ENDS.values(), ids=ENDS)
def test_an_end_shows_the_last_words_of_the_container_or_of_the_api_server(stored: dict[str, Any], text: str) -> None:
    end = next(workers(task(0, "Completed", end=stored)).tasks).completion
    assert end is not None
    assert ending(end) == text


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (RetryPolicy(), "no retries"),
        (RetryPolicy(max_retry_count=1), "1 retry"),
        (RetryPolicy(max_retry_count=-1), "every failure"),
        (RetryPolicy(max_retry_count=-2), "every end"),
        (RetryPolicy(fancy_retry_policy=True, max_retry_count=3), "transient failures always, 3 retries"),
    ],
    ids=["none", "one", "failures", "all", "fancy"],
)
def test_a_retry_policy_in_words(policy: RetryPolicy, text: str) -> None:
    assert counts_text(policy) == text
