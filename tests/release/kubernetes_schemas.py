"""Schemas for kubeconform, from the OpenAPI document of an API server.

The document says less than the server knows: no object refuses unknown fields in it, and a quantity or a port is one
type only. What is made here refuses unknown fields, as `kubectl apply` with strict validation does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster.client import RawClient

LOCATION = "{{ .ResourceKind }}-{{ .Group }}-{{ .ResourceAPIVersion }}.json"
"""The name of the file of a kind, for `kubeconform -schema-location FOLDER/...`."""
_DEFINITIONS = "definitions.json"
_ANYTHING = (".resource.Quantity", ".v1.JSON", ".v1.JSONSchemaPropsOrBool", ".v1.JSONSchemaPropsOrArray")


def write(raw: RawClient, folder: Path) -> int:
    """Write the schemas of all kinds of an API server, and return how many there are."""
    definitions = raw.get("/openapi/v2")["definitions"]
    strict = {name: _strict(definition) for name, definition in definitions.items()}
    (folder / _DEFINITIONS).write_text(json.dumps({"definitions": strict}))
    count = 0
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            # kubeconform takes the version of the core group for its name.
            file = f"{kind['kind'].lower()}-{kind['group'] or kind['version']}-{kind['version']}.json"
            (folder / file).write_text(json.dumps({"$ref": f"{_DEFINITIONS}#/definitions/{name}"}))
            count += 1
    return count


def _strict(found: Any) -> Any:
    """Return a definition that refuses unknown fields and accepts a number where Kubernetes does."""
    match found:
        case {"format": "int-or-string"}:
            return {"type": ["integer", "string"]}
        case {"type": "object", "properties": dict(properties), **more} if "additionalProperties" not in more:
            if more.get("x-kubernetes-preserve-unknown-fields"):
                return {"type": "object"}
            required = {"required": more["required"]} if "required" in more else {}
            known = {name: _strict(one) for name, one in properties.items()}
            return {"type": "object", "properties": known, "additionalProperties": False, **required}
        case {"$ref": str(reference)}:
            return {} if reference.endswith(_ANYTHING) else {"$ref": reference}
        case dict():
            dropped = ("description", "format")
            return {key: _strict(one) for key, one in found.items() if key not in dropped and not key.startswith("x-")}
        case list():
            return [_strict(one) for one in found]
        case _:
            return found
