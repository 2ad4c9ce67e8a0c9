"""What of the answer of a Pod counts, from servers that answer in any way; and who waits for it: nobody."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from frameworkcontroller.core.effects import AskProgress
from frameworkcontroller.engine.actions import ASKS
from frameworkcontroller.engine.requests import pod_answer
from frameworkcontroller.engine.requests.pod_answer import ANSWER_BYTES, TIMEOUT_SECONDS, ask
from localcluster.processes.ports import free_port
from tests.controller.engine.requests.test_pod_bodies import Slow, creation, ends_of
from tests.kube.virtualtime import in_virtual_time
from tests.support.listening import close_listener

OK = b"HTTP/1.0 200 OK\r\n\r\n"
ROOM = ANSWER_BYTES - len(OK)


@contextlib.asynccontextmanager
async def pod(*said: bytes, stays: bool = False, host: str = "127.0.0.1") -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that says this, piece by piece, and then stays silent or closes: its port, and what it is asked."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            for piece in said:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.05)
            if stays:
                await reader.read()

    server = await asyncio.start_server(answer, host, 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        await close_listener(server)


def has(host: str) -> bool:
    with contextlib.suppress(OSError), socket.create_server((host, 0), family=socket.AF_INET6):
        return True
    return False


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("127.0.0.1", b"127.0.0.1"),
        pytest.param("::1", b"[::1]", marks=pytest.mark.skipif(not has("::1"), reason="there is no IPv6")),
    ],
)
async def test_a_pod_is_asked_by_its_address(host: str, name: bytes) -> None:
    async with pod(OK, b"{}", host=host) as (port, asked):
        assert await ask(host, port, "/gang") == b"{}"
    assert asked == [b"GET /gang HTTP/1.0\r\nHost: %b:%d\r\n\r\n" % (name, port)]


@pytest.mark.parametrize(
    ("said", "body"),
    [
        pytest.param((OK[:9], OK[9:], b"a", b"b"), b"ab", id="in pieces"),
        pytest.param((OK + b"x" * ROOM,), b"x" * ROOM, id="as long as it may be"),
        pytest.param((b"HTTP/1.0 404 Not Found\r\n\r\n{}",), None, id="it does not lead"),
        pytest.param((b"SSH-2.0-x\r\n\r\n{}",), None, id="something else"),
        pytest.param((b"",), None, id="closed at once"),
    ],
)
async def test_what_is_an_answer(said: tuple[bytes, ...], body: bytes | None) -> None:
    async with pod(*said) as (port, _):
        assert await ask("127.0.0.1", port, "/gang") == body


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        pytest.param((OK + b"x" * (ROOM + 1),), {}, id="longer, and not read to its end"),
        pytest.param((OK, *[b"x"] * 4), {"READS": 4}, id="in many pieces, each of which is a turn of the loop"),
        pytest.param((), {"TIMEOUT_SECONDS": 0.3}, id="silent"),
        pytest.param((OK, b"{}"), {"TIMEOUT_SECONDS": 0.3}, id="silent before its end"),
        pytest.param((OK, *[b"x"] * 1000), {"TIMEOUT_SECONDS": 0.3}, id="a byte now and then"),
    ],
)
async def test_what_is_too_much_or_takes_too_long_is_none(
    monkeypatch: pytest.MonkeyPatch, said: tuple[bytes, ...], limits: dict[str, float]
) -> None:
    for name, value in ({"TIMEOUT_SECONDS": 3600} | limits).items():
        monkeypatch.setattr(pod_answer, name, value)
    async with pod(*said, stays=True) as (port, _):
        assert await ask("127.0.0.1", port, "/gang") is None


async def test_nobody_at_that_address_is_none() -> None:
    assert await ask("127.0.0.1", free_port(), "/gang") is None


@in_virtual_time
async def test_silent_pods_delay_nothing_else_and_are_asked_beside_each_other() -> None:
    question = AskProgress("192.0.2.1", 24817, "uid", 0)
    performer = Slow(question, TIMEOUT_SECONDS, others=0)
    ends = await ends_of(performer, [question, creation(100)], 2 * ASKS, slots=1)
    assert [seconds for effect, seconds in ends if effect != question] == [0] * 2 * ASKS
    assert (performer.most[True], ends[-1]) == (ASKS, (question, 2 * TIMEOUT_SECONDS))
