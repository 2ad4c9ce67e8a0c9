"""The HTTPS server and clients that are slow, silent, too many, or speak nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from injector.serving import is_closed, review

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def test_a_body_that_announces_too_much_is_refused_unread(serve: Any) -> None:
    serving = await serve()
    reader, writer = await serving.connect()
    writer.write(
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3145729\r\n\r\n"
    )
    answer_ = await is_closed(reader, 3)
    assert answer_.startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_a_chunked_body_that_grows_too_large_is_cut_off(serve: Any) -> None:
    serving = await serve()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield b"x" * 65536

    async with serving.session() as session:
        try:
            status, decoded = await serving.post(session, endless())
        except aiohttp.ClientConnectionError:
            # The server hung up while the client was still sending.
            status, decoded = 413, {"reason": "body-too-large"}
    assert (status, decoded["reason"]) == (413, "body-too-large")
    assert serving.counted("body-too-large") == 1


async def test_a_bomb_is_not_unpacked(serve: Any) -> None:
    serving = await serve()
    bomb = gzip.compress(b" " * 50_000_000, 9)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with serving.session() as session:
        status, _ = await serving.post(session, bomb, headers=headers)
    assert status == 415


async def test_a_body_that_does_not_come_is_answered_in_time(serve: Any) -> None:
    serving = await serve(body_seconds=0.3)
    reader, writer = await serving.connect()
    writer.write(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
    answer_ = await is_closed(reader, 3)
    assert answer_.startswith(b"HTTP/1.1 408 ")
    assert b"body-too-slow" in answer_
    writer.close()


async def test_a_body_that_breaks_off_harms_nobody(serve: Any) -> None:
    serving = await serve()
    for _ in range(20):
        _, writer = await serving.connect()
        writer.write(
            b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        await writer.drain()
        writer.transport.abort()
    async with serving.session() as session:
        assert (await serving.post(session, review()))[0] == 200


@pytest.mark.parametrize("sent", [b"", b"POST /mut", b"POST /mutate HTTP/1.1\r\nHost: x\r\n"])
async def test_a_client_that_never_finishes_its_head_is_closed(serve: Any, sent: bytes) -> None:
    serving = await serve(first_request_seconds=0.3)
    reader, writer = await serving.connect()
    writer.write(sent)
    started = time.monotonic()
    assert await is_closed(reader, 3) == b""
    assert 0.2 < time.monotonic() - started < 2
    writer.close()


async def test_a_client_that_drips_its_head_is_closed_too(serve: Any) -> None:
    serving = await serve(first_request_seconds=0.5)
    reader, writer = await serving.connect()

    async def drip() -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"P")
                await writer.drain()
                await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    await is_closed(reader, 3)
    dripping.cancel()
    writer.close()


async def test_a_client_that_never_shakes_hands_is_closed(serve: Any) -> None:
    serving = await serve(handshake_seconds=0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
    assert await is_closed(reader, 3) == b""
    writer.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /mutate HTTP/9.9\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"POST " + b"/" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_garbage_gets_no_5xx_and_the_next_one_is_served(serve: Any, garbage: bytes) -> None:
    serving = await serve(first_request_seconds=0.5)
    reader, writer = await serving.connect()
    writer.write(garbage)
    answer_ = await is_closed(reader, 5)
    assert answer_ == b"" or answer_.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answer_[:100]
    writer.close()
    async with serving.session() as session:
        assert (await serving.post(session, review()))[0] == 200


BODY = review()
ASKED = (
    f"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
).encode() + BODY


async def asks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(ASKED)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = [int(line.split()[1]) for line in head.splitlines() if line.lower().startswith(b"content-length:")]
    await reader.readexactly(length)


async def test_of_too_many_connections_the_oldest_that_asks_nothing_is_closed_for_a_new_one(serve: Any) -> None:
    serving = await serve(connections=4)
    spoke, oldest, other, another = [await serving.connect() for _ in range(4)]
    await asks(*spoke)
    new = await serving.connect()
    await asks(*new)
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        assert await is_closed(oldest[0], 3) == b""
    for connection in (spoke, other, another, new):
        await asks(*connection)
        connection[1].close()


async def test_where_all_connections_are_in_use_one_more_is_closed_and_the_others_live_on(serve: Any) -> None:
    serving = await serve(connections=2)
    open_ones = [await serving.connect() for _ in range(2)]
    for connection in open_ones:
        await asks(*connection)
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        reader, _ = await serving.connect()
        assert await is_closed(reader, 3) == b""
    for connection in open_ones:
        await asks(*connection)
        connection[1].close()
