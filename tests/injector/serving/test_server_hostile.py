"""The HTTPS server and clients that are slow, silent, too many, or send garbage."""

import asyncio
import contextlib
import gc
import itertools
import math
import socket
import ssl
import struct
import time
import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from frameworkinjector.names import PREFIX
from frameworkinjector.review.review import Answer
from frameworkkube.serving.connection import DECRYPTED_BYTES, Records, begins_tls
from frameworkkube.serving.listener import READ_SECONDS, READ_SHARE, RECEIVED_BYTES
from testkit.waiting import patience
from tests.injector.loopback_server import SERVICE, WHOLE_REQUEST, Connection, head, read_until_closed, until
from tests.injector.reviews import framework_pod, review_of, reviewed, small_review

SILENCE_SECONDS = 3.0
"""A limit that ends what is silent, and no handshake on a busy machine."""
CLOSED = (ConnectionError, ssl.SSLError)


@pytest.mark.parametrize(
    ("sent", "status", "reason"),
    [
        (head(3 * 1024 * 1024 + 1), 413, "body-too-large"),
        (head(100) + b"{", 408, "body-too-slow"),
        (b"GET /mutate HTTP/1.1\r\nHost: x\r\n\r\n", 405, "wrong-method"),
        # Health has a port of its own.
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 404, "wrong-path"),
    ],
)
async def test_a_request_without_its_body_or_of_another_kind_is_answered_and_closed(
    serve: Any, sent: bytes, status: int, reason: str
) -> None:
    serving = await serve(body_seconds=0.3)
    received = await serving.exchange(sent)
    assert received.startswith(b"HTTP/1.1 %d " % status)
    assert reason.encode() in received
    assert serving.counted(reason) == 1


async def test_a_body_that_comes_in_pieces_of_any_size_is_not_read(serve: Any) -> None:
    """In pieces of one byte each 256 KiB took 50 ms, so that 32 Pods held up all reviews for seconds."""
    serving = await serve()
    sent = b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 100_000
    started = time.thread_time()
    assert (await serving.exchange(sent)).startswith(b"HTTP/1.1 404 ")
    assert time.thread_time() - started < 0.1
    body = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert b"it has no Content-Length" in await serving.exchange(body + b"1\r\n{\r\n")
    assert serving.counted("not-a-review") == 1


@pytest.mark.parametrize("before", [b"", WHOLE_REQUEST], ids=["the first", "behind one that waits for its review"])
async def test_a_head_that_does_not_end_is_not_kept(serve: Any, before: bytes) -> None:
    """The library takes 1 MiB of each, which were 4 MiB as text, so that one Pod ended the process."""
    serving, line = await serve(), b"X: " + b"x" * 8000 + b"\r\n"
    async with serving.server._reviews.of(None), asyncio.timeout(patience(8)):
        assert await serving.exchange(before + b"POST /mutate HTTP/1.1\r\n" + 12 * line) == b""
    assert not serving.closed("silent")
    assert (await serving.exchange(b"GET /x HTTP/1.1\r\nHost: x\r\n" + 3 * line + b"\r\n")).startswith(b"HTTP/1.1 404 ")


