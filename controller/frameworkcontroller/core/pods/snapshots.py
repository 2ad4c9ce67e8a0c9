"""History: an object as it was right before it is deleted or retried (docs/reference/framework-api.md, section 12)."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import Identity
from frameworkcontroller.api.spec import TaskSpec
from frameworkcontroller.api.status import FrameworkStatus, TaskStatus
from frameworkcontroller.core.pods.template import RoleAttempt
from frameworkcontroller.core.policies.classification import text_length

MAX_TASK_BYTES: Final = 16 * 1024
"""A larger Pod template stands in the snapshots of its Tasks as the generation of the Framework."""
MAX_IDLE_TASK_BYTES: Final = 1024
"""The same of a Task that has no Pod: one edit can remove 10,000 of them, again and again."""
LEAST_BYTES: Final = 2048
TASK_BYTES: Final = 700
"""What a snapshot counts at least."""
REMEMBERED: Final = 4096
"""Frameworks of which the last generation that was written is known."""
NULL: Final = msgspec.Raw(b"null")


class HistoryCause(StrEnum):
    """Why a snapshot is taken, as the lines name it."""

    FRAMEWORK_RETRY = "OnFrameworkRetry"
    FRAMEWORK_DELETION = "OnFrameworkDeletion"
    TASK_RETRY = "OnTaskRetry"
    TASK_DELETION = "OnTaskDeletion"
    POD_DELETION = "OnPodDeletion"


@dataclass(frozen=True)
class Snapshot:
    """One object, which is encoded only when its line is written."""

    cause: HistoryCause
    encode: Callable[[], bytes]
    """Returns the object as JSON in one line."""
    size: int
    """About how many bytes it keeps until then, without `seen`."""
    seen: Framework | None = None
    """The Framework that it was made of, which many snapshots have in common."""
    refers: bool = False
    """It names the generation of `seen` instead of a part of its spec."""


def of_pod(document: bytes) -> Snapshot:
    """Return a snapshot of a Pod, as JSON."""
    return Snapshot(HistoryCause.POD_DELETION, lambda: document, len(document))


def of_framework(
    cause: HistoryCause, seen: Framework, status: FrameworkStatus | msgspec.Raw, text_bytes: int = 0
) -> Snapshot:
    """Return a snapshot of the Framework with its persisted status, which may be one that cannot be decoded.

    Others have written `text_bytes` about the ends of its Tasks.
    """
    document = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": seen.raw_metadata,
        "spec": seen.raw_spec,
        "status": status,
    }
    roles = () if isinstance(status, msgspec.Raw) else status.attempt_status.task_role_statuses or ()
    size = LEAST_BYTES + text_bytes + sum(TASK_BYTES * len(role.task_statuses) for role in roles)
    return Snapshot(cause, lambda: msgspec.json.encode(document), size, seen)


def of_task(cause: HistoryCause, seen: Framework, attempt: RoleAttempt, spec: TaskSpec, task: TaskStatus) -> Snapshot:
    """Return a snapshot of a Task, as an object of its own that the API server does not have."""
    most = MAX_TASK_BYTES if task.attempt_status.pod_uid else MAX_IDLE_TASK_BYTES
    refers = len(memoryview(spec.pod)) > most
    size = LEAST_BYTES + text_length(task.completion)

    def encode() -> bytes:
        document = {
            "apiVersion": names.API_VERSION,
            "kind": "Task",
            "metadata": _task_metadata(seen.metadata, attempt, task),
            "spec": {"frameworkGeneration": seen.metadata.generation} if refers else spec,
            "status": task,
        }
        return msgspec.json.encode(document)

    return Snapshot(cause, encode, size, seen, refers)


def _task_metadata(meta: Identity, attempt: RoleAttempt, task: TaskStatus) -> dict[str, Any]:
    values = attempt.values | {names.TASK_INDEX: str(task.index)}
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
    return metadata


class Lines:
    """Makes the lines of snapshots, in the order in which they are written."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, int] = OrderedDict()

    def of(self, where: str, snapshot: Snapshot) -> bytes:
        """Return the line of a snapshot, behind one of the Framework to whose generation it is the first to refer.

        Tools find them by `": ObjectSnapshot: (.+)"`; before that, `where` is namespace and name of the Framework.
        """
        before, seen = b"", snapshot.seen
        line = f"[{where}]: {snapshot.cause}: ObjectSnapshot: ".encode() + snapshot.encode() + b"\n"
        if seen is not None and snapshot.refers:
            meta = seen.metadata
            if self._known.get(meta.uid) != meta.generation:
                before = self.of(where, of_framework(snapshot.cause, seen, seen.status if seen.has_status else NULL))
            self._known[meta.uid] = meta.generation
            self._known.move_to_end(meta.uid)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return before + line
