"""The memory of one barrier by the source that it reads and the size of its gang.

The barrier is a process as in its container; a server on loopback answers it with the objects of a complete gang.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from barrier_start import SPAWN

SIZES: Final = (10, 1000, 4000, 10_000)
SOURCES: Final = ("roster", "Framework", "Pods")
# What a controller and a kubelet write into the status of a Pod, and users into its spec.
POD_PADDING: Final = "x" * 4000
PADDING_OF_A_TASK: Final = {
    "startTime": "2026-11-21T00:00:00Z",
    "transitionTime": "2026-11-21T00:00:00Z",
    "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None},
}


@dataclass
class Memory:
    """The peak resident set of one barrier in MiB, and its CPU time in seconds."""

    source: str
    tasks: int
    peak_mib: float
    cpu_s: float


def measure_memory() -> list[Memory]:
    """Measure each source with each size of a gang."""
    return [_measure(source, tasks) for source in SOURCES for tasks in SIZES]


def _ip(number: int) -> str:
    return f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"


def _uid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def _framework(tasks: int, ready: int) -> dict[str, Any]:
    statuses = [
        {
            "index": index,
            "state": "AttemptRunning",
            "deletionPending": False,
            **PADDING_OF_A_TASK,
            "attemptStatus": {
                "id": 0,
                "instanceUID": f"0_{_uid(index)}",
                "podName": f"train-worker-{index}",
                "podUID": _uid(index),
                "podIP": _ip(index + 1) if index < ready else None,
                "podNodeName": f"node-{index // 8}",
                "podHostIP": "192.168.0.1",
                "startTime": "2026-11-21T00:00:00Z",
                "runTime": "2026-11-21T00:00:00Z",
                "completionTime": None,
                "completionStatus": None,
            },
        }
        for index in range(tasks)
    ]
    roles = [{"name": "worker", "podGracefulDeletionTimeoutSec": None, "taskStatuses": statuses}]
    attempt: dict[str, Any] = {"id": 0, "instanceUID": "0_cm", "taskRoleStatuses": roles}
    if tasks > 1000:
        packed = base64.b64encode(gzip.compress(json.dumps(roles).encode())).decode()
        attempt |= {"taskRoleStatuses": None, "taskRoleStatusesCompressed": packed}
    return {
        "metadata": {"name": "train", "namespace": "lab", "uid": "fw", "resourceVersion": "5"},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": tasks}]},
        "status": {"attemptStatus": attempt},
    }


def _roster(tasks: int, ready: int) -> dict[str, Any]:
    from frameworkbarrier import framework, roster
    from frameworkbarrier.settings import Identity

    gang = framework.gang_of(framework.decompress(_framework(tasks, ready)), Identity(None, None, None), None)
    return {
        "metadata": {"name": "train-attempt", "namespace": "lab", "uid": "cm", "resourceVersion": "5"},
        "binaryData": {"roster.gz": base64.b64encode(gzip.compress(roster.encode(gang).encode())).decode()},
    }


def _pod(index: int, ready: int) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"train-{index}",
            "uid": _uid(index),
            "labels": {"app": "train"},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index), "padding": POD_PADDING},
            "creationTimestamp": "2026-11-21T00:00:00Z",
        },
        "spec": {"nodeName": f"node-{index // 8}"},
        "status": {"phase": "Pending", "hostIP": "192.168.0.1"} | ({"podIP": _ip(index + 1)} if index < ready else {}),
    }


def _server(source: str, tasks: int) -> ThreadingHTTPServer:
    """Return a server that reads a gang of which the last Task is not ready, and whose watch makes it ready."""

    def event(path: str) -> dict[str, Any]:
        return _pod(tasks - 1, tasks) if path.endswith("/pods") else read(path, {}, tasks)

    def read(path: str, query: dict[str, str], ready: int) -> dict[str, Any]:
        if path.endswith("/pods"):
            begin = int(query.get("continue", "0"))
            end = begin + int(query["limit"])
            metadata = {"resourceVersion": "7", "continue": str(end) if end < tasks else ""}
            return {"metadata": metadata, "items": [_pod(index, ready) for index in range(begin, min(end, tasks))]}
        if "/frameworks" in path:
            return _framework(tasks, ready)
        configmap = _roster(tasks, ready)
        return {"metadata": configmap["metadata"]} if source == "Framework" else configmap

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(url.query))
            if "watch" not in query:
                self._send(read(url.path, query, tasks - 1))
                return
            self._send({"type": "MODIFIED", "object": event(url.path)}, length=False)
            threading.Event().wait(60)

        def _send(self, answer: dict[str, Any], *, length: bool = True) -> None:
            body = json.dumps(answer).encode() + b"\n"
            self.send_response(200)
            if length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    return server


def _measure(source: str, tasks: int) -> Memory:
    server = _server(source, tasks)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environ = {
        "PATH": os.environ["PATH"],
        "KUBE_APISERVER_ADDRESS": f"http://127.0.0.1:{server.server_address[1]}",
        "FC_FRAMEWORK_NAMESPACE": "lab",
        "FC_POD_UID": _uid(0),
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "0",
        "FB_PRESET": "tensorflow,pytorch,jax,mpi",
    }
    if source == "Pods":
        environ |= {"FB_SELECTOR": "app=train", "FB_ROLES": f"worker={tasks}"}
    else:
        environ |= {"FC_FRAMEWORK_NAME": "train"}
    try:
        with tempfile.TemporaryDirectory() as folder:
            environ |= {"FB_OUTPUT_DIR": folder, "FB_TERMINATION_LOG": f"{folder}/termination-log"}
            command = [sys.executable, "-I", "-S", "-c", SPAWN, ""]
            done = subprocess.run(command, env=environ, capture_output=True, check=True)
    finally:
        server.shutdown()
        server.server_close()
    code, _, _, cpu, peak = done.stdout.split()
    assert int(code) == 0, done.stderr.decode()
    return Memory(source, tasks, float(peak), float(cpu))
