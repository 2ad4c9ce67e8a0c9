"""The page on loopback with a real archive on SQLite, and an API server that knows three persons."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, DummyCookieJar, web

from frameworkclient.logs.lines import LogBatch, LogLine, LogSource
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.pods import TaskPod
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkhistory.archive.changes import Changes, Row
from frameworkhistory.archive.database import Database
from frameworkhistory.archive.reader import Reader
from frameworkhistory.archive.writer import Writer
from frameworkhistory.logs.storage import Storage
from frameworkhistory.page.app import make_app
from frameworkhistory.page.feed import Feed
from frameworkhistory.page.people import People
from frameworkhistory.page.site import Site
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from tests.client.documents import completion, framework, role
from tests.client.documents import task as task_of
from tests.support.http import app_served

NOW = 1_767_270_000.0
"""2026-01-01 12:20:00, twenty minutes after the documents begin."""
HOSTILE = "<script>alert(1)</script>\"'&\x1b[31mred\x1b]0;title\x07\x00\u202egone{{7*7}}"
NAME = "train<b>\"'&"
RIGHTS = {
    "root": lambda _: True,
    "demo": lambda one: one["namespace"] == "demo" and one["resource"] == "frameworks" and one["verb"] != "patch",
    "nobody": lambda _: False,
}


@dataclass
class Present:
    """What exists: Frameworks by their names, Pods, and what these write."""

    views: dict[str, FrameworkView] = field(default_factory=dict)
    tasks: dict[str, TaskPod] = field(default_factory=dict)
    lines: list[tuple[str, str]] = field(default_factory=list)
    pause: float = 0

    def current(self, namespace: str, name: str) -> Framework | None:
        """Return a Framework."""
        found = self.views.get(f"{namespace}/{name}")
        return None if found is None else FRAMEWORK_DECODER.decode(json.dumps(found.to_dict()))

    def pods(self, namespace: str, name: str) -> dict[str, TaskPod]:
        """Return Pods by Task."""
        return self.tasks

    async def log(self, namespace: str, pods: list[TaskPod], selection: LogSelection) -> AsyncGenerator[LogBatch, None]:
        """Yield all lines for each Pod."""
        for pod in pods:
            source = LogSource(pod.task, pod.attempt, pod.metadata.name, pod.metadata.uid, "main", 0, pod.task)
            yield LogBatch([LogLine(source, stamp, text) for stamp, text in self.lines])
            await asyncio.sleep(self.pause)


@dataclass
class Room:
    """A page that is served, and what it shows."""

    site: Site
    writer: Writer
    folder: Path
    live: Present
    session: ClientSession
    url: str

    def keep(self, **logs: bytes) -> None:
        """Put logs where they are kept, as they are there."""
        for key, gzipped in logs.items():
            (self.folder / key).write_bytes(gzipped)

    async def get(self, path: str, person: str = "root") -> tuple[int, str, str]:
        """Return status, type and text of an answer."""
        headers = {"Authorization": f"Bearer {person}", "Accept": "text/html"}
        async with self.session.get(self.url + path, headers=headers, allow_redirects=False) as answer:
            return answer.status, answer.content_type, await answer.text()

    async def json(self, path: str, person: str = "root") -> Any:
        """Return what an answer of JSON says."""
        status, kind, text = await self.get(path, person)
        assert (status, kind) == (200, "application/json"), text
        return json.loads(text)

    async def page(self, path: str, person: str = "root") -> str:
        """Return a page, which is well-formed, has no script or style of its own, and is not too large."""
        status, kind, text = await self.get(path, person)
        assert (status, kind) == (200, "text/html"), text
        assert len(text.encode()) < 300_000, f"{len(text.encode())} bytes"
        Checker(path).feed(text)
        return text

    async def says(self, path: str, *words: str, lacks: tuple[str, ...] = (), person: str = "root") -> None:
        """Look at a page, which has these words and none of others."""
        text = await self.page(path, person)
        assert not (missing := [word for word in words if word not in text]), (path, missing)
        assert not (found := [word for word in lacks if word in text]), (path, found)


class Checker(HTMLParser):
    """Raises if a page is not well-formed, or has what the content security policy forbids."""

    VOID = frozenset({"meta", "link", "input", "br", "rect", "line"})

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.open: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"{self.path}: {tag} has an attribute twice"
        assert all(name.replace("-", "").isalnum() for name in names), f"{self.path}: {tag} has {names}"
        assert not any(name == "style" or name.startswith("on") for name in names), f"{self.path}: {tag} has {names}"
        given = dict(attrs)
        assert tag != "script" or given.get("src") == "/static/page.js", f"{self.path}: a script"
        assert tag not in {"style", "b"} or (tag == "b" and "/log" in self.path), f"{self.path}: {tag}"
        if "id" in given:
            assert given["id"] not in self.ids, f"{self.path}: id {given['id']} twice"
            self.ids.add(str(given["id"]))
        if tag not in self.VOID and tag not in {"rect", "line"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag == "rect":
            return
        assert self.open, f"{self.path}: </{tag}> ends nothing"
        assert self.open.pop() == tag, f"{self.path}: </{tag}> ends another"


def row(**columns: Any) -> Row:
    """A row by its columns."""
    return columns


FAILED = row(code=1, phrase="ContainerPermanentFailed", result="Failed")
"""The columns of the end of a Framework and of its attempt."""


def framework_row(**more: Any) -> Row:
    """The row of a Framework `demo/training` that has failed."""
    end = completion(1, "ContainerPermanentFailed")
    document = json.dumps(framework(role("worker", 2), state="Completed", end=end).to_dict()).encode()
    own = row(namespace="demo", name="training", person="alice", version="7", generation=1, document=document)
    times = row(created=NOW - 1200, completed=NOW - 60, deleted=NOW - 30, seen=NOW - 30)
    return {
        **own,
        **times,
        **row(state="Completed", attempts=1, tasks=2, running=600.0, queued=100.0),
        **FAILED,
        **more,
    }


def run(index: int, **more: Any) -> Row:
    """The row of a run of worker-`index`, which has succeeded."""
    own = row(attempt=0, role="worker", index=index, run=0, namespace="demo", state="Completed")
    pod = row(node="node-1", pod=f"training-worker-{index}", pod_uid=f"pod-{index}")
    times = row(started=NOW - 1000, ran=NOW - 900, ended=NOW - 100)
    return {**own, **pod, **times, **row(code=0, phrase="Succeeded", result="Succeeded"), **more}


def log_row(index: int, key: str, **more: Any) -> Row:
    """The row of the log of worker-`index`."""
    own = row(pod_uid=f"pod-{index}", container="main", restart=0, key=key, bytes=10, taken=NOW)
    return {**own, **row(attempt=0, role="worker", index=index, run=0), **more}


def lines(*texts: str, second: int = 0) -> bytes:
    """A log as it is kept."""
    found = [f"2026-01-01T12:00:{second + place:02}.000000000Z {text}\n" for place, text in enumerate(texts)]
    return gzip.compress("".join(found).encode())


def plain() -> Changes:
    """A Framework with something in each table."""
    attempt = row(attempt=0, namespace="demo", trigger="worker-1", tasks=2, roster=b'{"complete":true}', **FAILED)
    attempt |= row(started=NOW - 1190, ran=NOW - 1000, ended=NOW - 60, running=600.0, queued=100.0, lost=100.0)
    event = row(uid="event", first=NOW - 900, last=NOW - 800, type="Warning", reason="BackOff")
    event |= row(message="Back-off restarting", object="Pod training-worker-1")
    specs = [
        row(generation=number, seen=NOW - 1200 + number, document=json.dumps({"a": number, "same": 1}).encode())
        for number in (1, 2)
    ]
    return Changes(
        "framework-uid",
        "demo",
        framework_row(),
        labels={"team": "vision"},
        specs=specs,
        attempts=[attempt],
        epochs=[row(attempt=0, epoch=1, began=NOW - 500, reason="Exited", task="worker-1", code=3)],
        runs=[run(0), run(1, **FAILED, diagnostics="it broke")],
        spans=[
            row(began=NOW - 1200, ended=NOW - 1000, attempt=0, state="queued"),
            row(began=NOW - 1000, ended=NOW - 60, attempt=0, state="running"),
        ],
        events=[event],
        logs=[log_row(0, "zero"), log_row(1, "one"), log_row(1, "", container="side", gap="the kubelet was away")],
    )


def hostile() -> Changes:
    """The same with hostile text wherever there is text that a person, a program or a node has chosen."""
    found = plain()
    free = {"person", "phrase", "diagnostics", "trigger", "reason", "task", "message", "object", "gap", "node", "pod"}
    free |= {"type", "ip", "ready", "attributes", "container"}
    assert found.framework is not None
    rows = [found.framework, *found.attempts, *found.epochs, *found.runs, *found.events, *found.logs]
    for one in rows:
        one.update(dict.fromkeys(free & set(one), HOSTILE))
    found.logs[2]["container"] = "side"
    found.uid, found.framework["name"] = "hostile-uid", NAME
    end = {"code": 1, "phrase": HOSTILE, "type": {"name": "Failed", "attributes": []}, "diagnostics": HOSTILE}
    of_framework = end | {"trigger": {"message": HOSTILE, "taskRoleName": HOSTILE, "taskIndex": 1}}
    tasks, spec = {"worker": [task_of(0, "Completed", end=end, node=HOSTILE)]}, {"description": HOSTILE}
    shown = framework(role("worker", 1), state="Completed", tasks=tasks, spec=spec, end=of_framework)
    rows[0] |= row(gap=HOSTILE, document=json.dumps(shown.to_dict()).encode())
    found.specs = [row(generation=1, seen=NOW, document=json.dumps({HOSTILE: HOSTILE}).encode())]
    found.specs += [row(generation=2, seen=NOW, document=json.dumps({HOSTILE: [HOSTILE]}).encode())]
    return found


async def review(request: web.Request) -> web.Response:
    """Answer as an API server whose tokens are names."""
    body = await request.json()
    spec = body["spec"]
    if body["kind"] == "TokenReview":
        known = spec["token"] in RIGHTS
        return web.json_response({"status": {"authenticated": known, "user": {"username": spec["token"]}}}, status=201)
    allowed = RIGHTS[spec["user"]](spec["resourceAttributes"])
    return web.json_response({"status": {"allowed": allowed}}, status=201)


@contextlib.asynccontextmanager
async def room(folder: Path, *batch: Changes, log_link: str = "") -> AsyncIterator[Room]:
    """Serve the page of an archive with these rows."""
    api = web.Application()
    api.router.add_post("/{path:.*}", review)
    async with contextlib.AsyncExitStack() as stack:
        database = stack.enter_context(contextlib.closing(Database(f"sqlite:///{folder}/archive.db")))
        database.open()
        writer, live = Writer(database.engine), Present()
        writer.apply(batch)
        client = KubeClient(Endpoint(await stack.enter_async_context(app_served(api, shutdown_timeout=1)), None))
        stack.push_async_callback(client.close)
        site = Site(
            Reader(database.engine),
            People(client),
            live.current,
            live.pods,
            live.log,
            Storage(f"file://{folder}/logs"),
            Feed(),
            log_link,
            lambda: NOW,
        )
        url = await stack.enter_async_context(app_served(make_app(site), access_log=None, shutdown_timeout=1))
        session = await stack.enter_async_context(ClientSession(cookie_jar=DummyCookieJar()))
        yield Room(site, writer, folder / "logs", live, session, url)
