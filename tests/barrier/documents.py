"""JSON documents of any shape, and valid ones of which one field is something else: what a faulty API server sends."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

from tests.barrier.gangs import configmap, ip, roster, uid

HOSTILE = (
    *("", " ", "a b", "Worker", "x" * 300, "\ud800", "\u2028"),
    *("../../secrets/x", "$(touch pwned)", "'; touch pwned; '"),
    *("mnist\n10.6.6.6 registry.example", "10.0.0.1 evil", "10.0.0.1\n10.6.6.6"),
)
NUMBERS = st.integers() | st.sampled_from([10**12, -1, 2**70]) | st.floats()
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(max_size=12) | st.sampled_from(HOSTILE)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metadata", "items", "status", "data", "roster", "name"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def task(role: str, index: int, address: str | None = "10.0.0.9", **changes: Any) -> dict[str, Any]:
    """The status of a Task in a Framework."""
    place = {"podNodeName": "node-1", "podHostIP": "192.168.0.1"}
    attempt = {"id": 2, "podUID": uid(role, index), "podIP": address, **place}
    status = {"index": index, "state": "AttemptPreparing", "deletionPending": False, "attemptStatus": attempt}
    return status | changes


def framework_object(roles: dict[str, list[dict[str, Any]]], numbers: dict[str, int] | None = None) -> dict[str, Any]:
    """A Framework with the statuses of its Tasks; `numbers` are the Tasks in the spec, where they are others."""
    numbers = numbers or {name: len(tasks) for name, tasks in roles.items()}
    statuses = [{"name": name, "taskStatuses": tasks} for name, tasks in roles.items()]
    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "mnist", "namespace": "lab", "uid": "fw-uid", "resourceVersion": "5"},
        "spec": {"taskRoles": [{"name": name, "taskNumber": number} for name, number in numbers.items()]},
        "status": {"attemptStatus": {"id": 3, "instanceUID": "3_cm-uid", "taskRoleStatuses": statuses}},
    }


def pod(name: str, **changes: Any) -> dict[str, Any]:
    """A Pod of role worker with an address; `changes` are fields of its metadata, spec and status."""
    document: dict[str, Any] = {
        "metadata": {
            "name": name,
            "uid": f"{name}-uid",
            "labels": {"role": "worker"},
            "creationTimestamp": "2026-11-21T00:00:00Z",
            "resourceVersion": "7",
        },
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Pending", "podIP": "10.0.0.1", "hostIP": "192.168.0.1"},
    }
    return {part: values | changes.get(part, {}) for part, values in document.items()}


def a_pod(role: str, index: int, number: int) -> dict[str, Any]:
    pulling = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    return pod(
        f"train-{role}-{index}",
        metadata={
            "uid": uid(role, index),
            "labels": {"role": role},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        },
        status={
            "podIP": ip(number),
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            "initContainerStatuses": [{"name": "frameworkbarrier", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{"name": "main", "state": pulling}],
        },
    )


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every field of a document."""
    found = [path] if path else []
    fields = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in fields:
        found += paths(inner, (*path, name))
    return found


def at(document: Any, path: tuple[Any, ...]) -> Any:
    """The field at a place."""
    for step in path:
        document = document[step]
    return document


@st.composite
def broken(draw: st.DrawFn, valid: dict[str, Any]) -> dict[str, Any]:
    """A valid document of which up to two fields are something else."""
    document = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(paths(document) or [("metadata",)]))
        at(document, path[:-1])[path[-1]] = draw(ANYTHING)
    return document


@st.composite
def tampered(draw: st.DrawFn, valid: dict[str, Any]) -> dict[str, Any]:
    """A valid document of which a few texts say something else, of the same type."""
    document = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in paths(document) if isinstance(at(document, path), str)]))
        at(document, path[:-1])[path[-1]] = draw(st.sampled_from([*HOSTILE, "evil", "10.6.6.6", "fd00::6"]) | st.text())
    return document


def with_roster(document: dict[str, Any]) -> dict[str, Any]:
    """A ConfigMap with this roster, valid or not."""
    return configmap(None) | {"data": {"roster": json.dumps(document)}}


ROSTER = roster({"ps": 1, "worker": 2}, orders={"worker": [1, 0]})
VALID = {
    "roster": configmap(ROSTER),
    "framework": framework_object(
        {"ps": [task("ps", 0, ip(1))], "worker": [task("worker", 0, ip(2)), task("worker", 1, ip(3))]}
    ),
    "pods": {
        "kind": "PodList",
        "metadata": {"resourceVersion": "7"},
        "items": [a_pod("ps", 0, 1), a_pod("worker", 0, 2), a_pod("worker", 1, 3)],
    },
}
BY_SELECTOR = {"FB_SELECTOR": "a=b", "FB_ROLES": "ps=1,worker=2", "FB_ROLE_LABEL": "role"}
"""Settings by which the Pods are a gang."""


def fields(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these fields, with anything in them."""
    return st.dictionaries(st.sampled_from(names), ANYTHING)


DOCUMENTS = {
    "roster": fields("metadata", "data", "binaryData") | broken(VALID["roster"]) | broken(ROSTER).map(with_roster),
    "framework": fields("metadata", "spec", "status") | broken(VALID["framework"]),
    "pods": fields("metadata", "items") | broken(VALID["pods"]),
    "pod": fields("metadata", "status", "spec") | broken(a_pod("ps", 0, 1)),
}
TAMPERED = {
    "roster": tampered(ROSTER).map(with_roster),
    "framework": tampered(VALID["framework"]),
    "pods": tampered(VALID["pods"]),
}
