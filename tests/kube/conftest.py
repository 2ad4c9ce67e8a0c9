from collections.abc import AsyncIterator, Iterator

import pytest
import structlog

from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from tests.kube.faketime import FakeTime
from tests.kube.lab import Lab
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
async def lab(server: ScriptedServer, client: KubeClient, time: FakeTime) -> AsyncIterator[Lab]:
    """The server, the client and informers of its Pods."""
    made = Lab(server, client, time)
    yield made
    await made.stop()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keeps thousands of expected warnings out of a failing test's report; tests of logs capture them themselves."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()
