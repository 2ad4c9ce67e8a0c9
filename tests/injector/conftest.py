"""A server for each test that wants one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trustme

from frameworkinjector.metrics import Metrics
from frameworkinjector.server import Limits, ReviewServer
from frameworkinjector.tls import Served
from injector.serving import Serving, reviewed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from frameworkinjector.review import Answer


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Any]]:
    """Starts servers with limits of their own; stops them at the end."""
    running: list[ReviewServer] = []

    async def start(review: Callable[[bytes], Answer] = reviewed, **limits: Any) -> Serving:
        metrics = Metrics()
        server = ReviewServer(review, metrics, Limits(**limits))
        served = Served(metrics.certificate)
        found = Serving(server, served, metrics, 0, trustme.CA())
        found.publish(found.issue())
        found.port = await server.start("127.0.0.1", 0, served.context)
        running.append(server)
        return found

    yield start
    for server in running:
        await server.stop(1)
