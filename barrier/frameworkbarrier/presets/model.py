"""Presets: what an application reads about its gang, each preset as data in `{name}.toml` beside this file.

A preset has

- `port`: the default port of all roles,
- `rank_roles`: the roles that have ranks, in this order, unless the settings name others; a gang with none of them must
  have one role only, whose Tasks have the ranks,
- `ranks_by_topology`: whether its ranks follow the order of the roster, by which neighbours are near each other: to
  its programs a rank is nothing but a rank; otherwise they follow the indices,
- `heads`: names of the role whose only Task is the one that the others connect to, unless the settings name another; in
  a gang with none of them it is the Task of rank 0, and in a preset without ranks Task 0 of the only role,
- `gpu_slots`: whether a Task has as many slots as its Pod asks for GPUs, unless the settings say otherwise,
- `[variables]`: names with Jinja2 templates; an empty result sets nothing,
- `optional`: the variables that a Task may lack; an injected container starts without them,
- `[short_variables]`: shorter forms of values that can outgrow a variable; such a variable is optional too,
- `long`: variables that can outgrow a variable and have no shorter form; they are optional too,
- `[files]`: names with Jinja2 templates of files; an empty result writes none, one that begins with `#!` is executable,
- `place`: the place in lists of presets; those without one come last, by name,
- `doc`: what its values are and who reads them, in Markdown, for the table of the documentation.

`frameworkbarrier.files.template_values` describes what a template may use. To add a preset, add a file: the barrier and
the injector both read it from here. The injector refers to the variables of a preset before their values exist. An
operator may define presets of the same form (`own`): the injector reads them from a folder and hands them to the
barrier as text.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

_FOLDER = os.path.dirname(__file__)
_SUFFIX = ".toml"
_LAST = 1000
_NAME = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
# Those that begin so are the barrier's and the controller's.
_VARIABLE = r"(?!FB_|FC_)[A-Za-z_][A-Za-z0-9_]{0,127}"
_FILE = r"[A-Za-z0-9][-A-Za-z0-9_.]{0,62}"
_ROLE = r"[A-Za-z0-9](?:[-A-Za-z0-9._]{0,61}[A-Za-z0-9])?"
_MAX_PORT = 65_535


class PresetError(ValueError):
    """A definition of a preset is wrong; the text names the field."""


@dataclass(frozen=True, slots=True)
class Preset:
    """One preset as its definition says it; `document` is that definition."""

    name: str
    variables: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    short_variables: Mapping[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    long: frozenset[str] = frozenset()
    port: int | None = None
    rank_roles: tuple[str, ...] = ()
    ranks_by_topology: bool = False
    heads: tuple[str, ...] = ()
    gpu_slots: bool = False
    place: int = _LAST
    doc: str = ""
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)


Presets = Mapping[str, Preset]
NONE: Presets = {}


@cache
def _supplied() -> tuple[str, ...]:
    return tuple(sorted(entry.removesuffix(_SUFFIX) for entry in os.listdir(_FOLDER) if entry.endswith(_SUFFIX)))


def names(own: Presets = NONE) -> tuple[str, ...]:
    """Return the names of all presets of this version and of the operator's, sorted."""
    return tuple(sorted({*_supplied(), *own}))


def in_order(own: Presets = NONE) -> tuple[str, ...]:
    """Return the names of all presets in the order in which a person reads them. This reads all files."""
    return tuple(sorted(names(own), key=lambda name: load(name, own).place))


def load(name: str, own: Presets = NONE) -> Preset:
    """Return one preset; `name` is one of `names(own)`. An operator's replaces one of this version."""
    return own[name] if name in own else _read(name)


@cache
def _read(name: str) -> Preset:
    with open(os.path.join(_FOLDER, name + _SUFFIX), "rb") as file:
        return decode(name, tomllib.load(file))


