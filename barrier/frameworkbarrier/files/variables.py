"""The variables that an application reads: FC's `FB_...` lists and what the presets make of the gang. Pure.

A value is text; `environment` quotes it for a shell or an env file. A setting that does not fit the gang is a
`SettingsError` that names it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.gate.gang import Gang, Role
from frameworkbarrier.presets.model import Preset
from frameworkbarrier.settings import Settings
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
class RoleLists:
    """What lists a role; a shell may set `FB_{ROLE}_PORT` before it sources the addresses, else `port` counts."""

    prefix: str
    """`FB_{ROLE}`."""
    ips: Variable
    hosts: tuple[str, ...]
    """Addresses as they stand before a colon: IPv6 ones in brackets."""
    port: int | None

    def addresses(self, port: object) -> Variable:
        """Return `FB_{ROLE}_ADDRESSES=ip0:port,ip1:port,...`."""
        return Variable(f"{self.prefix}_ADDRESSES", ",".join(f"{host}:{port}" for host in self.hosts))

    def known(self) -> list[Variable]:
        """Return the variables whose values are known: without a port no addresses."""
        if self.port is None:
            return [self.ips]
        return [self.ips, Variable(f"{self.prefix}_PORT", str(self.port)), self.addresses(self.port)]


def role_prefix(role: str) -> str:
    """Return `FB_{ROLE}` in the alphabet of variable names: `ps-a` becomes `FB_PS_A`."""
    return "FB_" + _NO_NAME.sub("_", role.upper())


def names_of(gang: Gang, setting: str, chosen: Iterable[str]) -> list[str]:
    """Return the names of the roles, once those that a setting names are found among them."""
    names = [role.name for role in gang.roles]
    for name in chosen:
        if name not in names:
            raise SettingsError(f"{setting}: there is no role {name!r}; there are {', '.join(names)}")
    return names


def ports_of(gang: Gang, chosen: Mapping[str, int], presets: Iterable[Preset]) -> dict[str, int]:
    """Return the port of each role: `FB_PORTS`, else the first preset's default; a role without either is left out.

    Raises:
        SettingsError: two roles share a prefix.
    """
    names = names_of(gang, "FB_PORTS", chosen)
    prefixes = {role_prefix(name): name for name in names}
    if len(prefixes) < len(names):
        raise SettingsError(
            f"roles {', '.join(sorted(set(names) - set(prefixes.values())))}: two give the same FB_ name"
        )
    default = next((preset.port for preset in presets if preset.port is not None), None)
    known = {name: chosen.get(name, default) for name in names}
    return {name: port for name, port in known.items() if port is not None}


def lists_of(role: Role, port: int | None) -> RoleLists:
    """Return the lists of a role; `port` is None if none is known."""
    prefix, ips = role_prefix(role.name), [task.ip for task in role.tasks]
    return RoleLists(prefix, Variable(f"{prefix}_IPS", ",".join(ips)), tuple(map(bracketed, ips)), port)


def tf_roles_of(gang: Gang, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return what each role is to TensorFlow, each something else: `FB_TF_ROLES`, else its own name."""
    names = names_of(gang, "FB_TF_ROLES", chosen)
    found = {name: chosen.get(name, name) for name in names}
    for name in chosen:
        if same := [each for each in names if each != name and found[each] == found[name]]:
            raise SettingsError(f"FB_TF_ROLES: {name}={found[name]}, but {same[0]} is the {found[name]} too")
    return found


def slots_of(gang: Gang, settings: Settings, *, by_gpu: bool) -> dict[str, int]:
    """Return the slots of each Task, by role.

    In `FB_SLOTS` the key `""` is for all roles, else only named roles have some. Without it a Task has 1, or with
    `by_gpu` as many as its Pod asks for GPUs, if it asks for some. A role named `launcher` starts mpirun and computes
    nothing, as users of the MPI operator expect, if other roles do and the settings do not say otherwise.
    """
    chosen = settings.slots
    names = names_of(gang, "FB_SLOTS", sorted(chosen.keys() - {""}))
    if chosen:
        found = {name: chosen.get(name, chosen.get("", 0)) for name in names}
    else:
        found = {role.name: (by_gpu and role.gpus) or 1 for role in gang.roles}
    others = any(role.tasks and found[role.name] for role in gang.roles if role.name != LAUNCHER)
    if LAUNCHER in found and LAUNCHER not in chosen and others and settings.run_launcher_as_worker == "false":
        found[LAUNCHER] = 0
    return found


def compact_json(value: object) -> str:
    """Write JSON for the filter `json` of templates, without the quote that a single-quoted value cannot hold."""
    return json.dumps(value).replace("'", "\\u0027")
