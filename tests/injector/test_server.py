"""The HTTPS server, spoken to over real TLS on loopback, by well-behaved and by hostile clients."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import ssl
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import trustme
from cryptography import x509

from frameworkinjector.config import Config, EnvFiles
from frameworkinjector.errors import CertificateError
from frameworkinjector.metrics import Metrics
from frameworkinjector.review import Answer, answer
from frameworkinjector.server import Limits, ReviewServer
from frameworkinjector.tls import Served
from injector.fuzz import review_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

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


async def is_closed(reader: asyncio.StreamReader, within: float) -> bytes:
    """What arrived before the server closed the connection."""
    async with asyncio.timeout(within):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def test_a_review_is_answered(serve: Any) -> None:
    serving = await serve()
    async with serving.session() as session:
        status, body = await serving.post(session, review())
    assert (status, body["response"]["allowed"], body["response"]["patchType"]) == (200, True, "JSONPatch")
    assert serving.counted("injected") == 1


@pytest.mark.parametrize(
    ("reason", "status", "options"),
    [
        ("wrong-media-type", 415, {"headers": {"Content-Type": "text/plain"}}),
        ("wrong-media-type", 415, {"headers": {"Content-Type": "application/yaml"}}),
        ("wrong-media-type", 415, {"headers": {"Content-Type": "application/json", "Content-Encoding": "gzip"}}),
        ("wrong-path", 404, {"path": "/"}),
        ("wrong-path", 404, {"path": "/mutate/../mutate2"}),
        ("not-a-review", 400, {"body": b""}),
        ("not-a-review", 400, {"body": b"{"}),
        ("not-a-review", 400, {"body": b"\xff\xfe{}"}),
        ("not-a-review", 400, {"body": b'{"apiVersion":"v1","kind":"List","request":{"uid":"1"}}'}),
        ("not-a-review", 400, {"body": b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}'}),
        ("not-a-review", 400, {"body": review().replace(b'"uid": "1"', b'"uid": ""')}),
        ("not-a-review", 400, {"body": review().replace(b'"uid": "1"', b'"uid": 5')}),
        ("not-a-review", 400, {"body": b'{"request":' * 200_000}),
        ("not-a-review", 400, {"body": b"[" * 3_000_000}),
    ],
)
async def test_what_is_no_review_gets_a_4xx_with_the_sentence_and_the_next_one_is_served(
    serve: Any, reason: str, status: int, options: dict[str, Any]
) -> None:
    serving = await serve()
    body = options.pop("body", review())
    async with serving.session() as session:
        started = time.monotonic()
        found, decoded = await serving.post(session, body, **options)
        assert time.monotonic() - started < 1
        assert (found, decoded["reason"]) == (status, reason)
        assert decoded["error"].endswith(".")
        assert (await serving.post(session, review()))[0] == 200
    assert serving.counted(reason) == 1


async def test_nesting_inside_the_pod_is_refused_or_skipped_without_harm(serve: Any) -> None:
    serving = await serve()
    deep = b'{"x":' * 500_000 + b"1" + b"}" * 500_000
    hostile = review().replace(
        b'"spec": {', b'"spec": {"unknown": ' + deep[: 5 * 300_000] + b"1" + b"}" * 300_000 + b","
    )
    async with serving.session() as session:
        status, _ = await serving.post(session, hostile)
        assert status in {200, 400}
        assert (await serving.post(session, review()))[0] == 200


async def test_a_get_is_not_a_review(serve: Any) -> None:
    serving = await serve()
    url = f"https://127.0.0.1:{serving.port}/mutate"
    async with serving.session() as session, session.get(url, server_hostname=NAME) as response:
        assert response.status == 405


async def test_a_body_of_almost_three_mebibytes_is_read(serve: Any) -> None:
    serving = await serve()
    async with serving.session() as session:
        status, _ = await serving.post(session, review(3 * 1024 * 1024 - 1000))
    assert status == 200


async def test_a_body_that_announces_too_much_is_refused_unread(serve: Any) -> None:
    serving = await serve()
    reader, writer = await serving.connect()
    writer.write(
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3145729\r\n\r\n"
    )
    answer_ = await is_closed(reader, 3)
    assert answer_.startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_a_chunked_body_that_grows_too_large_is_cut_off(serve: Any) -> None:
    serving = await serve()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield b"x" * 65536

    async with serving.session() as session:
        try:
            status, decoded = await serving.post(session, endless())
        except aiohttp.ClientConnectionError:
            # The server hung up while the client was still sending.
            status, decoded = 413, {"reason": "body-too-large"}
    assert (status, decoded["reason"]) == (413, "body-too-large")
    assert serving.counted("body-too-large") == 1


async def test_a_bomb_is_not_unpacked(serve: Any) -> None:
    serving = await serve()
    bomb = gzip.compress(b" " * 500_000_000, 1)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with serving.session() as session:
        status, _ = await serving.post(session, bomb, headers=headers)
    assert status == 415


async def test_a_body_that_does_not_come_is_answered_in_time(serve: Any) -> None:
    serving = await serve(body_seconds=0.3)
    reader, writer = await serving.connect()
    writer.write(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
    answer_ = await is_closed(reader, 3)
    assert answer_.startswith(b"HTTP/1.1 408 ")
    assert b"body-too-slow" in answer_
    writer.close()


async def test_a_body_that_breaks_off_harms_nobody(serve: Any) -> None:
    serving = await serve()
    for _ in range(20):
        _, writer = await serving.connect()
        writer.write(
            b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        await writer.drain()
        writer.transport.abort()
    async with serving.session() as session:
        assert (await serving.post(session, review()))[0] == 200


@pytest.mark.parametrize("sent", [b"", b"POST /mut", b"POST /mutate HTTP/1.1\r\nHost: x\r\n"])
async def test_a_client_that_never_finishes_its_head_is_closed(serve: Any, sent: bytes) -> None:
    serving = await serve(first_request_seconds=0.3)
    reader, writer = await serving.connect()
    writer.write(sent)
    started = time.monotonic()
    assert await is_closed(reader, 3) == b""
    assert 0.2 < time.monotonic() - started < 2
    writer.close()


async def test_a_client_that_drips_its_head_is_closed_too(serve: Any) -> None:
    serving = await serve(first_request_seconds=0.5)
    reader, writer = await serving.connect()

    async def drip() -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"P")
                await writer.drain()
                await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    await is_closed(reader, 3)
    dripping.cancel()
    writer.close()


async def test_a_client_that_never_shakes_hands_is_closed(serve: Any) -> None:
    serving = await serve(handshake_seconds=0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
    assert await is_closed(reader, 3) == b""
    writer.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /mutate HTTP/9.9\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"POST " + b"/" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_garbage_gets_no_5xx_and_the_next_one_is_served(serve: Any, garbage: bytes) -> None:
    serving = await serve(first_request_seconds=0.5)
    reader, writer = await serving.connect()
    writer.write(garbage)
    answer_ = await is_closed(reader, 5)
    assert answer_ == b"" or answer_.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answer_[:100]
    writer.close()
    async with serving.session() as session:
        assert (await serving.post(session, review()))[0] == 200


async def test_more_connections_than_allowed_are_closed_and_the_others_live_on(serve: Any) -> None:
    serving = await serve(connections=4)
    open_ones = [await serving.connect() for _ in range(4)]
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        reader, writer = await serving.connect()
        assert await is_closed(reader, 3) == b""
        writer.close()
    body = review()
    head = f"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    reader, writer = open_ones[0]
    writer.write(head.encode() + body)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    for _, writer in open_ones:
        writer.close()


async def test_many_at_once_are_all_answered(serve: Any) -> None:
    serving = await serve()
    async with serving.session() as session:
        answers = await asyncio.gather(*(serving.post(session, review(size * 100)) for size in range(300)))
    assert {status for status, _ in answers} == {200}
    assert serving.counted("injected") == 300


async def test_a_reviewer_that_fails_costs_one_refusal(serve: Any) -> None:
    broken = Config(version="1", barrier_image=None)  # type: ignore[arg-type]

    def failing(body: bytes) -> Answer:
        return answer(body.replace(b'"CREATE"', b'"CREATE"'), broken, None)  # type: ignore[arg-type]

    serving = await serve(failing)
    async with serving.session() as session:
        status, body = await serving.post(session, review())
    assert (status, body["response"]["allowed"], body["response"]["status"]["code"]) == (200, False, 500)
    assert serving.counted("internal-error") == 1


async def test_stopping_lets_requests_end_and_closes_idle_connections(serve: Any) -> None:
    serving = await serve()
    idle_reader, idle_writer = await serving.connect()
    body = review()
    head = f"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    reader, writer = await serving.connect()
    writer.write(head.encode() + body[:50])
    await writer.drain()
    await asyncio.sleep(0.1)
    stopping = asyncio.create_task(serving.server.stop(5))
    await asyncio.sleep(0.2)
    writer.write(body[50:])
    whole = await is_closed(reader, 5)
    assert whole.startswith(b"HTTP/1.1 200 ")
    assert await is_closed(idle_reader, 5) == b""
    await stopping
    with pytest.raises(ConnectionError):
        await serving.connect()
    writer.close()
    idle_writer.close()


async def test_while_draining_each_answer_asks_the_client_to_come_back_elsewhere(serve: Any) -> None:
    serving = await serve()
    serving.server.drain()
    async with serving.session() as session:
        url = f"https://127.0.0.1:{serving.port}/mutate"
        headers = {"Content-Type": "application/json"}
        async with session.post(url, data=review(), headers=headers, server_hostname=NAME) as response:
            assert (response.status, response.headers["Connection"]) == (200, "close")


async def serial(serving: Serving, *, name: str | None = NAME) -> int:
    """Of the certificate that a new connection gets; ``name`` None for a client that sends none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", serving.port, ssl=context, server_hostname=name or "")
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return x509.load_der_x509_certificate(der).serial_number


