"""The part of the schema of the chart's values that comes from structs of the controller: that of `controller.config`.

All else of `values.schema.json` is written by hand, with definitions that begin with a small letter. What Kubernetes
defines (env, tolerations, affinity, ...) is checked there for its names at the first level; the API server knows the
rest.
"""

import json
from typing import Any, Final

import msgspec

from frameworkcontroller.engine.config.settings import Settings
from frameworkrelease.chart import CHART

Schema = dict[str, Any]

FILE: Final = CHART / "values.schema.json"
BY_THE_CHART: Final = {
    "Settings": ("foreignGangs", "gangScheduling", "kueue", "namespaces", "progress", "rankTopology"),
    "LeaderElectionSettings": ("name", "namespace"),
}
"""Settings of the controller that follow from other values, of the same names, `watchNamespaces` or the release."""

_OF_THE_CODE: Final = {"title", "default", "description"}


def text(written: str) -> str:
    """Return the schema with the definitions of the controller's settings renewed."""
    schema = json.loads(written)
    by_hand = {name: one for name, one in schema["$defs"].items() if name[0].islower()}
    return json.dumps({**schema, "$defs": by_hand | _settings()}, indent=2) + "\n"


def _settings() -> dict[str, Schema]:
    definitions: dict[str, Schema] = msgspec.json.schema(Settings, schema_hook=lambda _: {"type": "string"})["$defs"]
    for name, keys in BY_THE_CHART.items():
        for key in keys:
            del definitions[name]["properties"][key]
    for name in ("KueueSettings", "ProgressSettings", "Switch"):
        del definitions[name]
    for definition in definitions.values():
        properties, required = definition.get("properties", {}), definition.get("required", ())
        properties |= {key: _or_null(one) for key, one in properties.items() if key not in required}
    return {name: _plain(one) for name, one in sorted(definitions.items())}


def _or_null(found: Schema) -> Schema:
    """Return a schema that accepts null, too, which the controller reads as absent."""
    match found:
        case {"enum": [*choices]}:
            return {**found, "enum": [*choices, None]}
        case {"type": str(kind)}:
            return {**found, "type": [kind, "null"]}
        case {"$ref": _}:
            return {"anyOf": [found, {"type": "null"}]}
        case _:
            return found


def _plain(found: Any, *, has_names: bool = False) -> Any:
    """Return a schema without titles, docstrings and defaults, which are those of the code.

    With `has_names` the keys are names of properties, any of which may be.
    """
    match found:
        case dict():
            kept = found if has_names else {key: one for key, one in found.items() if key not in _OF_THE_CODE}
            return {key: _plain(one, has_names=key == "properties" and not has_names) for key, one in kept.items()}
        case list():
            return [_plain(item) for item in found]
        case _:
            return found
