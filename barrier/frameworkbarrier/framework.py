"""The Framework object as a source: for Microsoft's controller, whose ConfigMap carries no roster. Pure.

Everybody watches the whole object there, so it costs more than the roster: see `docs/barrier.md`.
"""

import json
from collections.abc import Mapping
from typing import Any

from .errors import GoneError
from .gang import Gang, Me, Missing, Role, Task
from .roster import RosterError, is_ip, is_role_name, one_line, pod_name, unpack

API = "/apis/frameworkcontroller.microsoft.com/v1"
MISSING_SHOWN = 10


def decompress(framework: Mapping[str, Any]) -> dict[str, Any]:
    """The same Framework with its `taskRoleStatuses` in the clear (FC's `largeFrameworkCompression`).

    Raises:
        RosterError: the compressed part cannot be read.
    """
    copy = dict(framework)
    status = dict(copy.get("status") or {})
    attempt = dict(status.get("attemptStatus") or {})
    packed = attempt.get("taskRoleStatusesCompressed")
    if attempt.get("taskRoleStatuses") is None and packed:
        try:
            attempt["taskRoleStatuses"] = json.loads(unpack(str(packed)))
        except (ValueError, RecursionError) as broken:
            raise RosterError(f"status.attemptStatus.taskRoleStatusesCompressed {broken}") from broken
    if packed is not None:
        attempt["taskRoleStatusesCompressed"] = None
    if attempt:
        status["attemptStatus"] = attempt
        copy["status"] = status
    return copy


def gang_of(framework: Mapping[str, Any], me: Me, attempt_id: int | None) -> Gang:
    """Read a decompressed Framework; the generation is left 0.

    Args:
        framework: the object.
        me: who this Pod is: its Task may be on its way out.
        attempt_id: the Framework attempt that this Pod belongs to, if it was told.

    Raises:
        GoneError: the attempt, or this Pod's own Task, is over.
        RosterError: the object is not a Framework; names the field.
    """
    try:
        return _gang_of(framework, me, attempt_id)
    except (KeyError, TypeError, AttributeError, ValueError) as fault:
        if isinstance(fault, RosterError):
            raise
        raise RosterError(f"the Framework has an unexpected shape: {type(fault).__name__}: {fault}") from fault


def _gang_of(framework: Mapping[str, Any], me: Me, attempt_id: int | None) -> Gang:
    meta = framework["metadata"]
    attempt = (framework.get("status") or {}).get("attemptStatus") or {}
    if attempt_id is not None and int(attempt.get("id") or 0) > attempt_id:
        raise GoneError(f"Framework {meta['namespace']}/{meta['name']} is in a later attempt: this Pod's is over")
    statuses = {
        role["name"]: {task["index"]: task for task in role.get("taskStatuses") or ()}
        for role in attempt.get("taskRoleStatuses") or ()
    }
    roles: list[Role] = []
    missing: list[Missing] = []
    total = 0
    for spec in framework["spec"].get("taskRoles") or ():
        name, number = spec["name"], int(spec["taskNumber"])
        if not is_role_name(name):
            raise RosterError(f"spec.taskRoles: {name!r} is not a role name")
        total += number
        tasks = []
        for index in range(number):
            status = statuses.get(name, {}).get(index)
            task = _task(meta["name"], name, index, status)
            if task is not None:
                tasks.append(task)
            else:
                missing.append(Missing(f"{name}-{index}", _why(status)))
        roles.append(Role(name, tuple(tasks)))
    _check_own(meta, statuses, me)
    complete = not missing and total > 0
    return Gang(
        namespace=meta["namespace"],
        framework=meta["name"],
        uid=str(meta.get("uid") or ""),
        attempt_id=int(attempt.get("id") or 0),
        attempt_instance_uid=str(attempt.get("instanceUID") or ""),
        generation=0,
        ready=total - len(missing),
        total=total,
        complete=complete,
        waiting_for=tuple(missing[:MISSING_SHOWN]),
        roles=tuple(roles) if complete else (),
    )


def _task(framework: str, role: str, index: int, status: Mapping[str, Any] | None) -> Task | None:
    """The Task if it is ready: recorded, staying, and with an address."""
    if status is None or status.get("deletionPending"):
        return None
    attempt = status["attemptStatus"]
    if not attempt.get("podUID") or not is_ip(attempt.get("podIP")):
        return None
    return Task(
        index,
        attempt["podIP"],
        str(attempt["podUID"])[:8],
        int(attempt.get("id") or 0),
        str(attempt.get("podNodeName") or ""),
        str(attempt.get("podHostIP") or ""),
        pod_name(framework, role, index),
    )


def _why(status: Mapping[str, Any] | None) -> str:
    if status is None:
        return "is not in the status yet"
    if status.get("deletionPending"):
        return "is being deleted"
    state = one_line(str(status.get("state") or ""))
    return "has no address yet" if state in {"AttemptPreparing", "AttemptRunning"} else state


def _check_own(meta: Mapping[str, Any], statuses: Mapping[str, Mapping[int, Mapping[str, Any]]], me: Me) -> None:
    own = statuses.get(me.role or "", {}).get(-1 if me.index is None else me.index)
    if own and own.get("deletionPending") and own["attemptStatus"].get("podUID") == me.uid:
        raise GoneError(f"Task {me.role}-{me.index} of Framework {meta['namespace']}/{meta['name']} is being deleted")
