"""Kubernetes objects reduced to what the picture shows. Any field of an object may be missing.

`watch` of the demo reads each watch event with these functions.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from frameworkclient.pods import TaskPod
from frameworkcontroller.api.names import BARRIER_CONTAINER

if TYPE_CHECKING:
    from frameworkclient.pods import ContainerStatus

JsonObject = Mapping[str, Any]
"""A decoded JSON object."""


@dataclass(frozen=True, order=True)
class TaskKey:
    """The identity of a Task in its Framework."""

    role: str
    index: int

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


class ContainerState(enum.Enum):
    """The state of a container; ABSENT means that the Pod has no such container."""

    ABSENT = "absent"
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class PodInfo:
    """One version of a Pod.

    Attributes:
        key: The Task that it belongs to.
        name: Its name.
        uid: Its UID.
        attempt: The attempt of the Framework that it was created for.
        node: Its node; empty while it is not scheduled.
        ip: Its IP; empty while it has none.
        barrier: The state of the injected container; ABSENT means that no barrier was injected.
        application: The state of the user's containers, the worst of them.
        application_name: The name of the first of them, whose log is read.
        restarts: How often the kubelet has restarted each container, by its name; each start has a log of its own.
        reason: Why it makes no progress, in Kubernetes' words; else empty.
        deleting: Whether its deletion has begun.
    """

    key: TaskKey
    name: str
    uid: str
    attempt: int
    node: str
    ip: str
    barrier: ContainerState
    application: ContainerState
    application_name: str
    restarts: Mapping[str, int]
    reason: str
    deleting: bool


@dataclass(frozen=True)
class Completion:
    """A completionStatus, the end of an attempt (docs/reference/framework-api.md, section 3)."""

    succeeded: bool
    code: int
    phrase: str
    diagnostics: str


@dataclass(frozen=True)
class TaskInfo:
    """A Task in the Framework's status."""

    state: str
    completion: Completion | None


@dataclass(frozen=True)
class FrameworkInfo:
    """One version of a Framework's status; `state` is empty until the controller has written one."""

    uid: str
    state: str
    attempt: int
    completion: Completion | None
    tasks: Mapping[TaskKey, TaskInfo]


@dataclass(frozen=True)
class RosterInfo:
    """The controller's count of the gang's ready Tasks (docs/reference/barrier.md, "The roster")."""

    ready: int
    total: int
    complete: bool
    waiting_for: tuple[tuple[str, str], ...]


def read_pod(pod: JsonObject) -> PodInfo | None:
    """Read a Pod; return None if its labels name no Task."""
    metadata = pod.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    role, index = labels.get("FC_TASKROLE_NAME"), labels.get("FC_TASK_INDEX", "")
    if not role or not str(index).isdigit():
        return None
    # What the client of Frameworks requires, and a picture can do without.
    whole = {"name": "", "uid": "", "resourceVersion": "", **metadata}
    found = msgspec.convert({**pod, "metadata": whole}, TaskPod)
    own = [_container_state(one) for one in found.status.container_statuses] or [ContainerState.WAITING]
    return PodInfo(
        key=TaskKey(role, int(index)),
        name=found.metadata.name,
        uid=found.metadata.uid,
        attempt=int(annotations.get("FC_FRAMEWORK_ATTEMPT_ID") or 0),
        node=found.spec.node_name,
        ip=found.status.pod_ip,
        barrier=_container_state(found.container(BARRIER_CONTAINER)) if found.has_barrier else ContainerState.ABSENT,
        application=_worst_state(own),
        application_name=next(iter(found.application), ""),
        restarts={one.name: one.restart_count for one in found.statuses},
        reason=found.reason,
        deleting=found.metadata.deletion_timestamp is not None,
    )


def read_framework(framework: JsonObject) -> FrameworkInfo:
    """Read a Framework, with or without a status."""
    status = framework.get("status") or {}
    attempt = status.get("attemptStatus") or {}
    return FrameworkInfo(
        uid=(framework.get("metadata") or {}).get("uid", ""),
        state=status.get("state") or "",
        attempt=attempt.get("id") or 0,
        completion=_completion(attempt.get("completionStatus")),
        tasks={
            TaskKey(role["name"], task["index"]): TaskInfo(
                task.get("state") or "", _completion((task.get("attemptStatus") or {}).get("completionStatus"))
            )
            for role in attempt.get("taskRoleStatuses") or []
            for task in role.get("taskStatuses") or []
        },
    )


def expected_tasks(framework: JsonObject) -> tuple[TaskKey, ...]:
    """Return the Tasks that the spec asks for, in its order."""
    return tuple(
        TaskKey(role["name"], index) for role in framework["spec"]["taskRoles"] for index in range(role["taskNumber"])
    )


def read_roster(config_map: JsonObject) -> RosterInfo | None:
    """Read the roster in the attempt's ConfigMap; return None if there is none or it is not JSON."""
    text = (config_map.get("data") or {}).get("roster")
    if not text:
        return None
    try:
        roster = json.loads(text)
    except ValueError:
        return None
    return RosterInfo(
        ready=roster.get("ready", 0),
        total=roster.get("total", 0),
        complete=bool(roster.get("complete")),
        waiting_for=tuple((w.get("task", ""), w.get("why", "")) for w in roster.get("waitingFor") or []),
    )


def _container_state(container: ContainerStatus | None) -> ContainerState:
    if container is None:
        return ContainerState.WAITING
    if (ended := container.state.terminated) is not None:
        return ContainerState.SUCCEEDED if ended.exit_code == 0 else ContainerState.FAILED
    return ContainerState.RUNNING if container.state.running is not None else ContainerState.WAITING


def _worst_state(stages: list[ContainerState]) -> ContainerState:
    for stage in (ContainerState.FAILED, ContainerState.RUNNING, ContainerState.WAITING):
        if stage in stages:
            return stage
    return ContainerState.SUCCEEDED


def _completion(status: JsonObject | None) -> Completion | None:
    if not status:
        return None
    return Completion(
        succeeded=(status.get("type") or {}).get("name") == "Succeeded",
        code=status.get("code", 0),
        phrase=status.get("phrase", ""),
        diagnostics=status.get("diagnostics") or "",
    )
