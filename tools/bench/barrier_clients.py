"""Clients that stand for many barriers in one process: bare watches, and pollers like FC's barrier."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import http.client
import json
import selectors
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode, urlsplit

import aiohttp

if TYPE_CHECKING:
    from barrier_gang import Gang, Stage

POLL_SECONDS = 10.0
# A machine cannot open 1,000 watches at once; those of a real gang open over some seconds, too.
OPENING_AT_A_TIME = 50


class Watches:
    """Bare watches of the roster, many in one process, read by one thread.

    They stand for barriers on other machines, so they must cost little here.

    Args:
        stage: The environment of the gang.
        gang: The gang.
        count: The number of watches.

    Attributes:
        bytes: The bytes received.
        requests: The requests sent.
    """

    def __init__(self, stage: Stage, gang: Gang, count: int) -> None:
        server = urlsplit(stage.cluster.server)
        self._address = (server.hostname or "", server.port or 443)
        self._tls = ssl.create_default_context(cafile=str(stage.cluster.ca_file))
        self._token = stage.token
        self._path = f"/api/v1/namespaces/{gang.namespace}/configmaps"
        self._name = gang.config_map
        self.bytes = 0
        self.requests = 0
        with ThreadPoolExecutor(OPENING_AT_A_TIME) as opening:
            self._sockets = list(opening.map(lambda _: self._open(), range(count)))

    def _open(self) -> ssl.SSLSocket:
        """Read the roster and start a watch from its version."""
        found = self._tls.wrap_socket(socket.create_connection(self._address), server_hostname=self._address[0])
        answer = http.client.HTTPResponse(self._ask(found, f"{self._path}/{self._name}"))
        answer.begin()
        first = answer.read()
        params = {
            "watch": "1",
            "fieldSelector": f"metadata.name={self._name}",
            "resourceVersion": json.loads(first)["metadata"]["resourceVersion"],
            "allowWatchBookmarks": "true",
        }
        head = b""
        self._ask(found, f"{self._path}?{urlencode(params)}")
        while not head.endswith(b"\r\n\r\n"):
            head += found.recv(1)
        assert head.startswith(b"HTTP/1.1 200 "), head
        self.requests += 2
        self.bytes += len(first)
        found.setblocking(False)  # noqa: FBT003 -- the standard library's signature
        return found

    def _ask(self, found: ssl.SSLSocket, path: str) -> ssl.SSLSocket:
        found.sendall(f"GET {path} HTTP/1.1\r\nHost: server\r\nAuthorization: Bearer {self._token}\r\n\r\n".encode())
        return found

    def released(self) -> list[float]:
        """Wait until all watches have the complete roster; return when each had it, in monotonic seconds."""
        times: list[float] = []
        received = {found: bytearray() for found in self._sockets}
        with selectors.DefaultSelector() as ready:
            for found in received:
                ready.register(found, selectors.EVENT_READ)
            while ready.get_map():
                for key, _ in ready.select():
                    found = cast("ssl.SSLSocket", key.fileobj)
                    if self._read(found, received[found]):
                        times.append(time.monotonic())
                        ready.unregister(found)
        self.bytes += sum(map(len, received.values()))
        return times

    def _read(self, found: ssl.SSLSocket, received: bytearray) -> bool:
        """Read the available bytes; return whether they end the event with the complete roster."""
        with contextlib.suppress(ssl.SSLWantReadError):
            while data := found.recv(2**16):
                received += data
            raise AssertionError("the watch has ended")
        return received.endswith(b"}\n\r\n") and (rb"\"complete\":true" in received or b'"roster.gz"' in received)

    def close(self) -> None:
        """Close the connections."""
        for found in self._sockets:
            found.close()


class Pollers:
    """Barriers like FC's, which poll the Framework object.

    Args:
        stage: The environment of the gang.
        gang: The gang.

    Attributes:
        bytes: The bytes received, compressed as they were sent.
        requests: The requests sent.
        refused: The answers with status 429.
        released: When each poller saw the last address, in monotonic seconds.
    """

    def __init__(self, stage: Stage, gang: Gang) -> None:
        self._server = stage.cluster.server
        self._tls = ssl.create_default_context(cafile=str(stage.cluster.ca_file))
        self._headers = {"Authorization": f"Bearer {stage.token}"}
        self._gang = gang
        self.bytes = 0
        self.requests = 0
        self.refused = 0
        self.released: list[float] = []

    def session(self) -> aiohttp.ClientSession:
        """Return a session without a limit of connections that leaves bodies compressed."""
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        return aiohttp.ClientSession(
            self._server, connector=connector, headers=self._headers, read_bufsize=2**20, auto_decompress=False
        )

    async def poll(self, session: aiohttp.ClientSession, delay: float, until: float) -> None:
        """Poll the Framework, after a delay, until its status has the last address or the time is over."""
        await asyncio.sleep(delay)
        path = f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/{self._gang.namespace}/frameworks"
        while True:
            async with session.get(f"{path}/{self._gang.name}") as answer:
                data = await answer.read()
            self.requests += 1
            self.bytes += len(data)
            if answer.status == 429:
                self.refused += 1
                await asyncio.sleep(1)
                continue
            answer.raise_for_status()
            if answer.headers.get("Content-Encoding") == "gzip":
                data = gzip.decompress(data)
            if _shows(data, self._gang.last_ip):
                self.released.append(time.monotonic())
                return
            if time.monotonic() > until:
                return
            await asyncio.sleep(POLL_SECONDS)


def _shows(framework: bytes, address: str) -> bool:
    """Report whether the status has this address, plainly or in the compressed field."""
    wanted = f'"podIP":"{address}"'.encode()
    if wanted in framework or b'"taskRoleStatusesCompressed"' not in framework:
        return wanted in framework
    packed = json.loads(framework)["status"]["attemptStatus"]["taskRoleStatusesCompressed"]
    return wanted in gzip.decompress(base64.b64decode(packed))
