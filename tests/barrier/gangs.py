"""Gangs as the controller would write them."""

import itertools
import json
from typing import Any

from frameworkbarrier.gate.gate import Gatekeeper, Observation, Released
from frameworkbarrier.settings import OwnTask
from frameworkbarrier.source.roster import decode


def uid(role: str, index: int, instance: int = 0) -> str:
    """A Pod's UID, its first eight characters different for each Task and instance."""
    value = 2166136261
    for byte in f"{role}-{index}-{instance}".encode():
        value = (value ^ byte) * 16777619 % 2**32
    return f"{value:08x}-0000-4000-8000-000000000000"


def ip(number: int) -> str:
    return f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"


FRAMEWORK = {"namespace": "lab", "name": "mnist", "uid": "fw-uid"}


def roster(
    shape: dict[str, int],
    *,
    generation: int = 1,
    ready: int | None = None,
    gpus: dict[str, int] | None = None,
    orders: dict[str, list[int]] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A roster of `{role: Tasks}`; complete unless `ready` says less.

    `gpus` are those of each Pod of a role, `orders` the ranks of its Tasks.
    """
    total = sum(shape.values())
    complete = ready is None or ready == total
    document: dict[str, Any] = {
        "version": 1,
        "generation": generation,
        "framework": FRAMEWORK | {"attemptID": 0, "attemptInstanceUID": "0_cm-uid"},
        "ready": total if ready is None else ready,
        "total": total,
        "complete": complete,
        "waitingFor": [],
    }
    if complete:
        numbers = itertools.count(1)
        document["taskRoles"] = [
            {
                "name": role,
                "tasks": [
                    [index, ip(next(numbers)), uid(role, index)[:8], 0, "node-1", "192.168.0.1"]
                    for index in range(count)
                ],
                **({"gpus": gpus[role]} if gpus and role in gpus else {}),
                **({"order": orders[role]} if orders and role in orders else {}),
            }
            for role, count in shape.items()
        ]
    return document | changes


def foreign(shape: dict[str, int], *, uid8: str = "", **changes: Any) -> dict[str, Any]:
    """A complete roster of a gang without a Framework, whose Pods have names of their own, and this UID if any."""
    document = roster(shape, **changes)
    for role in document["taskRoles"]:
        role["pods"] = [f"train-{role['name']}-{index}" for index in range(len(role["tasks"]))]
        for task in role["tasks"]:
            task[2] = uid8 or task[2]
    return document


def gang(epoch: int, *starts: int, generation: int | None = None, **changes: Any) -> dict[str, Any]:
    """The complete roster of an epoch, of workers with so many starts."""
    document = roster({"worker": len(starts)}, generation=generation or epoch + 1, epoch=epoch, why="", **changes)
    for task, number in zip(document["taskRoles"][0]["tasks"], starts, strict=True):
        task.append(number)
    return document


def closed(epoch: int, ready: int = 1, total: int = 2, **changes: Any) -> dict[str, Any]:
    """A roster of the closed gate."""
    changes = {"why": "worker-1 exited with 1: boom"} | changes
    return roster({"worker": total}, generation=epoch, ready=ready, epoch=epoch, **changes)


def behind(start: int, index: int = 0) -> dict[str, Any]:
    return {"behind": [["worker", index, uid("worker", index)[:8], start]]}


def configmap(document: dict[str, Any] | None, version: int = 1, cm_uid: str = "cm-uid") -> dict[str, Any]:
    body: dict[str, Any] = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "mnist-attempt", "namespace": "lab", "uid": cm_uid, "resourceVersion": str(version)},
    }
    if document is not None:
        body["data"] = {"roster": json.dumps(document)}
    return body


def observation(document: dict[str, Any]) -> Observation:
    """A roster as its source reports it."""
    text = json.dumps(document)
    return Observation(decode(text), text)


def released(document: dict[str, Any], role: str = "worker", index: int = 0) -> Released:
    """The open gate of one Task."""
    found = Gatekeeper(OwnTask(role, index, uid(role, index))).decide(observation(document))
    assert isinstance(found, Released)
    return found


def environment(role: str = "worker", index: int = 0, /, **more: str) -> dict[str, str]:
    """What the controller injects into a container, as far as the barrier reads it."""
    return {
        "FC_FRAMEWORK_NAMESPACE": "lab",
        "FC_FRAMEWORK_NAME": "mnist",
        "FC_CONFIGMAP_NAME": "mnist-attempt",
        "FC_CONFIGMAP_UID": "cm-uid",
        "FC_TASKROLE_NAME": role,
        "FC_TASK_INDEX": str(index),
        "FC_POD_UID": uid(role, index),
        **more,
    }
