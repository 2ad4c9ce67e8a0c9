"""Measure what logs cost: Pods that end within two minutes, whose logs the archive reads through a real API server.

The nodes are a server on this machine that answers as their kubelets would. The same Pods end once without the archive,
so that what it costs the API server is a difference. A probe reads one Pod all the time, as any other client would.
"""

import asyncio
import contextlib
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import trustme
from aiohttp import web

from bench.results import flags, quantile
from bench.scene import component, cpu_seconds, new_cluster, peak_mib, program
from frameworkcontroller.api import names
from frameworkhistory.archive.database import Database
from frameworkhistory.archive.reader import Reader
from frameworkkube.errors import KubeError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import from_kubeconfig
from frameworkkube.paths import resource_path
from localcluster import Cluster, Depth
from localcluster.client import RawClient
from localcluster.processes.ports import free_port
from testkit.frameworks import Frameworks, role

NAMESPACE, NODES, FRAMEWORKS = "bench", 20, 20
LINES = b"".join(b"2026-01-01T12:00:00.%09dZ step %d of 64, loss=0.123\n" % (line, line) for line in range(66))
"""A log of 4 KiB."""
IN_FLIGHT = 32
LATE_SECONDS = 120.0
REST_SECONDS = 10.0


@contextlib.asynccontextmanager
async def kubelets() -> AsyncIterator[int]:
    """Answer on a port as the kubelets of all nodes do to a request for a log."""

    async def log(_: web.Request) -> web.Response:
        return web.Response(body=LINES, content_type="text/plain")

    app = web.Application()
    app.router.add_get("/containerLogs/{path:.*}", log)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context, backlog=1024).start()
    try:
        yield port
    finally:
        await runner.cleanup()


def make_nodes(raw: RawClient, port: int) -> None:
    """Create the nodes, whose kubelets all listen on this port."""
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    for number in range(NODES):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}"}}
        raw.create("/api/v1/nodes", node)
        raw.merge(f"/api/v1/nodes/node-{number}/status", {"status": status})


class Pods:
    """The Pods of one row."""

    def __init__(self, client: KubeClient, uids: list[str], number: int) -> None:
        self._client, self._uids, self._number = client, uids, number
        self._path, self._limit = resource_path("v1", "pods", namespace=NAMESPACE), asyncio.Semaphore(IN_FLIGHT)

    async def _send(self, method: str, path: str, body: Any, content_type: str = "application/json") -> None:
        async with self._limit:
            await self._client.request(
                method, path, body=msgspec.json.encode(body), content_type=content_type, timeout_seconds=60
            )

    def _name(self, number: int) -> str:
        return f"fw{number % FRAMEWORKS}-worker-{number // FRAMEWORKS}"

    def _body(self, number: int) -> dict[str, Any]:
        framework, index = number % FRAMEWORKS, number // FRAMEWORKS
        labels = {names.FRAMEWORK_NAME: f"fw{framework}", names.TASKROLE_NAME: "worker", names.TASK_INDEX: str(index)}
        values = {
            names.FRAMEWORK_UID: self._uids[framework],
            names.FRAMEWORK_ATTEMPT_ID: "0",
            names.TASK_ATTEMPT_ID: "0",
        }
        metadata = {"name": self._name(number), "labels": labels, "annotations": labels | values}
        spec = {"nodeName": f"node-{number % NODES}", "containers": [{"name": "main", "image": "none"}]}
        return {"metadata": metadata, "spec": spec | {"restartPolicy": "Never"}}

    async def make(self) -> None:
        """Create them."""
        await asyncio.gather(*(self._send("POST", self._path, self._body(number)) for number in range(self._number)))

    async def end(self, seconds: float) -> None:
        """Let them end one after the other within so many seconds."""
        ended = {"exitCode": 0, "finishedAt": "2026-01-01T12:00:01Z", "startedAt": "2026-01-01T12:00:00Z"}
        main = {"name": "main", "image": "none", "imageID": "none", "ready": False, "restartCount": 0}
        status = {"phase": "Succeeded", "containerStatuses": [{**main, "state": {"terminated": ended}}]}
        begun, patch = time.monotonic(), "application/merge-patch+json"
        async with asyncio.TaskGroup() as group:
            for number in range(self._number):
                await asyncio.sleep(max(0.0, begun + seconds * number / self._number - time.monotonic()))
                path = f"{self._path}/{self._name(number)}/status"
                group.create_task(self._send("PATCH", path, {"status": status}, patch))

    async def probe(self, latencies: list[float]) -> None:
        """Read one of them again and again, and keep how long each answer took, in seconds."""
        while True:
            begun = time.monotonic()
            with contextlib.suppress(KubeError):
                await self._client.get(f"{self._path}/{self._name(0)}")
                latencies.append(time.monotonic() - begun)
            await asyncio.sleep(0.05)


