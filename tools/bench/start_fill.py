"""Fills a cluster with running and completed Frameworks: one of each is real, all others are copies of it in etcd.

A copy differs in its name, and in the first eight digits of each UID, which are what the roster shows of it. So owners
own their copies, statuses record them, and the controller that is started finds everything as it left it.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from frameworkcontroller.api import names
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster.client import Json, RawClient

RUNNING, COMPLETED = "running0000000", "completed0000000"
"""The names of the two real Frameworks, which end in a number of seven digits."""
_DIGITS = 7
_NODE = "full-node"
_HOST_IP = "192.0.2.1"
_WRITERS = 16
_SECONDS = 120.0
_UID = re.compile(r"[0-9a-f]{8}(?=-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
_POD = {
    "spec": {
        "restartPolicy": "Never",
        # There is no such node: the Pods are scheduled, and no kubelet runs them.
        "nodeName": _NODE,
        "containers": [{"name": "main", "image": "none", "command": ["python3", "train.py"]}],
    }
}


class Filling:
    """The objects of one namespace.

    Args:
        raw: A client of the API server.
        namespace: Of all Frameworks.
    """

    def __init__(self, raw: RawClient, namespace: str) -> None:
        self._raw, self._frameworks = raw, Frameworks(raw, namespace)
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._namespace = namespace

    def run_one(self, tasks: int) -> list[tuple[str, Json]]:
        """Run a Framework while a controller works, and return its objects by their keys, owners first."""
        self._frameworks.create(RUNNING, role("worker", tasks, pod=_POD))
        self._report(self._find(RUNNING, tasks), _running)

        def runs() -> None:
            status = self._frameworks.status(RUNNING)
            assert status["ready"] == f"{tasks}/{tasks}", status["ready"]
            states = {task["state"] for task in self._frameworks.tasks(RUNNING).values()}
            assert states == {"AttemptRunning"}, states
            annotations = self._frameworks.config_map(RUNNING)["metadata"]["annotations"]
            assert '"complete":true' in annotations[names.ROSTER_ANNOTATION]

        eventually(runs, _SECONDS, 0.5)
        pods = [(f"pods/{self._namespace}/{pod['metadata']['name']}", pod) for pod in self._find(RUNNING, tasks)]
        config_map = self._frameworks.config_map(RUNNING)
        key = f"configmaps/{self._namespace}/{config_map['metadata']['name']}"
        typed = {"apiVersion": "v1", "kind": "Pod"}
        return [
            (self._framework_key(RUNNING), self._frameworks.get(RUNNING)),
            (key, config_map),
            *((name, typed | pod) for name, pod in pods),
        ]

    def complete_one(self, tasks: int) -> list[tuple[str, Json]]:
        """Run a Framework to its end while a controller works, and return it by its key."""
        self._frameworks.create(COMPLETED, role("worker", tasks, pod=_POD))
        pods = self._find(COMPLETED, tasks)
        self._report(pods, _running)
        self._report(pods, _succeeded)
        self._frameworks.wait(COMPLETED, "Completed", _SECONDS)
        return [(self._framework_key(COMPLETED), self._frameworks.get(COMPLETED))]

    def count(self, plural: str) -> int:
        """Return how many Pods or Frameworks the API server has."""
        path = self._frameworks.path if plural == names.PLURAL else f"/api/v1/namespaces/{self._namespace}/{plural}"
        page = self._raw.get(f"{path}?limit=1")
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))

    def _framework_key(self, name: str) -> str:
        return f"{names.GROUP}/{names.PLURAL}/{self._namespace}/{name}"

    def _find(self, name: str, tasks: int) -> list[Json]:
        def all_there() -> list[Json]:
            found: list[Json] = self._raw.get(f"{self._pods}?labelSelector={names.FRAMEWORK_NAME}%3D{name}")["items"]
            assert len(found) == tasks, f"{len(found)} of {tasks} Pods"
            return found

        return eventually(all_there, _SECONDS, 0.2)

    def _report(self, pods: list[Json], status: Any) -> None:
        def one(numbered: tuple[int, Json]) -> None:
            number, pod = numbered
            self._raw.merge(f"{self._pods}/{pod['metadata']['name']}/status", {"status": status(number)})

        with ThreadPoolExecutor(_WRITERS) as writers:
            list(writers.map(one, enumerate(pods)))


def copies(objects: list[tuple[str, Json]], first: int, last: int) -> Iterator[tuple[str, str]]:
    """Yield copies of a Framework's objects with these numbers, the last one excluded, owners first."""
    name = RUNNING if RUNNING in objects[0][0] else COMPLETED
    texts = [(key, json.dumps(body, separators=(",", ":"))) for key, body in objects]
    assert not any('Compressed":"' in text or "roster.gz" in text for _, text in texts), "use fewer --tasks"
    uids = {uid for _, text in texts for uid in _UID.findall(text)}
    # Cut once, so that a copy is a join, and what was replaced is not replaced again.
    cut = re.compile(f"({'|'.join(map(re.escape, (name, *uids)))})")
    pieces = [(cut.split(key), cut.split(text)) for key, text in texts]
    for number in range(first, last):
        changed = {name: f"{name[:-_DIGITS]}{number:0{_DIGITS}}"}
        changed |= {uid: f"{(int(uid, 16) + number) % (1 << 32):08x}" for uid in uids}
        for key, text in pieces:
            yield "".join(changed.get(part, part) for part in key), "".join(changed.get(part, part) for part in text)


def _running(number: int) -> Json:
    address = f"10.200.{number // 250}.{number % 250 + 1}"
    begun = "2026-11-22T00:00:00Z"
    return {
        "phase": "Running",
        "startTime": begun,
        "hostIP": _HOST_IP,
        "hostIPs": [{"ip": _HOST_IP}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": begun}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [_container({"running": {"startedAt": begun}}, ready=True)],
    }


def _succeeded(_number: int) -> Json:
    times = {"startedAt": "2026-11-22T00:00:00Z", "finishedAt": "2026-11-22T00:01:00Z"}
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", **times}}
    return {"phase": "Succeeded", "containerStatuses": [_container(ended, ready=False)]}


def _container(state: Json, *, ready: bool) -> Json:
    identity = "sha256:" + 64 * "0"
    return {
        "name": "main",
        "image": "none",
        "imageID": identity,
        "containerID": f"containerd://{64 * '0'}",
        "restartCount": 0,
        "ready": ready,
        "started": ready,
        "state": state,
    }
