"""The condition GangReady: whether the gang of an attempt is complete, and else which Tasks hold it up and why.

A status gets it once its gang has waited for `EVERY`, and keeps it until the next attempt, whatever becomes of the gang
then: most gangs start sooner, and their statuses never have it. Its numbers are those of the gang in the status that
contains it: a gang restarts in place without the Tasks of roles that have no barrier.
The Tasks that are missing are looked at every `EVERY`, since that costs O(Tasks), and since a change of what is said of
them needs a write of the status that nothing else waits for. Pure: `FrameworkState` keeps the report.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from frameworkcontroller.api.status import Condition
from frameworkcontroller.core.effects import RolesSummary
from frameworkcontroller.core.policies.readiness import Obstacle

GANG_READY: Final = "GangReady"
READY_REASON: Final = "AllTasksReady"
RESTARTING_REASON: Final = "Restarting"
"""The gate of a gang that restarts in place is closed; the message says what ended the epoch before."""
WAITING_REASON: Final = "TasksNotReady"
"""Where nothing better is known."""
EVERY: Final = timedelta(seconds=10)
NAMED_TASKS: Final = 3
MAX_DETAIL: Final = 200
"""Characters of what others say about a Task."""
# Source: Kubernetes, metav1.Condition.
_REASON: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]{0,253}[A-Za-z0-9_])?")


class GangReport(Struct, frozen=True):
    """What is reported of a gang."""

    late: bool = False
    """The gang has waited for so long that the status has the condition."""
    reason: str = WAITING_REASON
    """Why the first missing Task is not ready, in one word."""
    missing: str = ""
    """The missing Tasks, each with its reason, "" while they are not known."""
    due: datetime | None = None
    """When they are looked at next, None while the gang is complete."""


def load(conditions: Sequence[Condition]) -> GangReport:
    """Go on from the conditions of a stored status."""
    found = next((one for one in conditions if one.type == GANG_READY), None)
    said = "" if found is None else found.message.partition(": ")[2]
    # A missing Task may be Restarting, too: without an epoch, the gang is late.
    if found is None or (found.reason == RESTARTING_REASON and said.startswith("epoch ")):
        return GangReport()
    if found.status == "True":
        return GangReport(late=True)
    return GangReport(late=True, reason=found.reason, missing=said)


def decide(
    report: GangReport, missing: Callable[[], Iterable[tuple[str, Obstacle]]], now: datetime, *, complete: bool
) -> GangReport:
    """Return what is to be reported now, whether all Tasks are ready (`complete`) or not.

    `missing` gives those that are not, and what keeps each. It is called only when they are to be named.
    """
    if complete:
        return GangReport(late=report.late) if report.due is not None or report.missing else report
    if report.due is None:
        return replace(report, due=now + EVERY)
    if now < report.due:
        return report
    found = list(islice(missing(), NAMED_TASKS + 1))
    reason = found[0][1].reason if found and _REASON.fullmatch(found[0][1].reason) else WAITING_REASON
    return GangReport(late=True, reason=reason, missing=_described(found), due=now + EVERY)


def condition(report: GangReport, summary: RolesSummary) -> tuple[str, bool, str, str] | None:
    """Return type, value, reason and message of the condition, None where the status has none."""
    numbers, gate = f"{summary.ready}/{summary.total}", summary.gate
    restarted = gate is not None and gate.epoch > 0
    if not report.late and not restarted:
        return None
    if summary.complete:
        return GANG_READY, True, READY_REASON, numbers
    if gate is not None and restarted and not gate.is_open:
        text = f"{numbers}: epoch {gate.epoch}: {gate.why}; {report.missing}"
        return GANG_READY, False, RESTARTING_REASON, text.rstrip("; ")
    # An attempt that ends as its last Task becomes ready opens no gate, and nobody is missing.
    return GANG_READY, False, report.reason or WAITING_REASON, f"{numbers}: {report.missing}".rstrip(": ")


def _described(found: Sequence[tuple[str, Obstacle]]) -> str:
    """Name the first Tasks; those with the same obstacle share one text."""
    groups: dict[str, list[str]] = {}
    for task, obstacle in found[:NAMED_TASKS]:
        groups.setdefault(_brief(obstacle), []).append(task)
    named = "; ".join(f"{', '.join(tasks)} {why}" for why, tasks in groups.items())
    return f"{named}; and others" if len(found) > NAMED_TASKS else named


def _brief(obstacle: Obstacle) -> str:
    # The scheduler says "0/3 nodes are available: 1 Insufficient cpu, ... . preemption: 0/3 nodes are available: ...".
    _, marked, rest = obstacle.detail.partition(" nodes are available: ")
    detail = " ".join((rest if marked else obstacle.detail).partition(". preemption: ")[0].split()).rstrip(".")
    detail = detail if len(detail) <= MAX_DETAIL else f"{detail[:MAX_DETAIL]}..."
    return f"{obstacle.reason}: {detail}".rstrip(": ")
