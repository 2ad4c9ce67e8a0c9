"""A review server in the test's own process, called over real TLS on loopback; `conftest.serve` starts it.

`ReviewClient` calls a server of another process as well.
"""

import asyncio
import contextlib
import io
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
import trustme

from frameworkinjector.certificates.tls import ServedCertificate
from frameworkinjector.review.reasons import Reason
from frameworkinjector.serving.metrics import Metrics
from frameworkinjector.serving.server import ReviewServer
from testkit.waiting import eventually_async, patience
from tests.injector.reviews import SERVICE, small_review
from tests.support.http import tls_session

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HEADERS = {"Content-Type": "application/json"}


class PemPair(NamedTuple):
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


@dataclass
class ReviewClient:
    """What calls a server on a port of loopback that has certificates of this authority."""

    port: int
    authority: trustme.CA = field(default_factory=trustme.CA)
    opened: list[asyncio.StreamWriter] = field(default_factory=list)

    def issue(self, name: str = SERVICE) -> PemPair:
        issued = self.authority.issue_cert(name)
        return PemPair(issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes())

    def trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.cert_pem.bytes().decode())
        context.set_alpn_protocols(["http/1.1"])
        return context

    async def connect(self, source: str = "127.0.0.1", *, port: int = 0, tls: bool = True) -> Connection:
        """Open a connection from an address for bytes that an HTTP client would not send; `hang_up` closes it."""
        trust, name = (self.trust(), SERVICE) if tls else (None, None)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=trust, server_hostname=name, local_addr=(source, port)
        )
        self.opened.append(writer)
        return reader, writer

    def hang_up(self) -> None:
        for writer in self.opened:
            writer.transport.abort()
        self.opened.clear()

    async def exchange(self, sent: bytes) -> bytes:
        """Send bytes on a connection of their own, and return what arrives before the server closes it."""
        reader, writer = await self.connect()
        writer.write(sent)
        return await read_until_closed(reader)

    @contextlib.asynccontextmanager
    async def session(self, limit: int = 0) -> AsyncIterator[aiohttp.ClientSession]:
        """Open an HTTP client for `post` with at most so many connections, 0 for any number."""
        async with tls_session(self.trust(), limit=limit) as session:
            yield session

    async def post(self, session: aiohttp.ClientSession, body: Any, **options: Any) -> tuple[int, dict[str, Any]]:
        """Send a request, and return the status and the decoded answer."""
        url = f"https://127.0.0.1:{self.port}{options.pop('path', '/mutate')}"
        options = {"headers": HEADERS, "server_hostname": SERVICE, "allow_redirects": False, **options}
        body = io.BytesIO(body) if isinstance(body, bytes) else body
        async with session.post(url, data=body, **options) as response:
            return response.status, json.loads(await response.read())

    async def review(self, body: Any = None, **options: Any) -> tuple[int, dict[str, Any]]:
        """Send one request, by default a review, by a client of its own; return as `post` does."""
        async with self.session() as session:
            return await self.post(session, small_review() if body is None else body, **options)


@dataclass(kw_only=True)
class LoopbackServer(ReviewClient):
    """A running server, and what calls it."""

    server: ReviewServer
    served: ServedCertificate
    metrics: Metrics

    def publish(self, pair: PemPair) -> None:
        """Serve a certificate from now on."""
        self.served.publish(*pair, self.authority.cert_pem.bytes(), SERVICE)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"frameworkinjector_{name}", labels)

    def counted(self, slug: str) -> float | None:
        """Return how many requests the metric shows for a reason."""
        (reason,) = [one for one in Reason if one.slug == slug]
        return self.metric("requests_total", outcome=reason.ruling.value, reason=slug)

    def closed(self, reason: str) -> float | None:
        """Return how many connections a limit closed."""
        return self.metric("connections_closed_total", reason=reason)


def head(length: int) -> bytes:
    """Return the head of a request whose body has so many bytes."""
    lines = ("POST /mutate HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {length}")
    return "\r\n".join((*lines, "", "")).encode()


async def until(holds: Callable[[], object]) -> None:

    async def so() -> None:
        assert holds()

    await eventually_async(so)


WHOLE_REQUEST = head(len(small_review())) + small_review()


async def read_until_closed(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(patience(10)):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
