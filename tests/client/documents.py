"""Frameworks, Pods and Events as the API server has them, for tests of what is drawn and decided from them."""

from __future__ import annotations

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
    """A Task's status; `end` is its completion, `node` and `ip` those of its Pod, `retries` its counters."""
    end = more.pop("end", None)
    node, ip = more.pop("node", None), more.pop("ip", None)
    uid = more.pop("uid", f"pod-{role}-{index}-{attempt}" if state != "AttemptCreationPending" else None)
    retries = more.pop("retries", {"totalRetriedCount": attempt, "accountableRetriedCount": attempt})
    return {
        "index": index,
        "instanceUID": f"task-{role}-{index}",
        "startTime": BEGIN,
        "state": state,
        "transitionTime": BEGIN,
        "retryPolicyStatus": retries,
        "attemptStatus": {
            "id": attempt,
            "startTime": BEGIN,
            "podName": f"training-{role}-{index}",
            "podUID": uid,
            "podNodeName": node,
            "podIP": ip,
            "completionStatus": end,
            **more.pop("of_attempt", {}),
        },
        **more,
    }


def framework(
    *roles: Json,
    state: str = "AttemptRunning",
    tasks: dict[str, list[Json]] | None = None,
    spec: Json | None = None,
    attempt: int = 0,
    end: Json | None = None,
    waits: frozenset[str] = frozenset(),
    restarts: list[Json] | None = None,
    **status: Any,
) -> FrameworkView:
    """A Framework `demo/training`; without `state` it has no status."""
    stored: Json = {
        "metadata": {
            "name": "training",
            "namespace": "demo",
            "uid": "framework-uid",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": BEGIN,
            **status.pop("metadata", {}),
        },
        "spec": {"taskRoles": list(roles), **(spec or {})},
    }
    if state:
        found = tasks or {}
        stored["status"] = {
            "startTime": BEGIN,
            "runTime": BEGIN,
            "completionTime": None,
            "state": state,
            "transitionTime": BEGIN,
            "retryPolicyStatus": {"totalRetriedCount": attempt, "accountableRetriedCount": attempt},
            "attemptStatus": {
                "id": attempt,
                "startTime": BEGIN,
                "configMapName": "training-attempt",
                "configMapUID": "config-map-uid",
                "completionStatus": end,
                **({"lastGangRestarts": restarts} if restarts else {}),
                "taskRoleStatuses": [
                    {
                        "name": name,
                        "instanceUID": f"role-{name}",
                        "taskStatuses": statuses,
                        **({"dependenciesMet": False} if name in waits else {}),
                    }
                    for name, statuses in found.items()
                ],
            },
            **status,
        }
    return FrameworkView.decode(json.dumps(stored).encode())


def workers(*tasks: Json, retry: Json | None = None, **more: Any) -> FrameworkView:
    """A Framework of one role, `worker`, with these Tasks and this policy of theirs."""
    return framework(role("worker", len(tasks), retry=retry or {}), tasks={"worker": list(tasks)}, **more)


def pod(task_name: str = "worker-0", *, attempt: tuple[int, int] = (0, 0), **more: Any) -> TaskPod:
    """A Pod of Framework `training`; `statuses` are its container statuses, `init` those of init containers."""
    role_name, _, index = task_name.rpartition("-")
    statuses, init = more.pop("statuses", []), more.pop("init", [])
    document = {
        "metadata": {
            "name": f"training-{task_name}",
            "namespace": "demo",
            "uid": more.pop("uid", f"uid-{task_name}"),
            "resourceVersion": "9",
            "labels": {"FC_FRAMEWORK_NAME": "training", "FC_TASKROLE_NAME": role_name, "FC_TASK_INDEX": index},
            "annotations": {"FC_FRAMEWORK_ATTEMPT_ID": str(attempt[0]), "FC_TASK_ATTEMPT_ID": str(attempt[1])},
            **more.pop("metadata", {}),
        },
        "spec": {
            "containers": [{"name": name} for name in more.pop("containers", ["main"])],
            "initContainers": [{"name": one["name"]} for one in init],
            "nodeName": more.pop("node", ""),
        },
        "status": {
            "phase": more.pop("phase", "Pending"),
            "containerStatuses": statuses,
            "initContainerStatuses": init,
            **more,
        },
    }
    return TASK_POD_DECODER.decode(msgspec.json.encode(document))


def container(name: str = "main", state: str = "running", *, restarts: int = 0, **detail: Any) -> Json:
    """A container status: `running`, `waiting` or `terminated`."""
    return {"name": name, "restartCount": restarts, "state": {state: detail}}


def event(reason: str, message: str, about: str = "Framework/training", **more: Any) -> EventView:
    """An Event."""
    kind, _, name = about.partition("/")
    document = {
        "metadata": {"name": "e", "creationTimestamp": BEGIN},
        "type": "Normal",
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": kind, "name": name},
        "lastTimestamp": BEGIN,
        **more,
    }
    return EVENT_DECODER.decode(msgspec.json.encode(document))
