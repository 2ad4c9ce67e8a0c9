"""What a Framework waits for in the words of `list` and of `why`, and what will happen to it and its Tasks next."""

from typing import Any

import pytest

from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.outlook import counts_text, ending, framework_outlook, task_outlook, waiting
from frameworkcontroller.api.spec import RetryPolicy
from tests.client.diagnosis.test_diagnosis import queued, why
from tests.client.documents import (
    BEGIN,
    HANG,
    HANGS,
    HUNG,
    NOW,
    PROGRESS,
    SUCCEEDED,
    completion,
    condition,
    container,
    framework,
    pod,
    role,
    task,
    training,
    workers,
)

TWO = {"maxRetryCount": 2}
FANCY = {"fancyRetryPolicy": True, **TWO}
TRANSIENT = completion(-101, "PodExternalDeleted", "Transient")
PERMANENT = completion(210, "ContainerPermanentFailed", "Permanent")
ERROR = {"name": "main", "code": 1, "reason": "Error", "message": "Traceback\nValueError: no data\n"}
UNKNOWN = completion(1, "ContainerUnrecognizedFailed", pod={"containers": [ERROR]})
TRIGGER = {"trigger": {"message": "", "taskRoleName": "worker", "taskIndex": 0}}
RUNS, PREPARES = task(0, ip="10.0.0.1"), task(1, "AttemptPreparing")


def pausing(status: str) -> FrameworkView:
    tasks = [task(number, "AttemptCreationPending") for number in range(2)]
    return workers(*tasks, conditions=[condition("CrashLoop", "x", "they end at once") | {"status": status}])


