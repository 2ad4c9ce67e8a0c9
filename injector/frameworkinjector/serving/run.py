"""The server process: builds the parts, runs them, and exits within ten seconds of SIGTERM.

`__main__` calls `serve` with the options of the command line. It promises to answer `/healthz` from the start, to
answer reviews as soon as there is a certificate, and to lose no review while it stops.
"""

import asyncio
import contextlib
import resource
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import structlog

from frameworkinjector import readiness
from frameworkinjector.certificates.files import CertificateFiles
from frameworkinjector.certificates.issuing import Profile
from frameworkinjector.certificates.secret import ManagedCertificates, ManagedObjects
from frameworkinjector.certificates.tls import ServedCertificate
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.review import Answer, answer
from frameworkinjector.serving.callers import Callers
from frameworkinjector.serving.capabilities import Capabilities
from frameworkinjector.serving.log import place_of
from frameworkinjector.serving.metrics import Metrics
from frameworkinjector.serving.self_call import SelfCall
from frameworkinjector.serving.server import ReviewServer
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.serving.health import HealthServer

# That the process may have open: of connections alone there may be more than the usual 1,024.
FILES: Final = 2048
# The kubelet sends SIGTERM when the Pod leaves the Service; calls keep arriving until every node has learned of that.
DRAIN_SECONDS: Final = 3.0
STOP_SECONDS: Final = 4.0
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the command line."""

    config: Config
    """What goes into each barrier container."""
    profile: Profile
    """Of the certificates that the injector makes; its first name is the Service's."""
    objects: ManagedObjects
    endpoint: Endpoint | None
    """The API server; None if both certificate files and `env_files` are given."""
    certificate_files: tuple[Path, Path] | None
    """The certificate and the key to serve; None to make them."""
    env_files: EnvFiles | None
    """What the cluster supports; None to ask the API server."""
    host: str | None
    """The address to listen on; None for every address."""
    port: int
    health_port: int
    check_seconds: float
    """For `ManagedCertificates`, as `settle_seconds`."""
    settle_seconds: float


async def serve(options: Options) -> None:
    """Serve until SIGTERM or SIGINT."""
    await Injector(options).run()


class Injector:
    """All parts of one replica; created inside a running event loop."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._metrics = Metrics()
        self._served = ServedCertificate(on_publish=self._metrics.certificate)
        self._client = None
        if options.endpoint is not None:
            self._client = KubeClient(options.endpoint, user_agent="frameworkinjector", max_connections=4)
        self._certificates = self._certificate_source()
        self._capabilities = None
        if options.env_files is None:
            self._capabilities = Capabilities(self._needed_client(), options.objects.namespace)
        self._self_call = SelfCall(self._served, options.profile.names[0])
        self._callers = Callers(options.objects.namespace, self._metrics.callers.set)
        self._server = ReviewServer(self._review, self._metrics, self._callers)
        self._health = HealthServer(str, self.not_ready, self._metrics.text)
        self._stopping = False

    def _needed_client(self) -> KubeClient:
        assert self._client is not None, "the command line finds an endpoint for every part that needs one"
        return self._client

    def _certificate_source(self) -> ManagedCertificates | CertificateFiles:
        options = self._options
        if options.certificate_files is not None:
            return CertificateFiles(*options.certificate_files, options.profile.names[0], self._served)
        return ManagedCertificates(
            self._needed_client(),
            options.objects,
            options.profile,
            self._served,
            check_seconds=options.check_seconds,
            settle_seconds=options.settle_seconds,
        )

    def not_ready(self) -> list[str]:
        """Return why this replica should get no calls, one clause each; empty if it is ready."""
        parts = {"certificate": self._certificates.status}
        if self._capabilities is not None:
            parts["what the cluster supports"] = self._capabilities.status
        parts["call to itself"] = self._self_call.status
        return readiness.not_ready(parts, stopping=self._stopping)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        _raise_limit_of_files()
        asked_to_stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_loop_fault)
        sys.unraisablehook = _log_unraised
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked_to_stop.set)
        tasks = [asyncio.create_task(part) for part in await self._start()]
        stop = asyncio.create_task(asked_to_stop.wait())
        try:
            # No part ends by itself: one that does has met a defect, which ends the process too.
            done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
            await self._stop(drain=stop in done)
            for task in done:
                task.result()
        finally:
            for task in (stop, *tasks):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(stop, *tasks, return_exceptions=True)
            if self._client is not None:
                await self._client.close()

    async def _start(self) -> list[Coroutine[Any, Any, None]]:
        """Start the listeners, and return the parts that run beside them."""
        options = self._options
        health_port = await self._health.start(options.host, options.health_port)
        # The server listens before there is a certificate: until then every handshake fails, as every call would.
        port = await self._server.start(options.host, options.port, self._served.context)
        _log.info("started", version=options.config.version, port=port, health_port=health_port)
        parts = [self._certificates.run(), self._self_call.run(options.host, port)]
        if self._capabilities is not None and options.endpoint is not None:
            # Both ask by PodTemplates, for which one permission is needed.
            parts += [self._capabilities.run(), self._callers.run(options.endpoint)]
        return parts

    async def _stop(self, *, drain: bool) -> None:
        self._stopping = True
        self._server.drain()
        _log.info("stopping")
        if drain:
            await asyncio.sleep(DRAIN_SECONDS)
        await self._server.stop(STOP_SECONDS)
        await self._health.stop()
        _log.info("stopped")

    def _review(self, body: bytes) -> Answer:
        """Review a body by what the command line says of the cluster, or by what the API server answered last."""
        config, env_files = self._options.config, self._options.env_files
        if self._capabilities is not None:
            config = replace(config, in_place_restart=self._capabilities.in_place_restart)
            env_files = self._capabilities.env_files
        return answer(body, config, env_files or EnvFiles.NONE)


def _log_unraised(fault: "sys.UnraisableHookArgs") -> None:
    """Log a fault inside of OpenSSL, such as the name of a server that is no ASCII, in the same way."""
    _log.warning("connection failed", error=type(fault.exc_value).__name__, at=place_of(fault.exc_value))


def _raise_limit_of_files() -> None:
    """Let each connection that is open, waits or ends have its file, where the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def _log_loop_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log a fault outside of requests, such as a broken connection, by its type and place, never by its bytes."""
    error = context.get("exception")
    _log.warning("connection failed", error=type(error).__name__, at=place_of(error))