async def test_a_published_certificate_is_what_new_connections_get_and_old_ones_go_on(serve: Any) -> None:
    serving = await serve()
    old = await serial(serving)
    async with serving.session() as session:
        assert (await serving.post(session, review()))[0] == 200
        pair = serving.issue()
        serving.publish(pair)
        assert (await serving.post(session, review()))[0] == 200
    new = await serial(serving)
    assert new != old
    assert new == x509.load_pem_x509_certificate(pair.certificate).serial_number
    assert await serial(serving, name=None) == new


async def test_a_certificate_with_anothers_key_is_not_published_and_the_old_one_is_still_served(serve: Any) -> None:
    serving = await serve()
    old = await serial(serving)
    mismatched = Pair(serving.issue().certificate, serving.issue().key)
    with pytest.raises(CertificateError, match="cannot be used together"):
        serving.publish(mismatched)
    other_names = serving.issue("somebody.else.svc")
    with pytest.raises(CertificateError, match="would not accept"):
        serving.publish(other_names)
    stranger = trustme.CA().issue_cert(NAME)
    with pytest.raises(CertificateError, match="would not accept"):
        serving.publish(Pair(stranger.cert_chain_pems[0].bytes(), stranger.private_key_pem.bytes()))
    for nonsense in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(CertificateError):
            serving.publish(Pair(nonsense, nonsense))
    assert await serial(serving) == old


async def test_old_versions_of_tls_are_refused(serve: Any) -> None:
    serving = await serve()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", serving.port, ssl=context)


async def test_before_there_is_a_certificate_handshakes_fail_and_nothing_else_does() -> None:
    served = Served()
    server = ReviewServer(reviewed, Metrics())
    port = await server.start("127.0.0.1", 0, served.context)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", port, ssl=context)
    await server.stop(1)


async def test_the_certificates_end_is_a_metric(serve: Any) -> None:
    serving = await serve()
    pair = serving.issue()
    serving.publish(pair)
    ends = x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc.timestamp()
    line = f"frameworkinjector_certificate_expiry_timestamp_seconds {ends!r}"
    shown = serving.metrics.text().decode()
    (found,) = [one for one in shown.splitlines() if one.startswith("frameworkinjector_certificate_expiry")]
    assert float(found.split()[1]) == ends, line
