"""A real HTTP server on a socket that does what a test scripts, misbehaviour included, and remembers the requests."""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import trustme

from frameworkkube.errors import InvalidError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from tests.support.listening import close_listener


def refuse_to_list(query: Mapping[str, str]) -> None:
    """Answer a watch that is to begin with a list as Kubernetes 1.30 does.

    Raises:
        InvalidError: It is such a watch.
    """
    if "sendInitialEvents" in query:
        text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        raise InvalidError(422, "Invalid", text)


@dataclass(frozen=True)
class Request:
    """What came in, and when by the test's clock."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: float
    connection: int

    @property
    def kind(self) -> str:
        if self.method != "GET":
            return self.method
        if self.query.get("sendInitialEvents") == "true":
            return "stream"
        if self.query.get("watch") == "true":
            return "watch"
        # An informer asks for the metadata of one object to learn the newest version.
        is_short = self.query.get("limit") == "1" and "PartialObjectMetadataList" in self.headers.get("accept", "")
        return "version" if is_short else "GET"


@dataclass
class Connection:
    """The answering side of one TCP connection."""

    writer: asyncio.StreamWriter
    request: Request

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """RST instead of FIN."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Step = Callable[[Connection], Awaitable[None]]
_PIECE = 1 << 16


def answer(status: int = 200, body: object = None, *, content_type: str = "application/json", **headers: str) -> Step:
    """A complete answer; a body that is not bytes is sent as JSON."""
    payload = body if isinstance(body, bytes) else json.dumps(body if body is not None else {}).encode()

    async def step(connection: Connection) -> None:
        lines = [f"HTTP/1.1 {status} Because", f"Content-Type: {content_type}", f"Content-Length: {len(payload)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await connection.send("\r\n".join(lines).encode() + b"\r\n\r\n" + payload)

    return step


def refusal(code: int, reason: str, message: str = "because", **details: object) -> Step:
    """A Status object, as the API server refuses."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "details": details or None}
    return answer(code, status | {"code": code, "reason": reason, "message": message})


async def reset_connection(connection: Connection) -> None:
    connection.reset()


async def hang_up(connection: Connection) -> None:
    """FIN without an answer."""
    connection.writer.close()


async def silence(connection: Connection) -> None:
    """Half-open: the request was taken, nothing comes back."""
    await asyncio.Event().wait()


def watch(*lines: bytes, end: str = "clean", tail: bytes = b"", lasts: float = 0) -> Step:
    """A chunked stream of lines, and how it ends, so many seconds later.

    `clean`: final chunk; `fin`: closed without it; `reset`: RST; `silence`: open for ever.
    """

    async def step(connection: Connection) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        data = b"".join(line + b"\n" for line in lines) + tail
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            await connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        await asyncio.sleep(lasts)
        match end:
            case "clean":
                await connection.send(b"0\r\n\r\n")
            case "fin":
                connection.writer.close()
            case "reset":
                # Let the client read what was written: an RST discards it. Turns of the loop, not time, let it read.
                for _ in range(20):
                    await asyncio.sleep(0.002)
                connection.reset()
            case "silence":
                await silence(connection)

    return step


SILENT = watch(end="silence")
TEXT_429 = answer(429, b"Too many requests, please try again later.\n", content_type="text/plain", Retry_After="1")
"""As an API server refuses whose flow control has no place; the pause is a second."""


def after(effect: Callable[[], None], step: Step) -> Step:
    """The request takes effect before the answer goes wrong."""

    async def both(connection: Connection) -> None:
        effect()
        await step(connection)

    return both


def serving(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    """TLS with a certificate for these names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


_AFTER_ALL = {"metadata": {"resourceVersion": str(1 << 40)}, "items": []}
"""A list of a version that no test has seen."""


@dataclass
class ScriptedServer:
    """Steps per kind of request (`GET`, `watch`, `stream`, or the method), used up one by one; then `then` repeats.

    A list that is streamed is refused, as by Kubernetes 1.30, unless a test says otherwise.
    """

    clock: Callable[[], float]
    requests: list[Request] = field(default_factory=list)
    _steps: dict[str, deque[Step]] = field(default_factory=dict)
    _then: dict[str, Step] = field(
        default_factory=lambda: {"version": answer(body=_AFTER_ALL), "stream": refusal(422, "Invalid")}
    )
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _connections: int = 0
    port: int = 0
    scheme: str = "http"

    def on(self, kind: str, *steps: Step, then: Step | None = None) -> None:
        self._steps.setdefault(kind, deque()).extend(steps)
        if then is not None:
            self._then[kind] = then

    def of(self, kind: str) -> list[Request]:
        return [request for request in self.requests if request.kind == kind]

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=tls, limit=1 << 26)
        self.port = self._server.sockets[0].getsockname()[1]
        self.scheme = "https" if tls else "http"

    async def stop(self) -> None:
        assert self._server is not None
        await close_listener(self._server)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections += 1
        try:
            await self._serve(reader, writer, self._connections)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the test ended
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> None:
        while not writer.is_closing():
            request = await self._read(reader, connection)
            self.requests.append(request)
            steps = self._steps.get(request.kind)
            step = steps.popleft() if steps else self._then.get(request.kind, refusal(599, "Unscripted", request.kind))
            await step(Connection(writer, request))

    async def _read(self, reader: asyncio.StreamReader, connection: int) -> Request:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers: dict[str, str] = {}
        for name, _, value in (line.partition(":") for line in lines):
            known = headers.get(name.lower())
            headers[name.lower()] = value.strip() if known is None else f"{known}, {value.strip()}"
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        parts = urlsplit(target)
        return Request(method, parts.path, dict(parse_qsl(parts.query)), headers, body, self.clock(), connection)


@contextlib.asynccontextmanager
async def a_server() -> AsyncIterator[ScriptedServer]:
    """A server that lives in the time of the running event loop."""
    server = ScriptedServer(asyncio.get_running_loop().time)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def a_client(
    server: ScriptedServer, credentials: Mapping[str, Any] = MappingProxyType({}), **options: Any
) -> AsyncIterator[KubeClient]:
    """A client of a server that lives in the server's time; the credentials are arguments of its `Endpoint`."""
    client = KubeClient(Endpoint(server.url, **credentials), **({"clock": server.clock} | options))
    try:
        yield client
    finally:
        await client.close()
