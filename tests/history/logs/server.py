"""An API server that has Pods and their logs, with faults, and a collector that reads them."""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from frameworkclient.views.pods import TASK_POD_DECODER
from frameworkhistory.archive.changes import Changes, Row
from frameworkhistory.logs.collector import Collector, Limits
from frameworkhistory.logs.storage import Storage
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from tests.client.documents import Json, container, pod_document
from tests.support.listening import close_listener

PREFIX = "frameworkcontroller.microsoft.com"
IN_PLACE = {f"barrier.{PREFIX}/restart": "in-place"}
LINE = b"2026-01-01T12:%02d:%02d.%09dZ %s\n"


def lines(*numbers: int, text: bytes = b"line %d") -> bytes:
    """Lines of a log, one each tenth of a second."""
    return b"".join(
        LINE % (*divmod(number // 10, 60), number % 10 * 100_000_000, text % number if b"%" in text else text)
        for number in numbers
    )


def pod(task: str = "worker-0", *statuses: Json, deleted: bool = False, more: Json | None = None, **own: Any) -> Json:
    """The Pod of a Task, which runs; `more` are annotations."""
    found = pod_document(task, statuses=list(statuses) or [container()], **({"phase": "Running"} | own))
    found["metadata"]["annotations"] |= {"FC_FRAMEWORK_UID": "framework-uid"} | (more or {})
    if deleted:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    return found


def ended(task: str = "worker-0", *, restarts: int = 0, phase: str = "Succeeded", **own: Any) -> Json:
    return pod(task, container(state="terminated", restarts=restarts, exitCode=0), phase=phase, **own)


class Log:
    """What one run of a container has written."""

    def __init__(self, *written: bytes, runs: bool = False) -> None:
        self.written = list(written)
        self.runs = runs
        self.changed = asyncio.Condition()

    async def write(self, written: bytes = b"", *, runs: bool = True) -> None:
        async with self.changed:
            self.written.append(written)
            self.runs = runs
            self.changed.notify_all()


@dataclass
class LogServer:
    """Answers for Pods by name; `faults` are answers in the place of the next logs.

    A fault is a status code, or a number of bytes below zero after which the connection is reset.
    """

    pods: dict[str, Json] = field(default_factory=dict)
    logs: dict[str, Log] = field(default_factory=dict)
    previous: dict[str, Log] = field(default_factory=dict)
    faults: deque[int] = field(default_factory=deque)
    asked: list[dict[str, str]] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    pause: float = 0.0
    open: int = 0
    most_open: int = 0
    url: str = ""

    async def pod(self, request: web.Request) -> web.Response:
        found = self.pods.get(request.match_info["pod"])
        return web.json_response(found or {"kind": "Status", "message": "not found"}, status=200 if found else 404)

    async def list(self, request: web.Request) -> web.StreamResponse:
        """Answer an informer: a list, then a watch in which nothing happens; no list in a stream."""
        assert request.query["labelSelector"] == "FC_FRAMEWORK_NAME"
        if "sendInitialEvents" in request.query:
            return web.json_response({"kind": "Status", "message": "unknown"}, status=422)
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "9"}, "items": [*self.pods.values()]})
        answer = web.StreamResponse()
        await answer.prepare(request)
        await asyncio.Event().wait()
        return answer

    async def log(self, request: web.Request) -> web.StreamResponse:
        query, name = dict(request.query), request.match_info["pod"]
        self.asked.append(query)
        self.answers[name] += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await asyncio.sleep(self.pause)
            return await self._log(request, query, name)
        finally:
            self.open -= 1

    async def _log(self, request: web.Request, query: dict[str, str], name: str) -> web.StreamResponse:
        fault = self.faults.popleft() if self.faults else 0
        log = (self.previous if "previous" in query else self.logs).get(name)
        if fault > 0 or log is None:
            code = fault or (404 if name not in self.pods else 400)
            headers = {"Retry-After": "1"} if code == 429 else {}
            return web.json_response({"kind": "Status", "message": "no"}, status=code, headers=headers)
        answer = web.StreamResponse()
        await answer.prepare(request)
        sent, at = -fault, 0
        tail, since = int(query.get("tailLines", "0")), query.get("sinceTime", "")[:19].encode()
        while True:
            if at < len(log.written):
                pieces = log.written[at:] if at or not (tail or since) else _chosen(log.written, tail, since)
                at = len(log.written)
                for piece in pieces:
                    await answer.write(piece[:sent] if fault else piece)
                    sent -= len(piece)
                    if fault and sent <= 0 and request.transport is not None:
                        await asyncio.sleep(0.05)
                        request.transport.abort()
                        return answer
            if not (log.runs and "follow" in query):
                return answer
            async with log.changed:
                if at == len(log.written):
                    await log.changed.wait()


