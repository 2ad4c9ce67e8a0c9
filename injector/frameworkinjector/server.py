"""The HTTPS server that the API server calls: bounded in bytes, time and connections; it stops without losing a call.

It answers 200 to every review, 4xx to what is none, and never 3xx: an answer must not send the API server elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from asyncio import sslproto
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import PayloadAccessError, RequestPayloadError

from frameworkinjector.logs import place_of
from frameworkinjector.reasons import Outcome, Reason, verdict
from frameworkinjector.review import Answer, rejected

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from frameworkinjector.metrics import Metrics

PATH: Final = "/mutate"
ALIVE_PATH: Final = "/healthz"
QUIET_SECONDS: Final = 0.3
# A TLS connection that broke is a cycle with some 30 KiB of buffers. The collector counts objects, not bytes: left to
# itself it lets thousands of them wait. One full collection after this many costs less than one of their handshakes.
COLLECT_EVERY: Final = 64
# For each connection, from its first byte, asyncio fills a buffer of this size with zeros: by default 256 KiB, so that
# connections which say nothing took more memory than everything else. A TLS record has at most 16 KiB.
sslproto.SSLProtocol.max_size = 32 * 1024
_log = structlog.get_logger("frameworkinjector")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of what a client may cost us.

    Attributes:
        body_bytes: Of a request. The API server itself takes no object over 3 MiB.
        body_seconds: For the body to arrive; below the webhook's ``timeoutSeconds``, after which nobody listens.
        first_request_seconds: For a new connection to have sent a whole request head.
        handshake_seconds: For TLS.
        idle_seconds: Between requests; above the 90 s after which the API server closes idle connections itself.
        connections: At once; for one more the oldest that has asked nothing yet is closed, or the new one itself.
        small_bytes: Bodies up to this size are read whenever they come,
        large_bodies: larger ones only this many at a time, so that the memory for bodies is bounded.
    """

    body_bytes: int = 3 * 1024 * 1024
    body_seconds: float = 4.0
    first_request_seconds: float = 10.0
    handshake_seconds: float = 5.0
    idle_seconds: float = 300.0
    connections: int = 512
    small_bytes: int = 64 * 1024
    large_bodies: int = 8


class Reviewer(Protocol):
    """Turns a body into an answer; must not raise."""

    def __call__(self, body: bytes, /) -> Answer:
        """Reviews one body."""


class _BodyError(Exception):
    """The body cannot be had; carries the answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.verdict.sentence)
        self.answer = answer


class _Failures(logging.Handler):
    """What the HTTP library would log, told in our way: its own messages quote the bytes that it could not parse."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(logging.WARNING)
        self._metrics = metrics

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            found = verdict(Reason.NOT_HTTP)
            self._metrics.review(found, None)
            _note(rejected(found))
        else:
            _log.error("request failed", error=type(error).__name__, at="" if error is None else place_of(error))

    def logger(self) -> logging.Logger:
        """A logger that leads here and nowhere else."""
        found = logging.Logger("frameworkinjector.http", logging.WARNING)  # noqa: LOG001 -- one for each server
        found.addHandler(self)
        return found


