"""Why a Framework waits that Kueue queues, from what Kueue says. A real Kueue says it in `tests/apiserver`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from frameworkclient.cli.commands.why import why
from frameworkclient.cli.options import Format
from frameworkclient.diagnosis.evidence import Evidence
from frameworkclient.diagnosis.framework import findings
from frameworkclient.views.outlook import waiting
from frameworkcontroller.api.workload import WORKLOAD_DECODER, Workload
from tests.client.documents import NOW, condition, framework, role
from tests.client.played import FRAMEWORKS, PlayedServer, a_client

if TYPE_CHECKING:
    from frameworkclient.views.framework import FrameworkView

Json = dict[str, Any]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2/namespaces/demo/workloads"
ORDER = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/demo/localqueues/main"
WAITS = "it waits for admission by LocalQueue main, as Workload w"
UNUSED = "couldn't assign flavors to pod set worker: insufficient unused quota for {} in flavor {}, {} more needed"
NEVER = (
    "couldn't assign flavors to pod set worker: insufficient quota for cpu in flavor pool-a, previously considered "
    "podsets requests (0) + current podset request (9) > maximum capacity (4)"
)
ORDERED = [{"metadata": {"name": name}, "positionInLocalQueue": place} for place, name in enumerate("vw")]
PREEMPTED = "Preempted to accommodate a workload (UID: u) due to prioritization in the ClusterQueue"


def queued(reason: str = "WaitingForAdmission", message: str = WAITS) -> FrameworkView:
    queue = {"name": "main", "workload": "w", "waiting": True}
    said = [condition("Suspended", reason, message)]
    return framework(role("worker", 4), state="AttemptCreationPending", conditions=said, queue=queue)


def document(*conditions: Json, checks: tuple[Json, ...] = (), active: bool = True) -> Json:
    status = {"conditions": list(conditions), "admissionChecks": list(checks)}
    metadata = {"name": "w", "namespace": "demo", "uid": "u", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"active": active}, "status": status}


def workload(*conditions: Json, **more: Any) -> Workload:
    return WORKLOAD_DECODER.decode(msgspec.json.encode(document(*conditions, **more)))


def pending(message: str, status: str = "False") -> Json:
    return condition("QuotaReserved", "Pending", message) | {"status": status}


def evicted(message: str) -> Json:
    return condition("Evicted", "x", message)


def page(view: FrameworkView, **more: Any) -> str:
    return "\n".join(str(one) for one in findings(Evidence(view, {}, (), NOW, **more)))


IN_QUEUE = "it waits in LocalQueue main: "
LESS = "\n  -> wait until others end, ask for less in resources, or for a larger quota"
ACTIVATE = """\n  -> activate it again: kubectl patch workload w --type=merge -p '{"spec":{"active":true}}'"""
OTHER = "\n  -> name another queue (kubectl get localqueues), or ask its owner"
CPU = UNUSED.format("cpu", "pool-a", "2")
GPUS = UNUSED.format("nvidia.com/gpu", "pool-b", "500m")
SAID: dict[str, tuple[Workload, str]] = {
    "quota": (workload(pending(CPU)), f"{IN_QUEUE}2 more cpu needed in pool-a ({CPU}){LESS}"),
    "two quotas": (
        workload(pending(f"{CPU}; {GPUS}")),
        f"{IN_QUEUE}2 more cpu needed in pool-a, 500m more nvidia.com/gpu needed in pool-b ({CPU}; {GPUS}){LESS}",
    ),
    "too large": (
        workload(pending(NEVER)),
        (f"{IN_QUEUE}{NEVER}\n  -> ask for less cpu, or for a larger quota: it never fits"),
    ),
    "no queue": (
        workload(pending("LocalQueue main doesn't exist")),
        (f"{IN_QUEUE}LocalQueue main doesn't exist{OTHER}"),
    ),
    "stopped": (
        workload(pending("ClusterQueue all is inactive")),
        f"{IN_QUEUE}ClusterQueue all is inactive{OTHER}",
    ),
    "other words": (workload(pending("Waiting for a sign")), f"{IN_QUEUE}Waiting for a sign"),
    "not seen": (
        workload(),
        (
            f"{IN_QUEUE}Kueue has not looked at it yet\n  -> ask whether Kueue runs: kubectl get pods -A -l "
            "app.kubernetes.io/name=kueue"
        ),
    ),
    "evicted": (workload(pending(PREEMPTED), evicted(PREEMPTED)), f"{IN_QUEUE}it was evicted: {PREEMPTED}"),
    "still reserved": (workload(pending("y", "True"), evicted(PREEMPTED)), f"{IN_QUEUE}it was evicted: {PREEMPTED}"),
    "evicted and missing": (
        workload(pending(CPU), evicted(PREEMPTED)),
        f"{IN_QUEUE}2 more cpu needed in pool-a ({CPU}); it was evicted: {PREEMPTED}{LESS}",
    ),
    "deactivated": (
        workload(pending("x"), evicted("The workload is deactivated"), active=False),
        f"somebody has deactivated its Workload{ACTIVATE}",
    ),
    "rejected": (
        workload(evicted("The workload is deactivated due to AdmissionCheck in Rejected state: c"), active=False),
        f"Kueue has deactivated its Workload: AdmissionCheck in Rejected state: c{ACTIVATE}",
    ),
    "checks": (
        workload(
            pending("reserved", "True"),
            checks=(
                {"name": "a", "state": "Ready", "message": "fine"},
                {"name": "b", "state": "Pending", "message": "buys nodes"},
                {"name": "c", "state": "Retry", "message": ""},
            ),
        ),
        (
            "its quota is reserved, and it waits for admission check b, Pending: buys nodes; admission check c, Retry: "
            "no message"
        ),
    ),
    "soon": (workload(pending("reserved", "True")), "its quota is reserved, and it waits for its admission"),
}


@pytest.mark.parametrize(("found", "text"), SAID.values(), ids=SAID)
def test_kueue_says_why_it_waits(found: Workload, text: str) -> None:
    assert page(queued(), workload=found) == text


def test_a_workload_that_cannot_be_read_leaves_what_the_controller_says() -> None:
    look = "\n  -> ask somebody who may read it: kubectl describe workload w"
    assert page(queued(), workload="403 no") == f"{WAITS}; what Kueue says is not known: 403 no{look}"


OTHERS: dict[str, tuple[str, str]] = {
    "QueueUnknown": (
        "what Kueue says: text",
        "ask an administrator; frameworkctl doctor says what of Kueue is missing",
    ),
    "NoQueue": (
        "the label kueue.x-k8s.io/queue-name",
        "kubectl label framework training kueue.x-k8s.io/queue-name=QUEUE; kubectl get localqueues lists them",
    ),
    "WorkloadRefused": ("a spec that Kueue takes: text", "correct what the message names"),
    "AdmissionConflict": (
        "a Pod template that fits its admission: text",
        ("correct the Pod template, or the flavor or check; then frameworkctl suspend and resume training"),
    ),
    "QueueingDisabled": (
        "kueue.enabled, or the label kueue.x-k8s.io/queue-name to go",
        (
            "ask an administrator to switch it on, or run it without a queue: kubectl label framework training "
            "kueue.x-k8s.io/queue-name-"
        ),
    ),
}


@pytest.mark.parametrize("reason", OTHERS)
def test_each_other_reason_has_what_to_do(reason: str) -> None:
    waits_for, todo = OTHERS[reason]
    assert page(queued(reason, "text")) == f"text\n  -> {todo}"
    assert waiting(queued(reason, "text"), NOW) == waits_for


def test_a_list_says_by_which_queue_it_waits() -> None:
    assert waiting(queued(), NOW) == "admission by LocalQueue main"


@pytest.mark.parametrize(
    ("served", "text"),
    [
        ({}, "what Kueue says is not known: 404 NotFound: because of NotFound"),
        ({KUEUE}, f"{IN_QUEUE}2 more cpu needed in pool-a"),
        ({KUEUE, ORDER}, "it waits in LocalQueue main as number 2: 2 more cpu needed in pool-a"),
    ],
    ids=["nothing", "Workloads", "their order"],
)
async def test_what_the_api_server_does_not_serve_is_left_out(
    served: set[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server = PlayedServer()
    server.objects[FRAMEWORKS]["training"] = queued().to_dict()
    objects = {
        KUEUE: {"w": document(pending(CPU))},
        ORDER: {"pendingworkloads": {"items": ORDERED}},
    }
    server.objects |= {path: objects[path] for path in served}
    async with a_client(server) as client:
        await why(client, "training", Format.TABLE)
    assert text in capsys.readouterr().out
