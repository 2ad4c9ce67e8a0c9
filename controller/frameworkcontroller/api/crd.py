"""The CustomResourceDefinition, as data; ``python -m frameworkcontroller.api.crd`` prints the manifest.

Whatever Microsoft's controller accepts and runs is accepted. The API server refuses the rest with a message that names
the field; defaults are written into the object, so that everybody reads the same.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import msgspec

from . import names
from .states import State

Schema = dict[str, Any]

INT32: Final[Schema] = {"type": "integer", "format": "int32"}
# Servers before 1.33 do not check the format.
INT32_MAX: Final = 2**31 - 1
INT64: Final[Schema] = {"type": "integer", "format": "int64"}
STRING: Final[Schema] = {"type": "string"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
ANYTHING: Final[Schema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

# Source: the Framework API, section 2.
EXECUTION_TYPE_RULE: Final = (
    "self.executionType == oldSelf.executionType || oldSelf.executionType == 'Create' || "
    "(oldSelf.executionType == 'Start' && self.executionType == 'Stop')"
)
EXECUTION_TYPE_MESSAGE: Final = "executionType may change only from Create to Start or Stop, and from Start to Stop"


def _object(properties: Schema, more: Schema | None = None, /, *, required: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        **({"required": list(required)} if required else {}),
        **(more or {}),
    }


def _nullable(schema: Schema) -> Schema:
    return schema | {"nullable": True}


def _not_zero(description: str, default: int) -> Schema:
    return INT32 | {
        "minimum": -1,
        "maximum": INT32_MAX,
        "default": default,
        "description": description,
        "x-kubernetes-validations": [
            {
                # Microsoft's definition lets 0 pass. What is stored stays writable, on servers too that know ratcheting
                # of fields but not of rules (before 1.33).
                "rule": "self != 0 || oldSelf.orValue(1) == 0",
                "optionalOldSelf": True,
                "message": "must be -1 (never) or at least 1; 0 would end every attempt at once",
            }
        ],
    }


def retry_policy() -> Schema:
    """``retryPolicy`` of a Framework or a Task."""
    return _object(
        {
            "fancyRetryPolicy": BOOLEAN
            | {
                "default": False,
                "description": "Retry by what is known about a failure: transient ones always, permanent never.",
            },
            "maxRetryCount": INT32
            | {
                "minimum": -2,
                "maximum": INT32_MAX,
                "default": 0,
                "description": "How often a failure is retried; -1: every failure, -2: also a success.",
            },
        },
        {"default": {}},
    )


def task_role() -> Schema:
    """One entry of ``taskRoles``."""
    return _object(
        {
            "name": STRING | {"pattern": names.NAME_PATTERN},
            "taskNumber": INT32 | {"minimum": 0, "maximum": 10000, "default": 0},
            "frameworkAttemptCompletionPolicy": _object(
                {
                    "minFailedTaskCount": _not_zero("So many failed Tasks fail the attempt; -1: none do.", 1),
                    "minSucceededTaskCount": _not_zero(
                        "So many succeeded Tasks complete the attempt; -1: none do.", -1
                    ),
                },
                {"default": {}},
            ),
            "task": _object(
                {
                    "retryPolicy": retry_policy(),
                    "podGracefulDeletionTimeoutSec": _nullable(INT64)
                    | {
                        "description": "After so many seconds a Pod under deletion is deleted by force, at the cost of "
                        "the guarantee that no two instances run; null: never."
                    },
                    "pod": ANYTHING | {"description": "A PodTemplateSpec of any Kubernetes version, kept as it came."},
                },
                required=("pod",),
            ),
        },
        required=("name", "task"),
    )


def spec() -> Schema:
    """``spec``."""
    return _object(
        {
            "description": _nullable(STRING),
            "executionType": STRING | {"enum": ["Create", "Start", "Stop"], "default": "Start"},
            "retryPolicy": retry_policy(),
            "taskRoles": {
                "type": "array",
                "nullable": True,
                "items": task_role(),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        },
        {"x-kubernetes-validations": [{"rule": EXECUTION_TYPE_RULE, "message": EXECUTION_TYPE_MESSAGE}]},
    )


def status() -> Schema:
    """``status``. The roles are not described: validating thousands of Tasks at each write would help nobody."""
    return _object(
        {
            "startTime": TIME,
            "runTime": _nullable(TIME),
            "completionTime": _nullable(TIME),
            "state": STRING | {"enum": [str(state) for state in State]},
            "transitionTime": TIME,
            "ready": STRING | {"description": "Tasks that are ready, of all that the spec asks for."},
            "observedGeneration": INT64,
            "conditions": {
                "type": "array",
                "items": _object(
                    {
                        "type": STRING,
                        "status": STRING | {"enum": ["True", "False", "Unknown"]},
                        "reason": STRING,
                        "message": STRING,
                        "lastTransitionTime": TIME,
                        "observedGeneration": INT64,
                    },
                    required=("type", "status", "reason", "message", "lastTransitionTime"),
                ),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
            "attempts": INT32 | {"description": "Attempts so far, the current one included."},
            "retryPolicyStatus": _object(
                {
                    "totalRetriedCount": INT32,
                    "accountableRetriedCount": INT32,
                    "retryDelaySec": _nullable(INT64),
                }
            ),
            "attemptStatus": ANYTHING | {"x-kubernetes-map-type": "atomic"},
        },
        {"nullable": True, "x-kubernetes-preserve-unknown-fields": True},
    )


def column(name: str, path: str, kind: str = "string", **more: object) -> Schema:
    """A column of ``kubectl get``."""
    return {"name": name, "type": kind, "jsonPath": path, **more}


def crd() -> Schema:
    """The whole object."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": names.CRD_NAME},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": names.PLURAL,
                "singular": "framework",
                "kind": names.KIND,
                "listKind": "FrameworkList",
                "shortNames": ["fw"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        column("State", ".status.state"),
                        column("Ready", ".status.ready"),
                        column("Attempts", ".status.attempts", "integer"),
                        column("Result", ".status.attemptStatus.completionStatus.phrase"),
                        column("Age", ".metadata.creationTimestamp", "date"),
                        column("Description", ".spec.description", priority=1),
                    ],
                    "schema": {
                        "openAPIV3Schema": _object(
                            {
                                "apiVersion": STRING,
                                "kind": STRING,
                                "metadata": {"type": "object"},
                                "spec": spec(),
                                "status": status(),
                            },
                            {
                                "x-kubernetes-validations": [
                                    {
                                        "rule": f"self.metadata.name.matches('{names.NAME_PATTERN}')",
                                        "message": f"metadata.name must match {names.NAME_PATTERN}: "
                                        "it becomes part of the names of Pods and variables",
                                    }
                                ]
                            },
                            required=("spec",),
                        )
                    },
                }
            ],
        },
    }


HEADER: Final = "# Made by `make manifests` from controller/frameworkcontroller/api/crd.py; do not edit.\n"


def manifest() -> str:
    """The manifest as it is stored."""
    return HEADER + msgspec.yaml.encode(crd()).decode()


if __name__ == "__main__":
    sys.stdout.write(manifest())
