"""What the health port says of a process."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import aiohttp
import pytest

from frameworkcontroller.engine.health import serve_health
from frameworkcontroller.engine.metrics import Metrics
from localcluster.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def answers(*, trouble: str = "", ready: bool = True) -> AsyncIterator[dict[str, tuple[int, str]]]:
    """What each path answers."""
    port = free_port()
    server = asyncio.create_task(serve_health(port, trouble=lambda: trouble, is_ready=lambda: ready, metrics=Metrics()))
    try:
        async with aiohttp.ClientSession() as session:
            found = {}
            for path in ("healthz", "readyz", "metrics"):
                for _ in range(500):
                    try:
                        async with session.get(f"http://127.0.0.1:{port}/{path}") as answer:
                            found[path] = (answer.status, await answer.text())
                        break
                    except aiohttp.ClientConnectionError:
                        await asyncio.sleep(0.01)
            yield found
    finally:
        server.cancel()
        with pytest.raises(asyncio.CancelledError):
            await server


async def test_a_process_that_works_is_healthy_and_ready() -> None:
    async with answers() as found:
        assert found["healthz"] == found["readyz"] == (200, "ok\n")
        assert "workqueue_adds_total" in found["metrics"][1]


async def test_a_process_that_cannot_work_any_more_says_why() -> None:
    async with answers(trouble="the lease is lost and the work has not ended") as found:
        assert found["healthz"] == (503, "the lease is lost and the work has not ended\n")


async def test_a_process_whose_caches_are_not_full_is_healthy_and_not_ready() -> None:
    async with answers(ready=False) as found:
        assert found["healthz"] == (200, "ok\n")
        assert found["readyz"] == (503, "the caches are not full yet\n")
