"""Presets: which variables a training framework reads, each as data in `{name}.toml` beside this file.

A preset has `port` (the default of all roles), `rank_roles` (roles that have ranks, in this order; all roles if none
of them is in the gang), `[variables]` (name to Jinja2 template; an empty result sets nothing) and, for values that can
outgrow a variable, `[short_variables]` with a shorter form. What a template may use is described at
`frameworkbarrier.variables.context`. Adding a preset is adding a file.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field

_FOLDER = os.path.dirname(__file__)  # noqa: PTH120  # pathlib is 3 ms that every Pod would pay
_SUFFIX = ".toml"


@dataclass(frozen=True, slots=True)
class Preset:
    """One preset as its file says it."""

    name: str
    variables: Mapping[str, str]
    short_variables: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    rank_roles: tuple[str, ...] = ()


def names() -> tuple[str, ...]:
    """All presets of this version, sorted."""
    return tuple(sorted(entry.removesuffix(_SUFFIX) for entry in os.listdir(_FOLDER) if entry.endswith(_SUFFIX)))  # noqa: PTH208


def load(name: str) -> Preset:
    """Read one preset; `name` must be one of `names()`."""
    with open(os.path.join(_FOLDER, name + _SUFFIX), "rb") as file:  # noqa: PTH118, PTH123
        document = tomllib.load(file)
    return Preset(
        name=name,
        variables=document["variables"],
        short_variables=document.get("short_variables", {}),
        port=document.get("port"),
        rank_roles=tuple(document.get("rank_roles", ())),
    )


def variables(name: str) -> tuple[str, ...]:
    """Names of the variables that a preset can set: what an injector has to refer to."""
    return tuple(load(name).variables)
