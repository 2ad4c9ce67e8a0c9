"""A value against a structural schema of a CustomResourceDefinition, as the API server checks it.

Only the keywords and CEL rules that this project's definition uses are known: a test compares the two, and the API
server is asked whether both agree.
Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from frameworkclient.checks.problem import Problem, error, unknown
from frameworkcontroller.api import names
from frameworkcontroller.api.pod_group import KINDS
from frameworkcontroller.api.spec import MAX_ROLES, MAX_SECONDS, MAX_TASKS

Schema = dict[str, Any]

_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}
_BITS: Final = {"int32": 31, "int64": 63}


def problems(value: Any, schema: Schema, path: str = "") -> Iterator[Problem]:
    """Yield what is wrong with a value as decoded; its path is "" for the whole object."""
    if value is None:
        # Elsewhere the API server drops a null before it checks.
        return
    is_flag = isinstance(value, bool)  # which Python takes for an integer, too
    if not isinstance(value, _TYPES[schema["type"]]) or is_flag != (schema["type"] == "boolean"):
        yield error(path, f"must be of type {schema['type']}, not {_type_of(value)}")
        return
    match value:
        case dict():
            yield from _object(value, schema, path)
        case list():
            yield from _list(value, schema, path)
        case _:
            yield from _scalar(value, schema, path)
    for rule in schema.get("x-kubernetes-validations", ()):
        if not RULES[rule["rule"]](value):
            name = None if path else (value.get("metadata") or {}).get("name")
            yield error(path or "metadata.name", rule["message"] + _nearest(name))


def _type_of(value: Any) -> str:
    return next((name for name, kind in _TYPES.items() if isinstance(value, kind)), "number")


def _object(value: Mapping[str, Any], schema: Schema, path: str) -> Iterator[Problem]:
    properties = schema.get("properties", {})
    for key in schema.get("required", ()):
        if value.get(key) is None:
            yield error(f"{path}.{key}" if path else key, "is missing")
    for key, entry in value.items():
        if key in properties:
            yield from problems(entry, properties[key], f"{path}.{key}" if path else key)
        elif properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield unknown(path, str(key), properties)


def _list(value: list[Any], schema: Schema, path: str) -> Iterator[Problem]:
    most = schema.get("maxItems")
    if most is not None and len(value) > most:
        yield error(path, f"must have at most {most} entries, not {len(value)}")
    keys = schema.get("x-kubernetes-list-map-keys", ())
    seen = set[tuple[Any, ...]]()
    for place, entry in enumerate(value):
        where = f"{path}[{_name_of(entry, place)}]"
        if entry is None:
            yield error(where, "must not be null")
        if keys and isinstance(entry, dict):
            identity = tuple(str(entry.get(key)) for key in keys)
            if identity in seen:
                yield error(where, f"is given twice: {', '.join(keys)} must be different")
            seen.add(identity)
        yield from problems(entry, schema["items"], where)


def _name_of(entry: Any, place: int) -> str:
    """Return how a path names an entry: by its name, or by its index."""
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9-]{1,63}", name) else str(place)


def _nearest(name: Any) -> str:
    """Return the nearest name that is legal, as the end of a message; "" if there is none."""
    legal = re.sub("[^a-z0-9]", "", str(name or "").lower())[:63]
    return f"; {legal} would do" if legal else ""


def _scalar(value: Any, schema: Schema, path: str) -> Iterator[Problem]:
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        yield error(path, f"must be one of {', '.join(allowed)}, not {value!r}")
    pattern = schema.get("pattern")
    if pattern is not None and not re.search(pattern, value):
        yield error(
            path, f"must match {pattern}, not {value!r}" + (_nearest(value) if pattern == names.NAME_PATTERN else "")
        )
    if isinstance(value, int) and not isinstance(value, bool):
        least, most = schema.get("minimum"), schema.get("maximum")
        if (least is not None and value < least) or (most is not None and value > most):
            bounds = [f"at {word} {bound}" for word, bound in (("least", least), ("most", most)) if bound is not None]
            yield error(path, f"must be {' and '.join(bounds)}, not {value}")
        elif not -(2 ** (bits := _BITS.get(schema.get("format", ""), 63))) <= value < 2**bits:
            yield error(path, f"must be a number of {bits + 1} bits")


def _roles(spec: Any) -> list[Any]:
    roles = spec.get("taskRoles")
    return roles if isinstance(roles, list) else []


def _few_tasks(spec: Any) -> bool:
    numbers = [role.get("taskNumber") for role in _roles(spec) if isinstance(role, dict)]
    return sum(number for number in numbers if isinstance(number, int)) <= MAX_TASKS


def _is_named(manifest: Any) -> bool:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return isinstance(name, str) and re.search(names.NAME_PATTERN, name) is not None


def _is_known_to_groups(field: str) -> Callable[[Any], bool]:
    lacking = {scheduler for scheduler, kind in KINDS.items() if field in kind.lacks}
    return lambda asked: not asked.get(field) or asked.get("scheduler") not in lacking


RULES: Final[Mapping[str, Callable[[Any], bool]]] = {
    f"self.metadata.name.matches('{names.NAME_PATTERN}')": _is_named,
    (
        f"!has(self.taskRoles) || self.taskRoles.map(role, role.taskNumber).sum() <= {MAX_TASKS} || "
        "oldSelf.hasValue() && has(oldSelf.value().taskRoles) && self.taskRoles.map(role, role.taskNumber).sum() <= "
        "oldSelf.value().taskRoles.map(role, role.taskNumber).sum()"
    ): _few_tasks,
    (
        f"!has(self.taskRoles) || self.taskRoles.size() <= {MAX_ROLES} || oldSelf.hasValue() && "
        "has(oldSelf.value().taskRoles) && self.taskRoles.size() <= oldSelf.value().taskRoles.size()"
    ): lambda spec: len(_roles(spec)) <= MAX_ROLES,
    # It is about changes.
    (
        "self.executionType == oldSelf.executionType || oldSelf.executionType == 'Create' || "
        "(oldSelf.executionType == 'Start' && self.executionType == 'Stop')"
    ): lambda _: True,
    "self.scheduler in ['kubernetes', 'none'] || self.topologyKey == ''": _is_known_to_groups("topologyKey"),
    "self.scheduler != 'coscheduling' || self.priorityClassName == ''": _is_known_to_groups("priorityClassName"),
    "self.scheduler in ['volcano', 'none'] || self.queue == ''": _is_known_to_groups("queue"),
    "self != 0 || oldSelf.orValue(1) == 0": lambda number: bool(number != 0),
    "self >= 0 || self == oldSelf.orValue(0)": lambda number: bool(number >= 0),
    f"self <= {MAX_SECONDS} || self == oldSelf.orValue(0)": lambda number: bool(number <= MAX_SECONDS),
}
"""The CEL rules, for an object that is created, each as a function of the value that it is about."""
