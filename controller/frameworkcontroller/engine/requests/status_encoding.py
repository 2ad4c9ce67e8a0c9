"""The status as JSON, small enough for the API server (docs/reference/framework-api.md, section 10).

A large status is compressed, beside the event loop; if the object is still too large, the status is abridged, step by
step: long texts first, then what the Pods show. What is left out here stays in memory, and
`frameworkcontroller.api.status.is_same` knows the status again when it is read.
"""

import gzip
from base64 import b64encode
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api.status import (
    FrameworkStatus,
    PodEnd,
    TaskCompletion,
    TaskRoleStatus,
    TaskStatus,
    cut,
    excess_of,
)

COMPRESS_FROM_BYTES: Final = 700 * 1024
"""Of the status: about what FC compresses from on."""
LIMIT_BYTES: Final = 1152 * 1024
"""Of the whole object: three quarters of what etcd accepts by default."""


@dataclass(frozen=True)
class Step:
    """How a status is made smaller."""

    level: int
    """Of gzip."""
    text: int | None = None
    """Characters that stay of each text about a failure, None for all."""
    places: bool = True
    """Whether the names of nodes and their addresses stay; the Pods show them."""
    pods: bool = True
    """Whether the ends of Pods and containers stay; the code and the diagnostics always do."""


STEPS: Final = (
    Step(level=1),
    Step(level=6, text=128),
    Step(level=6, text=128, places=False),
    # "Pod failed: PodPattern unmatched", and nothing that a user has written.
    Step(level=6, text=32, places=False, pods=False),
)


def is_small(status_bytes: int, rest_bytes: int) -> bool:
    """Report whether a plain status of this size can be written as it is, beside the rest of the object."""
    return status_bytes < COMPRESS_FROM_BYTES and status_bytes + rest_bytes <= LIMIT_BYTES


def compress(status: FrameworkStatus, rest_bytes: int) -> bytes:
    """Return the status as JSON, its roles compressed by the first step that makes the object small enough.

    They must be small enough unpacked, too, or nobody could read them again: texts that repeat themselves shrink to
    nearly nothing. If no step does, the last one is returned: etcd may accept it, since the limit here leaves a quarter
    to spare. `rest_bytes` is the size of the object without its status.
    """
    roles = status.attempt_status.task_role_statuses or ()
    encoded = b""
    for step in STEPS:
        plain = msgspec.json.encode(_abridged(roles, step))
        if excess_of(plain) and step is not STEPS[-1]:
            continue
        packed = b64encode(gzip.compress(plain, step.level)).decode()
        attempt = replace(status.attempt_status, task_role_statuses=None, task_role_statuses_compressed=packed)
        encoded = msgspec.json.encode(replace(status, attempt_status=attempt))
        if len(encoded) + rest_bytes <= LIMIT_BYTES:
            break
    return encoded


def _abridged(roles: tuple[TaskRoleStatus, ...], step: Step) -> tuple[TaskRoleStatus, ...]:
    if step == STEPS[0]:
        return roles
    return tuple(
        replace(role, task_statuses=tuple(_abridged_task(task, step) for task in role.task_statuses)) for role in roles
    )


def _abridged_task(task: TaskStatus, step: Step) -> TaskStatus:
    attempt = task.attempt_status
    if attempt.completion_status is not None:
        attempt = replace(attempt, completion_status=_abridged_end(attempt.completion_status, step))
    if not step.places:
        attempt = replace(attempt, pod_node_name=None, pod_host_ip=None)
    return replace(task, attempt_status=attempt)


def _abridged_end(end: TaskCompletion, step: Step) -> TaskCompletion:
    pod = _abridged_pod(end.pod, step) if end.pod is not None and step.pods else None
    return replace(end, diagnostics=_cut(end.diagnostics, step), pod=pod)


def _abridged_pod(pod: PodEnd, step: Step) -> PodEnd:
    containers = tuple(
        replace(one, reason=_cut(one.reason, step), message=_cut(one.message, step)) for one in pod.containers
    )
    return replace(pod, reason=_cut(pod.reason, step), message=_cut(pod.message, step), containers=containers)


def _cut(text: str, step: Step) -> str:
    return text if step.text is None else cut(text, step.text)
