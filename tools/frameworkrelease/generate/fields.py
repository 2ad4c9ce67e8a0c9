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
    return pages.renewed(written, {f"fields of {part}": _table(part) for part in ("spec", "status")})


def fields(part: str) -> Iterator[Field]:
    """Yield the fields of `spec` or `status` in their order, each before those within it."""
    return _within(part, definition.schema()["properties"][part])


def _within(path: str, schema: Mapping[str, Any]) -> Iterator[Field]:
    for name, inner in schema.get("properties", {}).items():
        yield Field(f"{path}.{name}", inner, name in schema.get("required", ()))
        yield from _within(f"{path}.{name}", inner)
    if "items" in schema:
        yield from _within(f"{path}[]", schema["items"])


def _table(part: str) -> Iterator[str]:
    yield from ("| field | type | meaning |", "| --- | --- | --- |")
    for one in fields(part):
        added = "**Added.** " if one.path.startswith(ADDED) else ""
        path, meaning = one.path.removeprefix(f"{part}."), f"{added}{one.schema['description']}"
        yield f"| `{path}` | {_type_of(one)} | {meaning} |"


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
