"""The lines of an endless answer."""

import asyncio
import random
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkkube.errors import GoneError, InactivityTimeoutError, RequestTimeoutError, TransportError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.http.lines import MAX_LINE_BYTES, LineSplitter
from testkit.waiting import patience
from tests.kube.scripted import ScriptedServer, Step, a_client, a_server, after, answer, refusal, silence, watch
from tests.kube.virtualtime import in_virtual_time

PATH = "/api/v1/pods"


async def lines_of(client: KubeClient, **settings: float) -> list[bytes]:
    async with aclosing(client.stream(PATH, {"watch": "true"}, **settings)) as lines:
        return [line async for line in lines]


@given(
    st.lists(st.binary().map(lambda line: line.replace(b"\n", b""))),
    st.binary().map(lambda x: x.replace(b"\n", b"")),
    st.data(),
)
def test_lines_do_not_depend_on_how_the_bytes_arrive(lines: list[bytes], tail: bytes, data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + tail
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter, found = LineSplitter(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += splitter.feed(stream[start:end])
    assert found == lines
    assert splitter.unfinished == bool(tail)


def test_a_stream_without_newlines_is_cut_off() -> None:
    splitter = LineSplitter()
    for _ in range(MAX_LINE_BYTES // (1 << 20)):
        assert splitter.feed(b"x" * (1 << 20)) == []
    with pytest.raises(ValueError, match="a line is longer than"):
        splitter.feed(b"x")


async def test_a_clean_end_ends_the_iteration(client: KubeClient, server: ScriptedServer) -> None:
    server.on("watch", watch(b"a", b"", b"b\r"))
    assert await lines_of(client) == [b"a", b"", b"b\r"]


async def test_lines_of_sixteen_mebibytes_and_of_five_pass(client: KubeClient, server: ScriptedServer) -> None:
    long = [random.Random(0).randbytes(size << 20).replace(b"\n", b" ") for size in (5, 16)]
    server.on("watch", watch(*long, b"short"))
    assert await lines_of(client) == [*long, b"short"]


@pytest.mark.parametrize(
    "step",
    [
        watch(b"a", end="fin"),
        watch(b"a", end="reset"),
        watch(b"a", tail=b'{"type":"ADD'),
        watch(b"a", tail=b'{"type":"ADD', end="fin"),
    ],
    ids=["FIN without the final chunk", "reset", "ends within a line", "FIN within a line"],
)
async def test_what_arrived_before_a_break_is_delivered(client: KubeClient, server: ScriptedServer, step: Step) -> None:
    server.on("watch", step)
    lines = client.stream(PATH, {"watch": "true"})
    assert await anext(lines) == b"a"
    with pytest.raises(TransportError):
        await anext(lines)


@in_virtual_time
async def test_what_arrived_before_a_silence_is_delivered() -> None:
    async with a_server() as server, a_client(server) as client:
        server.on("watch", watch(b"a", end="silence"))
        lines = client.stream(PATH, {"watch": "true"}, inactivity_timeout_seconds=70)
        assert await anext(lines) == b"a"
        silent_since = server.clock()
        with pytest.raises(InactivityTimeoutError):
            await anext(lines)
        assert server.clock() - silent_since == pytest.approx(70, abs=0.1)


async def test_no_status_line_in_time_is_not_silence(client: KubeClient, server: ScriptedServer) -> None:
    server.on("watch", silence())
    with pytest.raises(RequestTimeoutError, match=r"no answer within 0\.1 s") as caught:
        await lines_of(client, connect_timeout_seconds=0.1)
    assert not isinstance(caught.value, InactivityTimeoutError)


async def test_a_refused_stream_raises_by_meaning(client: KubeClient, server: ScriptedServer) -> None:
    server.on("watch", refusal(410, "Expired"))
    with pytest.raises(GoneError):
        await lines_of(client)


@in_virtual_time
async def test_the_time_of_the_caller_is_not_the_servers_silence() -> None:
    async with a_server() as server, a_client(server) as client:
        server.on("watch", watch(b"a", b"b"))
        got = []
        async for line in client.stream(PATH, {"watch": "true"}, inactivity_timeout_seconds=70):
            got.append(line)
            await asyncio.sleep(100)
    assert got == [b"a", b"b"]


async def test_closing_the_iterator_closes_the_connection(client: KubeClient, server: ScriptedServer) -> None:
    ended = asyncio.Event()

    async def endless(connection: object) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n")
        try:
            while True:
                await connection.send(b"1\r\nx\r\n")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    server.on("watch", endless)
    async with aclosing(client.stream(PATH, {"watch": "true"})) as lines:
        async for line in lines:
            assert line == b"a"
            break
    await asyncio.wait_for(ended.wait(), patience(5))


async def test_a_full_pool_of_requests_does_not_hold_up_a_watch(server: ScriptedServer) -> None:
    client = KubeClient(Endpoint(server.url), max_connections=1)
    arrived = asyncio.Event()
    server.on("PUT", then=after(arrived.set, silence()))
    server.on("watch", watch(b"a"))
    blocked = [asyncio.ensure_future(client.request("PUT", "/x", body=b"{}", timeout_seconds=600)) for _ in range(3)]
    await asyncio.wait_for(arrived.wait(), patience(5))
    assert await lines_of(client) == [b"a"]
    assert not any(task.done() for task in blocked)
    for task in blocked:
        task.cancel()
    await asyncio.gather(*blocked, return_exceptions=True)
    await client.close()


async def test_an_answer_as_bytes_needs_no_newline_at_its_end(client: KubeClient, server: ScriptedServer) -> None:
    server.on("GET", answer(200, b"a line\nthe end", content_type="text/plain"))
    async with aclosing(client.chunks("/api/v1/namespaces/a/pods/b/log", {"follow": "true"})) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == b"a line\nthe end"
    assert server.requests[0].query == {"follow": "true"}
