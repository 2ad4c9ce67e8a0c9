"""Why Tasks do not run, and Frameworks that Kueue queues, from what is known of them; `test_outlook` has the others.

`tests/apiserver` produces the same with real objects, and with a real Kueue.
"""

from typing import Any

import msgspec
import pytest

from frameworkclient.cli.commands.why import why as print_why
from frameworkclient.cli.options import Format
from frameworkclient.diagnosis.evidence import Evidence
from frameworkclient.diagnosis.framework import findings, summary
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.pods import TaskPod
from frameworkcontroller.api.names import GROUP
from frameworkcontroller.api.workload import WORKLOAD_DECODER, Workload
from frameworkcontroller.engine.cache.companions import DISABLED
from tests.client.documents import (
    BEGIN,
    NOW,
    SUCCEEDED,
    condition,
    container,
    event,
    framework,
    pod,
    pod_document,
    role,
    task,
    workers,
)
from tests.client.played import FRAMEWORKS, PlayedServer, a_client


def why(view: FrameworkView, *pods: TaskPod, **more: Any) -> str:
    found = findings(Evidence(view, {one.task: one for one in pods}, more.pop("events", ()), NOW, **more))
    return "\n".join(str(one) for one in found)


def of_pod(found: TaskPod, **more: Any) -> str:
    return why(workers(task(0, "AttemptPreparing"), ready="0/1"), found, **more)


def unschedulable(message: str) -> TaskPod:
    return pod(conditions=[condition("PodScheduled", "Unschedulable", message) | {"status": "False"}])


def stuck(reason: str, message: str, restarts: int = 0) -> TaskPod:
    """A Pod on a node whose container waits."""
    return pod(node="n", statuses=[container("main", "waiting", restarts=restarts, reason=reason, message=message)])


