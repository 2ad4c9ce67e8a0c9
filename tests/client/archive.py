"""An archive in memory behind its JSON API, with rows of its real tables, and what was asked."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import web
from sqlalchemy import Table

from frameworkclient.views.framework import FrameworkView
from frameworkhistory.archive import tables
from tests.client.documents import Json
from tests.support.http import app_served

NOON = 1767268800.0
"""2026-01-01T12:00:00Z."""


def row(table: Table, **values: Any) -> Json:
    """A row as the API writes it: all columns but those of documents and of its Framework."""
    assert values.keys() <= set(table.c.keys()), values.keys() - set(table.c.keys())
    left_out = {"document", "roster", "framework"}
    defaults = {one.name: one.default.arg if one.default is not None else None for one in table.c}
    return {name: values.get(name, default) for name, default in defaults.items() if name not in left_out}


class PlayedArchive:
    """What it has, who may ask, and what was asked.

    Attributes:
        frameworks: Their rows, the newest first.
        documents: The whole objects by UID.
        events: Of each Framework.
        logs: The rows of logs, each with its text.
        tokens: Those that it knows; none: everybody may ask without.
        refuse: Makes what it answers to whom it knows, instead, None for nothing.
    """

    def __init__(self) -> None:
        self.frameworks: list[Json] = []
        self.documents: dict[str, Json] = {}
        self.events: list[Json] = []
        self.logs: list[tuple[Json, str]] = []
        self.tokens: set[str] = set()
        self.refuse: Callable[[], web.Response | None] = lambda: None
        self.requests: list[tuple[str, dict[str, str]]] = []

    def keep(self, view: FrameworkView, **values: Any) -> None:
        """Keep a Framework; the values are of its row."""
        self.documents[view.uid] = view.to_dict()
        known = {"uid": view.uid, "namespace": view.namespace, "name": view.name, "created": NOON, "seen": NOON + 60}
        known |= {"version": "7", "state": view.state, "attempts": view.attempts, "ready": view.ready_text}
        self.frameworks.append(row(tables.FRAMEWORKS, id=len(self.frameworks), **(known | values)))

    def log(self, task: str, text: str, *, attempt: int = 0, run: int = 0, pod: str = "", **values: Any) -> None:
        """Keep the log of a container; without a text, why there is none."""
        role, _, index = task.rpartition("-")
        known = {"pod_uid": pod or f"{task}-{attempt}-{run}", "container": "main", "restart": 0, "taken": NOON}
        known |= {"attempt": attempt, "role": role, "index": int(index), "run": run, "key": "k" if text else ""}
        self.logs.append((row(tables.LOGS, **(known | values)), text))

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve for the block, at the URL that is returned."""
        app = web.Application(middlewares=[self._guard])
        one = "/api/v1/frameworks/{namespace}/{name}"
        app.router.add_get("/api/v1/frameworks", self._list)
        app.router.add_get(one, self._get)
        app.router.add_get(f"{one}/events", self._events)
        app.router.add_get(f"{one}/logs", self._logs)
        app.router.add_get(f"{one}/logs/{{pod_uid}}/{{container}}/{{restart}}", self._log)
        async with app_served(app, shutdown_timeout=0.01) as url:
            yield url

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append((request.path, dict(request.query)))
        if self.tokens and request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return web.json_response({"error": "Sign in to see this."}, status=401)
        if (refusal := self.refuse()) is not None:
            return refusal
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _list(self, request: web.Request) -> web.Response:
        query = request.query
        since, begin, limit = query.get("since", ""), int(query.get("before", 0)), int(query["limit"])
        assert since in {"", "2026-01-01T12:00:30+00:00"}
        wanted = [
            one
            for one in self.frameworks
            if query.get("namespace", "") in {"", one["namespace"]} and (not since or one["created"] >= NOON + 30)
        ]
        after = str(begin + limit) if len(wanted) > begin + limit else ""
        return web.json_response({"frameworks": wanted[begin : begin + limit], "next": after})

    def _found(self, request: web.Request) -> Json:
        place = request.match_info["namespace"], request.match_info["name"]
        for one in self.frameworks:
            if (one["namespace"], one["name"]) == place and request.query.get("uid", "") in {"", one["uid"]}:
                return one
        raise web.HTTPNotFound(text='{"error": "the archive knows no such Framework"}')

    async def _get(self, request: web.Request) -> web.Response:
        one = self._found(request)
        about = {key: one[key] for key in ("uid", "deleted", "seen", "gap")}
        whole = {"framework": self.documents[one["uid"]], "archive": about, "attempts": [], "epochs": []}
        return web.json_response(whole)

    async def _events(self, request: web.Request) -> web.Response:
        self._found(request)
        return web.json_response({"events": self.events})

    async def _logs(self, request: web.Request) -> web.Response:
        self._found(request)
        asked = {name: request.query[name] for name in ("attempt", "role", "index") if name in request.query}
        assert "attempt" in asked
        wanted = [one for one, _ in self.logs if all(str(one[name]) == value for name, value in asked.items())]
        return web.json_response({"logs": wanted})

    async def _log(self, request: web.Request) -> web.Response:
        place = dict(request.match_info)
        for one, text in self.logs:
            if text and {name: str(one[name]) for name in ("pod_uid", "container", "restart")}.items() <= place.items():
                return web.Response(text=text)
        raise web.HTTPNotFound(text='{"error": "the archive does not have this log"}')
