"""The fields of a Framework: the tables of the reference, from the CustomResourceDefinition."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from frameworkcontroller.api import definition
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.generate import pages

PAGE: Final = REPOSITORY / "docs" / "reference" / "framework-api.md"
ADDED: Final = (
    "spec.taskRoles[].frameworkAttemptCompletionPolicy.minFailedTaskPercent",
    "spec.taskRoles[].frameworkAttemptCompletionPolicy.minSucceededTaskPercent",
    "spec.taskRoles[].dependsOn",
    "spec.activeDeadlineSeconds",
    "spec.ttlSecondsAfterFinished",
    "spec.retainPods",
    "spec.suspend",
    "spec.gangScheduling",
    "status.ready",
    "status.observedGeneration",
    "status.conditions",
    "status.attempts",
    "status.ledger",
    "status.hangs",
    "status.suspendedSince",
    "status.suspendedSec",
    "status.queue",
)
"""Fields that Microsoft's controller does not have, with all that is within them."""


@dataclass(frozen=True)
class Field:
    """One field of the schema; in its path `[]` stands for each entry of a list."""

    path: str
    schema: Mapping[str, Any]
    required: bool = False


def page(written: str) -> str:
    """Return the reference, which has the markers, with its tables renewed."""
    rows = {part: [_row(part, field) for field in fields(part)] for part in ("spec", "status")}
    head = ("field", "type", "meaning")
    return pages.renewed(written, {f"fields of {part}": pages.table(head, rows[part]) for part in rows})


def fields(part: str) -> Iterator[Field]:
    """Yield the fields of `spec` or `status` in their order, each before those within it."""
    return _below(part, definition.schema()["properties"][part])


def _below(path: str, schema: Mapping[str, Any]) -> Iterator[Field]:
    for one in within(path, schema):
        yield one
        yield from _below(one.path, one.schema)


def within(path: str, schema: Mapping[str, Any]) -> Iterator[Field]:
    """Yield the fields of an object, or of each entry of a list, without those within them."""
    if "items" in schema:
        path, schema = f"{path}[]", schema["items"]
    for name, inner in schema.get("properties", {}).items():
        yield Field(f"{path}.{name}", inner, name in schema.get("required", ()))


def _row(part: str, field: Field) -> tuple[str, str, str]:
    added = "**Added.** " if field.path.startswith(ADDED) else ""
    return f"`{field.path.removeprefix(f'{part}.')}`", _type_of(field), f"{added}{field.schema['description']}"


def _type_of(field: Field) -> str:
    schema, notes = field.schema, []
    match schema:
        case {"enum": [*values, last]}:
            what = f"{', '.join(f'`{value}`' for value in values)} or `{last}`"
        case {"pattern": pattern}:
            what = f"string that matches `{pattern}`"
        case {"minimum": least, "maximum": most}:
            what = f"{least:,} to {most:,}"
        case {"format": "date-time"}:
            what = "time"
        case {"type": "array"}:
            what = f"list of at most {schema['maxItems']}" if "maxItems" in schema else "list"
        case _:
            what = schema["type"]
    if "default" in schema:
        notes.append(f"default `{json.dumps(schema['default'])}`")
    if schema.get("nullable"):
        notes.append("nullable")
    if field.required:
        notes.append("required")
    return ", ".join([what, *notes])