LESS_GPUS = "no node has enough free nvidia.com/gpu: wait until others end"
NO_ROOM = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
GAVE_UP = container("frameworkbarrier", "terminated", exitCode=210, reason="Error", message="bad")
GOING = pod(node="n", metadata={"deletionTimestamp": BEGIN})
LABELS = pod_document()["metadata"]["labels"] | {f"{GROUP}/barrier": "enabled"}
CONFIG = "CreateContainerConfigError"
PODS: dict[str, tuple[TaskPod, str]] = {
    "no room": (unschedulable(NO_ROOM), f"worker-0: its Pod cannot be scheduled: {NO_ROOM}\n  -> {LESS_GPUS}"),
    "taints": (unschedulable("0/1 nodes are available: 1 node(s) had untolerated taint {a: b}."), "add tolerations"),
    "selector": (unschedulable("1 node(s) didn't match Pod's node affinity/selector."), "get nodes --show-labels"),
    "claim": (unschedulable("pod has unbound immediate PersistentVolumeClaims"), "kubectl get pvc"),
    "scheduler": (pod(), "its Pod waits for the scheduler"),
    "image": (stuck("ImagePullBackOff", "no x"), "container main cannot be pulled: ImagePullBackOff: no x"),
    "secret": (stuck(CONFIG, "no s"), f"container main cannot be created: {CONFIG}: no s"),
    "crashes": (stuck("CrashLoopBackOff", "", restarts=4), "ends again and again (4 restarts)"),
    "starting": (pod(node="n"), "its Pod starts on node n"),
    "barrier failed": (pod(node="n", init=[GAVE_UP]), "its barrier gave up: frameworkbarrier: Error: bad"),
    "stuck": (GOING, "its Pod should have gone 5m12s ago and is still there: is node n lost?"),
    "no barrier": (pod(metadata={"labels": LABELS}), "has the label of the barrier and no barrier"),
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


def test_what_cannot_be_deleted_or_written_is_known_from_the_events() -> None:
    denied = 'admission webhook "w" denied the request: no'
    ended, ready = workers(task(0, end=SUCCEEDED)), workers(task(0, ip="10.0.0.1"), ready="1/1")
    waits = pod("worker-0", node="n", init=[container("frameworkbarrier", "running")])
    deleted, kept = (event("FailedDelete", f"{what}: {denied}", type="Warning") for what in ("Pod of x-3", "ConfigMap"))
    about = ("ConfigMap", "finalizers of the Framework")
    written, held = (event("FailedUpdate", f"{what}: {denied}", type="Warning") for what in about)
    change = "\n  -> change what the message names"
    cannot = f"worker-0: its Pod cannot be deleted (5m12s ago): Pod of x-3: {denied}{change}"
    assert why(ended, pod(node="n"), events=[deleted, kept, held]) == cannot
    assert why(ended, pod(node="n"), events=[written, kept]).endswith("has ended (Succeeded (0)), and its Pod is going")
    assert why(ended, GOING, events=[deleted]).startswith("worker-0: its Pod should have gone")
    cannot = f"worker-0: waits for a roster that cannot be written (5m12s ago): ConfigMap: {denied}{change}"
    assert why(ready, waits, events=[written, held]) == cannot
    assert "although all Tasks are ready" in why(ready, waits, events=[deleted, held])


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


def test_the_first_line_says_how_the_framework_is_and_who_still_runs_where_some_have_ended() -> None:
    nothing = "Framework demo/training is AttemptRunning, {} ready{}. Nothing holds it up.".format
    view = workers(task(0, ip="10.0.0.1"), ready="1/1", attempt=1)
    assert summary(Evidence(view, {}, (), NOW), []) == nothing("1/1", ", attempt 2")
    timed = workers(task(0), attempt=1, ready="1/1", ledger={"state": "running", "since": BEGIN})
    assert summary(Evidence(timed, {}, (), NOW), []) == nothing("1/1", ", attempt 2, running for 5m12s")
    run: dict[str, Any] = {"of_attempt": {"runTime": "2026-01-01T12:05:00Z"}}
    view = workers(task(0, "Completed", end=SUCCEEDED), task(1, **run), task(2, **run), ready="2/2")
    more = " worker-0 has ended; worker-1, worker-2 still run, since 12s."
    assert summary(Evidence(view, {}, (), NOW), []) == nothing("2/2", "") + more


Json = dict[str, Any]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2/namespaces/demo/workloads"
ORDER = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/demo/localqueues/main"
ORDERED = [{"metadata": {"name": name}, "positionInLocalQueue": place} for place, name in enumerate("vw")]


def queued(reason: str = "WaitingForAdmission", message: str = "it waits, as Workload w") -> FrameworkView:
    queue = {"name": "main", "workload": "w", "waiting": True}
    said = [condition("Suspended", reason, message)]
    return framework(role("worker", 4), state="AttemptCreationPending", conditions=said, queue=queue)


def document(*conditions: Json, checks: tuple[Json, ...] = (), active: bool = True, created: str = BEGIN) -> Json:
    status = {"conditions": list(conditions), "admissionChecks": list(checks)}
    metadata = {"name": "w", "namespace": "demo", "uid": "u", "resourceVersion": "1", "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"active": active}, "status": status}


def workload(*conditions: Json, **more: Any) -> Workload:
    return WORKLOAD_DECODER.decode(msgspec.json.encode(document(*conditions, **more)))


def pending(message: str, status: str = "False") -> Json:
    return condition("QuotaReserved", "Pending", message) | {"status": status}


def evicted(message: str) -> Json:
    return condition("Evicted", "x", message)


def check(name: str, state: str, message: str) -> Json:
    return {"name": name, "state": state, "message": message}


UNUSED = "couldn't assign flavors to pod set worker: insufficient unused quota for {} in flavor {}, {} more needed"
CPU = UNUSED.format("cpu", "pool-a", "2")
GPUS = UNUSED.format("nvidia.com/gpu", "pool-b", "500m")
NO_GPUS = "couldn't assign flavors to pod set worker: resource nvidia.com/gpu unavailable in ClusterQueue"
NEVER = (
    "couldn't assign flavors to pod set worker: insufficient quota for cpu in flavor pool-a, previously considered "
    "podsets requests (0) + current podset request (9) > maximum capacity (4)"
)
NO_QUEUE, STOPPED = "LocalQueue main doesn't exist", "ClusterQueue all is inactive"
PREEMPTED = "Preempted to accommodate a workload (UID: u) due to prioritization in the ClusterQueue"
REJECTED = "AdmissionCheck in Rejected state: c"
RESERVED = pending("reserved", "True")
CHECKS = (check("a", "Ready", "fine"), check("b", "Pending", "buys nodes"), check("c", "Retry", ""))
CHECKED = "admission check b, Pending: buys nodes; admission check c, Retry: no message"
BOTH = "2 more cpu needed in pool-a, 500m more nvidia.com/gpu needed in pool-b"
MISSING = f"2 more cpu needed in pool-a ({CPU})"

IN_QUEUE = "it waits in LocalQueue main: "
LOOK = "\n  -> ask somebody who may read it: kubectl describe workloads.kueue.x-k8s.io w"
RUNS = (
    "\n  -> wait if another Framework that asks for the same waits, too: Kueue says why of one of them alone; else ask "
    "whether Kueue runs: kubectl get pods -A -l app.kubernetes.io/name=kueue"
)
LESS = "\n  -> wait until others end, ask for less in resources, or for a larger quota"
SMALLER = "\n  -> ask for less cpu, or for a larger quota: it never fits"
MORE = "\n  -> name a queue with nvidia.com/gpu (kubectl get localqueues), or ask its owner for a quota: it never fits"
OTHER = "\n  -> name another queue (kubectl get localqueues), or ask its owner"
ACTIVATE = (
    """\n  -> activate it again: kubectl patch workloads.kueue.x-k8s.io w --type=merge -p '{"spec":{"active":true}}'"""
)
SAID: dict[str, tuple[Workload | str, str]] = {
    "unreadable": ("403 no", f"it waits, as Workload w; what Kueue says is not known: 403 no{LOOK}"),
    "not seen": (workload(), f"{IN_QUEUE}Kueue has said nothing of it yet{RUNS}"),
    "just created": (workload(created="2026-01-01T12:05:06Z"), f"{IN_QUEUE}Kueue has said nothing of it yet"),
    "no such quota": (
        workload(pending(f"{NO_GPUS}; {CPU}")),
        f"{IN_QUEUE}2 more cpu needed in pool-a ({NO_GPUS}; {CPU}){MORE}",
    ),
    "quota": (workload(pending(CPU)), f"{IN_QUEUE}{MISSING}{LESS}"),
    "two quotas": (workload(pending(f"{CPU}; {GPUS}")), f"{IN_QUEUE}{BOTH} ({CPU}; {GPUS}){LESS}"),
    "too large": (workload(pending(NEVER)), f"{IN_QUEUE}{NEVER}{SMALLER}"),
    "no queue": (workload(pending(NO_QUEUE)), f"{IN_QUEUE}{NO_QUEUE}{OTHER}"),
    "stopped": (workload(pending(STOPPED)), f"{IN_QUEUE}{STOPPED}{OTHER}"),
    "other words": (workload(pending("Waiting for a sign")), f"{IN_QUEUE}Waiting for a sign"),
    "evicted": (workload(pending(PREEMPTED), evicted(PREEMPTED)), f"{IN_QUEUE}it was evicted: {PREEMPTED}"),
    "still reserved": (workload(pending("y", "True"), evicted(PREEMPTED)), f"{IN_QUEUE}it was evicted: {PREEMPTED}"),
    "evicted and missing": (
        workload(pending(CPU), evicted(PREEMPTED)),
        f"{IN_QUEUE}{MISSING}; it was evicted: {PREEMPTED}{LESS}",
    ),
    "deactivated": (
        workload(pending("x"), evicted("The workload is deactivated"), active=False),
        f"somebody has deactivated its Workload{ACTIVATE}",
    ),
    "rejected": (
        workload(evicted(f"The workload is deactivated due to {REJECTED}"), active=False),
        f"Kueue has deactivated its Workload: {REJECTED}{ACTIVATE}",
    ),
    "checks": (workload(RESERVED, checks=CHECKS), f"its quota is reserved, and it waits for {CHECKED}"),
    "soon": (workload(RESERVED), "its quota is reserved, and it waits for its admission"),
}


@pytest.mark.parametrize(("found", "text"), SAID.values(), ids=SAID)
def test_kueue_says_why_it_waits(found: Workload | str, text: str) -> None:
    assert why(queued(), workload=found) == text


NO_PLACE = "the scheduler has found no place for 2 of 2: minCount (2) cannot be satisfied"
ONE_BY_ONE = "Pods have nodes, and the scheduler has said nothing of their group"
ENABLE = "ask an administrator to have PodGroups served, and the scheduler in gangScheduling.schedulers"
GROUPS: dict[str, tuple[str, str, str]] = {
    "no place": ("Unschedulable", NO_PLACE, "wait until others end, or ask for less; kubectl describe nodes says"),
    "an old scheduler": ("NotGangScheduled", ONE_BY_ONE, "ask an administrator to switch it on"),
    "refused": ("GroupsRefused", "no such class", "correct what the message names in spec.gangScheduling"),
    "not known": ("GroupsUnknown", DISABLED.format(scheduler="volcano"), ENABLE),
}


@pytest.mark.parametrize(("reason", "message", "todo"), GROUPS.values(), ids=GROUPS)
def test_one_reason_stands_for_all_pods_of_a_group_without_a_place(reason: str, message: str, todo: str) -> None:
    pods = [unschedulable(NO_ROOM), pod("worker-1")]
    tasks = [task(index, "AttemptPreparing") for index in range(2)]
    found = condition("GangScheduled", reason, message) | {"status": "False"}
    said = why(workers(*tasks, ready="0/2", conditions=[found]), *pods)
    assert said.startswith(f"{message}\n  -> {todo}")
    assert len(said.splitlines()) == 2
    assert message not in why(workers(*tasks, ready="0/2", conditions=[found | {"status": "True"}]), *pods)


SERVED: dict[str, tuple[set[str], str]] = {
    "nothing": (set(), "what Kueue says is not known: 404 NotFound: because of NotFound"),
    "Workloads": ({KUEUE}, f"{IN_QUEUE}2 more cpu needed in pool-a"),
    "their order": ({KUEUE, ORDER}, "it waits in LocalQueue main as number 2: 2 more cpu needed in pool-a"),
}


@pytest.mark.parametrize(("served", "text"), SERVED.values(), ids=SERVED)
async def test_what_the_api_server_does_not_serve_is_left_out(
    served: set[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server = PlayedServer()
    server.objects[FRAMEWORKS]["training"] = queued().to_dict()
    objects = {KUEUE: {"w": document(pending(CPU))}, ORDER: {"pendingworkloads": {"items": ORDERED}}}
    server.objects |= {path: objects[path] for path in served}
    async with a_client(server) as client:
        await print_why(client, "training", Format.TABLE)
    assert text in capsys.readouterr().out
