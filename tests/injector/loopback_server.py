"""A review server in the test's own process, called over real TLS on loopback; `conftest.serve` starts it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from testkit.waiting import patience
from tests.injector.reviews import SERVICE, small_review
from tests.support.http import tls_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp
    import trustme

    from frameworkinjector.certificates.tls import ServedCertificate
    from frameworkinjector.serving.metrics import Metrics
    from frameworkinjector.serving.server import ReviewServer


@dataclass
class PemPair:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


@dataclass
class LoopbackServer:
    """A running server and what a client needs to call it."""

    server: ReviewServer
    served: ServedCertificate
    metrics: Metrics
    port: int
    authority: trustme.CA

    def issue(self, *names: str) -> PemPair:
        """Issue a certificate for these names, by default for the Service."""
        issued = self.authority.issue_cert(*(names or (SERVICE,)))
        return PemPair(issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes())

    def publish(self, pair: PemPair) -> None:
        """Serve a certificate from now on."""
        self.served.publish(pair.certificate, pair.key, self.authority.cert_pem.bytes(), SERVICE)

    def trust(self) -> ssl.SSLContext:
        """Return a client's context that trusts the authority."""
        context = ssl.create_default_context(cadata=self.authority.cert_pem.bytes().decode())
        context.set_alpn_protocols(["http/1.1"])
        return context

    async def connect(self, source: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection from an address for bytes that an HTTP client would not send."""
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.trust(), server_hostname=SERVICE, local_addr=(source, 0)
        )

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Open an HTTP client for `post`."""
        async with tls_session(self.trust(), limit=0) as session:
            yield session

    async def post(self, session: aiohttp.ClientSession, body: Any, **options: Any) -> tuple[int, dict[str, Any]]:
        """Send a request, and return the status and the decoded answer."""
        path = options.pop("path", "/mutate")
        options.setdefault("headers", {"Content-Type": "application/json"})
        body = io.BytesIO(body) if isinstance(body, bytes) else body
        async with session.post(
            f"https://127.0.0.1:{self.port}{path}", data=body, server_hostname=SERVICE, allow_redirects=False, **options
        ) as response:
            return response.status, json.loads(await response.read())

    async def review(self, body: Any = None, **options: Any) -> tuple[int, dict[str, Any]]:
        """Send one request, by default a review, by a client of its own; return as `post` does."""
        async with self.session() as session:
            return await self.post(session, small_review() if body is None else body, **options)

    async def exchange(self, sent: bytes) -> bytes:
        """Send bytes on a connection of their own, and return what arrives before the server closes it."""
        reader, writer = await self.connect()
        writer.write(sent)
        received = await read_until_closed(reader)
        writer.close()
        return received

    def has_waiting(self) -> bool:
        """Return whether connections wait for a place."""
        return self.server.has_waiting

    def closed(self, reason: str) -> float | None:
        """Return how many connections a limit closed."""
        return self.metrics.registry.get_sample_value("frameworkinjector_connections_closed_total", {"reason": reason})

    def counted(self, reason: str) -> float:
        """Return how many requests the metric shows for a reason."""
        for metric in self.metrics.registry.collect():
            for sample in metric.samples:
                if sample.name == "frameworkinjector_requests_total" and sample.labels["reason"] == reason:
                    return sample.value
        raise AssertionError(reason)


def head(length: int) -> bytes:
    """Return the head of a request whose body has so many bytes."""
    lines = ("POST /mutate HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {length}")
    return "\r\n".join((*lines, "", "")).encode()


async def read_until_closed(reader: asyncio.StreamReader) -> bytes:
    """Return what arrives before the server closes the connection."""
    async with asyncio.timeout(patience(10)):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