def archive(cluster: Cluster, folder: Path) -> contextlib.AbstractContextManager[psutil.Process]:
    """Run the archive for a block."""
    port, internal = free_port(), free_port()
    flags = ["--local", f"--kubeconfig={cluster.kubeconfig}", f"--port={port}", f"--internal-port={internal}"]
    flags += [f"--database=sqlite:///{folder}/history.db", f"--logs=file://{folder}/logs"]
    return program("frameworkhistory", folder, internal, *flags)


def kept(folder: Path) -> tuple[int, int]:
    """Return how many logs are stored, and how many are gaps."""
    database = Database(f"sqlite:///{folder}/history.db")
    reader = Reader(database.engine)
    try:
        found = [reader.framework(NAMESPACE, f"fw{number}") for number in range(FRAMEWORKS)]
        rows = [row for one in found if one for row in reader.logs(one["id"], limit=1_000_000)]
        return sum(bool(row["key"]) for row in rows), sum(bool(row["gap"]) for row in rows)
    finally:
        database.close()


async def measure(number: int, seconds: float, *, has_archive: bool) -> None:
    """Print one row."""
    with tempfile.TemporaryDirectory() as name, new_cluster("bench-history", Depth.CONTROL_PLANE, NAMESPACE) as made:
        folder, (cluster, raw) = Path(name), made
        async with kubelets() as port, contextlib.AsyncExitStack() as stack:
            make_nodes(raw, port)
            client = KubeClient(from_kubeconfig(cluster.kubeconfig), max_connections=2 * IN_FLIGHT)
            stack.push_async_callback(client.close)
            # No controller controls them.
            frameworks, worker = Frameworks(raw, NAMESPACE), role("worker", number // FRAMEWORKS)
            uids = [frameworks.create(f"fw{one}", worker)["metadata"]["uid"] for one in range(FRAMEWORKS)]
            pods = Pods(client, uids, number)
            await pods.make()
            process = stack.enter_context(archive(cluster, folder)) if has_archive else None
            await asyncio.sleep(REST_SECONDS)
            server, latencies = component(cluster, "kube-apiserver"), list[float]()
            before, own = cpu_seconds(server), cpu_seconds(process) if process else 0.0
            probing, begun = asyncio.create_task(pods.probe(latencies)), time.monotonic()
            await pods.end(seconds)
            ended = time.monotonic()
            while process and sum(kept(folder)) < number and time.monotonic() < ended + LATE_SECONDS:  # noqa: ASYNC110 -- of another process
                await asyncio.sleep(1)
            probing.cancel()
            late, cpu = time.monotonic() - ended, cpu_seconds(server) - before
            stored, gaps = kept(folder) if process else (0, 0)
            figures = {
                "ended in s": ended - begun,
                "last log after s": late if process else 0.0,
                "kept": stored,
                "gaps": gaps,
                "API server CPU s": cpu,
                "GET p50 ms": 1000 * quantile(latencies, 0.5),
                "GET p99 ms": 1000 * quantile(latencies, 0.99),
                "archive CPU s": cpu_seconds(process) - own if process else 0.0,
                "archive MiB": peak_mib(process) if process else 0.0,
            }
    print("with" if has_archive else "without", {key: round(value, 1) for key, value in figures.items()}, flush=True)


def main() -> None:
    """Run the command line."""
    parser = flags(__doc__)
    parser.add_argument("--pods", type=int, default=10_000, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=120.0, help="in which they end; default: %(default)s")
    given = parser.parse_args()
    for has_archive in (False, True):
        asyncio.run(measure(given.pods, given.seconds, has_archive=has_archive))


if __name__ == "__main__":
    main()
