"""The archive is asked by HTTP which logs it keeps, and the finalizer is set and removed for one version alone."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from aiohttp import web

from frameworkcontroller.core.effects import AskLogs, Done, Failed, Missing, Outcome, SetFinalizers, Subject, Told
from frameworkcontroller.engine.requests import performer
from frameworkcontroller.engine.requests.performer import LOGS_BYTES, Performer
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from localcluster.processes.ports import free_port
from tests.controller.engine.requests.test_performer import Client, refusal
from tests.support.http import app_served

ASK = AskLogs(("a", "b"))
FW = Subject("n", "fw", "u")
HELD = SetFinalizers(b'["x/y","z"]', "7")


@contextlib.asynccontextmanager
async def archive(answer: web.StreamResponse | None) -> AsyncIterator[tuple[str, list[Any]]]:
    """An archive that answers this, or nothing: its address, and what it is asked."""
    asked: list[Any] = []

    async def kept(request: web.Request) -> web.StreamResponse:
        asked.append((request.path, request.content_type, await request.json(), "Authorization" in request.headers))
        if answer is None:
            await asyncio.Event().wait()
        assert answer is not None
        return answer

    app = web.Application()
    app.router.add_post("/kept", kept)
    async with app_served(app, shutdown_timeout=0.1) as url:
        yield url, asked


async def ask(url: str) -> Outcome:
    client = KubeClient(Endpoint(server=url))
    try:
        return await Performer(cast("Any", None), history=client).perform(FW, ASK)
    finally:
        await client.close()


async def test_it_is_asked_for_all_pods_at_once() -> None:
    async with archive(web.json_response({"kept": ["b"]})) as (url, asked):
        assert await ask(url) == Told(b'{"kept": ["b"]}')
    assert asked == [("/kept", "application/json", {"uids": ["a", "b"]}, False)]


@pytest.mark.parametrize("code", [302, 404, 429, 500], ids=str)
async def test_what_is_no_answer(code: int) -> None:
    async with archive(web.Response(status=code, text="{}", headers={"Location": "/kept", "Retry-After": "99"})) as (
        url,
        asked,
    ):
        assert not isinstance(await ask(url), Told)
    assert len(asked) == 1


async def test_an_answer_that_is_too_long_is_none() -> None:
    longest = b" " * LOGS_BYTES
    async with archive(web.Response(body=longest)) as (url, _):
        assert await ask(url) == Told(longest)
    async with archive(web.Response(body=longest + b" ")) as (url, _):
        assert not isinstance(await ask(url), Told)


async def test_an_archive_that_does_not_answer_or_is_not_there_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performer, "LOGS_SECONDS", 0.3)
    async with archive(None) as (url, asked):
        assert isinstance(await ask(url), Failed)
    assert asked
    assert isinstance(await ask(f"http://127.0.0.1:{free_port()}"), Failed)


class Patched(Client):
    """Keeps the patch."""

    async def patch(self, path: str, body: bytes, *, max_bytes: int | None = None, **more: Any) -> bytes:
        self.at, self.body = path, json.loads(body)
        return await super().patch(path, body, max_bytes=max_bytes, **more)


async def test_finalizers_are_those_of_one_version() -> None:
    client = Patched(b'{"metadata": {"name": "fw", "uid": "u", "resourceVersion": "8"}}')
    assert await Performer(cast("Any", client)).perform(FW, HELD) == Done(resource_version="8")
    assert client.at.endswith("/namespaces/n/frameworks/fw")
    assert client.body == {"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["x/y", "z"]}}


async def test_a_version_that_is_over_is_no_failure() -> None:
    assert await Performer(cast("Any", Client(refusal(409, "Conflict")))).perform(FW, HELD) == Missing()
