"""The HTTPS server that the API server calls with an AdmissionReview for each new Pod with the barrier's label.

`run` creates one `ReviewServer` and starts it with the listener's TLS context. The server bounds bodies in bytes and in
time, passes them to a reviewer (`review.answer`), sends what it returns, logs one line and counts one request. It
promises to answer every request: with 200 for a review, with 4xx for anything else, never with 3xx, because an answer
must not redirect the API server. `stop` loses no request that has arrived.
"""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import PayloadAccessError, RequestPayloadError

from frameworkinjector.review.reasons import Reason, RefusalError, Ruling, Verdict
from frameworkinjector.review.review import BEGINNING_BYTES, Answer, namespace_of, rejected
from frameworkinjector.serving.callers import Callers
from frameworkinjector.serving.log import place_of
from frameworkinjector.serving.metrics import Metrics
from frameworkinjector.serving.turns import Turns
from frameworkkube.serving.connection import media_type
from frameworkkube.serving.listener import Listener
from frameworkkube.serving.places import ConnectionLimits

PATH: Final = "/mutate"
QUIET_SECONDS: Final = 0.3
_log = structlog.get_logger("frameworkinjector")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on the bytes and the time of reviews, and on connections."""

    body_bytes: int = 3 * 1024 * 1024
    """Largest body of a request. The API server accepts no object above 3 MiB."""
    body_seconds: float = 4.0
    """Time for a body to arrive; below the webhook's `timeoutSeconds`, when the client has given up."""
    small_bytes: int = 256 * 1024
    """Bodies up to this size are read without waiting for others, those of known API servers up to `usual_bytes`."""
    usual_bytes: int = 64 * 1024
    """Nearly all Pods have less."""
    small_answer_bytes: int = 32 * 1024
    """An answer that is larger is the last one on its connection, so that the client shows that it has taken it in."""
    large_bodies: int = 8
    """Those above `small_bytes` at the same time, from their first byte to the answer: that bounds their memory."""
    unusual_bodies: int = 64
    """Those above `usual_bytes` of known API servers, which have more connections than others, likewise."""
    connections: ConnectionLimits = field(
        default_factory=partial(
            ConnectionLimits,
            connections=448, others=128, of_one_source=96, known=384, waiting=512,
            begun_per_second=400, known_per_second=200,
        )
    )  # fmt: skip
    """An API server sends most reviews over few connections. But it lends one namespace 368 of its 600 seats, and the
    reviews of others would wait for places behind those. The first message of a TLS handshake takes a millisecond."""


class ReviewServer:
    """Listens, reads bodies, calls the reviewer, answers, logs and counts; `review` must not raise."""

    def __init__(
        self, review: Callable[[bytes], Answer], metrics: Metrics, callers: Callers, limits: Limits | None = None
    ) -> None:
        self._review = review
        self._metrics = metrics
        self._callers = callers
        self._limits = limits or Limits()
        self._large = Turns(self._limits.large_bodies, time.monotonic, callers.known)
        self._unusual = Turns(self._limits.unusual_bodies, time.monotonic, callers.known)
        self._reviews = Turns(1, time.monotonic, callers.known)
        self._http = web.Server(
            self._handle,
            keepalive_timeout=self._limits.connections.idle_seconds,
            access_log=None,
            logger=_FaultLog(metrics).logger(),
            # The server refuses Content-Encoding, so a compressed body is never expanded.
            auto_decompress=False,
            # Twice as much is kept of a body that is not read yet.
            read_bufsize=32 * 1024,
            # A request whose connection is lost frees its buffers at once, not when its turn to be read comes.
            handler_cancellation=True,
            lingering_time=1.0,
        )
        self._listener = Listener(
            self._http, self._limits.connections, metrics.connections.set, metrics.connection_closed, callers.known
        )
        self._stopping = False
        self._in_flight = 0
        self._begun = 0

    async def start(self, host: str | None, port: int, context: Callable[[], ssl.SSLContext] | None) -> int:
        """Listen on `host`, or on every address (IPv4 and IPv6) if it is None, and return the port."""
        return self._listener.start(host, port, context)

    def drain(self) -> None:
        """Keep answering, and close each connection after its next answer so that clients connect elsewhere."""
        self._stopping = True

    async def stop(self, seconds: float) -> None:
        """Accept no new connections, let requests finish for at most `seconds`, and close all connections."""
        self._stopping = True
        self._listener.close()
        # Requests end before connections are closed: a connection that is being closed reads nothing, so a request on
        # its way would be lost.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not await self._is_quiet():
                    continue
        self._http.pre_shutdown()
        await self._http.shutdown(0.5)
        self._listener.abort()
        # Transports that were aborted close in the next turns of the event loop.
        await asyncio.sleep(0.1)

    async def _is_quiet(self) -> bool:
        """Report whether nothing was asked for `QUIET_SECONDS`: no request began, is in flight, or is still to come."""
        begun = self._begun
        await asyncio.sleep(QUIET_SECONDS)
        return self._begun == begun and not self._in_flight and not self._listener.awaits_requests

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._in_flight += 1
        self._begun += 1
        try:
            with self._listener.request(request):
                return self._response(request, await self._answer(request))
        finally:
            self._in_flight -= 1

    async def _answer(self, request: web.BaseRequest) -> Answer:
        """Read and review one request, count it and log it."""
        seconds: float | None = None
        async with contextlib.AsyncExitStack() as held:
            try:
                body = await self._read_body(request, held)
            except RefusalError as error:
                answer = rejected(error.verdict)
            else:
                self._callers.hear(body, request.remote)
                # One after the other: a large answer takes 30 ms.
                async with self._reviews.of(request.remote, namespace_of(body)):
                    started = time.perf_counter()
                    answer = self._review(body)
                    seconds = time.perf_counter() - started
        self._metrics.review(answer.verdict, None if answer.is_question else seconds)
        if answer.skew:
            self._metrics.version_skew.inc()
        _log_answer(answer)
        return answer

    def _response(self, request: web.BaseRequest, answer: Answer) -> web.Response:
        response = web.Response(status=answer.status, body=answer.body, content_type="application/json")
        is_large = len(answer.body) > self._limits.small_answer_bytes
        if is_large:
            self._listener.answer_last(request, len(answer.body))
        is_rejected = answer.verdict.reason.ruling is Ruling.REJECTED
        if self._stopping or self._listener.is_wanted(request) or is_rejected or is_large or answer.is_question:
            # Others wait for the place of the connection, or it cannot carry another request: the rest of a rejected
            # body is not read, and the next question is to reach another replica.
            response.force_close()
        return response

    async def _read_body(self, request: web.BaseRequest, held: contextlib.AsyncExitStack) -> bytes:
        """Return the whole body; what a large one takes is held.

        Raises:
            RefusalError: The request is not a review, or its body is too large, too slow or incomplete.
        """
        limits = self._limits
        length, is_known = _length_of(request, limits), request.remote in self._callers.known
        try:
            async with asyncio.timeout(limits.body_seconds):
                beginning = b""
                if length > (limits.usual_bytes if is_known else limits.small_bytes):
                    turns = self._large if length > limits.small_bytes else self._unusual
                    if is_known:
                        beginning = await request.content.readexactly(BEGINNING_BYTES)
                    await held.enter_async_context(turns.of(request.remote, namespace_of(beginning)))
                # To its end, which is where its head said.
                return beginning + await request.content.read()
        except TimeoutError:
            raise RefusalError(Reason.BODY_TOO_SLOW, seconds=f"{limits.body_seconds:g}") from None
        except (RequestPayloadError, PayloadAccessError, ValueError):
            raise RefusalError(Reason.NOT_A_REVIEW, problem="it is incomplete") from None


