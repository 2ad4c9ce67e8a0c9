"""The lines of an endless answer."""

import asyncio
import random
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkkube.errors import GoneError, InactivityTimeoutError, RequestTimeoutError, TransportError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.lines import MAX_LINE_BYTES, LineSplitter
from testkit.waiting import patience
from tests.kube.lab import Lab
from tests.kube.scripted import Connection, Step, a_client, answer, refusal, silence, watch

PATH = "/api/v1/pods"
LINES = st.binary().map(lambda line: line.replace(b"\n", b""))


async def read(client: KubeClient, lines: list[bytes]) -> list[bytes]:
    """Add the lines of a watch, to its end or until it breaks."""
    async with aclosing(client.stream(PATH, {"watch": "true"})) as stream:
        async for line in stream:
            lines.append(line)  # noqa: PERF401 -- what came before an error counts
    return lines


@given(st.lists(LINES), LINES, st.data())
def test_lines_do_not_depend_on_how_the_bytes_arrive(lines: list[bytes], tail: bytes, data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + tail
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter, found = LineSplitter(), list[bytes]()
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


async def test_a_clean_end_ends_the_iteration_after_lines_of_any_length(lab: Lab) -> None:
    long = [random.Random(0).randbytes(size << 20).replace(b"\n", b" ") for size in (5, 16)]
    lab.on("watch", watch(*long, b"", b"b\r"))
    assert await read(lab.client, []) == [*long, b"", b"b\r"]


ENDS: dict[str, tuple[Step, type[Exception], float]] = {
    "FIN without the final chunk": (watch(b"a", end="fin"), TransportError, 0),
    "reset": (watch(b"a", end="reset"), TransportError, 0),
    "the end within a line": (watch(b"a", tail=b'{"type":"ADD'), TransportError, 0),
    "FIN within a line": (watch(b"a", tail=b'{"type":"ADD', end="fin"), TransportError, 0),
    "silence": (watch(b"a", end="silence"), InactivityTimeoutError, 70),
    "no status line in time": (silence, RequestTimeoutError, 10),
    "a refusal": (refusal(410, "Expired"), GoneError, 0),
}


@pytest.mark.parametrize(("step", "error", "seconds"), ENDS.values(), ids=ENDS)
async def test_what_arrived_precedes_the_error(lab: Lab, step: Step, error: type[Exception], seconds: float) -> None:
    lab.on("watch", step)
    got, begun = list[bytes](), lab.server.clock()
    with pytest.raises(error) as caught:
        await read(lab.client, got)
    assert type(caught.value) is error
    assert got == ([] if error in {RequestTimeoutError, GoneError} else [b"a"])
    assert lab.server.clock() - begun == pytest.approx(seconds, abs=0.1)


async def test_the_time_of_the_caller_is_not_the_servers_silence(lab: Lab) -> None:
    lab.on("watch", watch(b"a", b"b"))
    got = []
    async for line in lab.client.stream(PATH, {"watch": "true"}, inactivity_timeout_seconds=70):
        got.append(line)
        await asyncio.sleep(100)
    assert got == [b"a", b"b"]


async def test_closing_the_iterator_closes_the_connection(lab: Lab) -> None:
    ended = asyncio.Event()

    async def endless(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n")
        try:
            while True:
                await connection.send(b"1\r\nx\r\n")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    lab.on("watch", endless)
    async with aclosing(lab.client.stream(PATH, {"watch": "true"})) as lines:
        assert await anext(lines) == b"a"
    await asyncio.wait_for(ended.wait(), patience(5))


async def test_a_full_pool_of_requests_does_not_hold_up_a_watch(lab: Lab) -> None:
    lab.on("PUT", then=silence)
    lab.on("watch", watch(b"a"))
    async with a_client(lab.server, max_connections=1) as client, asyncio.TaskGroup() as blocked:
        writes = [blocked.create_task(client.request("PUT", "/x", body=b"{}", timeout_seconds=600)) for _ in range(3)]
        await lab.eventually(lambda: lab.of("PUT"))
        assert await read(client, []) == [b"a"]
        assert not any(write.done() for write in writes)
        for write in writes:
            write.cancel()


async def test_an_answer_as_bytes_needs_no_newline_at_its_end(lab: Lab) -> None:
    lab.on("GET", answer(200, b"a line\nthe end", content_type="text/plain"))
    async with aclosing(lab.client.chunks("/api/v1/namespaces/a/pods/b/log", {"follow": "true"})) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == b"a line\nthe end"
    assert lab.requests[0].query == {"follow": "true"}
