"""What a template of a preset or a user may use: the gang as plain values. Pure.

`render` builds it for each preset, because ranks, the head and slots depend on the preset.
Source: docs/reference/barrier.md, section 3.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files import variables
from frameworkbarrier.gate.gang import Gang, Task
from frameworkbarrier.gate.gate import Released
from frameworkbarrier.presets.model import Preset
from frameworkbarrier.settings import Settings
from frameworkbarrier.text import bracketed, canonical_ip

ID_LIMIT = 128
"""Characters of the ID of an attempt."""


def build(released: Released, preset: Preset, settings: Settings, interfaces: Mapping[str, str]) -> dict[str, Any]:
    """Return what a template may use; ranks, head, slots and default port are those of the preset.

    Returns:
        `gang`: {id, name, namespace, attempt, generation}; `roles`: list of {name, port, slots, gpus, tasks, ips,
        addresses}; `tasks`: all Tasks in order, each {role, index, attempt, ip, host, name, address, port, slots, pod,
        node, host_ip, rank}; `me`: this Pod's own Task; `ranks`: the Tasks that have a rank, in that order; `head`: the
        Task that the others connect to, None if the preset has none; `nproc`: processes of each Pod, as far as the
        settings say; `launched`: those that a launcher starts in this Pod, by default one for each GPU; `nnodes`: {min,
        max}, None if it is not set; `max_restarts`; `interface`: the one with this Pod's address, "" if it is not
        known; `folder`; `tf_roles`: what each role is to TensorFlow, by its name; `fail`: refuses the gang, with a
        reason.
        `host` is the address as it stands before a colon, `address` is `host:port`. `port` is None if none is known.
        `name` is by what others may reach the Task: its address, or with `FB_ADDRESSES=name` its Pod's name.

    Raises:
        SettingsError: a setting does not fit the gang, or nothing says who has ranks or who is the head.
    """
    gang = released.gang
    slots = variables.slots_of(gang, settings, by_gpu=preset.gpu_slots)
    roles: list[dict[str, Any]] = []
    for role in gang.roles:
        port, count = settings.ports.get(role.name, preset.port), slots[role.name]
        tasks = [_describe(role.name, task, port, count, by_name=settings.addresses == "name") for task in role.tasks]
        roles.append(
            {
                "name": role.name,
                "port": port,
                "slots": count,
                "gpus": role.gpus,
                "tasks": tasks,
                "ips": [task["ip"] for task in tasks],
                "addresses": [task["address"] for task in tasks],
            }
        )
    tasks_of: dict[str, list[dict[str, Any]]] = {role["name"]: role["tasks"] for role in roles}
    orders = {role.name: role.by_rank if preset.ranks_by_topology else range(len(role.tasks)) for role in gang.roles}
    ranked = _with_rank(gang, preset, settings.rank_roles)
    ranks = [tasks_of[name][index] for name in ranked for index in orders[name]]
    named = {f"{task['role']}-{task['index']}": task for task in ranks}
    first = None if settings.rank_roles else named.get(gang.first)
    if first is not None:
        ranks.sort(key=lambda task: task is not first)
    for rank, task in enumerate(ranks):
        task["rank"] = rank
    head = _head_role(gang, preset, settings.head_role) if first is None or settings.head_role else ""
    leader = tasks_of[head][0] if head else next(iter(ranks), None)
    mine = None
    if released.role and released.task:
        index = released.task.index
        mine = next(task for task in tasks_of[released.role.name] if task["index"] == index)
    least, _, most = settings.nnodes.partition(":")
    return {
        "gang": {
            "id": _id_of(gang),
            "name": gang.framework,
            "namespace": gang.namespace,
            "attempt": gang.attempt_id,
            "generation": gang.generation,
        },
        "roles": roles,
        "tasks": [task for tasks in tasks_of.values() for task in tasks],
        "ranks": ranks,
        "head": leader if preset.heads or head else None,
        "me": mine,
        "nproc": settings.nproc_per_node or "1",
        "launched": settings.nproc_per_node or str((released.role.gpus if released.role else 0) or 1),
        "nnodes": {"min": int(least), "max": int(most)} if most else None,
        "max_restarts": settings.max_restarts,
        "interface": interfaces.get(canonical_ip(released.task.ip), "") if released.task else "",
        "folder": settings.output_dir,
        "tf_roles": variables.tf_roles_of(gang, settings.tf_roles),
        "fail": _fail_for(preset),
    }


def _id_of(gang: Gang) -> str:
    """Return what tells this attempt from others: its UID, which only who may write the source could make odd."""
    uid = gang.attempt_instance_uid
    if uid.isascii() and uid.replace("-", "0").replace("_", "0").isalnum() and len(uid) <= ID_LIMIT:
        return uid
    return f"{gang.namespace}-{gang.framework or 'gang'}-{gang.attempt_id}"


def _fail_for(preset: Preset) -> Any:
    def fail(reason: str) -> NoReturn:
        raise SettingsError(f"preset {preset.name}: {reason}" if preset.name else reason)

    return fail


def _with_rank(gang: Gang, preset: Preset, chosen: tuple[str, ...]) -> list[str]:
    """Return the roles whose Tasks have ranks, in the order of their ranks; a preset without ranks counts all."""
    names = variables.names_of(gang, "FB_RANK_ROLES", chosen)
    filled = [role.name for role in gang.roles if role.tasks]
    found = [name for name in chosen or preset.rank_roles if name in filled]
    if not chosen and (first := gang.first.rpartition("-")[0]) in filled:
        found = found if first in found else [first, *(name for name in filled if name != first)]
    if not preset.rank_roles and not chosen:
        return names
    if chosen and not found:
        raise SettingsError(f"FB_RANK_ROLES: {', '.join(chosen)} have no Tasks, so nobody has rank 0")
    if len(filled) > 1 and not found:
        raise SettingsError(
            f"preset {preset.name}: none of the roles {', '.join(filled)} is named {', '.join(preset.rank_roles)}: say "
            f"which of them count as ranks, the one with rank 0 first, by FB_RANK_ROLES={','.join(filled)} (annotation "
            "rank-roles), or name the roles so"
        )
    return found or filled


def _head_role(gang: Gang, preset: Preset, chosen: str) -> str:
    """Return the role whose Task 0 is the head; "": it is the Task of rank 0, or there is none."""
    filled = {role.name: len(role.tasks) for role in gang.roles if role.tasks}
    if chosen:
        if chosen not in filled:
            raise SettingsError(
                f"FB_HEAD_ROLE: there is no role {chosen!r} with Tasks; there are {', '.join(filled) or 'none'}"
            )
        return chosen
    if not preset.heads:
        return ""
    named = next((name for name in preset.heads if name in filled), "")
    if named and filled[named] > 1:
        raise SettingsError(
            f"preset {preset.name}: role {named} has {filled[named]} Tasks, but only one can be the head: give it one "
            f"Task, or say by FB_HEAD_ROLE={named} (annotation head-role) that its Task 0 is the head"
        )
    if named or preset.rank_roles:
        return named
    if len(filled) > 1:
        first = next(iter(filled))
        raise SettingsError(
            f"preset {preset.name}: none of the roles {', '.join(filled)} is named {', '.join(preset.heads)}: say "
            f"whose Task 0 is the head by FB_HEAD_ROLE={first} (annotation head-role), or name the role so"
        )
    return next(iter(filled))


def _describe(role: str, task: Task, port: int | None, slots: int, *, by_name: bool) -> dict[str, Any]:
    host = bracketed(task.ip)
    return {
        "role": role,
        "index": task.index,
        "attempt": task.attempt_id,
        "ip": task.ip,
        "host": host,
        "name": task.pod if by_name else task.ip,
        "port": port,
        "address": host if port is None else f"{host}:{port}",
        "slots": slots,
        "pod": task.pod,
        "node": task.node,
        "host_ip": task.host_ip,
        "rank": None,
    }