def _length_of(request: web.BaseRequest, limits: Limits) -> int:
    """Return how many bytes of a body are to be read.

    Raises:
        RefusalError: Its head is not that of a review.
    """
    if request.path != PATH:
        raise RefusalError(Reason.WRONG_PATH, path=PATH)
    if request.method != "POST":
        raise RefusalError(Reason.WRONG_METHOD)
    if media_type(request) != "application/json" or "Content-Encoding" in request.headers:
        raise RefusalError(Reason.WRONG_MEDIA_TYPE)
    if request.content_length is None:
        # In pieces of a byte each, 256 KiB cost 50 ms; an API server says how long a body is.
        raise RefusalError(Reason.NOT_A_REVIEW, problem="it has no Content-Length")
    if request.content_length > limits.body_bytes:
        raise RefusalError(Reason.BODY_TOO_LARGE, limit=limits.body_bytes)
    return request.content_length


def _log_answer(answer: Answer) -> None:
    """Log one line about a request, without any part of the Pod."""
    if answer.is_question:
        # It comes every ten seconds.
        return
    reason = answer.verdict.reason
    fields = {
        "uid": answer.uid,
        "kind": answer.kind[:64],
        "namespace": answer.namespace,
        "outcome": reason.ruling.value,
        "reason": reason.slug,
    }
    if answer.failure is not None:
        # The text of an exception may quote the Pod; its type and place do not.
        _log.error("review failed", **fields, error=type(answer.failure).__name__, at=place_of(answer.failure))
    elif answer.skew is not None:
        _log.warning(
            "reviewed; the versions of controller and barrier are too far apart",
            **fields, controller=answer.skew.controller, barrier=answer.skew.barrier,
        )  # fmt: skip
    else:
        _log.info("reviewed", **fields)


class _FaultLog(logging.Handler):
    """Replaces aiohttp's own messages about broken requests, which quote the bytes that it could not parse."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(logging.WARNING)
        self._metrics = metrics

    def emit(self, record: logging.LogRecord) -> None:
        """Count and log bytes that are not HTTP as a rejected request, and log any other fault by type and place."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            answer = rejected(Verdict(Reason.NOT_HTTP))
            self._metrics.review(answer.verdict, None)
            _log_answer(answer)
        else:
            _log.error("request failed", error=type(error).__name__, at=place_of(error))

    def logger(self) -> logging.Logger:
        """Return a logger whose records reach this handler only."""
        found = logging.Logger("frameworkinjector.http", logging.WARNING)  # noqa: LOG001 -- one logger for each server
        found.addHandler(self)
        return found