async def test_parameters_of_a_media_type_are_not_parsed(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 8 KB of them the library makes half a second of work, so that one Pod kept out the reviews of others."""
    monkeypatch.setattr("aiohttp.helpers.parse_content_type", Mock(side_effect=NotImplementedError))
    serving = await serve()
    body = small_review()
    reader, writer = await serving.connect()
    writer.write(head(len(body)).replace(b"application/json", b"application/json" + b";" * 1000) + body)
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"


async def test_incomplete_bodies_do_not_affect_the_next_review(serve: Any) -> None:
    serving = await serve()
    for _ in range(20):
        _, writer = await serving.connect()
        writer.write(head(100) + b"{")
        await writer.drain()
        writer.transport.abort()
    assert (await serving.review())[0] == 200


async def test_bodies_that_do_not_arrive_hold_up_no_body_of_a_usual_pod(serve: Any) -> None:
    serving = await serve(body_seconds=patience(5))
    for number in range(16):
        _, writer = await serving.connect(f"127.0.1.{number % 2}")
        writer.write(head(300_000) + b"{" * 200_000)
        await writer.drain()
    assert (await serving.review(small_review(200_000)))[0] == 200
    assert not serving.counted("body-too-slow")


async def test_what_is_no_http_is_not_read_on_behind_its_first_error(serve: Any) -> None:
    serving = await serve()
    async with serving.server._reviews.of(None):
        _, writer = await serving.connect()
        writer.write(WHOLE_REQUEST)
        await until(lambda: serving.server._in_flight == 1)
        (connection,) = serving.server._listener._open.values()
        writer.write(b"\x01" * 1_000_000)
        await until(lambda: connection._inner._messages)
        (error,) = connection._inner._messages
        assert len(error[0].message) < 100_000
    assert (await serving.review())[0] == 200


async def unread(serving: Any, source: str = "127.0.0.1") -> None:
    """Ask for an answer of 2 MB, and read nothing."""
    _, writer = await serving.connect(source)
    writer.transport.pause_reading()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    annotations = {f"{PREFIX}env": "wrap", f"{PREFIX}preset": "jax"}
    body = review_of(framework_pod([{"name": "app", "command": ["x" * 1_500_000]}], annotations), uid="1")
    writer.write(head(len(body)) + body)


async def test_reviews_of_sources_take_turns(serve: Any) -> None:
    reviewed_bodies: list[bytes] = []

    def review(body: bytes) -> Answer:
        reviewed_bodies.append(body)
        return reviewed(body)

    serving = await serve(review)
    async with serving.server._reviews.of(None):
        for number, source in enumerate(("127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3")):
            _, writer = await serving.connect(source)
            writer.write(head(1) + b"%d" % number)
            await until(lambda sent=number: serving.server._in_flight == sent + 1)
    await until(lambda: len(reviewed_bodies) == 4)
    assert reviewed_bodies == [b"0", b"3", b"1", b"2"]


async def test_a_large_answer_that_its_client_does_not_read_ends_the_connection(serve: Any) -> None:
    serving = await serve(unread_seconds=0.3)
    await unread(serving)
    await until(lambda: serving.closed("unread") == 1)


async def test_of_too_many_large_answers_that_nobody_reads_the_oldest_goes(serve: Any) -> None:
    serving = await serve(unread_seconds=patience(60), unread_bytes=5_000_000)
    for _ in range(4):
        await unread(serving)
    await until(lambda: serving.closed("unread") == 2)
    assert (await serving.review())[0] == 200


async def test_of_large_answers_others_than_known_ones_have_a_quarter(serve: Any) -> None:
    """They took twice as much memory as the bodies of all known ones."""
    serving = await serve(unread_seconds=patience(60), unread_bytes=20_000_000)
    serving.server._callers._until["127.0.0.1"] = math.inf
    for number in range(4):
        await unread(serving)
        await unread(serving, "127.0.0.2")
        await until(lambda answered=number: serving.counted("injected") == 2 * answered + 2)
    assert serving.closed("unread") == 2
    assert Counter(one.source for one in serving.server._listener._unread) == {"127.0.0.1": 4, "127.0.0.2": 2}


async def shaken(
    serving: Any,
    trust: ssl.SSLContext | None = None,
    record_bytes: int = 16_000,
    session: ssl.SSLSession | None = None,
    early: bytes = b"",
) -> tuple[Connection, ssl.SSLObject, ssl.MemoryBIO]:
    """Shake hands by hand; return the connection without TLS, that of TLS, and what is to be sent for it.

    With a session the client speaks last, and its first bytes go with that.
    """
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
    client.connect(("127.0.0.1", serving.port))
    reader, writer = await asyncio.open_connection(sock=client, limit=1)
    serving.opened.append(writer)
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = (trust or serving.trust()).wrap_bio(received, sent, server_hostname=SERVICE, session=session)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = sent.read()
    for at in range(5, len(hello), record_bytes):
        piece = hello[at : at + record_bytes]
        sent.write(hello[:3] + len(piece).to_bytes(2) + piece)
    while sent.pending:
        writer.write(sent.read())
        received.write(await reader.read(65536))
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
            tls.write(early)
            early = b""
    return (reader, writer), tls, sent


async def test_another_handshake_does_not_reach_tls(serve: Any) -> None:
    """Each of 4,096 messages in a record had an alert for its answer, which was kept for whoever does not read."""
    serving = await serve()
    (reader, writer), _, _ = await shaken(serving)
    (connection,) = serving.server._listener._open.values()
    connection._take_in = taken = Mock()
    writer.write(b"\x16\x03\x03\x00\x04\x01\x00\x00\x00")
    assert await read_until_closed(reader) == b""
    taken.assert_not_called()
    assert not serving.closed("silent")


async def test_what_comes_with_the_end_of_a_handshake_waits_for_its_turn(serve: Any) -> None:
    """120 connections made a turn of the loop of 0.25 s so."""
    serving = await serve()
    listener = serving.server._listener
    listener._read = read = Mock(wraps=listener._read)
    serving.server._callers._until["127.0.0.2"] = math.inf
    trust = serving.trust()
    _, first, _ = await shaken(serving, trust)
    read.assert_not_called()
    _, again, _ = await shaken(serving, trust, session=first.session, early=WHOLE_REQUEST)
    assert again.session_reused
    read.assert_called_once()
    assert serving.counted("injected") == 1


@pytest.mark.parametrize("size", [1, 2, 4, 7, 300, 100_000])
def test_a_handshake_is_found_among_records_however_they_come(size: int) -> None:
    data = b"".join(b"\x17\x03\x03" + length.to_bytes(2) + b"\x16" * length for length in (0, 1, 5, 70, 16_408))
    records = Records()
    assert not any(records.shake_hands(data[at : at + size]) for at in range(0, len(data), size))
    begun = b"\x16\x03\x03\x00\x04"
    assert any(records.shake_hands(begun[at : at + size]) for at in range(0, len(begun), size))


def longer(trust: ssl.SSLContext, names: int) -> ssl.SSLContext:
    """Let a first message have more bytes, 201 for each name."""
    trust.set_alpn_protocols(["http/1.1", *(f"{number:0200}" for number in range(names))])
    return trust


async def test_a_handshake_of_more_bytes_than_any_client_sends_is_the_end(serve: Any) -> None:
    serving = await serve()
    with contextlib.suppress(*CLOSED):
        (reader, _), _, _ = await shaken(serving, longer(serving.trust(), 30), record_bytes=4)
        assert await read_until_closed(reader) == b""
    assert (serving.closed("silent"), serving.metric("connections")) == (0, 0)


async def test_a_long_first_message_does_not_reach_tls(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL takes one of 128 KiB, and 64 of them were a turn of the loop of 0.15 s."""
    serving = await serve()
    monkeypatch.setattr("frameworkkube.serving.connection.Connection.connection_made", made := Mock())
    with contextlib.suppress(*CLOSED):
        await shaken(serving, longer(serving.trust(), 50))
    await until(lambda: serving.metric("connections") == 0)
    made.assert_not_called()


@pytest.mark.parametrize(
    ("sent", "begins"),
    [
        (b"\x16\x03\x01\x20\x04\x01\x00\x20\x00", True),
        (b"\x16\x03\x01\x20\x05\x01\x00\x20\x01", False),
        (b"\x16\x03\x01\x20\x04\x01\x00\x20", False),
        (b"\x16\x03\x01\x20\x04\x02\x00\x20\x00", False),
        (b"GET / HTTP/1.1\r\n", False),
        (b"", False),
    ],
    ids=["a handshake", "too long", "not to be seen", "another message", "no TLS", "the end"],
)
async def test_what_begins_a_handshake(sent: bytes, *, begins: bool) -> None:
    client, server = socket.socketpair()
    with client, server:
        client.send(sent)
        client.shutdown(socket.SHUT_WR)
        assert await begins_tls(server) is begins
        assert server.recv(16) == sent


NO_PATH = {
    "an address": b"GET http://xn--a/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "a tunnel": b"CONNECT xn--a:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "an address behind a review": WHOLE_REQUEST + b"GET http://xn--a/ HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("sent", NO_PATH.values(), ids=NO_PATH)
async def test_who_asks_for_no_path_of_this_server_loses_the_connection(serve: Any, sent: bytes) -> None:
    """The library decodes names of hosts for 20 ms, and never answers where it cannot."""
    serving = await serve()
    assert await serving.exchange(sent) == b""
    assert not serving.closed("silent")


async def test_nothing_is_taken_in_behind_a_request_for_another_protocol(serve: Any) -> None:
    """The library parses that after the answer, and at some of it leaves the connection open, without a limit."""
    serving = await serve()
    upgrade = WHOLE_REQUEST.replace(b"\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n", 1)
    assert (await serving.exchange(upgrade + WHOLE_REQUEST)).count(b"HTTP/1.1 200 ") == 1


async def test_a_fault_of_the_library_ends_the_connection(serve: Any) -> None:
    serving = await serve()
    serving.server._http.request_factory = Mock(side_effect=UnicodeError)
    assert await serving.exchange(WHOLE_REQUEST) == b""
    assert not serving.closed("silent")


async def test_of_requests_that_do_not_wait_for_answers_the_first_is_answered(serve: Any) -> None:
    serving = await serve()
    (reader, writer), tls, sent = await shaken(serving)
    tls.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 33)
    writer.write(sent.read())
    writer.write_eof()
    await read_until_closed(reader)
    await until(lambda: serving.metric("connections") == 0)
    assert serving.counted("wrong-path") == 1


async def test_who_ends_tls_behind_answers_that_it_does_not_read_keeps_no_socket(serve: Any) -> None:
    """One Pod left 250 connections so, which no limit counted, with 284 MiB of answers."""
    serving = await serve()
    (_, writer), tls, sent = await shaken(serving)
    annotations = {f"{PREFIX}env": "wrap", f"{PREFIX}preset": "jax"}
    body = review_of(framework_pod([{"name": "app", "command": ["x" * 20_000]}], annotations))
    (connection,) = serving.server._listener._open.values()
    asked = 0
    # The system takes some megabytes of them.
    while not connection.transport.get_write_buffer_size():
        tls.write(head(len(body)) + body)
        writer.write(sent.read())
        asked += 1
        await until(lambda number=asked: serving.counted("injected") == number)
    tls.write(head(0))
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.unwrap()
    writer.write(sent.read())
    await until(lambda: serving.metric("connections") == 0)


async def test_what_a_client_has_not_taken_in_goes_with_its_connection(serve: Any) -> None:
    """The system would keep it for five minutes: 130 KB of each of 64 connections a second of a few Pods."""
    serving = await serve(unread_seconds=0.3)
    (_, writer), tls, sent = await shaken(serving)
    (connection,) = serving.server._listener._open.values()
    stalled = connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert stalled == 1000 * serving.server._limits.connections.stalled_seconds, "what TLS does not see has its end"
    body = review_of(framework_pod([{"name": "app", "command": ["x" * 45_000]}], {f"{PREFIX}env": "wrap"}))
    tls.write(head(len(body)) + body)
    writer.write(sent.read())
    await until(lambda: serving.closed("unread") == 1 and serving.metric("connections") == 0)
    assert states_of(serving.port) == ["0A"], "it listens, and has no other socket"


def states_of(port: int) -> list[str]:
    """Return the states of the sockets of a port, as the kernel writes them."""
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [one[3] for one in sockets if one[1].endswith(f":{port:04X}")]


async def test_who_begins_anew_from_its_port_leaves_nothing_behind(serve: Any) -> None:
    """While a body waits for its turn nobody reads, nor sees that the connection is gone: each held 170 KB for 4 s."""
    serving = await serve(body_seconds=patience(60), large_bodies=1)
    port = 20_000 + serving.port % 10_000
    async with serving.server._large.of(None):
        for number in range(3):
            _, writer = await serving.connect("127.0.0.2", port=port)
            writer.write(head(1_000_000) + b"x" * 200_000)
            await until(lambda begun=number: serving.server._begun == begun + 1)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            await asyncio.sleep(0.05)
        await serving.connect("127.0.0.2", port=port)
        await until(lambda: serving.server._in_flight == 0)
        assert serving.metric("connections") == 1


async def test_requests_that_do_not_wait_for_an_answer_end_their_connection(serve: Any) -> None:
    serving = await serve()
    answers = await serving.exchange(WHOLE_REQUEST * 20)
    assert 1 <= answers.count(b"HTTP/1.1 200 ") <= 2


async def test_clients_that_never_finish_their_head_are_closed_also_those_that_drip_it(serve: Any) -> None:
    serving = await serve(first_request_seconds=SILENCE_SECONDS)

    async def closed(sent: bytes, dripped: bytes = b"") -> None:
        reader, writer = await serving.connect()
        writer.write(sent)
        started, received = time.monotonic(), asyncio.create_task(read_until_closed(reader))
        while not received.done():
            writer.write(dripped)
            await asyncio.sleep(0.05)
        assert received.result() == b""
        assert time.monotonic() - started > SILENCE_SECONDS / 2

    heads = (b"", b"POST /mut", b"POST /mutate HTTP/1.1\r\nHost: x\r\n")
    await asyncio.gather(*map(closed, heads), closed(b"POST /mutate HTTP/1.1\r\nX: ", b"x"))
    assert serving.closed("silent") == 4


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x20\x04\x01\x00\x20\x00"], ids=["nothing", "a beginning"])
async def test_a_client_that_never_shakes_hands_is_closed(serve: Any, sent: bytes) -> None:
    serving = await serve(handshake_seconds=0.3)
    reader, writer = await serving.connect(tls=False)
    writer.write(sent)
    assert await read_until_closed(reader) == b""
    assert not serving.closed("silent")


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
    serving = await serve(first_request_seconds=SILENCE_SECONDS)
    received = await serving.exchange(garbage)
    assert received == b"" or received.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), received[:100]
    assert (await serving.review())[0] == 200


