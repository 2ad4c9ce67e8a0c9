"""`/healthz`, `/readyz` and `/metrics` on a plain port of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from aiohttp import web

from frameworkcontroller.engine.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkcontroller.engine.metrics import Metrics


async def serve_health(
    port: int, *, trouble: Callable[[], str], is_ready: Callable[[], bool], metrics: Metrics
) -> NoReturn:
    """Answer until cancelled; any answer shows that the event loop runs.

    Args:
        port: to listen on, on all addresses.
        trouble: why this process cannot work any more and should be restarted, "" if it can. An API server that is away
            is no such reason.
        is_ready: whether the caches are full.
        metrics: returned by `/metrics`.
    """

    async def healthz(_request: web.Request) -> web.Response:
        reason = trouble()
        return web.Response(status=503, text=f"{reason}\n") if reason else web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ok\n")
        return web.Response(status=503, text="the caches are not full yet\n")

    async def scrape(_request: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", scrape)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
        await asyncio.Event().wait()
        raise AssertionError
    finally:
        await runner.cleanup()
