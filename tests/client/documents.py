"""Frameworks, Pods and Events as the API server has them, for tests of what is drawn and decided from them."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from frameworkclient.views.events import EVENT_DECODER, EventView
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.pods import TASK_POD_DECODER, TaskPod

Json = dict[str, Any]

BEGIN = "2026-01-01T12:00:00Z"
NOW = datetime(2026, 1, 1, 12, 5, 12, tzinfo=UTC)
POD: Json = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}


def role(name: str, number: int, **more: Any) -> Json:
    """An entry of `taskRoles`; `retry` is the policy of its Tasks."""
    task: Json = {"pod": POD}
    if "retry" in more:
        task["retryPolicy"] = more.pop("retry")
    return {"name": name, "taskNumber": number, "task": task, **more}


def completion(code: int, phrase: str, *attributes: str, name: str = "Failed", **more: Any) -> Json:
    """A completionStatus."""
    kind = {"name": name, "attributes": list(attributes)}
    return {"code": code, "phrase": phrase, "type": kind, "diagnostics": "", **more}


def condition(kind: str, reason: str, message: str) -> Json:
    """A condition that is True."""
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": BEGIN}


SUCCEEDED = completion(0, "Succeeded", name="Succeeded")


def task(index: int, state: str = "AttemptRunning", *, role: str = "worker", attempt: int = 0, **more: Any) -> Json:
    """A Task's status; `end` is its completion, `node` and `ip` those of its Pod."""
    end, node, ip = more.pop("end", None), more.pop("node", None), more.pop("ip", None)
    uid = f"pod-{role}-{index}-{attempt}" if state != "AttemptCreationPending" else None
    retries = {"totalRetriedCount": attempt, "accountableRetriedCount": attempt}
    of_pod = {"podName": f"training-{role}-{index}", "podUID": uid, "podNodeName": node, "podIP": ip}
    own = {"id": attempt, "startTime": BEGIN, **of_pod, "completionStatus": end, **more.pop("of_attempt", {})}
    times = {"startTime": BEGIN, "transitionTime": BEGIN}
    known = {"index": index, "instanceUID": f"task-{role}-{index}", "state": state}
    return {**known, **times, "retryPolicyStatus": retries, "attemptStatus": own, **more}


def framework(
    *roles: Json,
    state: str = "AttemptRunning",
    tasks: dict[str, list[Json]] | None = None,
    spec: Json | None = None,
    attempt: int = 0,
    end: Json | None = None,
    waits: frozenset[str] = frozenset(),
    restarts: list[Json] | None = None,
    of_attempt: Json | None = None,
    **status: Any,
) -> FrameworkView:
    """A Framework `demo/training`; without `state` it has no status; `of_attempt` is more of its attempt."""
    named = {"name": "training", "namespace": "demo", "uid": "framework-uid", "generation": 1}
    metadata = {**named, "resourceVersion": "7", "creationTimestamp": BEGIN, **status.pop("metadata", {})}
    stored: Json = {"metadata": metadata, "spec": {"taskRoles": list(roles), **(spec or {})}}
    if state:
        of_roles = [
            {"name": name, "instanceUID": f"role-{name}", "taskStatuses": statuses}
            | ({"dependenciesMet": False} if name in waits else {})
            for name, statuses in (tasks or {}).items()
        ]
        config_map = {"configMapName": "training-attempt", "configMapUID": "config-map-uid"}
        own = {"id": attempt, "startTime": BEGIN, **config_map, "completionStatus": end, "taskRoleStatuses": of_roles}
        own |= of_attempt or {}
        times = {"startTime": BEGIN, "runTime": BEGIN, "completionTime": None, "transitionTime": BEGIN}
        stored["status"] = {
            "state": state,
            **times,
            "retryPolicyStatus": {"totalRetriedCount": attempt, "accountableRetriedCount": attempt},
            "attemptStatus": own | ({"lastGangRestarts": restarts} if restarts else {}),
            **status,
        }
    return FrameworkView.decode(json.dumps(stored).encode())


