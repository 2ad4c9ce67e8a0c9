"""A proxy before the API server that a test can interrupt, and that answers single requests wrongly, on loopback.

It ends TLS with the API server's own certificate, as a load
balancer would, so that it can read requests; answers are forwarded as bytes.
"""

import asyncio
import contextlib
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Self, TypeVar

from localcluster import Cluster
from tests.support.listening import close_listener

T = TypeVar("T")
_MAX_HEAD = 1 << 20
_HANDSHAKE_SECONDS = 10.0


@dataclass(frozen=True)
class Request:
    """The first line of a request."""

    method: str
    target: str

    @property
    def watches(self) -> bool:
        """Whether it opens a watch."""
        return "watch=true" in self.target


@dataclass(frozen=True)
class Fault:
    """What becomes of one request.

    Its kind is `answer` with a status code and do not forward; `lose` the answer of a request that took effect; `slow`;
    `hang` until the client gives up; `tear` the answer within its bytes; `expire` (410, in a watch as an event); `html`
    with status 200.
    """

    kind: str
    code: int = 0  # of `answer`
    seconds: float = 0.0  # the delay of `slow`, and the Retry-After of `answer`, 0 for none
    size: int = 0  # after how many bytes `tear` ends the answer
    forwarded: bool = False  # whether a request that hangs reaches the API server


@dataclass(eq=False)
class _Pair:
    """The two connections of one client, and what becomes of the answer that is on its way."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    fault: Fault | None = None
    passed: int = 0

    def close(self) -> None:
        for writer in (self.near, self.far):
            writer.transport.abort()


class Proxy:
    """Forwards requests to the API server of a cluster; a context manager. It counts in `faults` who met with which.

    Args:
        cluster: The cluster.
        choose: Says what becomes of a request, None for nothing unusual; called in the thread of the proxy.
    """

    def __init__(self, cluster: Cluster, choose: Callable[[Request], Fault | None] = lambda _: None) -> None:
        self.port, self._target, self._choose = 0, cluster.api_port, choose
        self.faults = Counter[str]()
        self._near_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate = cluster.state / "pki" / "server-kube-apiserver.crt"
        self._near_tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._far_tls = ssl.create_default_context(cafile=str(cluster.ca_file))
        self._pairs: set[_Pair] = set()
        self._opening: set[asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.restore()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        """The URL of the API server behind the proxy."""
        return f"https://127.0.0.1:{self.port}"

    def drop(self) -> int:
        """End all connections at once, return their number, and go on to accept new ones."""

        async def drop() -> int:
            pairs, self._pairs = self._pairs, set()
            for pair in pairs:
                pair.close()
            return len(pairs)

        return self._do(drop())

    def cut(self) -> None:
        """End all connections and refuse new ones."""

        async def stop() -> None:
            server, self._server = self._server, None
            if server is not None:
                await close_listener(server)

        self._do(stop())
        self.drop()

    def restore(self) -> None:
        """Accept connections again, after `cut`, on the same port."""

        async def listen() -> None:
            if self._server is None:
                self._server = await asyncio.start_server(
                    self._accept, "127.0.0.1", self.port, ssl=self._near_tls, limit=_MAX_HEAD
                )
                self.port = self._server.sockets[0].getsockname()[1]

        self._do(listen())

    # --- in the thread of the loop -----------------------------------------------------------------------------------

    def _do(self, coroutine: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    async def _end(self) -> None:
        # Of a client in its TLS handshake only a task of asyncio's server knows, so all tasks of this loop are ended.
        # The pauses let what was accepted reach its handshake, and what was cancelled close its sockets.
        await asyncio.sleep(0.05)
        while tasks := asyncio.all_tasks() - {asyncio.current_task()} - self._opening:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await asyncio.sleep(0.05)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._connect(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # one of the two sides is gone, or the test is over
        finally:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # asyncio loses a connection that is cancelled between TCP and TLS, so this one is completed first.
        opening = asyncio.ensure_future(
            asyncio.open_connection(
                "127.0.0.1", self._target, ssl=self._far_tls, limit=_MAX_HEAD, ssl_handshake_timeout=_HANDSHAKE_SECONDS
            )
        )
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        try:
            answers, far = await asyncio.shield(opening)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                (await opening)[1].transport.abort()
            raise
        pair = _Pair(writer, far)
        self._pairs.add(pair)
        pump = asyncio.create_task(self._pump(answers, pair))
        try:
            while True:
                await self._forward(reader, pair)
        finally:
            pump.cancel()
            pair.close()
            self._pairs.discard(pair)
            await asyncio.gather(pump, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, pair: _Pair) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        request = Request(method, target)
        fault = pair.fault = self._choose(request)
        pair.passed = 0
        if fault is not None:
            self.faults[f"{fault.kind} {fault.code or ''}".strip()] += 1
            if fault.kind in {"answer", "expire", "html"}:
                pair.near.write(_answer(fault, request))
                await pair.near.drain()
                return
            if fault.kind == "slow":
                await asyncio.sleep(fault.seconds)
            if fault.kind == "hang" and not fault.forwarded:
                # Until the client closes the connection, or it is dropped.
                await reader.readexactly(1)
        pair.far.write(head + body)
        await pair.far.drain()

    async def _pump(self, answers: asyncio.StreamReader, pair: _Pair) -> None:
        with contextlib.suppress(OSError):
            while data := await answers.read(65536):
                match pair.fault:
                    case Fault(kind="hang"):
                        continue
                    case Fault(kind="lose"):
                        break
                    case Fault(kind="tear", size=size):
                        pair.near.write(data[: max(0, size - pair.passed)])
                        pair.passed += len(data)
                        await pair.near.drain()
                        if pair.passed >= size:
                            # What was written leaves before the connection ends.
                            await asyncio.sleep(0.05)
                            break
                    case _:
                        pair.near.write(data)
                        await pair.near.drain()
        pair.close()


def _answer(fault: Fault, request: Request) -> bytes:
    """Return a whole answer that the API server did not give."""
    if fault.kind == "html":
        return _http(200, b"<html><body>Sign in to continue</body></html>", "text/html")
    code, reason = (410, "Expired") if fault.kind == "expire" else (fault.code, "Chaos")
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    status |= {"metadata": {}, "message": f"the proxy answers {code}"}
    if fault.kind == "expire" and request.watches:
        return _http(200, json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
    more = f"Retry-After: {int(fault.seconds)}\r\n" if fault.seconds else ""
    return _http(code, json.dumps(status).encode(), more=more)


def _http(code: int, body: bytes, content_type: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {code} Because\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body
