"""The schema of the chart's values: an unknown key, or a value of a wrong type, stops helm with the path of the value.

What Kubernetes defines (env, tolerations, affinity, ...) is checked for its names at the first level; the API server
knows the rest. The settings of the controller come from the structs that read them.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from frameworkbarrier import values
from frameworkcontroller.engine.settings import Settings
from frameworkinjector.config import EnvFiles, PullPolicy
from frameworkrelease.chart import CHART

Schema = dict[str, Any]

FILE: Final = CHART / "values.schema.json"
BY_THE_CHART: Final = {"Settings": ("namespace",), "LeaderElectionSettings": ("name", "namespace")}
"""Settings of the controller that follow from other values: from `watchNamespaces` and the name of the release."""

_STRING: Final[Schema] = {"type": "string"}
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_STRINGS: Final[Schema] = {"type": "array", "items": _STRING}
_TEXT_MAP: Final[Schema] = {"type": "object", "additionalProperties": _STRING}
_ANY_OBJECT: Final[Schema] = {"type": "object"}
_QUANTITY: Final[Schema] = {"type": ["string", "number"]}
_NAMESPACE: Final[Schema] = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
_DAYS: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 36500}


def text() -> str:
    """Return the schema as it is stored."""
    return json.dumps(schema(), indent=2) + "\n"


def schema() -> Schema:
    """Return the schema of all values."""
    settings, definitions = _controller_settings()
    properties = {
        "global": _ANY_OBJECT,  # helm hands it to a chart that is part of another
        "watchNamespaces": {"type": "array", "items": _NAMESPACE, "uniqueItems": True},
        "injection": _one_of("webhook", "none"),
        "commonLabels": _TEXT_MAP,
        "commonAnnotations": _TEXT_MAP,
        "crds": _object(enabled=_BOOLEAN, keep=_BOOLEAN),
        "namespace": _object(create=_BOOLEAN, labels=_TEXT_MAP),
        "image": _object(registry=_STRING, tag=_STRING, pullPolicy=_one_of(*PullPolicy), pullSecrets=_STRINGS),
        "controller": _object(config=settings, logFormat=_one_of("json", "text"), **_program()),
        "injector": _object(
            excludedNamespaces={"type": "array", "items": _NAMESPACE},
            envFiles=_one_of("", *EnvFiles),
            logLevel=_one_of("debug", "info", "warning", "error"),
            **_program(),
        ),
        "barrier": _object(
            image=_image(),
            pullSecrets=_STRINGS,
            requests=_amounts(),
            limits=_amounts(),
            presets={**_TEXT_MAP, "propertyNames": {"pattern": f"^({values.DNS_LABEL})$"}},
        ),
        "certificates": _object(
            source=_one_of("self-made", "cert-manager", "secret"),
            authorityDays=_DAYS,
            certificateDays=_DAYS,
            secretName=_STRING,
            caBundle={"type": "string", "pattern": "^($|-----BEGIN CERTIFICATE-----)"},
            issuerRef=_object(name=_STRING, kind=_STRING, group=_STRING),
        ),
        "rbac": _object(create=_BOOLEAN, aggregate=_BOOLEAN),
        "admissionPolicies": _object(enabled=_BOOLEAN),
        "networkPolicy": _object(
            enabled=_BOOLEAN,
            apiServerPorts={"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 65535}},
            metricsFrom=_list_of("podSelector", "namespaceSelector", "ipBlock"),
        ),
        "monitoring": _object(
            scrapeAnnotations=_BOOLEAN,
            podMonitor=_monitor(),
            serviceMonitor=_monitor(),
            prometheusRule=_object(enabled=_BOOLEAN, labels=_TEXT_MAP),
            dashboard=_object(enabled=_BOOLEAN, labels=_TEXT_MAP),
        ),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the chart frameworkcontroller",
        **_object(**properties),
        "$defs": definitions,
    }


def _program() -> dict[str, Schema]:
    """Return what the controller and the injector have in common."""
    return {
        "image": _image(),
        "replicas": {"type": "integer", "minimum": 0},
        "args": _STRINGS,
        "env": {"type": "array", "items": _object(name=_STRING, value=_STRING, valueFrom=_ANY_OBJECT)},
        "resources": _object(requests=_amounts(), limits=_amounts(), claims={"type": "array"}),
        "nodeSelector": _TEXT_MAP,
        "tolerations": _list_of("key", "operator", "value", "effect", "tolerationSeconds"),
        "affinity": _object(nodeAffinity=_ANY_OBJECT, podAffinity=_ANY_OBJECT, podAntiAffinity=_ANY_OBJECT),
        "topologySpreadConstraints": _list_of(
            "maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector", "matchLabelKeys", "minDomains",
            "nodeAffinityPolicy", "nodeTaintsPolicy",
        ),
        "priorityClassName": _STRING,
        "podLabels": _TEXT_MAP,
        "podAnnotations": _TEXT_MAP,
        "serviceAccount": _object(create=_BOOLEAN, name=_STRING, annotations=_TEXT_MAP),
        "podDisruptionBudget": _object(enabled=_BOOLEAN, minAvailable={"type": ["integer", "string"]}),
    }  # fmt: skip


def _image() -> Schema:
    return _object(
        registry=_STRING,
        repository=_STRING,
        tag=_STRING,
        digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
        pullPolicy=_one_of("", *PullPolicy),
    )


def _monitor() -> Schema:
    return _object(enabled=_BOOLEAN, interval=_STRING, labels=_TEXT_MAP)


def _amounts() -> Schema:
    return {"type": "object", "additionalProperties": _QUANTITY}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _list_of(*keys: str) -> Schema:
    return {"type": "array", "items": _object(**{key: {} for key in keys})}


def _one_of(*choices: str) -> Schema:
    return {"type": "string", "enum": list(map(str, choices))}


def _controller_settings() -> tuple[Schema, dict[str, Schema]]:
    """Return the schema of `controller.config`, and the definitions that it refers to."""
    made = msgspec.json.schema(Settings, schema_hook=lambda _: _STRING)
    definitions: dict[str, Schema] = made["$defs"]
    for name, keys in BY_THE_CHART.items():
        for key in keys:
            del definitions[name]["properties"][key]
    for definition in definitions.values():
        properties, required = definition.get("properties", {}), definition.get("required", ())
        properties |= {key: _or_null(one) for key, one in properties.items() if key not in required}
    return {"$ref": made["$ref"]}, {name: _plain(one) for name, one in sorted(definitions.items())}


def _or_null(found: Schema) -> Schema:
    """Return a schema that accepts null, too, which the controller reads as absent."""
    match found:
        case {"enum": list(choices)}:
            return {**found, "enum": [*choices, None]}
        case {"type": str(kind)}:
            return {**found, "type": [kind, "null"]}
        case {"$ref": _}:
            return {"anyOf": [found, {"type": "null"}]}
        case _:
            return found


def _plain(found: Any) -> Any:
    """Return a schema without titles, docstrings and defaults, which are those of the code."""
    match found:
        case dict():
            left = {key: value for key, value in found.items() if key not in {"title", "default"}}
            if isinstance(left.get("description"), str):
                left.pop("description")
            return {key: _plain(value) for key, value in left.items()}
        case list():
            return [_plain(item) for item in found]
        case _:
            return found
