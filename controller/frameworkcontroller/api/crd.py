"""The CustomResourceDefinition, as data; `python -m frameworkcontroller.api.crd` prints the manifest.

What Microsoft's controller accepts and runs is accepted. The API server refuses the rest with a message that names the
field, and writes defaults into the object, so that all clients read the same.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.api.explained import TEXTS
from frameworkcontroller.api.spec import (
    COMPLETE,
    MAX_ROLES,
    MAX_SECONDS,
    MAX_TASK_NUMBER,
    MAX_TASKS,
    READY,
    RETAIN_ALWAYS,
    RETAIN_NEVER,
    RETAIN_ON_FAILURE,
)
from frameworkcontroller.api.states import State

Schema = dict[str, Any]

INT32: Final[Schema] = {"type": "integer", "format": "int32"}
# Servers before 1.33 do not check the format.
INT32_MAX: Final = 2**31 - 1
INT64: Final[Schema] = {"type": "integer", "format": "int64"}
STRING: Final[Schema] = {"type": "string"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
ANYTHING: Final[Schema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

MAX_DEPENDENCIES: Final = 16

# Source: docs/reference/framework-api.md, section 2.
EXECUTION_TYPE_RULE: Final = (
    "self.executionType == oldSelf.executionType || oldSelf.executionType == 'Create' || "
    "(oldSelf.executionType == 'Start' && self.executionType == 'Stop')"
)
EXECUTION_TYPE_MESSAGE: Final = "executionType may change only from Create to Start or Stop, and from Start to Stop"
# What is stored under another definition may stay as it is, or become less.
TASKS_RULE: Final = (
    f"!has(self.taskRoles) || self.taskRoles.map(role, role.taskNumber).sum() <= {MAX_TASKS} || "
    "oldSelf.hasValue() && has(oldSelf.value().taskRoles) && "
    "self.taskRoles.map(role, role.taskNumber).sum() <= oldSelf.value().taskRoles.map(role, role.taskNumber).sum()"
)
TASKS_MESSAGE: Final = f"the sum of taskRoles[*].taskNumber must be at most {MAX_TASKS}: use several Frameworks"
ROLES_RULE: Final = (
    f"!has(self.taskRoles) || self.taskRoles.size() <= {MAX_ROLES} || oldSelf.hasValue() && "
    "has(oldSelf.value().taskRoles) && self.taskRoles.size() <= oldSelf.value().taskRoles.size()"
)
ROLES_MESSAGE: Final = f"taskRoles must have at most {MAX_ROLES} items: use several Frameworks"


def _object(properties: Schema, more: Schema | None = None, /, *, required: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        **({"required": list(required)} if required else {}),
        **(more or {}),
    }


def _nullable(schema: Schema) -> Schema:
    return schema | {"nullable": True}


def _not_zero(default: int) -> Schema:
    return INT32 | {
        "minimum": -1,
        "maximum": INT32_MAX,
        "default": default,
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


PERCENT: Final[Schema] = _nullable(INT32) | {"minimum": 1, "maximum": 100}


def _seconds(minimum: int) -> Schema:
    return _nullable(INT64) | {"minimum": minimum, "maximum": MAX_SECONDS}


def retry_policy() -> Schema:
    """`retryPolicy` of a Framework or a Task."""
    return _object(
        {
            "fancyRetryPolicy": BOOLEAN | {"default": False},
            "maxRetryCount": INT32 | {"minimum": -2, "maximum": INT32_MAX, "default": 0},
        },
        {"default": {}},
    )


def task_role() -> Schema:
    """One entry of `taskRoles`.

    It is owned as a whole: with an owner for each of its fields, `managedFields` of 1,000 of them would have 360 KB,
    half of the object, and each write of the status would cost the API server three times as much.
    """
    return _object(
        {
            "name": STRING | {"pattern": names.NAME_PATTERN},
            "taskNumber": INT32 | {"minimum": 0, "maximum": MAX_TASK_NUMBER, "default": 0},
            "frameworkAttemptCompletionPolicy": _object(
                {
                    "minFailedTaskCount": _not_zero(1),
                    "minSucceededTaskCount": _not_zero(-1),
                    "minFailedTaskPercent": PERCENT,
                    "minSucceededTaskPercent": PERCENT,
                },
                {"default": {}},
            ),
            "task": _object(
                {
                    "retryPolicy": retry_policy(),
                    "podGracefulDeletionTimeoutSec": _nullable(INT64)
                    | {
                        # Microsoft's definition lets every number pass; see `_not_zero` on what is stored. Two rules,
                        # since one would cost more than the API server allows for an item of a list.
                        "x-kubernetes-validations": [
                            {
                                "rule": f"{bound} || self == oldSelf.orValue(0)",
                                "optionalOldSelf": True,
                                "message": f"must be from 0 (at once) to {MAX_SECONDS}: null means never",
                            }
                            for bound in ("self >= 0", f"self <= {MAX_SECONDS}")
                        ],
                    },
                    "pod": ANYTHING,
                },
                required=("pod",),
            ),
            "dependsOn": {
                "type": "array",
                "nullable": True,
                "maxItems": MAX_DEPENDENCIES,
                "items": _object(
                    {
                        "name": STRING | {"pattern": names.NAME_PATTERN},
                        "status": STRING | {"enum": [READY, COMPLETE]},
                    },
                    required=("name", "status"),
                ),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        },
        {"x-kubernetes-map-type": "atomic"},
        required=("name", "task"),
    )


def spec() -> Schema:
    """Return the schema of `spec`."""
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
            "activeDeadlineSeconds": _seconds(1),
            "ttlSecondsAfterFinished": _seconds(0),
            "retainPods": STRING | {"enum": [RETAIN_NEVER, RETAIN_ON_FAILURE, RETAIN_ALWAYS]},
        },
        {
            "x-kubernetes-validations": [
                {"rule": EXECUTION_TYPE_RULE, "message": EXECUTION_TYPE_MESSAGE},
                {"rule": TASKS_RULE, "message": TASKS_MESSAGE, "optionalOldSelf": True},
                {"rule": ROLES_RULE, "message": ROLES_MESSAGE, "optionalOldSelf": True},
            ]
        },
    )


def status() -> Schema:
    """Return the schema of `status`; the roles are open, since validating thousands of Tasks is too slow."""
    return _object(
        {
            "startTime": TIME,
            "runTime": _nullable(TIME),
            "completionTime": _nullable(TIME),
            "state": STRING | {"enum": [str(state) for state in State]},
            "transitionTime": TIME,
            "ready": STRING,
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
            "attempts": INT32,
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


def _with_texts(schema: Schema, path: str) -> Schema:
    """Return the schema with the text of each field.

    Raises:
        KeyError: a field has no text in `explained.TEXTS`.
    """
    found = schema | ({} if path.endswith("[]") else {"description": TEXTS[path]})
    if "properties" in schema:
        found["properties"] = {name: _with_texts(one, f"{path}.{name}") for name, one in schema["properties"].items()}
    if "items" in schema:
        found["items"] = _with_texts(schema["items"], f"{path}[]")
    return found


def root() -> Schema:
    """Return the schema of the whole object, with the text of each field."""
    return _object(
        {
            "apiVersion": STRING,
            "kind": STRING,
            "metadata": {"type": "object"},
            "spec": _with_texts(spec(), "spec"),
            "status": _with_texts(status(), "status"),
        },
        {
            "description": TEXTS[""],
            "x-kubernetes-validations": [
                {
                    "rule": f"self.metadata.name.matches('{names.NAME_PATTERN}')",
                    "message": f"metadata.name must match {names.NAME_PATTERN}: "
                    "it becomes part of the names of Pods and variables",
                }
            ],
        },
        required=("spec",),
    )


def column(name: str, path: str, kind: str = "string", **more: object) -> Schema:
    """Return a column of `kubectl get`."""
    return {"name": name, "type": kind, "jsonPath": path, **more}


def crd() -> Schema:
    """Return the whole object."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": names.CRD_NAME},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            # A definition that was made by apiextensions.k8s.io/v1beta1 has true, with which defaults are refused.
            "preserveUnknownFields": False,
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
                        column("Gang", '.status.conditions[?(@.type=="GangReady")].reason'),
                        column("Age", ".metadata.creationTimestamp", "date"),
                        column("Waiting", '.status.conditions[?(@.type=="GangReady")].message', priority=1),
                        column("Description", ".spec.description", priority=1),
                    ],
                    "schema": {
                        "openAPIV3Schema": root(),
                    },
                }
            ],
        },
    }


HEADER: Final = "# Made by `make manifests` from controller/frameworkcontroller/api/crd.py; do not edit.\n"


def manifest() -> str:
    """Return the manifest as it is stored."""
    return HEADER + msgspec.yaml.encode(crd()).decode()


if __name__ == "__main__":
    sys.stdout.write(manifest())