async def post_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(WHOLE_REQUEST)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = [int(line.split()[1]) for line in head.splitlines() if line.lower().startswith(b"content-length:")]
    await reader.readexactly(length)


async def speaks(connection: Connection) -> bool:
    """Report whether a connection still carries reviews; close it."""
    try:
        await post_once(*connection)
    except (*CLOSED, asyncio.IncompleteReadError, AssertionError):
        return False
    finally:
        connection[1].transport.abort()
    return True


@pytest.mark.parametrize(("spoke", "closed"), [(1, 1), (4, 0)], ids=["one spoke once", "all spoke once"])
async def test_a_connection_too_many_closes_the_one_that_has_been_idle_longest(
    serve: Any, spoke: int, closed: int
) -> None:
    serving = await serve(connections=4, grace_seconds=0, own_grace_seconds=0)
    opened = [await serving.connect() for _ in range(4)]
    for one in opened[:spoke]:
        await post_once(*one)
    opened.append(await serving.connect())
    assert [await speaks(one) for one in opened] == [number != closed for number in range(5)]
    assert serving.closed("evicted") == 1


async def test_connections_under_way_are_not_given_up_for_more_of_the_same_source(serve: Any) -> None:
    serving = await serve(connections=4, grace_seconds=60, own_grace_seconds=60, waiting=0)
    opened = [await serving.connect() for _ in range(4)]
    with pytest.raises(CLOSED):
        await serving.connect()
    assert all([await speaks(one) for one in opened])
    assert serving.closed("refused") == 1


