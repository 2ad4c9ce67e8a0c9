"""Fills a cluster with running and completed Frameworks: one of each is real, all others are copies of it in etcd.

A copy differs in its name, and in the first eight digits of each UID, which are what the roster shows of it. So owners
own their copies, statuses record them, and the controller that is started finds everything as it left it.

Copies are written straight into etcd, a hundred thousand in seconds. The API server stores its own kinds in a binary
encoding and reads JSON, too; custom resources are JSON anyway. What is written is an object as the API server has
answered it.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator

import urllib3

from frameworkcontroller.api import names
from localcluster.client import Json
from testkit.absent_pods import addressed, create, find, report
from testkit.frameworks import Frameworks
from testkit.waiting import eventually

RUNNING, COMPLETED = "running0000000", "completed0000000"
"""The names of the two real Frameworks, which end in a number of seven digits."""
_DIGITS = 7
_SECONDS = 120.0
_UID = re.compile(r"[0-9a-f]{8}(?=-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
# etcd's own limits are 128 operations and 1.5 MiB for each transaction.
_MOST_OBJECTS = 100
_MOST_BYTES = 1 << 20
_BEGUN, _ENDED = "2026-11-22T00:00:00Z", "2026-11-22T00:01:00Z"
Objects = list[tuple[str, "Json"]]
"""Objects by their keys in etcd, below /registry."""


def run_one(frameworks: Frameworks, tasks: int) -> Objects:
    """Run a Framework while a controller works, and return its objects, owners first."""
    report(frameworks, create(frameworks, RUNNING, tasks), _running)

    def runs() -> None:
        status = frameworks.status(RUNNING)
        assert status["ready"] == f"{tasks}/{tasks}", status["ready"]
        states = {task["state"] for task in frameworks.tasks(RUNNING).values()}
        assert states == {"AttemptRunning"}, states
        annotations = frameworks.config_map(RUNNING)["metadata"]["annotations"]
        assert '"complete":true' in annotations[names.ROSTER_ANNOTATION]

    eventually(runs, _SECONDS, 0.5)
    config_map, pods = frameworks.config_map(RUNNING), find(frameworks, RUNNING, tasks)
    return [
        _stored(f"{names.GROUP}/{names.PLURAL}", frameworks.get(RUNNING)),
        _stored("configmaps", config_map),
        *(_stored("pods", {"apiVersion": "v1", "kind": "Pod"} | pod) for pod in pods),
    ]


def complete_one(frameworks: Frameworks, tasks: int) -> Objects:
    """Run a Framework to its end while a controller works, and return it."""
    pods = create(frameworks, COMPLETED, tasks)
    report(frameworks, pods, _running)
    report(frameworks, pods, _succeeded)
    frameworks.wait(COMPLETED, "Completed", _SECONDS)
    return [_stored(f"{names.GROUP}/{names.PLURAL}", frameworks.get(COMPLETED))]


def copies(objects: Objects, number_of_copies: int) -> Iterator[tuple[str, str]]:
    """Yield copies of a Framework's objects, as JSON by their keys, numbered from 1 on, owners first."""
    name = RUNNING if RUNNING in objects[0][0] else COMPLETED
    texts = [(key, json.dumps(body, separators=(",", ":"))) for key, body in objects]
    assert not any('Compressed":"' in text or names.ROSTER_GZIP_KEY in text for _, text in texts), "use fewer Tasks"
    uids = {uid for _, text in texts for uid in _UID.findall(text)}
    # Cut once, so that a copy is a join, and what was replaced is not replaced again.
    cut = re.compile(f"({'|'.join(map(re.escape, (name, *uids)))})")
    pieces = [(cut.split(key), cut.split(text)) for key, text in texts]
    for number in range(1, number_of_copies + 1):
        changed = {name: f"{name[:-_DIGITS]}{number:0{_DIGITS}}"}
        changed |= {uid: f"{(int(uid, 16) + number) % (1 << 32):08x}" for uid in uids}
        for key, text in pieces:
            yield "".join(changed.get(part, part) for part in key), "".join(changed.get(part, part) for part in text)


def put(port: int, objects: Iterable[tuple[str, str]]) -> int:
    """Write objects, JSON by keys below /registry, into the etcd of a port in their order; return their number."""
    written = 0
    with urllib3.PoolManager(retries=False, timeout=60) as pool:
        for batch in _batches(objects):
            puts = [{"requestPut": {"key": _encoded(f"/registry/{key}"), "value": _encoded(one)}} for key, one in batch]
            answer = pool.request("POST", f"http://127.0.0.1:{port}/v3/kv/txn", body=json.dumps({"success": puts}))
            assert answer.status == 200, answer.data[:500]
            written += len(batch)
    return written


def _batches(objects: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch, size = list[tuple[str, str]](), 0
    for key, value in objects:
        if batch and (len(batch) == _MOST_OBJECTS or size + len(value) > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((key, value))
        size += len(value)
    if batch:
        yield batch


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _stored(resource: str, body: Json) -> tuple[str, Json]:
    metadata = body["metadata"]
    return f"{resource}/{metadata['namespace']}/{metadata['name']}", body


def _running(index: int) -> Json:
    conditions = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        **addressed(index),
        "phase": "Running",
        "startTime": _BEGUN,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": _BEGUN} for kind in conditions],
        "containerStatuses": [_container({"running": {"startedAt": _BEGUN}}, runs=True)],
    }


def _succeeded(_index: int) -> Json:
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": _BEGUN, "finishedAt": _ENDED}
    return {"phase": "Succeeded", "containerStatuses": [_container({"terminated": ended}, runs=False)]}


def _container(state: Json, *, runs: bool) -> Json:
    return {
        "name": "main",
        "image": "none",
        "imageID": f"sha256:{64 * '0'}",
        "containerID": f"containerd://{64 * '0'}",
        "restartCount": 0,
        "ready": runs,
        "started": runs,
        "state": state,
    }
