"""Writes objects and lists in the formats of `-o`."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from frameworkclient.cli.options import Format
from frameworkcontroller.api import names


def write(text: str) -> None:
    """Write to stdout."""
    sys.stdout.write(text)


def as_json(value: Any) -> str:
    """Return indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def as_yaml(value: dict[str, Any]) -> str:
    """Return YAML."""
    from frameworkclient.model.yaml_text import dump

    return dump(value)


def write_document(value: dict[str, Any], output: Format) -> None:
    """Write a document as JSON or as YAML."""
    write(as_json(value) if output is Format.JSON else as_yaml(value))


def write_entries(kind: str, entries: list[Any], output: Format) -> None:
    """Write a list as JSON, or as YAML under the name of its kind."""
    write(as_json(entries) if output is Format.JSON else as_yaml({kind: entries}))


def as_list(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return objects as the list that kubectl writes."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def resource_name(name: str) -> str:
    """Return the name as `-o name` writes it."""
    return f"framework.{names.GROUP}/{name}"


def write_done(namespace: str, name: str, what: str) -> None:
    """Write that something was done to a Framework, and where: a manifest or a context may name another namespace."""
    write(f"{resource_name(name)} {what} in namespace {namespace}\n")
    sys.stdout.flush()
