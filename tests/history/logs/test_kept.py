"""`POST /kept`: which Pods may go, as soon as one of them may."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from frameworkhistory.logs.kept import PATH, kept_handler
from tests.history.logs.server import Log, collecting, ended, lines, pod

UIDS = ["uid-worker-0", "uid-worker-1"]


async def test_it_answers_when_a_pod_is_kept_and_after_a_second_in_any_case(tmp_path: Path) -> None:
    async with collecting(tmp_path) as scene:
        app = web.Application()
        app.router.add_post(PATH, kept_handler(scene.collector))
        async with TestClient(TestServer(app)) as client:

            async def ask(uids: list[str]) -> tuple[list[str], float]:
                begin = time.monotonic()
                async with client.post(PATH, json={"uids": uids}) as answer:
                    found: list[str] = (await answer.json())["kept"]
                return found, time.monotonic() - begin

            scene.server.logs["training-worker-0"] = Log(lines(1))
            scene.show(pod("worker-0"))
            scene.show(pod("worker-1"))
            found, seconds = await ask([*UIDS, "of a Pod that no list has shown yet"])
            assert not found
            assert 0.9 < seconds < 5
            asking = asyncio.create_task(ask(UIDS))
            await asyncio.sleep(0.2)
            scene.show(ended("worker-0"))
            assert (await asking)[0] == UIDS[:1]
            scene.collector.informers[0].synced.set()
            assert (await ask(["of a Pod that the watch may show yet", *UIDS]))[0] == [UIDS[0]]
            assert (await ask([]))[0] == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b'{"uids": "uid"}', 400),
        (b'{"uids": ["\xff"]}', 400),
        (msgspec.json.encode({"uids": ["x"] * 1001}), 400),
        (msgspec.json.encode({"uids": ["x" * 65]}), 400),
        (msgspec.json.encode({"uids": ["x" * 70_000]}), 413),
    ],
    ids=["empty", "no list", "no text", "too many", "too long", "too large"],
)
async def test_other_requests_are_refused(tmp_path: Path, body: bytes, status: int) -> None:
    nobody: Any = None
    app = web.Application()
    app.router.add_post(PATH, kept_handler(nobody))
    async with TestClient(TestServer(app)) as client, client.post(PATH, data=body) as answer:
        assert answer.status == status
