"""The HTTP port beside the webhook's: liveness, readiness, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from frameworkinjector.limits import HEALTH_CONNECTIONS
from frameworkinjector.listener import Listener
from frameworkinjector.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkinjector.metrics import Metrics


class HealthServer:
    """The HTTP server for the kubelet and for Prometheus.

    Args:
        not_ready: Returns why this replica should get no calls, one clause each; empty if it is ready.
        metrics: What `/metrics` shows.
    """

    def __init__(self, not_ready: Callable[[], list[str]], metrics: Metrics) -> None:
        self._not_ready = not_ready
        self._metrics = metrics
        self._http = web.Server(self._handle, access_log=None, keepalive_timeout=HEALTH_CONNECTIONS.idle_seconds)
        self._listener = Listener(self._http, HEALTH_CONNECTIONS)

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
        with self._listener.request(request):
            return self._answer(request.path)

    def _answer(self, path: str) -> web.Response:
        match path:
            case "/healthz":
                return web.Response(text="ok\n")
            case "/readyz":
                problems = self._not_ready()
                text = "".join(f"not ready: {one}\n" for one in problems) or "ok\n"
                return web.Response(status=503 if problems else 200, text=text)
            case "/metrics":
                return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})
            case _:
                return web.Response(status=404, text="not found: this port serves /healthz, /readyz and /metrics\n")