async def test_a_source_that_hoards_connections_locks_out_only_itself(serve: Any) -> None:
    serving = await serve(connections=8, of_one_source=6, grace_seconds=0, own_grace_seconds=60, waiting=0)
    hoarded = [await serving.connect("127.0.0.2") for _ in range(6)]
    with pytest.raises(CLOSED):
        await serving.connect("127.0.0.2")
    others = [await serving.connect("127.0.0.3") for _ in range(4)]
    assert [await speaks(one) for one in others] == [True] * 4
    assert [await speaks(one) for one in hoarded] == [False] * 2 + [True] * 4


async def test_who_is_known_waits_for_nobody_who_is_not(serve: Any) -> None:
    serving = await serve(connections=8, of_one_source=6, known=6, grace_seconds=60, own_grace_seconds=60, waiting=0)
    others = [await serving.connect(f"127.0.0.{2 + number}") for number in range(8)]
    for reader, writer in others[:4]:
        await post_once(reader, writer)
    serving.server._callers._until["127.0.0.1"] = math.inf
    known = [await serving.connect() for _ in range(6)]
    with pytest.raises(CLOSED):
        await serving.connect()
    assert [await speaks(one) for one in known] == [True] * 6
    assert sum([await speaks(one) for one in others]) == 2


async def test_a_connection_whose_next_body_does_not_come_gives_way(serve: Any) -> None:
    serving = await serve(connections=4, grace_seconds=0, own_grace_seconds=0, waiting=0, body_seconds=patience(5))
    for number in range(4):
        reader, writer = await serving.connect(f"127.0.0.{2 + number % 2}")
        await post_once(reader, writer)
        writer.write(head(100))
    await until(lambda: all(one.is_busy for one in serving.server._listener._open.values()))
    assert await speaks(await serving.connect())


