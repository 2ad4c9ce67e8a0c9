"""The events of a run, as the watches of a real run bring them, one call each; the tests of the demo use it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from frameworkdemo.picture import events
from frameworkdemo.picture.objects import TaskKey, read_framework, read_pod, read_roster
from frameworkdemo.picture.state import RunState
from frameworkdemo.picture.transitions import advance

CHIEF, WORKER0, WORKER1 = TaskKey("chief", 0), TaskKey("worker", 0), TaskKey("worker", 1)
TASKS = (CHIEF, WORKER0, WORKER1)
APPLIED_AT = 1000.0


def running() -> dict[str, Any]:
    return {"running": {"startedAt": "2026-11-21T00:00:00Z"}}


def waiting(reason: str = "PodInitializing", message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def ended(code: int = 0, reason: str = "Completed") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason}}


def pod(
    key: TaskKey,
    *,
    uid: str = "",
    attempt: int = 0,
    node: str = "",
    ip: str = "",
    barrier: dict[str, Any] | None = None,
    application: dict[str, Any] | None = None,
    injected: bool = True,
    **status: Any,
) -> dict[str, Any]:
    """Return a Pod as the API server sends it."""
    if barrier:
        status["initContainerStatuses"] = [{"name": "frameworkbarrier", "state": barrier}]
    if application:
        status["containerStatuses"] = [{"name": "tensorflow", "state": application}]
    return {
        "metadata": {
            "name": f"spirals-{key}",
            "uid": uid or f"uid-{key}",
            "labels": {"FC_TASKROLE_NAME": key.role, "FC_TASK_INDEX": str(key.index)},
            "annotations": {"FC_FRAMEWORK_ATTEMPT_ID": str(attempt)},
        },
        "spec": {
            "nodeName": node,
            "initContainers": [{"name": "frameworkbarrier"}] if injected else [],
            "containers": [{"name": "tensorflow"}],
        },
        "status": {"podIP": ip, **status},
    }


def completion(code: int) -> dict[str, Any]:
    name = "Succeeded" if code == 0 else "Failed"
    return {"code": code, "phrase": name, "type": {"name": name, "attributes": []}, "diagnostics": "because"}


def framework(state: str, *, attempt: int = 0, task_state: str = "", code: int | None = None) -> dict[str, Any]:
    """Return a Framework as the API server sends it."""
    ending = None if code is None else completion(code)
    tasks = [
        (key, {"index": key.index, "state": task_state, "attemptStatus": {"completionStatus": ending}}) for key in TASKS
    ]
    roles = [
        {"name": role, "taskStatuses": [status for key, status in tasks if key.role == role]}
        for role in ("chief", "worker")
    ]
    return {
        "metadata": {"name": "spirals", "uid": "uid-spirals"},
        "status": {
            "state": state,
            "attemptStatus": {"id": attempt, "completionStatus": ending, "taskRoleStatuses": roles},
        },
    }


def roster(ready: int, *, complete: bool = False, missing: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    """Return the attempt's ConfigMap as the API server sends it."""
    text = {
        "version": 1, "generation": ready + 1, "ready": ready, "total": 3, "complete": complete,
        "waitingFor": [{"task": task, "why": why} for task, why in missing],
    }  # fmt: skip
    return {"metadata": {"name": "spirals-attempt"}, "data": {"roster": json.dumps(text)}}


@dataclass
class Gang:
    """Applies events to a state and keeps every state on the way."""

    states: list[RunState] = field(default_factory=lambda: [RunState()])

    @property
    def state(self) -> RunState:
        return self.states[-1]

    def post(self, *what: events.Event) -> Gang:
        for event in what:
            self.states.append(advance(self.state, event))
        return self

    def applied(self) -> Gang:
        return self.post(
            events.RunPlanned(APPLIED_AT - 20, ("cluster", "gang")),
            events.StepStarted(APPLIED_AT - 20, "cluster"),
            events.StepEnded(APPLIED_AT - 10, "cluster"),
            events.StepStarted(APPLIED_AT - 10, "gang"),
            events.FrameworkApplied(APPLIED_AT, "spirals", TASKS),
        )

    def pod(self, after: float, key: TaskKey, **fields: Any) -> Gang:
        info = read_pod(pod(key, **fields))
        assert info is not None
        return self.post(events.PodObserved(APPLIED_AT + after, info))

    def gone(self, after: float, key: TaskKey, **fields: Any) -> Gang:
        info = read_pod(pod(key, **fields))
        assert info is not None
        return self.post(events.PodDeleted(APPLIED_AT + after, info))

    def framework(self, after: float, state: str, **fields: Any) -> Gang:
        return self.post(events.FrameworkObserved(APPLIED_AT + after, read_framework(framework(state, **fields))))

    def roster(self, after: float, ready: int, **fields: Any) -> Gang:
        info = read_roster(roster(ready, **fields))
        assert info is not None
        return self.post(events.RosterObserved(APPLIED_AT + after, info))

    def log(self, after: float, key: TaskKey, text: str, *, uid: str = "", barrier: bool = False) -> Gang:
        return self.post(events.LogLine(APPLIED_AT + after, key, uid or f"uid-{key}", barrier, text))


def successful_run() -> Gang:
    """Return a run that succeeds: created at 1, addressed at 3, open at 4, started at 9, Completed at 20."""
    gang = Gang().applied()
    gang.framework(0.2, "AttemptCreationPending", task_state="AttemptCreationPending")
    for number, key in enumerate(TASKS):
        gang.pod(0.6 + number * 0.2, key)
    gang.framework(1.1, "AttemptPreparing", task_state="AttemptPreparing")
    for number, key in enumerate(TASKS):
        place = {"node": "node-a", "ip": f"10.64.0.{number + 2}"}
        gang.pod(1.5, key, node="node-a", barrier=waiting())
        gang.pod(2 + number * 0.5, key, **place, barrier=running(), application=waiting())
        gang.roster(2.1 + number * 0.5, number + 1, complete=number == 2)
    for number, key in enumerate(TASKS):
        place = {"node": "node-a", "ip": f"10.64.0.{number + 2}"}
        gang.log(3.5 + number * 0.25, key, "open after 2 s", barrier=True)
        gang.pod(4.4, key, **place, barrier=ended(), application=waiting())
        gang.pod(5, key, **place, barrier=ended(), application=running())
    gang.framework(5.1, "AttemptRunning", task_state="AttemptRunning")
    gang.log(9, CHIEF, "2026-11-21T00:00:09Z training started, first loss 0.7")
    gang.log(10, CHIEF, "step 150/1500 loss 0.3")
    for key in TASKS:
        gang.pod(18, key, node="node-a", ip="10.64.0.2", barrier=ended(), application=ended())
        gang.gone(19, key, node="node-a", ip="10.64.0.2", barrier=ended(), application=ended())
    gang.framework(20, "Completed", task_state="Completed", code=0)
    return gang.post(events.StepEnded(APPLIED_AT + 20, "gang"))
