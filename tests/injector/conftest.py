"""The fixture that starts review servers on loopback."""

from collections.abc import AsyncIterator, Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from frameworkinjector.certificates.tls import ServedCertificate
from frameworkinjector.review.review import Answer
from frameworkinjector.serving.callers import Callers
from frameworkinjector.serving.metrics import Metrics
from frameworkinjector.serving.server import Limits, ReviewServer
from frameworkkube.serving.places import ConnectionLimits
from tests.injector.loopback_server import LoopbackServer
from tests.injector.reviews import reviewed


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Any]]:
    """Return a function that starts a server with the given limits; stop all of them at the end."""
    running: list[LoopbackServer] = []

    async def start(
        review: Callable[[bytes], Answer] = reviewed,
        *,
        certificate: bool = True,
        **limits: Any,
    ) -> LoopbackServer:
        metrics = Metrics()
        of_connections = {one.name for one in fields(ConnectionLimits)} & limits.keys()
        connections = replace(Limits().connections, **{name: limits.pop(name) for name in of_connections})
        callers = Callers("default", metrics.callers.set)
        server = ReviewServer(review, metrics, callers, Limits(connections=connections, **limits))
        served = ServedCertificate(metrics.certificate)
        port = await server.start("127.0.0.1", 0, served.context)
        running.append(LoopbackServer(port, server=server, served=served, metrics=metrics))
        if certificate:
            running[-1].publish(running[-1].issue())
        return running[-1]

    yield start
    for one in running:
        one.hang_up()
        await one.server.stop(1)
