"""Why a Framework does not run, from what is known of it. `tests/apiserver` produces the same with real objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from frameworkclient.diagnosis.evidence import Evidence
from frameworkclient.diagnosis.framework import findings, summary
from tests.client.documents import (
    NOW,
    SUCCEEDED,
    completion,
    condition,
    container,
    event,
    framework,
    pod,
    role,
    task,
    workers,
)

if TYPE_CHECKING:
    from frameworkclient.views.framework import FrameworkView
    from frameworkclient.views.pods import TaskPod

PENDING = [task(0, "AttemptPreparing")]
LABEL = {"frameworkcontroller.microsoft.com/barrier": "enabled"}


def unschedulable(message: str) -> TaskPod:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(conditions=[condition])


def waiting(reason: str, message: str, restarts: int = 0) -> TaskPod:
    """A Pod on a node whose container waits."""
    return pod(node="n", statuses=[container("main", "waiting", restarts=restarts, reason=reason, message=message)])


def why(view: FrameworkView, *pods: TaskPod, **more: Any) -> str:
    found = findings(Evidence(view, {one.task: one for one in pods}, more.pop("events", ()), NOW, **more))
    return "\n".join(str(one) for one in found)


def of_pod(found: TaskPod, **more: Any) -> str:
    return why(workers(*PENDING, ready="0/1"), found, **more)


PODS: dict[str, tuple[TaskPod, str]] = {
    "no room": (
        unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
        (
            "worker-0: its Pod cannot be scheduled: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\n"
            "  -> no node has enough free nvidia.com/gpu: wait until others end"
        ),
    ),
    "taints": (unschedulable("0/1 nodes are available: 1 node(s) had untolerated taint {a: b}."), "add tolerations"),
    "selector": (
        unschedulable("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
        "kubectl get nodes --show-labels",
    ),
    "claim": (unschedulable("pod has unbound immediate PersistentVolumeClaims"), "kubectl get pvc"),
    "scheduler": (pod(), "its Pod waits for the scheduler"),
    "image": (
        waiting("ImagePullBackOff", "Back-off pulling x"),
        "the image of container main cannot be pulled: ImagePullBackOff: Back-off pulling x",
    ),
    "secret": (
        waiting("CreateContainerConfigError", 'secret "s"'),
        "container main cannot be created: CreateContainerConfigError: secret",
    ),
    "crashes": (waiting("CrashLoopBackOff", "", restarts=4), "ends again and again (4 restarts)"),
    "starting": (pod(node="n"), "its Pod starts on node n"),
    "barrier failed": (
        pod(node="n", init=[container("frameworkbarrier", "terminated", exitCode=210, reason="Error", message="bad")]),
        "its barrier gave up: frameworkbarrier: Error: bad",
    ),
    "stuck": (
        pod(node="n", metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"}),
        "its Pod should have gone 5m12s ago and is still there: is node n lost?",
    ),
}


@pytest.mark.parametrize(("found", "text"), PODS.values(), ids=PODS)
def test_a_pod_that_makes_no_progress_says_why_and_what_to_do(found: TaskPod, text: str) -> None:
    assert text in of_pod(found)


def test_a_mount_that_fails_is_known_from_the_events() -> None:
    failed = event("FailedMount", 'configmap "c" not found', "Pod/training-worker-0", type="Warning")
    assert of_pod(pod(node="n"), events=[failed]) == (
        'worker-0: its Pod does not start on node n: FailedMount: configmap "c" not found\n'
        "  -> look at what the message names: a volume, a ConfigMap or a Secret may not exist"
    )


CREATION: dict[str, tuple[str, str]] = {
    "quota": ('pods "x" is forbidden: exceeded quota: q', "kubectl describe quota"),
    "webhook": ('failed calling webhook "w": no endpoints', "the webhook does not answer"),
    "refused": ('admission webhook "w" denied the request: no', "change what the message names in the Pod template"),
    "permission": ('pods is forbidden: User "c" cannot create resource', "the controller has no permission"),
    "account": ('serviceaccount "s" not found', "create the service account"),
    "other": ("something else", "change what the message names"),
}


@pytest.mark.parametrize(("message", "text"), CREATION.values(), ids=CREATION)
def test_a_pod_that_cannot_be_created_is_known_from_the_events(message: str, text: str) -> None:
    view = workers(task(0, "AttemptCreationPending"), state="AttemptPreparing")
    shown = why(view, events=[event("FailedCreate", message, type="Warning")])
    assert shown.startswith(f"worker-0: its Pod cannot be created (5m12s ago): {message}")
    assert text in shown


@pytest.mark.parametrize("pauses", [True, False])
def test_tasks_that_pause_because_their_pods_end_at_once_are_told(pauses: bool) -> None:
    message = "worker-0 and 1 more Task ended within 10 s of their start" if pauses else "AttemptRunning"
    condition = {"type": "CrashLoop", "status": str(pauses), "reason": "x", "message": message}
    tasks = [task(number, "AttemptCreationPending") for number in range(2)]
    view = workers(*tasks, conditions=[{**condition, "lastTransitionTime": "2026-01-01T12:00:00Z"}])
    told = f"{message}\n  -> frameworkctl events training says how they end; correct the template\n"
    assert why(view) == (told if pauses else "") + "worker-0, worker-1: its Pod is not created yet"


def test_an_attempt_after_which_the_framework_pauses_is_told() -> None:
    message = "its attempt has ended soon after its start"
    condition = {"type": "CrashLoop", "status": "True", "reason": "AttemptPaused", "message": message}
    conditions = [{**condition, "lastTransitionTime": "2026-01-01T12:00:00Z"}]
    assert why(workers(state="AttemptCompleted", conditions=conditions)) == f"its attempt 1 is over; {message}"


def test_tasks_that_wait_for_the_same_reason_share_a_finding() -> None:
    view = workers(*(task(number, "AttemptPreparing") for number in range(5)))
    pods = [pod(f"worker-{number}") for number in range(5)]
    assert why(view, *pods) == "worker-0, worker-1, worker-2 and 2 more: its Pod waits for the scheduler"


def test_the_barrier_names_who_is_missing_or_why_it_cannot_know() -> None:
    view = workers(task(0, ip="10.0.0.1"), task(1, "AttemptPreparing"), ready="1/2")
    waits = pod("worker-0", node="n", init=[container("frameworkbarrier", "running")])
    assert why(view, waits, pod("worker-1")) == (
        "worker-0: waits in the barrier for 1 Task: worker-1\nworker-1: its Pod waits for the scheduler"
    )
    assert "its service account lacks the permission" in why(
        view, waits, barrier_logs={"worker-0": "configmaps is forbidden: cannot get"}
    )
    ready = workers(task(0, ip="10.0.0.1"), ready="1/1")
    assert "although all Tasks are ready: 1/1" in why(ready, waits, barrier_logs={"worker-0": "1/1: waiting"})


def test_a_pod_without_its_barrier_is_told() -> None:
    view = workers(task(0, ip="10.0.0.1"))
    assert "has the label of the barrier and no barrier" in why(
        view,
        pod(node="n", statuses=[container()], metadata={"labels": LABEL | msgspec.to_builtins(pod().metadata.labels)}),
    )


WHOLE: dict[str, tuple[FrameworkView, str]] = {
    "unseen": (
        framework(role("worker", 1), state=""),
        "the controller has not seen it, 5m12s after its creation\n  -> ask",
    ),
    "unreadable": (framework(role("worker", 1), state="Nonsense"), "the controller leaves it alone"),
    "failed": (
        framework(role("worker", 1), state="Completed", end=completion(210, "ContainerPermanentFailed")),
        (
            "it is Completed and has failed: ContainerPermanentFailed (210)\n"
            "  -> correct the reason, and run it again: frameworkctl retry training"
        ),
    ),
    "ending": (
        framework(
            role("worker", 1),
            tasks={"worker": [task(0, "AttemptDeleting", completionStatus=completion(7, "Odd"))]},
            state="AttemptDeleting",
            end=completion(7, "Odd") | {"trigger": {"message": "", "taskRoleName": "worker", "taskIndex": 0}},
        ),
        "its attempt ends by worker-0: Odd (7)",
    ),
    "back-off": (
        framework(
            role("worker", 1),
            state="AttemptCompleted",
            end=completion(201, "ContainerTransientConflictFailed"),
            retryPolicyStatus={"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": 600},
        ),
        "its attempt 1 is over (ContainerTransientConflictFailed (201)); it waits for attempt 2, in 4m48s",
    ),
    "dependent": (
        framework(
            role("map", 0),
            role("reduce", 1, dependsOn=[{"name": "map", "status": "Complete"}]),
            tasks={"map": [], "reduce": [task(0, "AttemptCreationPending", role="reduce")]},
            waits=frozenset({"reduce"}),
        ),
        "role reduce waits until map is Complete",
    ),
    "running": (workers(task(0, ip="10.0.0.1")), ""),
}


@pytest.mark.parametrize(("view", "text"), WHOLE.values(), ids=WHOLE)
def test_the_whole_framework_says_why(view: FrameworkView, text: str) -> None:
    running = pod(node="n", statuses=[container()])
    shown = why(view, running)
    assert shown.startswith(text)
    assert bool(shown) is bool(text)


@pytest.mark.parametrize(
    ("reason", "advice"),
    [("TooManyTasks", "\n  -> frameworkctl scale training ROLE=NUMBER"), ("TooManyTaskRoles", "")],
)
def test_too_many_tasks_can_be_scaled_and_too_many_roles_cannot(reason: str, advice: str) -> None:
    said = [condition("Suspended", reason, "too many")]
    assert why(framework(role("worker", 1), state="AttemptCreationPending", conditions=said)) == f"too many{advice}"


def test_the_first_line_says_how_the_framework_is() -> None:
    view = workers(task(0, ip="10.0.0.1"), ready="1/1", attempt=1)
    evidence = Evidence(view, {}, (), NOW)
    assert summary(evidence, []) == (
        "Framework demo/training is AttemptRunning, 1/1 ready, attempt 2. Nothing holds it up."
    )


def test_where_some_have_ended_the_first_line_says_who_still_runs() -> None:
    run = {"of_attempt": {"runTime": "2026-01-01T12:05:00Z"}}
    tasks = [task(0, "Completed", end=SUCCEEDED), task(1, **run), task(2, **run)]
    view = framework(role("worker", 3), tasks={"worker": tasks}, ready="2/2")
    assert summary(Evidence(view, {}, (), NOW), []).partition("Nothing holds it up. ")[2] == (
        "worker-0 has ended; worker-1, worker-2 still run, since 12s."
    )
