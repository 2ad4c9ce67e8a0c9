"""An API server in memory, as far as the client needs it: objects, lists in pages, watches, dry runs, and logs."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from functools import reduce
from operator import getitem
from typing import Any, Final

from aiohttp import web

from frameworkclient.access import Access
from frameworkclient.aio import AsyncClient
from frameworkkube.http.credentials import Endpoint
from tests.support.http import app_served

Json = dict[str, Any]
FRAMEWORKS: Final = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/demo/frameworks"
EVENTS: Final = "/api/v1/namespaces/demo/events"
PODS: Final = "/api/v1/namespaces/demo/pods"
BEGIN: Final = "2026-01-01T00:00:00Z"


class PlayedServer:
    """Objects by collection and name, and what was asked.

    Attributes:
        objects: By the path of their collection and their name.
        refuse: Returns a code and a reason for a create that is refused, None for one that is taken.
        expired: How many more tokens of pages are too old.
        requests: Method, path and query of each request.
        sent_bytes: Of all answers to GET.
        logs: The lines of the log of a Pod, by its name; each begins with its time.
        open_logs: How many logs are open now, and the most at a time.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Json]] = {FRAMEWORKS: {}, EVENTS: {}, PODS: {}}
        self.refuse: Callable[[Json], tuple[int, str] | None] = lambda _: None
        self.expired = 0
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.sent_bytes = 0
        self.logs: dict[str, list[str]] = {}
        self.open_logs = [0, 0]
        self._versions = itertools.count(2)
        self._changes: list[tuple[int, str, Json]] = []
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve for the block, at the URL that is returned."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        async with app_served(app, backlog=1024, handler_cancellation=True, shutdown_timeout=0.01) as url:
            yield url

    async def put(self, collection: str, manifest: Json, kind: str = "ADDED") -> Json:
        """Store an object, with a new UID unless it has one, and tell the watches."""
        version = next(self._versions)
        meta = {"namespace": "demo", "uid": f"uid-{version}", "creationTimestamp": BEGIN, **manifest["metadata"]}
        stored = manifest | {"metadata": meta | {"resourceVersion": str(version)}}
        if kind == "DELETED":
            del self.objects[collection][meta["name"]]
        else:
            self.objects[collection][meta["name"]] = stored
        async with self._changed:
            self._changes.append((version, collection, {"type": kind, "object": stored}))
            self._changed.notify_all()
        return stored

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.requests.append((request.method, request.path, query))
        if request.path.endswith("/log"):
            return await self._log(request)
        if request.path in self.objects:
            if request.method == "POST":
                return await self._create(request)
            return await (self._watch if "watch" in query else self._list)(request)
        collection, _, name = request.path.rpartition("/")
        found = self.objects.get(collection, {}).get(name)
        if found is None:
            return _status(404, "NotFound")
        if request.method == "DELETE":
            wanted = json.loads(await request.read()).get("preconditions", {})
            if any(found["metadata"][key] != value for key, value in wanted.items()):
                return _status(409, "Conflict")
            await self.put(collection, found, "DELETED")
        return web.json_response(found)

    async def _create(self, request: web.Request) -> web.Response:
        manifest = json.loads(await request.read())
        if refused := self.refuse(manifest):
            return _status(*refused)
        if (found := self.objects[request.path].get(manifest["metadata"]["name"])) is not None:
            going = "object is being deleted: " if "deletionTimestamp" in found["metadata"] else ""
            return _status(409, "AlreadyExists", before=going)
        if "dryRun" in request.query:
            return web.json_response(manifest, status=201)
        return web.json_response(await self.put(request.path, manifest), status=201)

    async def _list(self, request: web.Request) -> web.Response:
        selected = dict(part.split("=") for part in request.query.get("fieldSelector", "").split(",") if part)
        items = [one for one in self.objects[request.path].values() if _is_chosen(one, selected)]
        begin, limit = int(request.query.get("continue", 0)), int(request.query.get("limit", len(items) + 1))
        if begin and self.expired:
            self.expired -= 1
            return _status(410, "Expired", {"continue": f"0{begin}"})
        token = {"continue": str(begin + limit)} if begin + limit < len(items) else {}
        meta = {"resourceVersion": str(next(self._versions)), **token}
        body = json.dumps({"metadata": meta, "items": items[begin : begin + limit]}).encode()
        self.sent_bytes += len(body)
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if "sendInitialEvents" in request.query:
            return _status(422, "Invalid")
        response = web.StreamResponse()
        await response.prepare(request)
        seen = int(request.query["resourceVersion"])

        def due() -> list[tuple[int, str, Json]]:
            return [change for change in self._changes if change[0] > seen and change[1] == request.path]

        while True:
            for version, _, change in due():
                await response.write(json.dumps(change).encode() + b"\n")
                seen = version
            async with self._changed:
                await self._changed.wait_for(due)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        """Lines from the second of `sinceTime` on; a followed log ends with its container."""
        name = request.path.split("/")[-2]
        if name not in self.objects[PODS]:
            return _status(404, "NotFound")
        self.open_logs[0] += 1
        self.open_logs[1] = max(self.open_logs)
        try:
            response = web.StreamResponse()
            await response.prepare(request)
            begin, sent = request.query.get("sinceTime", "")[: len("2026-01-01T00:00:00")], 0
            while True:
                lines = self.logs[name]
                if not begin:
                    sent = max(sent, len(lines) - int(request.query.get("tailLines", len(lines))))
                    begin = "0"
                for line in lines[sent:]:
                    if line[: len(begin)] >= begin:
                        await response.write(f"{line}\n".encode())
                sent = len(lines)
                if "follow" not in request.query or self._is_over(name):
                    return response
                async with self._changed:
                    await self._changed.wait_for(
                        lambda: len(self.logs[name]) > sent or self._is_over(name)  # noqa: B023 -- at once
                    )
        finally:
            self.open_logs[0] -= 1

    def _is_over(self, pod: str) -> bool:
        found = self.objects[PODS].get(pod)
        return found is None or "terminated" in found["status"]["containerStatuses"][0]["state"]

    async def write(self, pod: str, line: str) -> None:
        """Add a line to the log of a Pod."""
        self.logs[pod].append(line)
        async with self._changed:
            self._changed.notify_all()


def _is_chosen(found: Any, selected: dict[str, str]) -> bool:
    return all(reduce(getitem, path.split("."), found) == value for path, value in selected.items())


def _status(code: int, reason: str, metadata: Json | None = None, before: str = "") -> web.Response:
    message = f"{before}because of {reason}"
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "metadata": metadata}
    return web.json_response(body, status=code)


@contextlib.asynccontextmanager
async def a_client(server: PlayedServer) -> AsyncIterator[AsyncClient]:
    """A client of the server."""
    async with server.serving() as url, AsyncClient(found=Access(Endpoint(url), "demo")) as client:
        yield client
