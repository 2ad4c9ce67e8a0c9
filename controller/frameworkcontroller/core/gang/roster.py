"""The gang roster: who is in the gang and where, in one small object that every barrier of the gang watches.

This module says what a roster contains (docs/reference/barrier.md, section 2); `publisher` decides when it
is written.
"""

from collections.abc import Mapping
from itertools import islice, takewhile
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import RolesSummary
from frameworkcontroller.core.gang import rank_order
from frameworkcontroller.core.policies.readiness import is_ready
from frameworkcontroller.core.restart.epoch import Gate

VERSION: Final = 1
_NOTHING: Final[Mapping[str, Any]] = {}
WHY_CHARACTERS: Final = 256
"""Of each reason: every barrier of the gang reads all of them, and a scheduler or a webhook may say much."""
MAX_BEHIND: Final = 1000
Missing: TypeAlias = tuple[str, str]
"""A Task that the gang waits for, and why."""
Behind: TypeAlias = tuple[str, int, str, int]
"""An instance: its TaskRole, its index, the first characters of the UID of its Pod, and its start."""


class AttemptName(msgspec.Struct, frozen=True):
    """Which attempt of which Framework a roster is about, as the roster holds it."""

    namespace: str
    name: str
    uid: str
    attempt_id: int = msgspec.field(name="attemptID")
    attempt_instance_uid: str | None = msgspec.field(name="attemptInstanceUID")


class Published(msgspec.Struct, frozen=True):
    """The last roster in short: an annotation of the ConfigMap, by which the next controller goes on.

    The bounds are for what somebody else has written there.
    """

    generation: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    complete: bool = False
    digest: Annotated[str, msgspec.Meta(max_length=64)] = ""
    epoch: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | msgspec.UnsetType = msgspec.UNSET
    """Only of a gang that restarts in place."""


def document(
    attempt: AttemptName,
    generation: int,
    ready: int,
    total: int,
    missing: tuple[Missing, ...] = (),
    rows: list[dict[str, Any]] | None = None,
    *,
    by_arrival: bool = False,
    gate: Gate | None = None,
    behind: tuple[Behind, ...] = (),
    may_end: bool = False,
    more: Mapping[str, Any] = _NOTHING,
) -> bytes:
    """Return the roster as JSON. With `rows`, the members, it is complete; the generation grows when these change.

    `more` are fields of gangs of other controllers.

    `missing` are some of the Tasks that are not ready, and `behind` instances of an earlier epoch that still have to
    restart. `by_arrival` says that a Task is ready when its barrier runs; otherwise it is when its Pod has an address.
    `may_end` says that applications that end together may do so.
    """
    roster: dict[str, Any] = {
        "version": VERSION,
        "generation": generation,
        "framework": attempt,
        "ready": ready,
        "total": total,
        "complete": rows is not None,
        "waitingFor": [{"task": task, "why": _short(why)} for task, why in missing],
        **more,
    }
    if by_arrival:
        roster["readiness"] = names.ARRIVED
    if gate is not None:
        roster["epoch"] = gate.epoch
        roster["why"] = gate.why
        if behind:
            roster["behind"] = behind
    if may_end:
        roster["mayEnd"] = True
    if rows is not None:
        roster["taskRoles"] = rows
    return msgspec.json.encode(roster)


def _short(why: str) -> str:
    return why if len(why) <= WHY_CHARACTERS else f"{why[: WHY_CHARACTERS - 1]}…"


def members(summary: RolesSummary) -> list[dict[str, Any]]:
    """Return the members of a complete gang, roles in the order of the spec.

    Of a role that the gang does not wait for, the Tasks up to the first that is not ready: readers count places.
    """
    roles = {role.name: role for role in summary.roles}
    found: list[dict[str, Any]] = [
        {
            "name": name,
            **({"gpus": summary.gpus[name]} if name in summary.gpus else {}),
            "tasks": [
                [
                    task.index,
                    task.attempt_status.pod_ip,
                    (task.attempt_status.pod_uid or "")[:8],
                    task.attempt_status.id,
                    task.attempt_status.pod_node_name,
                    task.attempt_status.pod_host_ip,
                    *(() if summary.gate is None else (task.attempt_status.starts or 0,)),
                ]
                for task in takewhile(is_ready, roles[name].task_statuses)
            ],
        }
        for name in summary.order
        if name in roles
    ]
    for row in found:
        number = len(row["tasks"])
        if (stored := roles[row["name"]].rank_order) and (order := rank_order.kept(stored, number)) != [*range(number)]:
            row["order"] = order
        if row["name"] in summary.progress:
            row["progress"] = True
            tasks = roles[row["name"]].task_statuses[:number]
            if ended := [task.index for task in tasks if task.state is State.COMPLETED]:
                row["ended"] = ended
    return found


def behind(summary: RolesSummary) -> tuple[Behind, ...]:
    """Return the instances of an earlier epoch that still have to restart, at most `MAX_BEHIND`.

    An instance that was released sees that its epoch has ended. One that missed its release waits for ever if nobody
    tells it.
    """
    if summary.gate is None:
        return ()
    epoch = summary.gate.epoch
    found = (
        (role.name, task.index, (task.attempt_status.pod_uid or "")[:8], task.attempt_status.starts or 0)
        for role in summary.roles
        for task in role.task_statuses
        if task.attempt_status.arrived is False and isinstance(task.attempt_status.epoch, int)
        if task.attempt_status.epoch < epoch and not task.deletion_pending and task.completion is None
    )
    return tuple(islice(found, MAX_BEHIND))
