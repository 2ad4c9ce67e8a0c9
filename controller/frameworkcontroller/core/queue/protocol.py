"""What is said to Kueue by the status of a Workload, as merge patches (docs/queues.md).

A patch has the whole list of conditions, so it holds for the version of the Workload that it was made of alone.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from frameworkcontroller.api.meta import Condition
from frameworkcontroller.api.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PODS_READY,
    QUOTA_RESERVED,
    REQUEUED,
    Workload,
)
from frameworkcontroller.core.queue.verdict import MAX_MESSAGE

# Evictions after which Kueue queues the Workload again by itself; another one needs somebody who does.
_REQUEUED_REASONS: Final = frozenset({"Preempted", "NodeFailures"})


def needs_release(workload: Workload) -> bool:
    """Report whether the Workload was evicted and still holds its quota."""
    holds = workload.status.admission is not None or workload.is_true(QUOTA_RESERVED) or workload.is_true(ADMITTED)
    return workload.is_true(EVICTED) and holds


def eviction_text(workload: Workload | None) -> str:
    """Return why the Pods of a Workload may not run any more, "" if they may."""
    if workload is None or workload.metadata.deletion_timestamp is not None:
        return "the Workload was deleted"
    if workload.is_true(FINISHED):
        return "others have finished the Workload"
    if workload.is_admitted:
        return ""
    found = workload.condition(EVICTED if workload.is_true(EVICTED) else ADMITTED)
    if found is None:
        return "the Workload is not admitted"
    return f"{found.reason}: {found.message}"[:MAX_MESSAGE]


def release(workload: Workload, now: datetime) -> dict[str, Any]:
    """Return the patch that gives the quota back of a Workload that was evicted: no Pod of it is left."""
    found = workload.condition(EVICTED)
    assert found is not None
    changes = {
        QUOTA_RESERVED: (False, "Pending", found.message),
        ADMITTED: (False, "NoReservation", "The workload has no reservation"),
        REQUEUED: (found.reason in _REQUEUED_REASONS, found.reason, found.message),
    }
    if workload.condition(PODS_READY) is not None:
        changes[PODS_READY] = (False, "WaitForStart", "No attempt has begun")
    patch: dict[str, Any] = {"admission": None, "conditions": _conditions(workload, changes, now)}
    if workload.status.reclaimable_pods:
        patch["reclaimablePods"] = []
    return patch


def finish(workload: Workload, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """Return the patch that says that the Workload needs nothing any more."""
    return {"conditions": _conditions(workload, {FINISHED: (True, reason, message[:MAX_MESSAGE])}, now)}


def report(workload: Workload, *, ready: bool, reclaimable: Mapping[str, int], now: datetime) -> dict[str, Any]:
    """Return the patch that says how far an attempt is, {} if Kueue knows all of it.

    Of each podSet so many Pods need no quota any more; their number never falls.
    """
    patch: dict[str, Any] = {}
    before = workload.condition(PODS_READY)
    if ready is not workload.is_true(PODS_READY):
        recovers = before is not None and before.reason in {"WaitForRecovery", "Recovered"}
        if ready:
            change = (True, "Recovered" if recovers else "Started", "All Tasks of the gang are ready")
        else:
            change = (False, "WaitForRecovery", "A Task of the gang is not ready any more")
        patch["conditions"] = _conditions(workload, {PODS_READY: change}, now)
    known = workload.reclaimed
    wanted = {name: max(number, known.get(name, 0)) for name, number in {**known, **reclaimable}.items()}
    wanted = {name: number for name, number in wanted.items() if number}
    if wanted != known:
        patch["reclaimablePods"] = [{"name": name, "count": number} for name, number in wanted.items()]
    return patch


def _conditions(
    workload: Workload, changes: Mapping[str, tuple[bool, str, str]], now: datetime
) -> list[dict[str, Any]]:
    kept = {one.type: one for one in workload.status.conditions}
    for kind, (is_true, reason, message) in changes.items():
        status, before = "True" if is_true else "False", kept.get(kind)
        since = now if before is None or before.status != status else before.last_transition_time
        kept[kind] = Condition(kind, status, reason, message, since, workload.metadata.generation)
    return [msgspec.to_builtins(one) for one in kept.values()]
