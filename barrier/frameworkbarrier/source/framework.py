"""The Framework object as a source: for Microsoft's controller, whose ConfigMap carries no roster. Pure.

Every Pod watches the whole object there, so this costs more than the roster: see docs/reference/barrier.md, section 7.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from frameworkbarrier.errors import GoneError
from frameworkbarrier.gate.gang import Gang, Task, assemble, gpus_of, is_place, is_ready
from frameworkbarrier.settings import MAX_COUNT, MAX_INDEX, OwnTask
from frameworkbarrier.shape import ShapeError, count, rows, table, word
from frameworkbarrier.source.roster import unpack
from frameworkbarrier.text import is_dns_name, is_role_name, one_line, pod_name

API = "/apis/frameworkcontroller.microsoft.com/v1"
RANK_TOPOLOGY = "frameworkcontroller.microsoft.com/rank-topology"
TASKS_LIMIT = 10 * MAX_COUNT
"""Tasks of a Framework; far more than etcd can hold the status of."""


def decompress(framework: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same Framework with its `taskRoleStatuses` decompressed (FC's `largeFrameworkCompression`).

    Raises:
        ShapeError: the compressed part, or what is around it, cannot be read.
    """
    copy = dict(framework)
    status = dict(table(copy.get("status"), "status"))
    attempt = dict(table(status.get("attemptStatus"), "status.attemptStatus"))
    packed = attempt.get("taskRoleStatusesCompressed")
    if attempt.get("taskRoleStatuses") is None and packed:
        try:
            attempt["taskRoleStatuses"] = json.loads(unpack(str(packed)))
        except (ValueError, RecursionError) as broken:
            raise ShapeError(f"status.attemptStatus.taskRoleStatusesCompressed {broken}") from broken
    if packed is not None:
        attempt["taskRoleStatusesCompressed"] = None
    if attempt:
        status["attemptStatus"] = attempt
        copy["status"] = status
    return copy


def gang_of(framework: Mapping[str, Any], own_task: OwnTask, attempt_id: int | None) -> Gang:
    """Read a decompressed Framework; the generation is left 0. `attempt_id` is that of this Pod, if it is known.

    Raises:
        GoneError: the attempt, or this Pod's own Task, is over.
        ShapeError: the object is not a Framework; names the field.
    """
    meta = table(framework.get("metadata"), "metadata")
    name, namespace = word(meta.get("name"), "metadata.name"), word(meta.get("namespace"), "metadata.namespace")
    if not is_dns_name(name) or not is_dns_name(namespace):
        raise ShapeError("metadata: has no valid name and namespace")
    attempt = table(table(framework.get("status"), "status").get("attemptStatus"), "status.attemptStatus")
    number = count(attempt.get("id"), "status.attemptStatus.id", MAX_INDEX)
    if attempt_id is not None and number > attempt_id:
        raise GoneError(f"Framework {namespace}/{name} is in a later attempt: this Pod's is over")
    statuses = _statuses(attempt)

    def find(role: str, index: int) -> Task | str:
        return _task(name, role, index, statuses.get(role, {}).get(index))

    _check_own(f"{namespace}/{name}", statuses, own_task)
    numbers, gpus = _roles(framework, _waiting(attempt))
    uid = word(meta.get("uid"), "metadata.uid")
    instance_uid = word(attempt.get("instanceUID"), "status.attemptStatus.instanceUID")
    return assemble(Gang(namespace, name, uid, number, instance_uid), numbers, find, gpus)


def _waiting(attempt: Mapping[str, Any]) -> set[str]:
    """Return the roles that wait for others; none of their Tasks is in the gang yet."""
    where = "status.attemptStatus.taskRoleStatuses"
    roles = rows(attempt.get("taskRoleStatuses"), where)
    return {word(role.get("name"), f"{where}.name") for role in roles if role.get("dependenciesMet") is False}


