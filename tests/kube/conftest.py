import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import pytest
import structlog

from frameworkkube.http.client import KubeClient
from tests.kube.election.electorate import Election
from tests.kube.lab import Lab
from tests.kube.scripted import ScriptedServer, a_client, a_server, answer
from tests.kube.virtualtime import VirtualLoop


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """All tests live in virtual time, unless they ask for `real_time`."""
    assert isinstance(item, pytest.Function)
    return {"real": asyncio.new_event_loop} if "real_time" in item.fixturenames else {"virtual": VirtualLoop}


@pytest.fixture
def real_time() -> None:
    """For a test in which threads work while a time runs out, or that floods a real port."""


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with a_server() as made:
        yield made


@pytest.fixture
async def https() -> AsyncIterator[ScriptedServer]:
    """A server that answers each GET; a test starts it with a certificate."""
    made = ScriptedServer(asyncio.get_running_loop().time)
    made.on("GET", then=answer())
    yield made
    await made.stop()


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[KubeClient]:
    async with a_client(server) as made:
        yield made


@pytest.fixture
async def lab(server: ScriptedServer, client: KubeClient, request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """The server, the client and informers of its Pods; see `BOTH_WAYS` for the parameter."""
    made = Lab(server, client, streamed=getattr(request, "param", "in pages") == "streamed")
    yield made
    await made.stop()


@pytest.fixture
async def world(server: ScriptedServer) -> AsyncIterator[Election]:
    """A server with no Lease yet; no two candidates may work at once, unless the test gives the Lease away itself."""
    made = Election(server)
    for method in ("GET", "POST", "PUT"):
        server.on(method, then=made.step)
    yield made
    for candidate in made.candidates:
        await candidate.close()
    if not made.is_stolen:
        made.assert_never_two()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keeps thousands of expected warnings out of a failing test's report; tests of logs capture them themselves."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()
