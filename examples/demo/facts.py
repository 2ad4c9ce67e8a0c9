"""Kubernetes objects, as they come over the wire, read down to what the demo shows. Missing fields are normal here."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BARRIER = "frameworkbarrier"
"""Name of the injected init container (spec of the injector, section 1)."""

Wire = Mapping[str, Any]
"""A decoded JSON object."""


@dataclass(frozen=True, order=True)
class TaskKey:
    """One Task of the Framework."""

    role: str
    index: int

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


class Stage(enum.Enum):
    """How far a container is."""

    ABSENT = "absent"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class PodFact:
    """What one version of a Pod says.

    Attributes:
        attempt: Of the Framework, the one that it was made for.
        barrier: The injected container's stage; ABSENT means that nothing was injected.
        application: The stage of the containers of the user, the worst of them.
        application_name: The first of them, whose log is read.
        reason: Why it does not get on, in Kubernetes' words; empty when it does.
    """

    key: TaskKey
    name: str
    uid: str
    attempt: int
    node: str
    ip: str
    barrier: Stage
    application: Stage
    application_name: str
    reason: str
    deleting: bool


@dataclass(frozen=True)
class Completion:
    """A completionStatus: how an attempt ended."""

    succeeded: bool
    code: int
    phrase: str
    diagnostics: str


@dataclass(frozen=True)
class TaskFact:
    """A Task in the Framework's status."""

    state: str
    completion: Completion | None


@dataclass(frozen=True)
class FrameworkFact:
    """A Framework's status, or its absence: state is empty until the controller has seen it."""

    uid: str
    state: str
    attempt: int
    completion: Completion | None
    tasks: Mapping[TaskKey, TaskFact]


@dataclass(frozen=True)
class RosterFact:
    """The gang's progress as the controller counts it (spec of the barrier, "The roster")."""

    generation: int
    ready: int
    total: int
    complete: bool
    waiting_for: tuple[tuple[str, str], ...]


def pod_fact(pod: Wire) -> PodFact | None:
    """Read a Pod; None if it does not say which Task it is."""
    metadata = pod.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    role, index = labels.get("FC_TASKROLE_NAME"), labels.get("FC_TASK_INDEX", "")
    if not role or not str(index).isdigit():
        return None
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    injected = any(c.get("name") == BARRIER for c in spec.get("initContainers") or [])
    before = {c["name"]: c for c in status.get("initContainerStatuses") or []}
    own = status.get("containerStatuses") or []
    stages = [_stage(c) for c in own] or [Stage.WAITING]
    containers = spec.get("containers") or [{}]
    return PodFact(
        key=TaskKey(role, int(index)),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        attempt=int(annotations.get("FC_FRAMEWORK_ATTEMPT_ID") or 0),
        node=spec.get("nodeName") or "",
        ip=status.get("podIP") or "",
        barrier=_stage(before.get(BARRIER)) if injected else Stage.ABSENT,
        application=_together(stages),
        application_name=containers[0].get("name", ""),
        reason=_reason(status, [*before.values(), *own]),
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def framework_fact(framework: Wire) -> FrameworkFact:
    """Read a Framework, with or without a status."""
    status = framework.get("status") or {}
    attempt = status.get("attemptStatus") or {}
    return FrameworkFact(
        uid=(framework.get("metadata") or {}).get("uid", ""),
        state=status.get("state") or "",
        attempt=attempt.get("id") or 0,
        completion=_completion(attempt.get("completionStatus")),
        tasks={
            TaskKey(role["name"], task["index"]): TaskFact(
                task.get("state") or "", _completion((task.get("attemptStatus") or {}).get("completionStatus"))
            )
            for role in attempt.get("taskRoleStatuses") or []
            for task in role.get("taskStatuses") or []
        },
    )


def expected_tasks(framework: Wire) -> tuple[TaskKey, ...]:
    """Return the Tasks that the spec asks for, in its order."""
    return tuple(
        TaskKey(role["name"], index) for role in framework["spec"]["taskRoles"] for index in range(role["taskNumber"])
    )


def roster_fact(config_map: Wire) -> RosterFact | None:
    """Read the roster out of the attempt's ConfigMap; None if it has none (yet) or it is not JSON."""
    text = (config_map.get("data") or {}).get("roster")
    if not text:
        return None
    try:
        roster = json.loads(text)
    except ValueError:
        return None
    return RosterFact(
        generation=roster.get("generation", 0),
        ready=roster.get("ready", 0),
        total=roster.get("total", 0),
        complete=bool(roster.get("complete")),
        waiting_for=tuple((w.get("task", ""), w.get("why", "")) for w in roster.get("waitingFor") or []),
    )


def _stage(container: Wire | None) -> Stage:
    state = (container or {}).get("state") or {}
    if "terminated" in state:
        return Stage.DONE if state["terminated"].get("exitCode") == 0 else Stage.FAILED
    return Stage.RUNNING if "running" in state else Stage.WAITING


def _together(stages: list[Stage]) -> Stage:
    for stage in (Stage.FAILED, Stage.RUNNING, Stage.WAITING):
        if stage in stages:
            return stage
    return Stage.DONE


_ORDINARY = frozenset({"", "PodInitializing", "ContainerCreating", "Completed"})


def _reason(status: Wire, containers: list[Wire]) -> str:
    if status.get("reason"):
        return f"{status['reason']}: {status.get('message', '')}".strip(": ")
    for container in containers:
        state = container.get("state") or {}
        told = state.get("waiting") or state.get("terminated") or {}
        if told.get("reason", "") not in _ORDINARY:
            detail = told.get("message") or (f"exit code {told['exitCode']}" if "exitCode" in told else "")
            return f"{container['name']}: {told['reason']}: {detail}".rstrip(": ")
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
    return ""


def _completion(status: Wire | None) -> Completion | None:
    if not status:
        return None
    return Completion(
        succeeded=(status.get("type") or {}).get("name") == "Succeeded",
        code=status.get("code", 0),
        phrase=status.get("phrase", ""),
        diagnostics=status.get("diagnostics") or "",
    )
