"""Why a Framework waits that Kueue queues or a scheduler takes as a group, in plain words, and what to do about it."""

import re
from datetime import datetime
from typing import Final

from frameworkclient.diagnosis.evidence import MESSAGE, Evidence, Finding
from frameworkclient.diagnosis.tasks import advice
from frameworkclient.views.outlook import UNSEEN_SECONDS
from frameworkclient.views.text import shorten
from frameworkcontroller.api.workload import EVICTED, QUEUE_LABEL, QUOTA_RESERVED, Workload

_LABEL: Final = f"kubectl label framework {{name}} {QUEUE_LABEL}"
TODO: Final = {
    "WaitingForAdmission": "ask somebody who may read it: kubectl describe workloads.kueue.x-k8s.io {workload}",
    "QueueUnknown": "ask an administrator; {program} doctor says what of Kueue is missing",
    "NoQueue": f"{_LABEL}=QUEUE; kubectl get localqueues lists them",
    "WorkloadRefused": "correct what the message names",
    "AdmissionConflict": "correct the Pod template, or the flavor or check; then {program} suspend and resume {name}",
    "QueueingDisabled": f"ask an administrator to switch it on, or run it without a queue: {_LABEL}-",
    "GroupsUnknown": "ask an administrator to have PodGroups served, and the scheduler in gangScheduling.schedulers",
    "GroupsRefused": "correct what the message names in spec.gangScheduling",
    "NotGangScheduled": "ask an administrator to switch it on",
}
"""What to do by the reason of the condition Suspended (docs/queues.md) or GangScheduled (docs/groups.md)."""
_NEEDED: Final = re.compile(
    r"insufficient unused quota for (?P<resource>[\w./-]+) in flavor (?P<flavor>[\w.-]+), (?P<more>[\w.]+) more needed"
)
_SAID: Final = (
    (
        r"resource (?P<resource>[\w./-]+) unavailable in ClusterQueue",
        "name a queue with {resource} (kubectl get localqueues), or ask its owner for a quota: it never fits",
    ),
    ("insufficient unused quota", "wait until others end, ask for less in resources, or for a larger quota"),
    (r"insufficient quota for (?P<resource>[\w./-]+)", "ask for less {resource}, or for a larger quota: it never fits"),
    (
        "Queue [^ ]{1,253} (?:doesn't exist|is inactive)",
        "name another queue (kubectl get localqueues), or ask its owner",
    ),
)
# Kueue 0.19 passes over a Workload without a word if one that asks for the same has just found no room.
_SILENT: Final = (
    "wait if another Framework that asks for the same waits, too: Kueue says why of one of them alone; else ask "
    "whether Kueue runs: kubectl get pods -A -l app.kubernetes.io/name=kueue"
)


def queue_finding(evidence: Evidence, reason: str, message: str) -> Finding:
    """Return why no attempt begins, by a reason of `TODO` and the controller's message."""
    view, found = evidence.view, evidence.workload
    queue = view.status.queue if view.status is not None else None
    if reason == "WaitingForAdmission" and queue and not isinstance(found, str):
        number = f" as number {evidence.queue_number}" if evidence.queue_number is not None else ""
        return _waiting(f"it waits in LocalQueue {queue.name}{number}", queue.workload, found, evidence.now)
    unread = f"; what Kueue says is not known: {found}" if isinstance(found, str) and found else ""
    todo = TODO[reason].format(program=evidence.program, name=view.name, workload=queue.workload if queue else "")
    return Finding(shorten(message, MESSAGE) + shorten(unread, MESSAGE), todo)


def _waiting(place: str, name: str, found: Workload, now: datetime) -> Finding:
    """Return why a Workload is not admitted."""
    reserved, evicted = found.condition(QUOTA_RESERVED), found.condition(EVICTED)
    why_evicted = evicted.message if evicted is not None and evicted.status == "True" else ""
    if not found.spec.active:
        _, cause, why = why_evicted.partition("The workload is deactivated due to ")
        what = f"Kueue has deactivated its Workload: {why}" if cause else "somebody has deactivated its Workload"
        todo = f'kubectl patch workloads.kueue.x-k8s.io {name} --type=merge -p \'{{"spec":{{"active":true}}}}\''
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
    if not parts:
        created = found.metadata.creation_timestamp or now
        is_new = (now - created).total_seconds() < UNSEEN_SECONDS
        return Finding(f"{place}: Kueue has said nothing of it yet", "" if is_new else _SILENT)
    return Finding(f"{place}: {'; '.join(parts)}", advice(_SAID, said or why_evicted, ""))


def _needed(said: str) -> str:
    """Return what Kueue says, behind how much is missing of which quota."""
    missing = [f"{one['more']} more {one['resource']} needed in {one['flavor']}" for one in _NEEDED.finditer(said)]
    return f"{', '.join(dict.fromkeys(missing))} ({said})" if missing else said
