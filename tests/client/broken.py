"""Frameworks that the API server refuses, each with what `lint` says; the tests of the definition ask it, too."""

import copy
import re
from typing import Any

from frameworkcontroller.api.spec import MAX_ROLES

Json = dict[str, Any]

POD: Json = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}
WORKER: Json = {"name": "worker", "taskNumber": 2, "task": {"pod": POD}}
SOUND: Json = {
    "apiVersion": "frameworkcontroller.microsoft.com/v1",
    "kind": "Framework",
    "metadata": {"name": "sound"},
    "spec": {"executionType": "Create", "taskRoles": [WORKER]},
}


def changed(path: str, value: Any) -> Json:
    """SOUND with one field set; numbers choose entries, and a value of None removes the field."""
    found = copy.deepcopy(SOUND)
    target: Any = found
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    for part in parents:
        target = target.setdefault(part, {}) if isinstance(target, dict) else target[part]
    if value is None:
        del target[last]
    elif isinstance(target, list):
        target.append(value)
    else:
        target[last] = value
    return found


def wrong(path: str, value: Any, message: str) -> tuple[Json, str]:
    """SOUND with one field set, and what is said of it: its path in words, and this message."""
    where = re.sub(r"/(\d+)", r"[\1]", path).replace("[0]", "[worker]", 1).replace("/", ".")
    return changed(path, value), f"{where}: {message}"


def many_roles(number: int) -> list[Json]:
    """So many TaskRoles without Tasks."""
    return [WORKER | {"name": f"r{place}", "taskNumber": 0} for place in range(number)]


ROLE = "spec/taskRoles/0"
POLICY = f"{ROLE}/frameworkAttemptCompletionPolicy"
ZERO = "0 would end every attempt at once"
MANY = [{"name": f"r{number}", "status": "Ready"} for number in range(17)]
REFUSED: dict[str, tuple[Json, str]] = {
    "name": (changed("metadata/name", "not-a-name"), "metadata.name: metadata.name must match"),
    "no spec": (changed("spec", None), "spec: is missing"),
    "unknown field": wrong("spec/taskRole", [], "there is no such field; did you mean taskRoles?"),
    "unknown field of a role": wrong(f"{ROLE}/taskNumer", 3, "there is no such field; did you mean taskNumber?"),
    "type": wrong(f"{ROLE}/taskNumber", "two", "must be of type integer, not string"),
    "truth value": wrong(f"{ROLE}/taskNumber", True, "must be of type integer, not boolean"),
    "list for an object": wrong("spec/retryPolicy", [], "must be of type object, not array"),
    "enum": wrong("spec/executionType", "Run", "must be one of Create, Start, Stop, not 'Run'"),
    "pattern": (changed(f"{ROLE}/name", "Worker"), "name: must match"),
    "minimum": wrong("spec/retryPolicy/maxRetryCount", -3, "must be at least -2"),
    "maximum": wrong(f"{ROLE}/taskNumber", 10_001, "must be at least 0 and at most 10000, not 10001"),
    "too large": wrong("spec/retryPolicy/maxRetryCount", 2**31, "must be at least -2 and at most"),
    "zero": wrong(f"{POLICY}/minFailedTaskCount", 0, f"must be -1 (never) or at least 1; {ZERO}"),
    "percent": wrong(f"{POLICY}/minFailedTaskPercent", 101, "must be at least 1 and at most 100"),
    "grace": wrong(f"{ROLE}/task/podGracefulDeletionTimeoutSec", -1, "must be from 0"),
    "deadline": wrong("spec/activeDeadlineSeconds", 0, "must be at least 1"),
    "required": wrong(f"{ROLE}/task/pod", None, "is missing"),
    "twice": (changed("spec/taskRoles/1", copy.deepcopy(WORKER)), "is given twice: name must be"),
    "too many": (
        changed("spec/taskRoles/1", WORKER | {"name": "other", "taskNumber": 9_999}),
        "spec: the sum of taskRoles[*].taskNumber must be at most 10000",
    ),
    "too many roles": (
        changed("spec/taskRoles", many_roles(MAX_ROLES + 1)),
        "spec: taskRoles must have at most 1000 items: use several Frameworks",
    ),
    "a number of roles": wrong("spec/taskRoles", 5, "must be of type array, not integer"),
    "dependency": (
        changed(f"{ROLE}/dependsOn", [{"name": "other", "status": "Done"}]),
        "spec.taskRoles[worker].dependsOn[other].status: must be one of Ready, Complete",
    ),
    "many dependencies": wrong(f"{ROLE}/dependsOn", MANY, "must have at most 16 entries"),
    "empty role": (changed("spec/taskRoles/1", {}), "spec.taskRoles[1].name: is missing"),
}
TAKEN: dict[str, Json] = {
    "sound": SOUND,
    "no Tasks": changed(f"{ROLE}/taskNumber", 0),
    "no roles": changed("spec/taskRoles", None),
    "1,000 roles": changed("spec/taskRoles", many_roles(MAX_ROLES)),
    "percentages": changed(f"{POLICY}/minFailedTaskPercent", 100),
    "any template": changed(f"{ROLE}/task/pod", {"spec": {"containers": "none"}, "anything": 1}),
    "an annotation": changed("metadata/annotations", {"a": "b"}),
}
