"""`/healthz`, `/readyz` and `/metrics` on a plain port of their own, for the kubelet and for Prometheus.

A connection carries one request and lives for ten seconds, whatever its client does: those that are idle, send slowly
or never read end as all others do. So nobody who reaches the port keeps the kubelet from its answer.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from aiohttp import web

from frameworkkube.log import Logger
from frameworkkube.serving.listener import Listener
from frameworkkube.serving.places import ConnectionLimits

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
CONNECTIONS: Final = ConnectionLimits(waiting=0, grace_seconds=0, own_grace_seconds=0)
# Of the line of the request, and of each of the headers; the kubelet and Prometheus send less than half.
_LINE_BYTES: Final = 1024
_HEADERS: Final = 32
# A rendering costs less than a twentieth of the time, however many ask for it.
_RENDERED_FOR: Final = 20
_log = Logger(__name__)


class HealthServer:
    """The HTTP server of this port.

    Args:
        trouble: Returns why this process cannot work any more and should be restarted, "" if it can. An API server that
            is away is no such reason.
        not_ready: Returns why this replica should get no calls, one clause each; empty if it is ready.
        metrics: Renders what `/metrics` shows.
        limits: Bounds on connections; they end `first_request_seconds` after they began.
        more: What else the port serves, by path.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        trouble: Callable[[], str],
        not_ready: Callable[[], list[str]],
        metrics: Callable[[], bytes],
        limits: ConnectionLimits = CONNECTIONS,
        clock: Callable[[], float] = time.monotonic,
        more: Mapping[str, Callable[[web.BaseRequest], Awaitable[web.Response]]] = MappingProxyType({}),
    ) -> None:
        self._more = more
        self._trouble, self._not_ready, self._metrics, self._clock = trouble, not_ready, metrics, clock
        self._rendered, self._fresh_until = b"", float("-inf")
        self._http = web.Server(
            self._handle,
            access_log=None,
            # Bytes that are no HTTP are answered with 400; there is nobody to tell, as often as they come.
            logger=logging.Logger(__name__, logging.CRITICAL + 1),  # noqa: LOG001 -- it must write nothing
            max_line_size=_LINE_BYTES,
            max_field_size=_LINE_BYTES,
            max_headers=_HEADERS,
            lingering_time=0,
        )
        self._listener = Listener(self._http, limits)

    async def start(self, host: str | None, port: int) -> int:
        """Listen on `host`, or on every address if it is None, and return the port."""
        return self._listener.start(host, port)

    async def stop(self) -> None:
        """Close the listener and all connections."""
        self._listener.close()
        self._http.pre_shutdown()
        await self._http.shutdown(0.5)
        self._listener.abort()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            serve = self._more.get(request.path)
            response = self._answer(request.path) if serve is None else await serve(request)
        except Exception:  # noqa: BLE001 -- a defect costs this answer
            _log.exception("request for health or metrics failed")
            response = web.Response(status=500)
        response.force_close()
        return response

    def _answer(self, path: str) -> web.Response:
        match path:
            case "/healthz":
                reason = self._trouble()
                return web.Response(status=503 if reason else 200, text=f"{reason or 'ok'}\n")
            case "/readyz":
                problems = self._not_ready()
                text = "".join(f"not ready: {one}\n" for one in problems) or "ok\n"
                return web.Response(status=503 if problems else 200, text=text)
            case "/metrics":
                return web.Response(body=self._text(), headers={"Content-Type": CONTENT_TYPE})
            case _:
                return web.Response(status=404, text="not found: this port serves /healthz, /readyz and /metrics\n")

    def _text(self) -> bytes:
        begun = self._clock()
        if begun >= self._fresh_until:
            self._rendered = self._metrics()
            ended = self._clock()
            self._fresh_until = ended + _RENDERED_FOR * (ended - begun)
        return self._rendered
