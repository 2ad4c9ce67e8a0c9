"""The call of a replica to itself, which its readiness needs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import trustme

from frameworkinjector import selfcall
from frameworkinjector.config import Config, EnvFiles
from frameworkinjector.metrics import Metrics
from frameworkinjector.review import Answer, answer
from frameworkinjector.selfcall import SelfCall
from frameworkinjector.server import ReviewServer
from frameworkinjector.tls import Served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAME = "frameworkinjector.frameworkcontroller-system.svc"


def reviewed(body: bytes) -> Answer:
    return answer(body, Config(version="1"), EnvFiles.QUOTED)


def published(authority: trustme.CA) -> Served:
    issued, served = authority.issue_cert(NAME), Served()
    certificate, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    served.publish(certificate, key, authority.cert_pem.bytes(), NAME)
    return served


@pytest.fixture
async def server() -> AsyncIterator[tuple[ReviewServer, Served, int]]:
    """One that answers by the name."""
    served, found = published(trustme.CA()), ReviewServer(reviewed, Metrics())
    yield found, served, await found.start("127.0.0.1", 0, served.context)
    await found.stop(1)


async def until(call: SelfCall, *, problem: bool) -> None:
    async with asyncio.timeout(10):
        while (call.problem is not None) is not problem:  # noqa: ASYNC110 -- what is tested has no event
            await asyncio.sleep(0.02)


async def test_it_is_in_order_once_the_server_answers_by_its_name(
    server: tuple[ReviewServer, Served, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    running, served, port = server
    monkeypatch.setattr(selfcall, "EVERY_SECONDS", 0.1)
    call = SelfCall(served, NAME)
    assert call.problem is not None
    task = asyncio.create_task(call.run("127.0.0.1", port))
    await until(call, problem=False)
    await running.stop(0)
    await until(call, problem=True)
    task.cancel()


async def test_a_certificate_for_another_name_is_not_in_order(server: tuple[ReviewServer, Served, int]) -> None:
    _, served, port = server
    call = SelfCall(served, "somebody.else.svc")
    task = asyncio.create_task(call.run("127.0.0.1", port))
    await asyncio.sleep(0.5)
    assert "somebody.else.svc" in (call.problem or "")
    task.cancel()


async def test_one_failure_of_a_call_that_worked_is_forgiven_and_three_are_not(
    server: tuple[ReviewServer, Served, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    running, served, port = server
    monkeypatch.setattr(selfcall, "EVERY_SECONDS", 0.4)
    call = SelfCall(served, NAME)
    task = asyncio.create_task(call.run("127.0.0.1", port))
    await until(call, problem=False)
    await running.stop(0)
    await asyncio.sleep(0.5)
    assert call.problem is None
    await until(call, problem=True)
    task.cancel()
