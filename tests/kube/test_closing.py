"""A client that is closed leaves no socket behind: the event loop may be closed right after it."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from tests.kube.scripted import Connection, ScriptedServer, answer, watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.kube.faketime import FakeTime

PATH = "/api/v1/pods"


@pytest.fixture
async def https(time: FakeTime, tmp_path: Path) -> AsyncIterator[ScriptedServer]:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca"))
    server = ScriptedServer(time.clock)
    await server.start(context)
    yield server
    await server.stop()


@pytest.fixture
async def client(https: ScriptedServer, tmp_path: Path) -> KubeClient:
    return KubeClient(Endpoint(https.url, ca_file=tmp_path / "ca"))


def open_sockets(server: ScriptedServer) -> list[socket.socket]:
    """The sockets of this process that are connected to the server."""
    found = [one for one in gc.get_objects() if isinstance(one, socket.socket) and one.fileno() != -1]
    return [one for one in found if one.family == socket.AF_INET and _peer(one) == server.port]


def _peer(one: socket.socket) -> int:
    try:
        return int(one.getpeername()[1])
    except OSError:  # it listens
        return 0


async def test_a_connection_that_is_not_used_again_is_closed_with_the_client(
    client: KubeClient, https: ScriptedServer
) -> None:
    deaf: list[asyncio.Transport] = []

    async def last_answer(connection: Connection) -> None:
        """The server never notices that the client ends TLS."""
        transport = connection.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        deaf.append(transport)
        await answer(Connection="close")(connection)

    https.on("GET", then=last_answer)
    await asyncio.gather(*(client.get(PATH) for _ in range(10)))
    assert open_sockets(https)
    await client.close()
    assert not open_sockets(https)
    for transport in deaf:
        transport.abort()


async def test_a_watch_and_kept_connections_are_closed_with_the_client(
    client: KubeClient, https: ScriptedServer
) -> None:
    https.on("GET", then=answer())
    https.on("watch", then=watch({}, end="silence"))
    lines = client.stream(PATH, {"watch": "true"})
    assert await anext(lines) == b"{}"
    await client.get(PATH)
    assert len(open_sockets(https)) == 2
    await client.close()
    assert not open_sockets(https)
    await lines.aclose()
