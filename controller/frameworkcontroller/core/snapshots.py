"""History: an object as it was right before it is deleted or retried (docs/reference/framework-api.md, section 12)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from frameworkcontroller.api import names

if TYPE_CHECKING:
    from frameworkcontroller.api.framework import Framework
    from frameworkcontroller.api.spec import TaskSpec
    from frameworkcontroller.api.status import FrameworkStatus, TaskStatus
    from frameworkcontroller.core.template import RoleAttempt


class Trigger(StrEnum):
    """Why a snapshot is taken, as the lines name it."""

    FRAMEWORK_RETRY = "OnFrameworkRetry"
    FRAMEWORK_DELETION = "OnFrameworkDeletion"
    TASK_RETRY = "OnTaskRetry"
    TASK_DELETION = "OnTaskDeletion"
    POD_DELETION = "OnPodDeletion"


@dataclass(frozen=True)
class Snapshot:
    """One object, as JSON in one line."""

    trigger: Trigger
    document: bytes


def of_framework(trigger: Trigger, seen: Framework, status: FrameworkStatus | msgspec.Raw) -> Snapshot:
    """Return a snapshot of the Framework with its persisted status, which may be one that cannot be decoded."""
    document = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": seen.raw_metadata,
        "spec": seen.raw_spec,
        "status": status,
    }
    return Snapshot(trigger, msgspec.json.encode(document))


def of_task(trigger: Trigger, seen: Framework, attempt: RoleAttempt, spec: TaskSpec, task: TaskStatus) -> Snapshot:
    """Return a snapshot of a Task, as an object of its own that the API server does not have."""
    values = attempt.values | {names.TASK_INDEX: str(task.index)}
    meta = seen.metadata
    metadata: dict[str, Any] = {
        "name": names.pod_name(attempt.framework, attempt.role, task.index),
        "namespace": attempt.namespace,
        "uid": task.instance_uid,
        "resourceVersion": meta.resource_version,
        "generation": meta.generation,
        "creationTimestamp": task.start_time,
        "annotations": {name: values[name] for name in names.POD_ANNOTATIONS if name in values},
        "labels": {name: values[name] for name in names.POD_LABELS},
    }
    if task.deletion_pending:
        metadata["deletionTimestamp"] = task.transition_time
    document = {
        "apiVersion": names.API_VERSION,
        "kind": "Task",
        "metadata": metadata,
        "spec": spec,
        "status": task,
    }
    return Snapshot(trigger, msgspec.json.encode(document))


def line(where: str, snapshot: Snapshot) -> bytes:
    """Return the log line; tools find it by `": ObjectSnapshot: (.+)"`."""
    return f"[{where}]: {snapshot.trigger}: ObjectSnapshot: ".encode() + snapshot.document + b"\n"
