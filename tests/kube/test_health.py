"""What the port of health and metrics answers, and what its clients can cost: connections, memory, renderings."""

import asyncio
import contextlib
import resource
import select
import socket
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import pytest
import uvloop

from frameworkkube.serving.health import CONNECTIONS, HealthServer
from frameworkkube.serving.places import ConnectionLimits
from testkit.waiting import patience

pytestmark = pytest.mark.usefixtures("real_time")
IDLE = 2000


@contextlib.asynccontextmanager
async def serving(
    trouble: str = "", not_ready: tuple[str, ...] = (), metrics: Callable[[], bytes] = bytes, **more: Any
) -> AsyncIterator[int]:
    """The port of a server."""
    server = HealthServer(lambda: trouble, lambda: list(not_ready), metrics, **more)
    port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await server.stop()


async def answered(port: int, path: str) -> tuple[int, str]:
    timeout = aiohttp.ClientTimeout(total=patience(5))
    async with aiohttp.request("GET", f"http://127.0.0.1:{port}{path}", timeout=timeout) as answer:
        assert answer.headers["Connection"] == "close"
        return answer.status, await answer.text()


@pytest.fixture
def _many_files() -> Iterator[None]:
    """Both ends of all connections are in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.asynccontextmanager
async def connected(port: int, count: int, sent: bytes = b"", buffer: int = 0) -> AsyncIterator[list[socket.socket]]:
    """So many connections of one client; those that the server closes while they send have sent a part."""
    loop, made = asyncio.get_running_loop(), []
    try:
        for _ in range(count):
            made.append(socket.socket())
            made[-1].setblocking(False)
            if buffer:
                made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            await loop.sock_connect(made[-1], ("127.0.0.1", port))
            with contextlib.suppress(ConnectionError):
                await loop.sock_sendall(made[-1], sent)
        yield made
    finally:
        for one in made:
            one.close()


def still_open(sockets: list[socket.socket]) -> int:
    """How many of them the server has not closed; reads nothing."""
    poll = select.poll()
    for one in sockets:
        poll.register(one, select.POLLRDHUP)
    return len(sockets) - len(poll.poll(0))


async def all_closed(sockets: list[socket.socket]) -> None:
    async with asyncio.timeout(patience(10)):
        while still_open(sockets):  # noqa: ASYNC110 -- the kernel has no event for it
            await asyncio.sleep(0.01)


async def test_a_process_that_works_is_healthy_and_ready() -> None:
    async with serving(metrics=lambda: b"workqueue_adds_total 1\n") as port:
        assert await answered(port, "/healthz") == await answered(port, "/readyz") == (200, "ok\n")
        assert await answered(port, "/metrics") == (200, "workqueue_adds_total 1\n")
        assert (await answered(port, "/"))[0] == 404


async def test_a_process_that_cannot_work_any_more_or_not_yet_says_why() -> None:
    async with serving(trouble="the lease is lost", not_ready=("the caches are not full yet",)) as port:
        assert await answered(port, "/healthz") == (503, "the lease is lost\n")
        assert await answered(port, "/readyz") == (503, "not ready: the caches are not full yet\n")
    async with serving(not_ready=("the caches are not full yet",)) as port:
        assert await answered(port, "/healthz") == (200, "ok\n")


async def test_a_defect_of_one_answer_costs_no_other_answer() -> None:
    def failing() -> bytes:
        raise ZeroDivisionError

    async with serving(metrics=failing) as port:
        assert (await answered(port, "/metrics"))[0] == 500
        assert await answered(port, "/healthz") == (200, "ok\n")


BEGUN = b"GET /healthz HTTP/1.1\r\n"
HOARDED = {
    "idle": b"",
    "half a request": BEGUN,
    "headers without end": BEGUN + b"".join(b"X-%d: %s\r\n" % (number, b"x" * 900) for number in range(31)),
}


@pytest.mark.usefixtures("_many_files")
@pytest.mark.parametrize("sent", HOARDED.values(), ids=HOARDED)
async def test_two_thousand_connections_leave_room_for_a_probe_and_cost_little_memory(sent: bytes) -> None:
    tracemalloc.start()
    try:
        async with serving() as port, connected(port, IDLE, sent) as sockets:
            assert await answered(port, "/healthz") == (200, "ok\n")
            assert still_open(sockets) < CONNECTIONS.of_one_source
            peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 48 connections of at most 32 KiB each, and the sockets of the client.
    assert peak < 8 << 20


def test_on_the_event_loop_of_the_controller_connections_are_bounded_too() -> None:
    async def probe_beside_many() -> None:
        async with serving() as port, connected(port, 200) as sockets:
            assert await answered(port, "/healthz") == (200, "ok\n")
            assert still_open(sockets) < CONNECTIONS.of_one_source

    uvloop.run(probe_beside_many())


async def test_what_is_more_than_a_probe_sends_is_refused_at_once() -> None:
    begun = b"POST /healthz HTTP/1.1\r\nHost: x\r\n"
    for sent in (b"X: " + b"x" * 2000, b"X: x\r\n" * 40, b"Content-Length: 1000000000\r\n\r\n"):
        async with serving() as port, connected(port, 1, begun + sent) as sockets:
            await all_closed(sockets)


async def test_a_client_that_never_reads_its_metrics_is_closed() -> None:
    limits = ConnectionLimits(waiting=0, grace_seconds=0, own_grace_seconds=0, first_request_seconds=1)
    async with (
        serving(metrics=lambda: b"x" * (32 << 20), limits=limits) as port,
        connected(port, 1, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", buffer=4096) as sockets,
    ):
        await all_closed(sockets)


async def test_many_scrapes_at_once_cost_one_rendering_and_a_twentieth_of_the_time() -> None:
    renderings, now = 0, 0.0

    def render() -> bytes:
        nonlocal renderings, now
        renderings, now = renderings + 1, now + 0.1
        return b"%d\n" % renderings

    async with serving(metrics=render, clock=lambda: now) as port:
        texts = await asyncio.gather(*(answered(port, "/metrics") for _ in range(40)))
        assert texts == [(200, "1\n")] * 40
        now += 1.9
        assert await answered(port, "/metrics") == (200, "1\n")
        now += 0.2
        assert await answered(port, "/metrics") == (200, "2\n")
