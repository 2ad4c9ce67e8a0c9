"""Why a Framework that Kueue queues has no attempt yet: Kueue's own words, and what to do."""

import re
from typing import Final

from frameworkclient.diagnosis.evidence import MESSAGE, Evidence, Finding
from frameworkclient.diagnosis.tasks import advice
from frameworkclient.views.text import shorten
from frameworkclient.views.workload import QueuedWorkload
from frameworkcontroller.api.status import QueueStatus
from frameworkcontroller.api.workload import EVICTED, QUEUE_LABEL, QUOTA_RESERVED

TODO: Final = {
    "WaitingForAdmission": "ask somebody who may read it: kubectl describe workload {workload}",
    "QueueUnknown": "ask an administrator; {program} doctor says what of Kueue is missing",
    "NoQueue": f"kubectl label framework {{name}} {QUEUE_LABEL}=QUEUE; kubectl get localqueues lists them",
    "WorkloadRefused": "correct what the message names",
    "AdmissionConflict": (
        "correct the Pod template; or have the flavor or the admission check corrected, and then "
        "{program} suspend {name}; {program} resume {name}"
    ),
    "QueueingDisabled": (
        "ask an administrator to switch it on, or run it without a queue: "
        f"kubectl label framework {{name}} {QUEUE_LABEL}-"
    ),
}
"""What to do by the reason of the condition Suspended (docs/queues.md), where Kueue says nothing more."""
_NEEDED: Final = re.compile(
    r"insufficient unused quota for (?P<resource>[\w./-]+) in flavor (?P<flavor>[\w.-]+), (?P<more>[\w.]+) more needed"
)
_SAID: Final = (
    ("insufficient unused quota", "wait until others end, ask for less in resources, or for a larger quota"),
    (
        r"insufficient quota for (?P<resource>[\w./-]+) in flavor",
        "ask for less {resource}, or for a larger quota: it does not fit, even when all others have ended",
    ),
    (
        "^LocalQueue [^ ]{1,253} doesn't exist",
        f"correct the label {QUEUE_LABEL}: kubectl get localqueues lists what it may be",
    ),
    ("Queue [^ ]{1,253} (?:doesn't exist|is inactive)", "ask who runs the queue: kubectl describe localqueue"),
    ("^$", "ask whether Kueue runs: kubectl get pods -A -l app.kubernetes.io/name=kueue"),
)


def queue_finding(evidence: Evidence, reason: str, message: str) -> Finding:
    """Return why no attempt begins, by a reason of `TODO` and the controller's message."""
    view, found = evidence.view, evidence.workload
    queue = view.status.queue if view.status is not None else None
    if reason == "WaitingForAdmission" and queue and not isinstance(found, str):
        return _waiting(queue, found, evidence.queue_number)
    unread = f"; what Kueue says is not known: {found}" if isinstance(found, str) and found else ""
    todo = TODO[reason].format(program=evidence.program, name=view.name, workload=queue.workload if queue else "")
    return Finding(shorten(message, MESSAGE) + shorten(unread, MESSAGE), todo)


def _waiting(queue: QueueStatus, found: QueuedWorkload, number: int | None) -> Finding:
    """Return why a Workload is not admitted."""
    reserved, evicted = found.condition(QUOTA_RESERVED), found.condition(EVICTED)
    why_evicted = evicted.message if evicted is not None and evicted.status == "True" else ""
    if not found.spec.active:
        _, cause, why = why_evicted.partition("The workload is deactivated due to ")
        what = f"Kueue has deactivated its Workload: {why}" if cause else "somebody has deactivated its Workload"
        patch = f'kubectl patch workload {queue.workload} --type=merge -p \'{{"spec":{{"active":true}}}}\''
        return Finding(shorten(what, MESSAGE), f"activate it again: {patch}")
    if found.is_true(QUOTA_RESERVED) and not why_evicted:
        return _reserved(found)
    said = reserved.message if reserved is not None and reserved.status != "True" else ""
    # Until Kueue looks at it again, it says why it was evicted.
    parts = [_needed(said)] if said not in {"", why_evicted} else []
    parts += [f"it was evicted: {shorten(why_evicted, MESSAGE)}"] if why_evicted else []
    place = f"it waits in LocalQueue {queue.name}" + (f" as number {number}" if number is not None else "")
    return Finding(
        f"{place}: {'; '.join(parts) or 'Kueue has not looked at it yet'}", advice(_SAID, said or why_evicted, "")
    )


def _needed(said: str) -> str:
    """Return what Kueue says, behind how much is missing of which quota."""
    text = shorten(said, MESSAGE)
    missing = [f"{one['more']} more {one['resource']} needed in {one['flavor']}" for one in _NEEDED.finditer(text)]
    return f"{', '.join(dict.fromkeys(missing))} ({text})" if missing else text


def _reserved(found: QueuedWorkload) -> Finding:
    """Return for which admission checks a Workload waits that has its quota."""
    left = [one for one in found.status.admission_checks if one.state != "Ready"]
    if not left:
        return Finding("its quota is reserved, and its admission follows")
    texts = (f"{one.name} is {one.state}" + (f" ({one.message})" if one.message else "") for one in left)
    return Finding(
        f"its quota is reserved, and it waits for admission checks: {shorten('; '.join(texts), MESSAGE)}",
        f"ask who runs them: kubectl describe admissioncheck {left[0].name}",
    )
