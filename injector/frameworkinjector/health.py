"""The plain port beside the webhook's: liveness, readiness, metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from frameworkinjector.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkinjector.metrics import Metrics


class HealthServer:
    """The plain port for the kubelet and for Prometheus.

    Args:
        problems: Why this replica should get no calls, one clause each; empty when it is ready.
        metrics: What ``/metrics`` shows.
    """

    def __init__(self, problems: Callable[[], list[str]], metrics: Metrics) -> None:
        self._problems = problems
        self._metrics = metrics
        self._server = web.Server(self._handle, access_log=None, keepalive_timeout=30.0)
        self._listener: asyncio.Server | None = None

    async def start(self, host: str | None, port: int) -> int:
        """Listens, on every address if ``host`` is None; returns the port."""
        self._listener = await asyncio.get_running_loop().create_server(self._server, host, port)
        found: int = self._listener.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        """Closes everything at once."""
        if self._listener is not None:
            self._listener.close()
        await self._server.shutdown(0.5)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.path:
            case "/healthz":
                return web.Response(text="ok\n")
            case "/readyz":
                problems = self._problems()
                text = "".join(f"not ready: {one}\n" for one in problems) or "ok\n"
                return web.Response(status=503 if problems else 200, text=text)
            case "/metrics":
                return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})
            case _:
                return web.Response(status=404, text="there are /healthz, /readyz and /metrics\n")
