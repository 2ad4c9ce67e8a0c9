"""`--set path=value`: one field of a manifest by its path."""

import re
from typing import Any, Final

from frameworkclient.errors import ArgumentError, ManifestError
from frameworkclient.model.yaml_text import documents

_SEGMENT: Final = re.compile(r"\.?(?P<key>[A-Za-z0-9_-]+)|\[(?P<entry>[^\[\]\"]+)\]|\[\"(?P<quoted>[^\"]*)\"\]")
_TOP: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})


def set_field(manifest: dict[str, Any], assignment: str) -> None:
    """Change one field of a manifest in place; objects on the way to it are made where they are missing.

    An assignment is `spec.taskRoles[worker].taskNumber=4`. The entry of a list is chosen by its name or its index, a
    key with dots in quotes: `metadata.labels["example.org/team"]=vision`. `spec.` may be left out, and the value is
    read as YAML.

    Raises:
        ArgumentError: It is no assignment, or an entry does not exist.
    """
    path, equals, text = assignment.partition("=")
    keys = _keys(path)
    if not equals or not keys:
        raise ArgumentError(f"--set {assignment}: must be PATH=VALUE, like spec.taskRoles[worker].taskNumber=4")
    try:
        value = next(documents(text, assignment), None)
    except ManifestError as error:
        raise ArgumentError(f"--set {assignment}: the value is not valid YAML; quote it") from error
    if keys[0] not in _TOP:
        keys.insert(0, "spec")
    target: Any = manifest
    for key in keys[:-1]:
        target = _step(target, key, assignment)
    if isinstance(target, list):
        target[_entry(target, keys[-1], assignment)] = value
    elif isinstance(target, dict):
        target[keys[-1]] = value
    else:
        raise ArgumentError(f"--set {assignment}: {'.'.join(keys[:-1])} is a value and has no fields")


def _keys(path: str) -> list[str]:
    found, at = [], 0
    while at < len(path):
        segment = _SEGMENT.match(path, at)
        if segment is None:
            return []
        found.append(next(part for part in segment.groups() if part is not None))
        at = segment.end()
    return found


def _step(target: Any, key: str, assignment: str) -> Any:
    if isinstance(target, list):
        return target[_entry(target, key, assignment)]
    if not isinstance(target, dict):
        raise ArgumentError(f"--set {assignment}: what {key} is asked of is a value and has no fields")
    if target.get(key) is None:
        target[key] = {}
    return target[key]


def _entry(entries: list[Any], key: str, assignment: str) -> int:
    """Return the place of an entry by its name or its index."""
    named = [entry.get("name") if isinstance(entry, dict) else None for entry in entries]
    if key in named:
        return named.index(key)
    if key.isdigit() and int(key) < len(entries):
        return int(key)
    known = ", ".join(str(name) for name in named if name is not None) or f"{len(entries)} entries without names"
    raise ArgumentError(f"--set {assignment}: there is no entry {key}; there are {known}")