async def test_a_connection_without_a_place_waits_for_an_answer_that_closes_one(serve: Any) -> None:
    serving = await serve(connections=1, grace_seconds=60, own_grace_seconds=60)
    reader, writer = await serving.connect()
    second = asyncio.create_task(serving.connect())
    await until(lambda: len(serving.server._listener._waiting) == 1)
    writer.write(WHOLE_REQUEST)
    answer = await read_until_closed(reader)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"Connection: close" in answer
    assert await speaks(await second)


async def test_a_connection_waits_for_a_place_only_so_long(serve: Any) -> None:
    serving = await serve(connections=1, grace_seconds=60, own_grace_seconds=60, handshake_seconds=SILENCE_SECONDS)
    first = await serving.connect()
    with pytest.raises(CLOSED):
        await serving.connect()
    assert await speaks(first)
    assert serving.closed("refused") == 1


async def test_what_came_during_a_long_review_is_accepted_after_it(serve: Any) -> None:
    """One in each turn of the loop was: 300 a second beside costly reviews kept an API server waiting for seconds."""
    serving = await serve(waiting=300)
    with contextlib.ExitStack() as opened:
        for _ in range(200):  # and the loop does not turn
            opened.enter_context(socket.create_connection(("127.0.0.1", serving.port)))
        for _ in range(10):
            await asyncio.sleep(0)
        listener = serving.server._listener
        assert len(listener._open) + len(listener._waiting) == 200


