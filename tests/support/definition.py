"""The definition of Frameworks on an API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from support.waiting import eventually

if TYPE_CHECKING:
    from support.raw import Raw

CRD = Path(__file__).parents[2] / "controller" / "manifests" / "crd.yaml"


def apply_definition(raw: Raw) -> None:
    """Apply the definition and wait until it is served."""
    for definition in filter(None, yaml.safe_load_all(CRD.read_text())):
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"
        raw.apply(path, definition)

        def is_established(path: str = path) -> None:
            conditions = raw.get(path).get("status", {}).get("conditions") or []
            values = {condition["type"]: condition["status"] for condition in conditions}
            assert values.get("Established") == "True", conditions

        eventually(is_established, timeout=30)
