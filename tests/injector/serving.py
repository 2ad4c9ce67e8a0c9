"""A server in the test's own process, spoken to over real TLS on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from frameworkinjector.config import Config, EnvFiles
from frameworkinjector.review import Answer, answer
from injector.fuzz import review_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import trustme

    from frameworkinjector.metrics import Metrics
    from frameworkinjector.server import ReviewServer
    from frameworkinjector.tls import Served

NAME = "frameworkinjector.frameworkcontroller-system.svc"
CONFIG = Config(version="1.2.3")


def reviewed(body: bytes) -> Answer:
    return answer(body, CONFIG, EnvFiles.QUOTED)


def review(size: int = 0) -> bytes:
    pod = {
        "metadata": {
            "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled", "FC_FRAMEWORK_NAME": "mnist"},
            "annotations": {"padding": "x" * size},
        },
        "spec": {"containers": [{"name": "app"}]},
    }
    return review_of(pod, uid="1")


@dataclass
class Pair:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


@dataclass
class Serving:
    """A running server and what a client needs to call it."""

    server: ReviewServer
    served: Served
    metrics: Metrics
    port: int
    authority: trustme.CA

    def issue(self, *names: str) -> Pair:
        issued = self.authority.issue_cert(*(names or (NAME,)))
        return Pair(issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes())

    def publish(self, pair: Pair) -> None:
        self.served.publish(pair.certificate, pair.key, self.authority.cert_pem.bytes(), NAME)

    def trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.cert_pem.bytes().decode())
        context.set_alpn_protocols(["http/1.1"])
        return context

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust(), server_hostname=NAME)

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(ssl=self.trust(), limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            yield session

    async def post(self, session: aiohttp.ClientSession, body: Any, **options: Any) -> tuple[int, dict[str, Any]]:
        path = options.pop("path", "/mutate")
        options.setdefault("headers", {"Content-Type": "application/json"})
        body = io.BytesIO(body) if isinstance(body, bytes) else body
        async with session.post(
            f"https://127.0.0.1:{self.port}{path}", data=body, server_hostname=NAME, allow_redirects=False, **options
        ) as response:
            return response.status, json.loads(await response.read())

    def counted(self, reason: str) -> float:
        for metric in self.metrics.registry.collect():
            for sample in metric.samples:
                if sample.name == "frameworkinjector_requests_total" and sample.labels["reason"] == reason:
                    return sample.value
        raise AssertionError(reason)


async def is_closed(reader: asyncio.StreamReader, within: float) -> bytes:
    """What arrived before the server closed the connection."""
    async with asyncio.timeout(within):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