@pytest.mark.parametrize("waits", [False, True], ids=["read at once", "beside others"])
async def test_little_of_what_a_client_sends_is_decrypted_at_a_time(serve: Any, *, waits: bool) -> None:
    """In records of one byte 256 KiB took 30 ms, so that 24 connections kept reviews waiting for seconds."""
    serving = await serve(body_seconds=patience(20), large_bodies=1)
    async with serving.server._large.of(None) if waits else contextlib.nullcontext():
        _, writer = await serving.connect()
        writer.write(head(300_000))
        await until(lambda: serving.server._in_flight == 1)
        (connection,) = serving.server._listener._open.values()
        pieces, received = list[int](), connection.data_received
        connection.data_received = lambda data: (pieces.append(len(data)), received(data))
        writer.write(b"x" * 80_000)
        for _ in range(20_000):
            writer.write(b"x")
        await asyncio.sleep(0.3)
        assert waits is (sum(pieces) < 90_000)
        known = len(pieces) if waits else 6
    await until(lambda: sum(pieces) == 100_000)
    # Of a record with one byte 30 are sent, and two reads come together.
    assert max(pieces[known:]) <= 2 * DECRYPTED_BYTES / 30


async def test_reads_of_others_take_turns_within_a_part_of_the_time(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of some bytes on many connections made each turn of the loop 56 ms long."""
    serving = await serve(body_seconds=patience(20))
    others = [await serving.connect(source) for source in ["127.0.0.2"] * 7 + ["127.0.0.3"]]
    serving.server._callers._until["127.0.0.1"] = math.inf
    known = await serving.connect()
    # Each is said to take 0.6 ms.
    clock = itertools.count(0.0, 0.6 * READ_SECONDS)
    monkeypatch.setattr("frameworkkube.serving.listener.time", Mock(thread_time=lambda: next(clock)))
    listener, loop, resumed = serving.server._listener, asyncio.get_running_loop(), list[tuple[str, float]]()

    def note(connection: Any, resume: Callable[[], None]) -> None:
        resumed.append((connection.source, loop.time()))
        resume()

    for connection in listener._open.values():
        connection.resume = partial(note, connection, connection.resume)
    for _, writer in others:
        writer.write(head(5) + b"x")
    await until(lambda: len(resumed) == 8)
    assert {source for source, _ in resumed[:2]} == {"127.0.0.2", "127.0.0.3"}
    begun = [at for _, at in resumed[::2]]
    assert min(later - at for at, later in itertools.pairwise(begun)) > 0.999 * (READ_SHARE - 1) * 1.2 * READ_SECONDS
    assert await speaks(known)
    assert len(resumed) == 8
    for _, writer in others:
        writer.write(b"xxxx")
    for reader, _ in others:
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
    await until(lambda: not listener._to_read)


async def test_a_connection_whose_bytes_wait_for_a_turn_may_end(serve: Any) -> None:
    serving = await serve()
    serving.server._callers._until["127.0.0.3"] = math.inf
    listener, loop = serving.server._listener, asyncio.get_running_loop()
    first, second = await serving.connect("127.0.0.2"), await serving.connect("127.0.0.2")
    listener._read_from = loop.time() + 0.3
    for _, writer in (first, second):
        writer.write(WHOLE_REQUEST)
    for connection in listener._open.values():
        connection._records = Mock(shake_hands=Mock(return_value=False))
    await until(lambda: listener._to_read._count == 2)
    for connection in reversed(listener._open.values()):
        connection._records.shake_hands.assert_not_called()  # that takes time, too
    connection.abort()
    assert await read_until_closed(first[0]) == b""
    assert (await second[0].readline()).startswith(b"HTTP/1.1 200 ")
    await until(lambda: not listener._to_read)


async def test_what_a_connection_took_does_not_wait_for_the_collector_of_cycles(serve: Any) -> None:
    """In a flood of connections the sockets and buffers of some hundreds waited for it, 100 MiB."""
    serving = await serve()
    gc.disable()
    try:
        assert await speaks(await serving.connect())
        (connection,) = map(weakref.ref, serving.server._listener._open.values())
        await until(lambda: connection() is None)
    finally:
        gc.enable()


async def test_what_the_system_takes_in_for_a_connection_does_not_grow(serve: Any) -> None:
    """It would take 6 MiB of each that has sent some bodies fast, which count as memory of the Pod."""
    serving = await serve()
    reader, writer = await serving.connect()
    body = small_review(240_000)
    for _ in range(40):
        writer.write(head(len(body)) + body)
        await reader.readuntil(b"}")
    (connection,) = serving.server._listener._open.values()
    received = connection.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert received <= 2 * RECEIVED_BYTES


async def test_of_answers_that_nobody_takes_in_few_are_kept(serve: Any) -> None:
    """The system would take 4 MB of them and TLS half a megabyte, for each of 126 connections of a few Pods."""
    serving = await serve()
    (reader, writer), tls, sent = await shaken(serving)
    body = review_of(framework_pod([{"name": "app", "command": ["x" * 20_000]}], {f"{PREFIX}env": "wrap"}))
    asked, answered = 0, 0
    while asked == answered < 20:
        tls.write(head(len(body)) + body)
        writer.write(sent.read())
        asked += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience(1)):
                while answered < asked:
                    await asyncio.sleep(0.01)
                    answered = serving.counted("injected")
    assert 2 < answered < 20
    assert not reader.at_eof()


async def test_bodies_of_known_ones_that_are_larger_than_usual_wait_for_a_turn(serve: Any) -> None:
    """Known ones have three times as many places as others."""
    serving = await serve(body_seconds=patience(20))
    serving.server._callers._until["127.0.0.1"] = math.inf
    async with contextlib.AsyncExitStack() as held:
        for _ in range(serving.server._limits.unusual_bodies):
            await held.enter_async_context(serving.server._unusual.of("127.0.0.1"))
        larger = asyncio.create_task(serving.review(small_review(100_000)))
        reader, writer = await serving.connect("127.0.0.2")
        writer.write(head(len(small_review(100_000))) + small_review(100_000))
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        assert (await serving.review(small_review(50_000)))[0] == 200
        assert not larger.done()
    assert (await larger)[0] == 200


@pytest.mark.parametrize("padding", [100_000, 300_000])
async def test_large_bodies_of_an_api_server_take_turns_by_namespace(serve: Any, padding: int) -> None:
    """Those of one namespace let those of others wait for 4 s, and then they were refused."""
    asked: list[str] = []

    def review(body: bytes) -> Answer:
        found = reviewed(body)
        asked.append(found.namespace)
        return found

    serving = await serve(review, unusual_bodies=1, large_bodies=1, body_seconds=patience(60))
    serving.server._callers._until["127.0.0.1"] = math.inf
    turns = serving.server._unusual if padding < 256 * 1024 else serving.server._large
    pod, tasks = framework_pod([{"name": "app"}], {"padding": "x" * padding}), []
    async with turns.of("127.0.0.1", b"many"):
        for number, namespace in enumerate(("many", "many", "many", "one")):
            tasks.append(asyncio.create_task(serving.review(review_of(pod, namespace=namespace))))
            await until(lambda waiting=number: turns._first._count == waiting + 1)
    assert [status for status, _ in await asyncio.gather(*tasks)] == [200] * 4
    assert asked == ["one", "many", "many", "many"]


async def test_sockets_that_never_shake_hands_leave_room_for_reviews(serve: Any) -> None:
    serving = await serve(connections=16, of_one_source=12)
    for number in range(200):
        await serving.connect(f"127.0.0.{2 + number % 20}", tls=False)
    assert await speaks(await serving.connect())
    assert serving.metric("connections") <= 16


async def test_an_idle_connection_is_closed(serve: Any) -> None:
    serving = await serve(idle_seconds=0.3)
    reader, writer = await serving.connect()
    await post_once(reader, writer)
    assert await read_until_closed(reader) == b""
