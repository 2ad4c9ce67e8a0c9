"""The CustomResourceDefinition, from `crd.yaml` beside this module, which is read when it is first asked for."""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec


def text() -> str:
    """Return the manifest as it is written, with comments."""
    return Path(__file__).with_name("crd.yaml").read_text(encoding="utf-8")


def crd() -> dict[str, Any]:
    """Return the whole object, a new one for each caller."""
    return msgspec.json.decode(_as_json(), type=dict[str, Any])


def schema() -> dict[str, Any]:
    """Return the schema of a Framework, a new one for each caller."""
    found: dict[str, Any] = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


@cache
def _as_json() -> bytes:
    """Return the object as JSON: to decode it takes a fraction of the time of parsing YAML, or of a deep copy."""
    return msgspec.json.encode(msgspec.yaml.decode(text()))