def _spec_roles(framework: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return rows(table(framework.get("spec"), "spec").get("taskRoles"), "spec.taskRoles")


def _pod(role: Mapping[str, Any]) -> Mapping[str, Any]:
    return table(table(role.get("task"), "spec.taskRoles.task").get("pod"), "spec.taskRoles.task.pod")


def asks_for_order(framework: Mapping[str, Any]) -> bool:
    """Report whether a TaskRole asks that its ranks follow the topology of the nodes, which only a roster says."""
    for role in _spec_roles(framework):
        metadata = table(_pod(role).get("metadata"), "spec.taskRoles.task.pod.metadata")
        if RANK_TOPOLOGY in table(metadata.get("annotations"), "spec.taskRoles.task.pod.metadata.annotations"):
            return True
    return False


def _roles(framework: Mapping[str, Any], waiting: set[str]) -> tuple[list[tuple[str, int]], dict[str, int]]:
    """Return each role of the spec with the number of its Tasks that are in the gang, and with the GPUs of each Pod."""
    numbers: dict[str, int] = {}
    gpus: dict[str, int] = {}
    for role in _spec_roles(framework):
        name = word(role.get("name"), "spec.taskRoles.name")
        if not is_role_name(name) or name in numbers:
            raise ShapeError(f"spec.taskRoles: {one_line(repr(name), 80)} is not a role name, or is there twice")
        where = f"spec.taskRoles[{name}].taskNumber"
        if role.get("taskNumber") is None:
            raise ShapeError(f"{where}: is not there")
        numbers[name] = count(role["taskNumber"], where, MAX_COUNT)
        gpus[name] = gpus_of(_pod(role), "spec.taskRoles.task.pod.")
    if sum(numbers.values()) > TASKS_LIMIT:
        raise ShapeError(f"spec.taskRoles: more than {TASKS_LIMIT} Tasks")
    return [(name, 0 if name in waiting else number) for name, number in numbers.items()], gpus


def _statuses(attempt: Mapping[str, Any]) -> dict[str, dict[int, Mapping[str, Any]]]:
    """Return the status of each Task by role and index."""
    where = "status.attemptStatus.taskRoleStatuses"
    return {
        word(role.get("name"), f"{where}.name"): {
            count(task.get("index"), f"{where}.taskStatuses.index", MAX_INDEX): task
            for task in rows(role.get("taskStatuses"), f"{where}.taskStatuses")
        }
        for role in rows(attempt.get("taskRoleStatuses"), where)
    }


def _task(framework: str, role: str, index: int, status: Mapping[str, Any] | None) -> Task | str:
    """Return the Task if it is ready, otherwise why it is not."""
    if status is None:
        return "is not in the status yet"
    attempt = table(status.get("attemptStatus"), "taskStatuses.attemptStatus")
    uid, ip = word(attempt.get("podUID"), "podUID"), word(attempt.get("podIP"), "podIP")
    if not is_ready(uid=uid, ip=ip, leaving=bool(status.get("deletionPending"))):
        return _why(status)
    node, host_ip = word(attempt.get("podNodeName"), "podNodeName"), word(attempt.get("podHostIP"), "podHostIP")
    if not is_place(node, host_ip):
        place = one_line(repr((node, host_ip)), 80)
        raise ShapeError(f"taskStatuses of {role}-{index}: {place} is not podNodeName and podHostIP")
    number = count(attempt.get("id"), "taskStatuses.attemptStatus.id", MAX_INDEX)
    return Task(index, ip, uid[:8], number, node, host_ip, pod_name(framework, role, index))


def _why(status: Mapping[str, Any]) -> str:
    if status.get("deletionPending"):
        return "is being deleted"
    state = one_line(str(status.get("state") or ""))
    return "has no address yet" if state in {"AttemptPreparing", "AttemptRunning"} else state


def _check_own(framework: str, statuses: Mapping[str, Mapping[int, Mapping[str, Any]]], own_task: OwnTask) -> None:
    own = statuses.get(own_task.role or "", {}).get(-1 if own_task.index is None else own_task.index)
    if own and own.get("deletionPending"):
        attempt = table(own.get("attemptStatus"), "taskStatuses.attemptStatus")
        if attempt.get("podUID") == own_task.uid:
            raise GoneError(f"Task {own_task.role}-{own_task.index} of Framework {framework} is being deleted")
