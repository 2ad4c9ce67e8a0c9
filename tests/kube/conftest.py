import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import structlog

from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.informer.informer import Informer
from testkit.waiting import patience
from tests.kube.faketime import FakeTime
from tests.kube.pods import DECODER, PATH, Changes, Pod
from tests.kube.scripted import ScriptedServer


@pytest.fixture
async def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
async def server(time: FakeTime) -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer(time.clock)
    await scripted.start()
    yield scripted
    await scripted.stop()


@pytest.fixture
async def client(server: ScriptedServer, time: FakeTime) -> AsyncIterator[KubeClient]:
    """A client of the scripted server that lives in fake time."""
    made = KubeClient(Endpoint(server.url), clock=time.clock)
    yield made
    await made.close()


@pytest.fixture
async def run() -> AsyncIterator[Callable[[Awaitable[object]], "asyncio.Future[object]"]]:
    """Starts something endless; it is stopped after the test, and a crash of it fails the test."""
    tasks: list[asyncio.Future[object]] = []

    def start(work: Awaitable[object]) -> "asyncio.Future[object]":
        tasks.append(asyncio.ensure_future(work))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def changes() -> Changes:
    return Changes([])


@pytest.fixture
def informer(client: KubeClient, time: FakeTime, changes: Changes) -> Callable[..., Informer[Pod]]:
    """Makes an informer of Pods that lives in fake time; `draw=0` means the shortest waits that the jitter may give."""

    def make(draw: float = 0.0, **settings: Any) -> Informer[Pod]:
        defaults = {"on_change": changes, "clock": time.clock, "sleep": time.sleep, "draw": lambda: draw}
        return Informer(client, PATH, DECODER, **(defaults | settings))

    return make


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Waits in real time until the condition holds."""

    async def wait(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(patience(5)):
            while not condition():  # noqa: ASYNC110 -- any condition, not only one with an event
                await asyncio.sleep(0.002)

    return wait


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keeps thousands of expected warnings out of a failing test's report; tests of logs capture them themselves."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()