class _Connections(web.Server):
    """A server that bounds its connections, and closes those that never ask anything."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], limits: Limits, metrics: Metrics) -> None:
        super().__init__(
            handler,
            keepalive_timeout=limits.idle_seconds,
            access_log=None,
            logger=_Failures(metrics).logger(),
            # A bomb in gzip is not unpacked: Content-Encoding is refused.
            auto_decompress=False,
            lingering_time=1.0,
        )
        self._limits = limits
        self._metrics = metrics
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        self._lost = 0

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._silent[handler] = asyncio.get_running_loop().call_later(
            self._limits.first_request_seconds, transport.abort
        )
        if len(self.connections) > self._limits.connections:
            oldest = next(iter(self._silent))
            self.spoke(oldest)
            if oldest.transport is not None:
                oldest.transport.abort()
        self._metrics.connections.set(len(self.connections))

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._metrics.connections.set(len(self.connections))
        self.spoke(handler)
        self._lost += 1
        if self._lost % COLLECT_EVERY == 0:
            gc.collect()

    def spoke(self, handler: web.RequestHandler) -> None:
        """A whole request head has arrived: the connection is not a silent one."""
        timer = self._silent.pop(handler, None)
        if timer is not None:
            timer.cancel()


class ReviewServer:
    """Listens, reads bodies, asks the reviewer, answers, logs and counts.

    Args:
        review: The decision.
        metrics: Where requests are counted.
        limits: What clients may cost.
    """

    def __init__(self, review: Reviewer, metrics: Metrics, limits: Limits | None = None) -> None:
        self._review = review
        self._metrics = metrics
        self._limits = limits or Limits()
        self._large = asyncio.Semaphore(self._limits.large_bodies)
        self._connections = _Connections(self._handle, self._limits, metrics)
        self._listener: asyncio.Server | None = None
        self._stopping = False
        self._in_flight = 0
        self._begun = 0

    async def start(self, host: str | None, port: int, context: ssl.SSLContext | None) -> int:
        """Listens, on every address (IPv4 and IPv6) if ``host`` is None; returns the port."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._connections,
            host,
            port,
            backlog=1024,
            ssl=context,
            ssl_handshake_timeout=None if context is None else self._limits.handshake_seconds,
        )
        found: int = self._listener.sockets[0].getsockname()[1]
        return found

    def drain(self) -> None:
        """Goes on answering, but asks each client to come back on another connection."""
        self._stopping = True

    async def stop(self, seconds: float) -> None:
        """Takes no new connections, lets requests end for at most ``seconds``, and closes what is open."""
        self._stopping = True
        if self._listener is not None:
            self._listener.close()
        # First the requests that have begun or are on their way over connections that have, then the connections: one
        # that is being closed reads no more.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not await self._quiet():
                    continue
        self._connections.pre_shutdown()
        await self._connections.shutdown(0.5)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._connections.spoke(request.protocol)
        self._in_flight += 1
        self._begun += 1
        try:
            return await self._answer(request)
        finally:
            self._in_flight -= 1

    async def _quiet(self) -> bool:
        """Whether nothing was going on for a moment."""
        begun = self._begun
        await asyncio.sleep(QUIET_SECONDS)
        return self._begun == begun and not self._in_flight

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == ALIVE_PATH and request.method == "GET":
            return web.Response(text="ok\n")
        seconds: float | None = None
        try:
            body = await self._body(request)
        except _BodyError as error:
            answer = error.answer
        else:
            started = time.perf_counter()
            answer = self._review(body)
            seconds = time.perf_counter() - started
        self._metrics.review(answer.verdict, seconds)
        _note(answer)
        response = web.Response(status=answer.status, body=answer.body, content_type="application/json")
        if self._stopping or answer.verdict.reason.outcome is Outcome.REJECTED:
            # The rest of a rejected body is not worth reading.
            response.force_close()
        return response

    async def _body(self, request: web.BaseRequest) -> bytes:
        """The whole body.

        Raises:
            _BodyError: It is refused unread, too large, too slow, or broken.
        """
        limits = self._limits
        if request.path != PATH:
            raise _BodyError(rejected(verdict(Reason.WRONG_PATH, path=PATH)))
        if request.method != "POST":
            raise _BodyError(rejected(verdict(Reason.WRONG_METHOD)))
        if request.content_type != "application/json" or "Content-Encoding" in request.headers:
            raise _BodyError(rejected(verdict(Reason.WRONG_MEDIA_TYPE)))
        length = request.content_length
        if length is not None and length > limits.body_bytes:
            raise _BodyError(rejected(verdict(Reason.BODY_TOO_LARGE, limit=str(limits.body_bytes))))
        try:
            async with asyncio.timeout(limits.body_seconds):
                if length is not None and length <= limits.small_bytes:
                    return await self._read(request)
                async with self._large:
                    return await self._read(request)
        except TimeoutError:
            raise _BodyError(rejected(verdict(Reason.BODY_TOO_SLOW, seconds=f"{limits.body_seconds:g}"))) from None
        except (RequestPayloadError, PayloadAccessError, ValueError):
            raise _BodyError(rejected(verdict(Reason.NOT_A_REVIEW, problem="it is broken off"))) from None

    async def _read(self, request: web.BaseRequest) -> bytes:
        found = bytearray()
        while chunk := await request.content.readany():
            found += chunk
            if len(found) > self._limits.body_bytes:
                raise _BodyError(rejected(verdict(Reason.BODY_TOO_LARGE, limit=str(self._limits.body_bytes))))
        return bytes(found)


def _note(answer: Answer) -> None:
    """One line per request: who and what came of it, never any part of the Pod."""
    reason = answer.verdict.reason
    fields = {
        "uid": answer.uid,
        "kind": answer.kind[:64],
        "namespace": answer.namespace[:64],
        "outcome": reason.outcome.value,
        "reason": reason.slug,
    }
    if answer.failure is not None:
        # The text of an exception may quote the Pod; its type and place do not.
        _log.error("review failed", **fields, error=type(answer.failure).__name__, at=place_of(answer.failure))
    else:
        _log.info("reviewed", **fields)