NOT_ARRIVED = workers(task(0, ip="10.0.0.1", of_attempt={"arrived": False}))
LATE = workers(RUNS, PREPARES, conditions=[condition("GangReady", "NoAddress", "1/2: worker-1 NoAddress")])
DEPENDENT = framework(
    role("map", 0),
    role("reduce", 1, dependsOn=[{"name": "map", "status": "Complete"}]),
    tasks={"map": [], "reduce": [task(0, "AttemptCreationPending")]},
    waits=frozenset({"reduce"}),
    conditions=[condition("WaitingForDependency", "TaskRolesWait", "reduce waits until map is Complete")],
)
PAUSES = workers(state="AttemptCompleted", conditions=[condition("CrashLoop", "AttemptPaused", "it ended at once")])
ENDING = workers(task(0, "AttemptDeleting", end=UNKNOWN), state="AttemptDeleting", end=PERMANENT | TRIGGER)
DELAY = {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": 360}
WAITS = workers(state="AttemptCompleted", end=TRANSIENT, retryPolicyStatus=DELAY)
UNSEEN = "the controller has not seen it"
UNREADABLE = "cannot be read: Invalid enum value 'Nonsense' - at `$.state`"
UNREAD_DEPTH = "cannot be read: maximum recursion depth exceeded while deserializing an object"
NAMED = b'"name":"training","namespace":"demo","uid":"1","resourceVersion":"7"'
DEEP = b"[" * 5000 + b"]" * 5000
TOO_DEEP = FrameworkView.decode(b'{"metadata":{%b,"managedFields":%b},"spec":{"a":%b}}' % (NAMED, DEEP, DEEP))
SAYS_HOW = "they end at once\n  -> frameworkctl events training says how they end; correct the template\n"
NO_POD = "its Pod is not created yet"
OVER = "its attempt 1 is over (PodExternalDeleted (-101)); it waits for"
LAST_WORDS = "ContainerUnrecognizedFailed (1): ValueError: no data"
FAILED = "it is Completed and has failed: ContainerPermanentFailed (210)\n  -> correct the reason, and run it again: "
SITUATIONS: dict[str, tuple[FrameworkView, str, str]] = {
    "unseen": (framework(state=""), f"{UNSEEN}; does it run?", f"{UNSEEN}, 5m12s after its creation\n  -> ask"),
    "unreadable": (workers(state="Nonsense"), UNREADABLE, "the controller leaves it alone, because it"),
    "too deep": (TOO_DEEP, UNREAD_DEPTH, "the controller leaves it alone, because it"),
    "running": (workers(RUNS), "", ""),
    "no address": (workers(RUNS, PREPARES), "1 Task: worker-1", f"worker-1: {NO_POD}"),
    "many": (
        workers(*(task(number, "AttemptPreparing") for number in range(1, 6))),
        "5 Tasks: worker-1, worker-2, worker-3 and 2 more",
        f"worker-1, worker-2, worker-3 and 2 more: {NO_POD}",
    ),
    "not arrived": (NOT_ARRIVED, "1 Task: worker-0", "worker-0: its Pod has no address yet"),
    "late": (LATE, "1 Task: worker-1 NoAddress", f"worker-1: {NO_POD}"),
    "dependent": (DEPENDENT, "reduce waits until map is Complete", "role reduce waits until map is Complete"),
    "pausing": (pausing("True"), "2 Tasks: worker-0, worker-1", f"{SAYS_HOW}worker-0, worker-1: {NO_POD}"),
    "no longer pausing": (pausing("False"), "2 Tasks: worker-0, worker-1", f"worker-0, worker-1: {NO_POD}"),
    "pausing after an attempt": (PAUSES, "the decision whether to retry", "its attempt 1 is over; it ended at once"),
    "ending": (ENDING, "1 Pod to end: worker-0", f"its attempt ends by worker-0: {LAST_WORDS}"),
    "between attempts": (WAITS, "attempt 2, in 48s", f"{OVER} attempt 2, in 48s"),
    "succeeded": (workers(state="Completed", end=SUCCEEDED), "", "it is Completed and has succeeded"),
    "failed": (workers(state="Completed", end=PERMANENT), "", f"{FAILED}frameworkctl retry training"),
}


HANGS_NOW = PROGRESS | {"hang": HANG}
LOOK = "look where it hangs"
SINCE = f"it hangs since 3m10s: {HUNG}\n  -> {LOOK}: "
DISK = "a process that waits for a disk may be unkillable, by deletion too"
OBSERVED = f"{SINCE}kubectl describe node node-1; the annotation hang: restart lets it start again by itself; {DISK}"
AFTER = completion(-275, "GangHungRepeatedly", diagnostics=f"{HUNG}; it was the 3. time without a step beyond 1200")
BARRIER = "kubectl logs training-worker-0 -n demo -c frameworkbarrier; the controller may not reach Pods"
BLIND = f"although it runs and its Pods tell of it\n  -> the barrier says why: {BARRIER}"
OF_NOBODY = HANG | {"culprits": [{"task": "x-1", "node": "$(rm x)"}]}


def hangs(**more: Any) -> FrameworkView:
    return training(progress=HANGS_NOW, **more)


def runs(hang: object = "observe", *tasks: Any, since: str = BEGIN, **more: Any) -> FrameworkView:
    return training(hang, *tasks, ledger={"state": "running", "since": since}, **more)


HANGING: dict[str, tuple[FrameworkView, str]] = {
    "observed": (hangs(), OBSERVED),
    "restarts soon": (hangs(hang="restart"), f"{SINCE}kubectl describe node node-1; {DISK}"),
    "of an epoch before": (hangs(of_attempt={"gangEpoch": 1}), ""),
    "of an attempt before": (training("restart", hangs=HANGS, attempt=1), ""),
    "a node that nobody knows": (
        training(progress=PROGRESS | {"hang": OF_NOBODY}),
        f"{SINCE.partition('worker-1')[0]}x-1 on $(rm x) (is behind the others)\n  -> {LOOK}: frameworkctl describe",
    ),
    "when its attempt ended": (
        hangs(end=PERMANENT, state="AttemptDeleting"),
        "its attempt ends: ContainerPermanentFailed (210)",
    ),
    "repeatedly": (
        training("restart", hangs=HANGS, end=AFTER, state="Completed"),
        f"it is Completed and has failed: GangHungRepeatedly (-275): {HUNG}; it was the 3. time without a step beyond",
    ),
    "well": (runs(), ""),
    "never heard of": (runs(progress=None), f"its progress for 5m12s, {BLIND}"),
    "heard of long ago": (runs(progress=PROGRESS | {"time": "2026-01-01T12:01:12Z"}), f"its progress for 4m, {BLIND}"),
    "not heard of yet": (runs(progress=None, since="2026-01-01T12:03:12Z"), ""),
    "never heard of, and the first has ended": (
        runs("off", task(0, "Completed", end=SUCCEEDED), task(1, ip="10.0.0.1"), progress=None),
        "the barrier says why: kubectl logs training-worker-1 -n demo",
    ),
    "a template that nobody can read": (runs(5, progress=None), ""),
    "not running": (training(progress=None, ledger={"state": "starting", "since": BEGIN}), ""),
    "never asked to say": (workers(RUNS, ledger={"state": "running", "since": BEGIN}), ""),
}


@pytest.mark.parametrize(("view", "text"), HANGING.values(), ids=HANGING)
def test_why_says_what_hangs_or_that_nobody_knows(view: FrameworkView, text: str) -> None:
    shown = why(view, *(pod(f"worker-{number}", node="n", statuses=[container()]) for number in range(2)))
    assert text in shown
    assert bool(shown) is bool(text)
    assert ("it hangs since" in shown) is ("it hangs since" in text)
    assert "rm x" not in shown.partition("->")[2]


@pytest.mark.parametrize(("view", "waits_for", "reason"), SITUATIONS.values(), ids=SITUATIONS)
def test_list_and_why_say_what_a_framework_waits_for(view: FrameworkView, waits_for: str, reason: str) -> None:
    assert waiting(view, NOW) == waits_for
    shown = why(view, pod(node="n", statuses=[container()]))
    assert shown.startswith(reason)
    assert bool(shown) is bool(reason)


LABEL = "kueue.x-k8s.io/queue-name"
RELABEL = f"kubectl label framework training {LABEL}"
SUSPENDED: dict[str, tuple[str, str]] = {
    "ExecutionTypeCreate": (
        "somebody to start it (executionType: Create)",
        "it was created with executionType Create and waits to be started\n  -> frameworkctl start training",
    ),
    "Suspended": ("somebody to resume it (suspend: true)", "it is suspended\n  -> frameworkctl resume training"),
    "TooManyTasks": ("text", "text\n  -> frameworkctl scale training ROLE=NUMBER"),
    "TooManyTaskRoles": ("text", "text"),
    "WaitingForAdmission": (
        "admission by LocalQueue main",
        "text\n  -> ask somebody who may read it: kubectl describe workloads.kueue.x-k8s.io w",
    ),
    "QueueUnknown": (
        "what Kueue says: text",
        "text\n  -> ask an administrator; frameworkctl doctor says what of Kueue is missing",
    ),
    "NoQueue": (f"the label {LABEL}", f"text\n  -> {RELABEL}=QUEUE; kubectl get localqueues lists them"),
    "WorkloadRefused": ("a spec that Kueue takes: text", "text\n  -> correct what the message names"),
    "AdmissionConflict": (
        "a Pod template that fits its admission: text",
        "text\n  -> correct the Pod template, or the flavor or check; then frameworkctl suspend and resume training",
    ),
    "QueueingDisabled": (
        f"kueue.enabled, or the label {LABEL} to go",
        f"text\n  -> ask an administrator to switch it on, or run it without a queue: {RELABEL}-",
    ),
}


@pytest.mark.parametrize("reason", SUSPENDED)
def test_one_that_is_suspended_waits_by_the_reason_of_its_condition(reason: str) -> None:
    view = queued(reason, "text")
    assert (waiting(view, NOW), why(view)) == SUSPENDED[reason]


STOPPED = completion(-220, "FrameworkAttemptCompletion", "Permanent")
NEXT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "runs": ({}, task(0), ""),
    "created": ({}, task(0, "AttemptCreationPending"), "its Pod will be created"),
    "transient": (FANCY, task(0, "AttemptDeleting", end=TRANSIENT), "is retried: attempt 2"),
    "permanent": (FANCY, task(0, "AttemptDeleting", end=PERMANENT), "is not retried: the failure is permanent"),
    "used": (TWO, task(0, "AttemptCompleted", end=UNKNOWN, attempt=2), "is not retried: 2 of 2 retries are used"),
    "none": ({}, task(0, "AttemptDeleting", end=UNKNOWN), "is not retried: its retryPolicy allows none"),
    "succeeded": ({}, task(0, "AttemptDeleting", end=SUCCEEDED), "is not retried: it succeeded"),
    "rescaled": ({}, task(0, "AttemptDeleting", deletionPending=True), "goes, because of a rescale"),
    "stopped": (FANCY, task(0, "AttemptDeleting", end=STOPPED), "ends with its attempt"),
}