def _chosen(written: list[bytes], tail: int, since: bytes) -> list[bytes]:
    found = b"".join(written).splitlines(keepends=True)
    return [one for one in found if one[:19] >= since] if since else found[-tail:]


@contextlib.asynccontextmanager
async def serving(server: LogServer) -> AsyncIterator[LogServer]:
    app = web.Application()
    app.router.add_get("/api/v1/pods", server.list)
    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}", server.pod)
    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/log", server.log)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listening = await asyncio.get_running_loop().create_server(runner.server, "127.0.0.1", 0)  # type: ignore[arg-type]
    try:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield server
    finally:
        await close_listener(listening)
        await runner.cleanup()


class Archive:
    """What the collector is given: a directory, and a database that may be away."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[tuple[str, str, int], Row] = {}
        self.is_away = False
        self.asked = 0

    async def save(self, changes: Changes) -> bool:
        if self.is_away:
            raise ConnectionError("the database is away")
        for row in changes.logs if changes.uid == "framework-uid" else ():
            self.rows[row["pod_uid"], row["container"], row["restart"]] = row
        return changes.uid == "framework-uid"

    async def known(self, _: str, uid: str) -> set[tuple[str, int]]:
        self.asked += 1
        if self.is_away:
            raise ConnectionError("the database is away")
        return {(container, restart) for pod_uid, container, restart in self.rows if pod_uid == uid}

    async def text(self, task: str = "worker-0", restart: int = 0, name: str = "main") -> bytes:
        return await Storage(f"file://{self.folder}/logs").get(self.row(task, restart, name)["key"])

    def row(self, task: str = "worker-0", restart: int = 0, name: str = "main") -> Row:
        return self.rows[f"uid-{task}", name, restart]


@dataclass
class Scene:
    """A server, an archive and a collector that works."""

    server: LogServer
    archive: Archive
    collector: Collector
    shown: dict[str, Any] = field(default_factory=dict)

    def show(self, document: Json | None, log: Log | None = None) -> None:
        """Change a Pod and its log, at the server and then, as an informer does, for the collector.

        Args:
            document: The Pod; None: that of worker-0 is gone.
            log: What its container writes, None if that is as before.
        """
        name = "training-worker-0" if document is None else document["metadata"]["name"]
        if log is not None:
            self.server.logs[name] = log
        if document is not None:
            self.server.pods[name] = document
        else:
            self.server.pods.pop(name, None)
        after = None if document is None else TASK_POD_DECODER.decode(msgspec.json.encode(document))
        self.collector.on_change(self.shown.get(name), after)
        self.shown[name] = after


@contextlib.asynccontextmanager
async def collecting(folder: Path, archive: Archive | None = None, **limits: Any) -> AsyncIterator[Scene]:
    (folder / "logs").mkdir(exist_ok=True)
    async with serving(LogServer()) as server:
        client, archive = KubeClient(Endpoint(server.url)), archive or Archive(folder)
        storage = Storage(f"file://{folder}/logs")
        collector = Collector(client, storage, archive.save, archive.known, Limits(**limits))
        try:
            yield Scene(server, archive, collector)
        finally:
            await collector.close()
            await client.close()
        assert collector.memory.used == 0
        assert not collector.memory.tails