def workers(*tasks: Json, retry: Json | None = None, **more: Any) -> FrameworkView:
    """A Framework of one role, `worker`, with these Tasks and this policy of theirs."""
    return framework(role("worker", len(tasks), retry=retry or {}), tasks={"worker": list(tasks)}, **more)


STACK = ["/app/train.py:31 in wait", "/app/train.py:12 in step"]
CULPRIT: Json = {"task": "worker-1", "node": "node-1", "section": "evaluate", "stack": STACK}
HANG: Json = {
    "time": "2026-01-01T12:04:12Z",
    "attempt": 0,
    "step": 1200,
    "silent": 130,
    "limit": 120,
    "why": "is behind the others",
    "culprits": [CULPRIT],
}
HUNG = "the gang made no progress for 130 s after step 1200 (limit 120 s); culprit: worker-1 on node-1 at "
HUNG += "/app/train.py:31 in wait (is behind the others)"
PROGRESS: Json = {"time": "2026-01-01T12:04:52Z", "slowest": 1200, "fastest": 1204, "perMinute": 4.5, "ranks": 2}
HANGS: Json = {"inARow": 2, "bestStep": 1200, "last": HANG}


def training(hang: object = "observe", *tasks: Json, progress: Json | None = PROGRESS, **more: Any) -> FrameworkView:
    """A gang of two workers that says how far it is; `hang` is its annotation."""
    prefix = "barrier.frameworkcontroller.microsoft.com"
    template = {"metadata": {"annotations": {f"{prefix}/progress": "torch", f"{prefix}/hang": hang}}}
    found = role("worker", 2)
    found["task"] = {**found["task"], "pod": POD | template}
    statuses = list(tasks) or [task(number, node=f"node-{number}", ip="10.0.0.1") for number in range(2)]
    own = ({} if progress is None else {"progress": progress}) | more.pop("of_attempt", {})
    return framework(found, tasks={"worker": statuses}, ready="2/2", of_attempt=own, **more)


def pod_document(task_name: str = "worker-0", **more: Any) -> Json:
    """A Pod of Framework `training`; `statuses` are its container statuses, `init` those of init containers."""
    role_name, _, index = task_name.rpartition("-")
    statuses, init = more.pop("statuses", []), more.pop("init", [])
    names = {"name": f"training-{task_name}", "namespace": "demo", "uid": more.pop("uid", f"uid-{task_name}")}
    labels = {"FC_FRAMEWORK_NAME": "training", "FC_TASKROLE_NAME": role_name, "FC_TASK_INDEX": index}
    annotations = {"FC_FRAMEWORK_ATTEMPT_ID": "0", "FC_TASK_ATTEMPT_ID": "0"}
    metadata = {**names, "resourceVersion": "9", "labels": labels, "annotations": annotations}
    metadata |= more.pop("metadata", {})
    containers = {"containers": [{"name": "main"}], "initContainers": [{"name": one["name"]} for one in init]}
    spec = {**containers, "nodeName": more.pop("node", "")}
    status = {"phase": "Pending", "containerStatuses": statuses, "initContainerStatuses": init, **more}
    return {"metadata": metadata, "spec": spec, "status": status}


def pod(task_name: str = "worker-0", **more: Any) -> TaskPod:
    """The same as the client reads it."""
    return TASK_POD_DECODER.decode(msgspec.json.encode(pod_document(task_name, **more)))


def container(name: str = "main", state: str = "running", *, restarts: int = 0, **detail: Any) -> Json:
    """A container status: `running`, `waiting` or `terminated`."""
    return {"name": name, "restartCount": restarts, "state": {state: detail}}


def event(reason: str, message: str, about: str = "Framework/training", **more: Any) -> EventView:
    """An Event."""
    kind, _, name = about.partition("/")
    said = {"type": "Normal", "reason": reason, "message": message, "lastTimestamp": BEGIN}
    of = {"metadata": {"name": "e", "creationTimestamp": BEGIN}, "involvedObject": {"kind": kind, "name": name}}
    return EVENT_DECODER.decode(msgspec.json.encode({**said, **of, **more}))