@pytest.mark.parametrize(("policy", "status", "text"), NEXT.values(), ids=NEXT)
def test_what_happens_to_a_task_next(policy: dict[str, Any], status: dict[str, Any], text: str) -> None:
    view = workers(status, retry=policy)
    assert task_outlook(view, view.roles[0], next(view.tasks)) == text


def test_what_happens_to_a_framework_next() -> None:
    def after(end: dict[str, Any], **policy: Any) -> str:
        return framework_outlook(workers(spec={"retryPolicy": policy}, state="AttemptDeleting", end=end), NOW)

    assert after(UNKNOWN, maxRetryCount=1) == "will be retried: attempt 2"
    assert after(UNKNOWN) == "will not be retried: its retryPolicy allows none"
    assert after(SUCCEEDED) == "will be Completed"
    assert framework_outlook(workers(), NOW) == ""


SAID = {
    '{"ErrStatus":{"metadata":{},"message":"a Pod needs a team","code":403}}': ": a Pod needs a team",
    "spec must be a list": ": spec must be a list",
    '{"ErrStatus":{}}': ': {"ErrStatus":{}}',
    "": "",
}


@pytest.mark.parametrize(("said", "words"), SAID.items(), ids=["status", "template", "no message", "nothing"])
def test_an_end_shows_the_last_words_of_the_api_server(said: str, words: str) -> None:
    end = completion(-310, "PodCreationUnknownError", diagnostics=f"Failed to create Pod: {said}")
    found = next(workers(task(0, "Completed", end=end)).tasks).completion
    assert found is not None
    assert ending(found) == f"PodCreationUnknownError (-310){words}"


def test_a_retry_policy_in_words() -> None:
    plain = {0: "no retries", 1: "1 retry", -1: "every failure", -2: "every end"}
    assert {count: counts_text(RetryPolicy(max_retry_count=count)) for count in plain} == plain
    fancy = RetryPolicy(fancy_retry_policy=True, max_retry_count=3)
    assert counts_text(fancy) == "transient failures always, 3 retries"
