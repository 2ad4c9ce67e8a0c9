"""Why a Framework that Kueue queues has no attempt yet: Kueue's own words, and what to do."""

import re
from typing import Final

from frameworkclient.diagnosis.evidence import MESSAGE, Evidence, Finding
from frameworkclient.diagnosis.tasks import advice
from frameworkclient.views.text import shorten
from frameworkcontroller.api.workload import EVICTED, QUEUE_LABEL, QUOTA_RESERVED, Workload

_LABEL: Final = f"kubectl label framework {{name}} {QUEUE_LABEL}"
TODO: Final = {
    "WaitingForAdmission": "ask somebody who may read it: kubectl describe workload {workload}",
    "QueueUnknown": "ask an administrator; {program} doctor says what of Kueue is missing",
    "NoQueue": f"{_LABEL}=QUEUE; kubectl get localqueues lists them",
    "WorkloadRefused": "correct what the message names",
    "AdmissionConflict": "correct the Pod template, or the flavor or check; then {program} suspend and resume {name}",
    "GroupsUnknown": "ask an administrator whether PodGroups are served, and known to the controller",
    "QueueingDisabled": f"ask an administrator to switch it on, or run it without a queue: {_LABEL}-",
}
"""What to do by the reason of the condition Suspended (docs/queues.md), where Kueue says nothing more."""
_NEEDED: Final = re.compile(
    r"insufficient unused quota for (?P<resource>[\w./-]+) in flavor (?P<flavor>[\w.-]+), (?P<more>[\w.]+) more needed"
)
_SAID: Final = (
    ("insufficient unused quota", "wait until others end, ask for less in resources, or for a larger quota"),
    (r"insufficient quota for (?P<resource>[\w./-]+)", "ask for less {resource}, or for a larger quota: it never fits"),
    (
        "Queue [^ ]{1,253} (?:doesn't exist|is inactive)",
        "name another queue (kubectl get localqueues), or ask its owner",
    ),
    ("^$", "ask whether Kueue runs: kubectl get pods -A -l app.kubernetes.io/name=kueue"),
)


def queue_finding(evidence: Evidence, reason: str, message: str) -> Finding:
    """Return why no attempt begins, by a reason of `TODO` and the controller's message."""
    view, found = evidence.view, evidence.workload
    queue = view.status.queue if view.status is not None else None
    if reason == "WaitingForAdmission" and queue and not isinstance(found, str):
        number = f" as number {evidence.queue_number}" if evidence.queue_number is not None else ""
        return _waiting(f"it waits in LocalQueue {queue.name}{number}", queue.workload, found)
    unread = f"; what Kueue says is not known: {found}" if isinstance(found, str) and found else ""
    todo = TODO[reason].format(program=evidence.program, name=view.name, workload=queue.workload if queue else "")
    return Finding(shorten(message, MESSAGE) + shorten(unread, MESSAGE), todo)


def _waiting(place: str, name: str, found: Workload) -> Finding:
    """Return why a Workload is not admitted."""
    reserved, evicted = found.condition(QUOTA_RESERVED), found.condition(EVICTED)
    why_evicted = evicted.message if evicted is not None and evicted.status == "True" else ""
    if not found.spec.active:
        _, cause, why = why_evicted.partition("The workload is deactivated due to ")
        what = f"Kueue has deactivated its Workload: {why}" if cause else "somebody has deactivated its Workload"
        todo = f'kubectl patch workload {name} --type=merge -p \'{{"spec":{{"active":true}}}}\''
        return Finding(shorten(what, MESSAGE), f"activate it again: {todo}")
    if found.is_true(QUOTA_RESERVED) and not why_evicted:
        left = [one for one in found.status.admission_checks if one.state != "Ready"]
        texts = [f"admission check {one.name}, {one.state}: {one.message or 'no message'}" for one in left]
        return Finding(
            f"its quota is reserved, and it waits for {shorten('; '.join(texts), MESSAGE) or 'its admission'}"
        )
    said = reserved.message if reserved is not None and reserved.status != "True" else ""
    # Until Kueue looks at it again, it says why it was evicted.
    parts = [_needed(shorten(said, MESSAGE))] if said not in {"", why_evicted} else []
    parts += [f"it was evicted: {shorten(why_evicted, MESSAGE)}"] if why_evicted else []
    what = f"{place}: {'; '.join(parts) or 'Kueue has not looked at it yet'}"
    return Finding(what, advice(_SAID, said or why_evicted, ""))


def _needed(said: str) -> str:
    """Return what Kueue says, behind how much is missing of which quota."""
    missing = [f"{one['more']} more {one['resource']} needed in {one['flavor']}" for one in _NEEDED.finditer(said)]
    return f"{', '.join(dict.fromkeys(missing))} ({said})" if missing else said
