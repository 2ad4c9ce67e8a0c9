"""The fixture that starts review servers on loopback."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from frameworkinjector.certificates.tls import ServedCertificate
from frameworkinjector.serving.metrics import Metrics
from frameworkinjector.serving.server import Limits, ReviewServer
from frameworkkube.serving.listener import ConnectionLimits
from tests.injector.loopback_server import LoopbackServer
from tests.injector.reviews import reviewed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from frameworkinjector.review.review import Answer


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Any]]:
    """Return a function that starts a server with the given limits; stop all of them at the end."""
    running: list[ReviewServer] = []

    async def start(review: Callable[[bytes], Answer] = reviewed, **limits: Any) -> LoopbackServer:
        metrics = Metrics()
        of_connections = {one.name for one in fields(ConnectionLimits)}
        connections = ConnectionLimits(**{name: limits.pop(name) for name in of_connections & limits.keys()})
        server = ReviewServer(review, metrics, Limits(connections=connections, **limits))
        served = ServedCertificate(metrics.certificate)
        found = LoopbackServer(server, served, metrics, 0, trustme.CA())
        found.publish(found.issue())
        found.port = await server.start("127.0.0.1", 0, served.context)
        running.append(server)
        return found

    yield start
    for server in running:
        await server.stop(1)
