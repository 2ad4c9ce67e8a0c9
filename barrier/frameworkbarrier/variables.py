"""The variables that an application reads: FC's `FB_...` lists and what the presets make of the gang. Pure.

A value is text; how it is quoted for a shell or an env file is the business of `render`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import SettingsError
from .gang import Gang, Open, Role, Task
from .presets import Preset

_NO_NAME = re.compile(r"[^A-Z0-9_]")


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable. `short` is a shorter form for where `value` does not fit."""

    name: str
    value: str
    short: str = ""


@dataclass(frozen=True, slots=True)
class Addresses:
    """`FB_{ROLE}_ADDRESSES`, whose port the sourcing script may set in `port_variable`; None: nobody else set one."""

    name: str
    port_variable: str
    hosts: tuple[str, ...]
    """Addresses as they stand before a colon: IPv6 ones in brackets."""
    port: int | None

    @property
    def value(self) -> str | None:
        """The list with the known port."""
        return None if self.port is None else ",".join(f"{host}:{self.port}" for host in self.hosts)


def role_prefix(role: str) -> str:
    """`FB_{ROLE}` in the alphabet of variable names: `ps-a` becomes `FB_PS_A`."""
    return "FB_" + _NO_NAME.sub("_", role.upper())


def bracketed(ip: str) -> str:
    """An address as it stands before `:port`."""
    return f"[{ip}]" if ":" in ip else ip


def ports_of(gang: Gang, chosen: Mapping[str, int], presets: Iterable[Preset]) -> dict[str, int]:
    """The known port of each role: `FB_PORTS`, else the first preset's default; a role without either is left out.

    Raises:
        SettingsError: `FB_PORTS` names a role that the gang does not have, or two roles share a prefix.
    """
    names = [role.name for role in gang.roles]
    for name in chosen:
        if name not in names:
            raise SettingsError(f"FB_PORTS: there is no role {name!r}; there are {', '.join(names)}")
    prefixes = {role_prefix(name): name for name in names}
    if len(prefixes) < len(names):
        raise SettingsError(
            f"roles {', '.join(sorted(set(names) - set(prefixes.values())))}: two give the same FB_ name"
        )
    default = next((preset.port for preset in presets if preset.port is not None), None)
    known = {name: chosen.get(name, default) for name in names}
    return {name: port for name, port in known.items() if port is not None}


def list_ips(role: Role) -> Variable:
    """`FB_{ROLE}_IPS=ip0,ip1,...`."""
    return Variable(f"{role_prefix(role.name)}_IPS", ",".join(task.ip for task in role.tasks))


def list_addresses(role: Role, port: int | None) -> Addresses:
    """`FB_{ROLE}_ADDRESSES=ip0:port,ip1:port,...`."""
    prefix = role_prefix(role.name)
    return Addresses(f"{prefix}_ADDRESSES", f"{prefix}_PORT", tuple(bracketed(task.ip) for task in role.tasks), port)


def context(
    opened: Open, preset: Preset, *, ports: Mapping[str, int], slots: Mapping[str, int], nproc: str, folder: str
) -> dict[str, Any]:
    """What a preset's or user's template may use.

    Returns:
        `gang`: {name, namespace, attempt, generation}; `roles`: list of {name, port, slots, tasks, ips, addresses};
        `tasks`: all Tasks in order, each {role, index, ip, host, address, port, slots, pod, node, host_ip, rank};
        `me`: this Pod's own Task; `ranks`: the Tasks that have a rank, in that order; `nproc`; `folder`.
        `host` is the address as it stands before a colon, `address` is `host:port`. `port` is None if nobody set one.
    """
    roles: list[dict[str, Any]] = []
    for role in opened.gang.roles:
        port, count = ports.get(role.name, preset.port), slots_of(role, slots)
        tasks = [_describe(role.name, task, port, count) for task in role.tasks]
        roles.append(
            {
                "name": role.name,
                "port": port,
                "slots": count,
                "tasks": tasks,
                "ips": [task["ip"] for task in tasks],
                "addresses": [task["address"] for task in tasks],
            }
        )
    tasks_of: dict[str, list[dict[str, Any]]] = {role["name"]: role["tasks"] for role in roles}
    with_rank = [tasks_of[name] for name in preset.rank_roles if tasks_of.get(name)] or tasks_of.values()
    ranks = [task for tasks in with_rank for task in tasks]
    for rank, task in enumerate(ranks):
        task["rank"] = rank
    mine = None
    if opened.role and opened.task:
        index = opened.task.index
        mine = next(task for task in tasks_of[opened.role.name] if task["index"] == index)
    return {
        "gang": {
            "name": opened.gang.framework,
            "namespace": opened.gang.namespace,
            "attempt": opened.gang.attempt_id,
            "generation": opened.gang.generation,
        },
        "roles": roles,
        "tasks": [task for tasks in tasks_of.values() for task in tasks],
        "ranks": ranks,
        "me": mine,
        "nproc": nproc,
        "folder": folder,
    }


def _describe(role: str, task: Task, port: int | None, slots: int) -> dict[str, Any]:
    host = bracketed(task.ip)
    return {
        "role": role,
        "index": task.index,
        "ip": task.ip,
        "host": host,
        "port": port,
        "address": host if port is None else f"{host}:{port}",
        "slots": slots,
        "pod": task.pod,
        "node": task.node,
        "host_ip": task.host_ip,
        "rank": None,
    }


def slots_of(role: Role, slots: Mapping[str, int]) -> int:
    """MPI slots of each Task of a role; the key `""` is for all roles, else a role that is not named has none."""
    return slots.get(role.name, slots.get("", 0))


def compact_json(value: object) -> str:
    """The filter `json` of templates. No quote characters that a single-quoted value could not hold."""
    return json.dumps(value).replace("'", "\\u0027")
