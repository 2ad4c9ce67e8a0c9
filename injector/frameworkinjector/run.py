"""The server process: starts the parts, says whether it is ready, and leaves within ten seconds of SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import structlog

from frameworkcontroller.cluster.rest import KubeClient
from frameworkinjector.certificates import FromFiles, Places, SelfMade
from frameworkinjector.config import EnvFiles
from frameworkinjector.health import HealthServer
from frameworkinjector.logs import place_of
from frameworkinjector.metrics import Metrics
from frameworkinjector.probe import Probe
from frameworkinjector.review import Answer, answer
from frameworkinjector.selfcall import SelfCall
from frameworkinjector.server import Limits, ReviewServer
from frameworkinjector.tls import Served

if TYPE_CHECKING:
    from pathlib import Path

    from frameworkcontroller.cluster.credentials import Endpoint
    from frameworkinjector import pki
    from frameworkinjector.config import Config

# SIGTERM comes when the Pod is taken out of the Service; calls go on coming until every node has heard of it.
DRAIN_SECONDS: Final = 3.0
STOP_SECONDS: Final = 4.0
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says. ``endpoint`` may be None if neither certificates nor the probe need it."""

    config: Config
    namespace: str
    policy: pki.Policy
    places: Places
    endpoint: Endpoint | None
    certificate_file: Path | None = None
    key_file: Path | None = None
    env_files: EnvFiles | None = None
    host: str | None = None
    port: int = 8443
    health_port: int = 8081
    check_seconds: float = 10.0
    settle_seconds: float = 5.0
    limits: Limits = field(default_factory=Limits)


def _told(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What happens outside of requests, such as a connection that breaks: its kind, never its bytes."""
    error = context.get("exception")
    at = "" if error is None else place_of(error)
    _log.warning("connection failed", error=type(error).__name__, at=at)


async def serve(options: Options) -> None:
    """Serves until SIGTERM or SIGINT."""
    await Injector(options).run()


class Injector:
    """All parts of one replica; made inside a running event loop."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._metrics = Metrics()
        self._served = Served(on_publish=self._metrics.certificate)
        client = None
        if options.endpoint is not None:
            client = KubeClient(options.endpoint, user_agent="frameworkinjector", max_connections=4)
        self._client = client
        self._probe: Probe | None = None
        if options.env_files is None:
            assert client is not None
            self._probe = Probe(client, options.namespace)
        self._certificates: SelfMade | FromFiles
        name = options.policy.names[0]
        if options.certificate_file is not None and options.key_file is not None:
            self._certificates = FromFiles(options.certificate_file, options.key_file, name, self._served)
        else:
            assert client is not None
            self._certificates = SelfMade(
                client,
                options.places,
                options.policy,
                self._served,
                check_seconds=options.check_seconds,
                settle_seconds=options.settle_seconds,
            )
        self._server = ReviewServer(self._review, self._metrics, options.limits)
        self._health = HealthServer(self.problems, self._metrics)
        self._self_call = SelfCall(self._served, name)
        self._stopping = False

    def problems(self) -> list[str]:
        """Why this replica should get no calls, one clause each; empty when it is ready.

        A certificate that is served goes on being good while the API server cannot be reached, and so does the last
        answer of the probe: a replica does not become unready because of what it cannot renew.
        """
        found = []
        if self._stopping:
            found.append("stopping")
        if not (self._served.ready and self._certificates.was_in_order):
            found.append(f"certificate: {self._certificates.problem}")
        if self._probe is not None and self._probe.env_files is None:
            found.append(f"support for fileKeyRef: {self._probe.problem}")
        if self._self_call.problem is not None:
            found.append(f"call to itself: {self._self_call.problem}")
        return found

    async def run(self) -> None:
        """Serves until SIGTERM or SIGINT."""
        options = self._options
        asked_to_stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_told)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked_to_stop.set)
        health_port = await self._health.start(options.host, options.health_port)
        # Listens from the start: before there is a certificate every handshake fails, as every call would.
        port = await self._server.start(options.host, options.port, self._served.context)
        _log.info("started", version=options.config.version, port=port, health_port=health_port)
        parts = [self._certificates.run(), self._self_call.run(options.host, port)]
        if self._probe is not None:
            parts.append(self._probe.run())
        tasks = [asyncio.create_task(part) for part in parts]
        stop = asyncio.create_task(asked_to_stop.wait())
        # What is loaded by now lives as long as the process: full collections, which the server asks for, leave it out.
        gc.freeze()
        try:
            # None of the parts ends by itself: one that does has met a bug, and the process with it.
            done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
            await self._leave(drain=stop in done)
            for task in done:
                task.result()
        finally:
            for task in (stop, *tasks):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(stop, *tasks, return_exceptions=True)
            if self._client is not None:
                await self._client.close()

    async def _leave(self, *, drain: bool) -> None:
        self._stopping = True
        self._server.drain()
        _log.info("stopping")
        if drain:
            await asyncio.sleep(DRAIN_SECONDS)
        await self._server.stop(STOP_SECONDS)
        await self._health.stop()
        _log.info("stopped")

    def _review(self, body: bytes) -> Answer:
        env_files = self._options.env_files or (self._probe.env_files if self._probe is not None else None)
        return answer(body, self._options.config, env_files or EnvFiles.NONE)
