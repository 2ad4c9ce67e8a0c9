"""A client that is closed leaves no socket behind: the event loop may be closed right after it."""

import asyncio
import gc
import socket

import pytest
import trustme

from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from tests.kube.scripted import Connection, ScriptedServer, answer, serving, watch

PATH = "/api/v1/pods"


@pytest.fixture
async def client(https: ScriptedServer) -> KubeClient:
    await https.start(serving(trustme.CA(), "127.0.0.1"))
    return KubeClient(Endpoint(https.url, verify=False))


def open_sockets(server: ScriptedServer) -> list[socket.socket]:
    """The sockets of this process that are connected to the server."""
    found = [one for one in gc.get_objects() if isinstance(one, socket.socket) and one.fileno() != -1]
    return [one for one in found if one.family == socket.AF_INET and _peer(one) == server.port]


def _peer(one: socket.socket) -> int:
    try:
        return int(one.getpeername()[1])
    except OSError:  # it listens
        return 0


async def test_a_closed_client_leaves_none_of_its_connections_open(client: KubeClient, https: ScriptedServer) -> None:
    deaf: list[asyncio.Transport] = []

    async def last_answer(connection: Connection) -> None:
        """The connection is not used again, and the server never notices that the client ends TLS."""
        transport = connection.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        deaf.append(transport)
        await answer(Connection="close")(connection)

    https.on("PUT", then=last_answer)
    https.on("watch", watch(b"{}", end="silence"))
    await asyncio.gather(*(client.replace(PATH, b"{}") for _ in range(10)))
    await client.get(PATH)
    lines = client.stream(PATH, {"watch": "true"})
    assert await anext(lines) == b"{}"
    assert len(open_sockets(https)) > 2, "that of the watch, one that is kept, and some that are not used again"
    await client.close()
    assert not open_sockets(https)
    await lines.aclose()
    for transport in deaf:
        transport.abort()
