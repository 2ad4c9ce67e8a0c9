"""The status as JSON, small enough for the API server (docs/reference/framework-api.md, section 10).

A large status is compressed, beside the event loop; if the object is still too large, the status is abridged, step by
step: long texts first, then what the Pods show. What is left out here stays in memory, and
`frameworkcontroller.api.status.is_same` knows the status again when it is read.
"""

import gzip
from base64 import b64encode
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.status import FrameworkStatus, TaskRoleStatus, TaskStatus, cut
from frameworkcontroller.api.stored_roles import excess_of

W = TypeVar("W", bound=Wire)

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
    if step.text is None:
        return roles
    return tuple(
        replace(role, task_statuses=tuple(_abridged_task(task, step) for task in role.task_statuses)) for role in roles
    )


def _abridged_task(task: TaskStatus, step: Step) -> TaskStatus:
    attempt = task.attempt_status
    if (end := attempt.completion_status) is not None:
        pod = end.pod if step.pods else None
        if pod is not None:
            containers = tuple(_cut(one, step, "reason", "message") for one in pod.containers)
            pod = _cut(pod, step, "reason", "message", containers=containers)
        attempt = replace(attempt, completion_status=_cut(end, step, "diagnostics", pod=pod))
    if not step.places:
        attempt = replace(attempt, pod_node_name=None, pod_host_ip=None)
    return replace(task, attempt_status=attempt)


def _cut(part: W, step: Step, *texts: str, **changes: object) -> W:
    """Return a part with these texts cut, and these changes."""
    assert step.text is not None
    return replace(part, **changes, **{text: cut(getattr(part, text), step.text) for text in texts})