def variables(chosen: Iterable[str], own: Presets = NONE) -> Mapping[str, bool]:
    """Return the variables that these presets can set, in their order, and whether each may be absent for a Task.

    A value that outgrows its variable is in a file, and `{NAME}_FILE` names the file. A variable of several presets may
    be absent only if none of them always sets it.
    """
    found: dict[str, bool] = {}
    for preset in (load(name, own) for name in chosen):
        for name in preset.variables:
            grows = name in preset.short_variables or name in preset.long
            found[name] = (grows or name in preset.optional) and found.get(name, True)
            if grows:
                found[f"{name}_FILE"] = True
    return found


def encode(presets: Iterable[Preset]) -> str:
    """Write definitions as one text, from which `decode_all` reads the same presets."""
    return json.dumps({preset.name: preset.document for preset in presets}, separators=(",", ":"))


def decode_all(text: str) -> Presets:
    """Read what `encode` wrote.

    Raises:
        PresetError: the text is something else; names the preset and the field.
    """
    try:
        documents = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise PresetError(f"it is not JSON: {broken}") from broken
    if not isinstance(documents, dict):
        raise PresetError("it is not an object of presets by their names")
    return {name: decode(name, document) for name, document in documents.items()}


def decode(name: str, document: object) -> Preset:
    """Read the definition of one preset.

    Raises:
        PresetError: it is wrong; names the preset and the field.
    """
    if not re.fullmatch(_NAME, name):
        raise PresetError(f"preset {name[:80]!r}: the name must be lower-case letters, digits and '-', at most 63")
    if not isinstance(document, dict):
        raise PresetError(f"preset {name}: is not a table")
    try:
        found = _read_fields(document)
    except PresetError as fault:
        raise PresetError(f"preset {name}: {fault}") from None
    sets: dict[str, Any] = {key: frozenset(found.pop(key, ())) for key in ("optional", "long")}
    return Preset(name=name, document=document, **sets, **found)


def _read_fields(document: Mapping[str, object]) -> dict[str, Any]:
    fields: Mapping[str, Callable[[object, str], Any]] = {
        "variables": partial(_templates, _VARIABLE, "the name of a variable, not FB_... or FC_..."),
        "files": partial(_templates, _FILE, "the name of a file"),
        "short_variables": partial(_templates, _VARIABLE, "the name of a variable"),
        "optional": partial(_list_of, _VARIABLE, "names of variables"),
        "long": partial(_list_of, _VARIABLE, "names of variables"),
        "rank_roles": partial(_list_of, _ROLE, "names of roles"),
        "heads": partial(_list_of, _ROLE, "names of roles"),
        "port": partial(_whole, 1, _MAX_PORT),
        "place": partial(_whole, 0, _LAST),
        "ranks_by_topology": partial(_of_type, bool, "true or false"),
        "gpu_slots": partial(_of_type, bool, "true or false"),
        "doc": partial(_of_type, str, "a text"),
    }
    found: dict[str, Any] = {"variables": {}}
    for key, value in document.items():
        if key not in fields:
            raise PresetError(f"{key}: there is no such field; there are {', '.join(fields)}")
        found[key] = fields[key](value, key)
    if not found["variables"] and not found.get("files"):
        raise PresetError("variables: is needed, or files")
    for key in ("short_variables", "optional", "long"):
        for variable in found.get(key, ()):
            if variable not in found["variables"]:
                raise PresetError(f"{key}: {variable} is not one of the variables")
    return found


def _templates(pattern: str, expected: str, value: object, where: str) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise PresetError(f"{where}: must be a table of templates by their names")
    for name, text in value.items():
        if not re.fullmatch(pattern, name):
            raise PresetError(f"{where}: {name[:80]!r} must be {expected}")
        if not isinstance(text, str):
            raise PresetError(f"{where}.{name}: must be the text of a template")
    return value


def _list_of(pattern: str, expected: str, value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and re.fullmatch(pattern, one) for one in value):
        raise PresetError(f"{where}: must be a list of {expected}")
    return tuple(value)


def _whole(low: int, high: int, value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise PresetError(f"{where}: must be a whole number from {low} to {high}")
    return value


def _of_type(wanted: type, expected: str, value: object, where: str) -> object:
    if not isinstance(value, wanted):
        raise PresetError(f"{where}: must be {expected}")
    return value
