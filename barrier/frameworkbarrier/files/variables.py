"""The variables that an application reads: FC's `FB_...` lists and what the presets make of the gang. Pure.

A value is text; `environment` quotes it for a shell or an env file.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.gate.gang import Gang, Role
from frameworkbarrier.presets.model import Preset
from frameworkbarrier.text import bracketed

LAUNCHER = "launcher"
_NO_NAME = re.compile(r"[^A-Z0-9_]")


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable. `short` is a shorter form for where `value` does not fit."""

    name: str
    value: str
    short: str = ""


@dataclass(frozen=True, slots=True)
class Addresses:
    """`FB_{ROLE}_ADDRESSES`; a script that sources it may set the port in `port_variable`, else `port` counts."""

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
    """Return `FB_{ROLE}` in the alphabet of variable names: `ps-a` becomes `FB_PS_A`."""
    return "FB_" + _NO_NAME.sub("_", role.upper())


def ports_of(gang: Gang, chosen: Mapping[str, int], presets: Iterable[Preset]) -> dict[str, int]:
    """Return the port of each role: `FB_PORTS`, else the first preset's default; a role without either is left out.

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
    """Return `FB_{ROLE}_IPS=ip0,ip1,...`."""
    return Variable(f"{role_prefix(role.name)}_IPS", ",".join(task.ip for task in role.tasks))


def list_addresses(role: Role, port: int | None) -> Addresses:
    """Return `FB_{ROLE}_ADDRESSES=ip0:port,ip1:port,...`."""
    prefix = role_prefix(role.name)
    return Addresses(f"{prefix}_ADDRESSES", f"{prefix}_PORT", tuple(bracketed(task.ip) for task in role.tasks), port)


def tf_roles_of(gang: Gang, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return what each role is to TensorFlow: `FB_TF_ROLES`, else its own name.

    Raises:
        SettingsError: `FB_TF_ROLES` names a role that the gang does not have, or two roles would be the same.
    """
    names = [role.name for role in gang.roles]
    for name in chosen:
        if name not in names:
            raise SettingsError(f"FB_TF_ROLES: there is no role {name!r}; there are {', '.join(names)}")
    found = {name: chosen.get(name, name) for name in names}
    for name in chosen:
        if same := [each for each in names if each != name and found[each] == found[name]]:
            raise SettingsError(f"FB_TF_ROLES: {name}={found[name]}, but {same[0]} is the {found[name]} too")
    return found


def slots_of(gang: Gang, chosen: Mapping[str, int], *, run_launcher: bool, by_gpu: bool = False) -> dict[str, int]:
    """Return the slots of each Task, by role.

    A role named `launcher` starts mpirun and computes nothing, as users of the MPI operator expect, if other roles do.

    Args:
        gang: the complete gang.
        chosen: `FB_SLOTS`; the key `""` is for all roles, else only named roles have some. Empty: 1 for all roles.
        run_launcher: whether a launcher computes too.
        by_gpu: without `FB_SLOTS` a Task has as many slots as its Pod asks for GPUs, if it asks for some.

    Raises:
        SettingsError: `FB_SLOTS` names a role that the gang does not have.
    """
    names = [role.name for role in gang.roles]
    for name in sorted(chosen.keys() - {"", *names}):
        raise SettingsError(f"FB_SLOTS: there is no role {name!r}; there are {', '.join(names)}")
    if chosen:
        found = {name: chosen.get(name, chosen.get("", 0)) for name in names}
    else:
        found = {role.name: (by_gpu and role.gpus) or 1 for role in gang.roles}
    others = any(role.tasks and found[role.name] for role in gang.roles if role.name != LAUNCHER)
    if LAUNCHER in found and LAUNCHER not in chosen and others and not run_launcher:
        found[LAUNCHER] = 0
    return found


def compact_json(value: object) -> str:
    """Write JSON for the filter `json` of templates, without the quote that a single-quoted value cannot hold."""
    return json.dumps(value).replace("'", "\\u0027")
