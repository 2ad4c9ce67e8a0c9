"""JSON documents of any shape, and valid ones of which one field is something else: what a faulty API server sends."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

from tests.barrier.gangs import configmap, ip, roster, uid

HOSTILE = (
    "",
    " ",
    "a b",
    "mnist\n10.6.6.6 registry.example",
    "10.0.0.1 evil",
    "10.0.0.1\n10.6.6.6",
    "../../secrets/x",
    "$(touch pwned)",
    "'; touch pwned; '",
    "\ud800",
    "\u2028",
    "Worker",
    "x" * 300,
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**12, -1, 2**70])
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(HOSTILE)
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metadata", "items", "status", "data", "roster", "name"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def a_configmap() -> dict[str, Any]:
    return configmap(roster({"ps": 1, "worker": 2}))


def a_framework() -> dict[str, Any]:
    def task(role: str, index: int, number: int) -> dict[str, Any]:
        attempt = {
            "id": 0,
            "podUID": uid(role, index),
            "podIP": ip(number),
            "podNodeName": "node-1",
            "podHostIP": "192.168.0.1",
        }
        return {"index": index, "state": "AttemptRunning", "deletionPending": False, "attemptStatus": attempt}

    statuses = [
        {"name": "ps", "taskStatuses": [task("ps", 0, 1)]},
        {"name": "worker", "taskStatuses": [task("worker", 0, 2), task("worker", 1, 3)]},
    ]
    return {
        "kind": "Framework",
        "metadata": {"name": "mnist", "namespace": "lab", "uid": "fw-uid", "resourceVersion": "5"},
        "spec": {"taskRoles": [{"name": "ps", "taskNumber": 1}, {"name": "worker", "taskNumber": 2}]},
        "status": {"attemptStatus": {"id": 0, "instanceUID": "0_cm-uid", "taskRoleStatuses": statuses}},
    }


def a_pod(role: str, index: int, number: int) -> dict[str, Any]:
    pulling = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    return {
        "metadata": {
            "name": f"train-{role}-{index}",
            "uid": uid(role, index),
            "labels": {"role": role},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            "creationTimestamp": "2026-11-21T00:00:00Z",
            "resourceVersion": "7",
        },
        "spec": {"nodeName": "node-1"},
        "status": {
            "phase": "Running",
            "podIP": ip(number),
            "hostIP": "192.168.0.1",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            "initContainerStatuses": [{"name": "frameworkbarrier", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{"name": "main", "state": pulling}],
        },
    }


def a_list() -> dict[str, Any]:
    pods = [a_pod("ps", 0, 1), a_pod("worker", 0, 2), a_pod("worker", 1, 3)]
    return {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": pods}


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every field of a document."""
    found = [path] if path else []
    fields = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in fields:
        found += paths(inner, (*path, name))
    return found


@st.composite
def broken(draw: st.DrawFn, valid: dict[str, Any]) -> dict[str, Any]:
    """A valid document of which up to two fields are something else."""
    document = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(paths(document) or [("metadata",)]))
        inner: Any = document
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = draw(ANYTHING)
    return document


@st.composite
def tampered(draw: st.DrawFn, valid: dict[str, Any]) -> dict[str, Any]:
    """A valid document of which a few texts say something else, of the same type."""
    document = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in paths(document) if isinstance(at(document, path), str)]))
        at(document, path[:-1])[path[-1]] = draw(st.sampled_from([*HOSTILE, "evil", "10.6.6.6", "fd00::6"]) | st.text())
    return document


def at(document: Any, path: tuple[Any, ...]) -> Any:
    """The field at a place."""
    for step in path:
        document = document[step]
    return document


@st.composite
def broken_rosters(draw: st.DrawFn) -> dict[str, Any]:
    """A ConfigMap whose roster has a few fields that are something else."""
    document = configmap(None)
    document["data"] = {"roster": json.dumps(draw(broken(roster({"ps": 1, "worker": 2}))))}
    return document


DOCUMENTS = {
    "roster": st.dictionaries(st.sampled_from(["metadata", "data", "binaryData"]), ANYTHING)
    | broken(a_configmap())
    | broken_rosters(),
    "framework": st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), ANYTHING) | broken(a_framework()),
    "pods": st.dictionaries(st.sampled_from(["metadata", "items"]), ANYTHING) | broken(a_list()),
    "pod": st.dictionaries(st.sampled_from(["metadata", "status", "spec"]), ANYTHING) | broken(a_pod("ps", 0, 1)),
}
VALID = {"roster": a_configmap(), "framework": a_framework(), "pods": a_list()}
BY_SELECTOR = {"FB_SELECTOR": "a=b", "FB_ROLES": "ps=1,worker=2", "FB_ROLE_LABEL": "role"}
"""Settings by which `a_list` is a gang."""
