"""The served certificate, as clients see it."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from typing import Any

import pytest
import trustme
from cryptography import x509

from frameworkinjector.certificates.tls import ServedCertificate
from frameworkinjector.errors import CertificateError
from frameworkinjector.serving.metrics import Metrics
from frameworkinjector.serving.server import ReviewServer
from tests.injector.loopback_server import LoopbackServer, PemPair
from tests.injector.reviews import SERVICE, reviewed, small_review
from tests.support.http import served_certificate


async def serial(serving: LoopbackServer, *, name: str | None = SERVICE) -> int:
    """Return the serial number of the certificate that a new connection gets; `name` None sends no server name."""
    der = await served_certificate(serving.port, name)
    return x509.load_der_x509_certificate(der).serial_number


async def test_new_connections_get_a_published_certificate_and_open_ones_continue(serve: Any) -> None:
    serving = await serve()
    old = await serial(serving)
    async with serving.session() as session:
        assert (await serving.post(session, small_review()))[0] == 200
        pair = serving.issue()
        serving.publish(pair)
        assert (await serving.post(session, small_review()))[0] == 200
    new = await serial(serving)
    assert new != old
    assert new == x509.load_pem_x509_certificate(pair.certificate).serial_number
    assert await serial(serving, name=None) == new


async def test_a_pair_that_does_not_work_is_not_published_and_the_previous_one_stays_served(serve: Any) -> None:
    serving = await serve()
    old = await serial(serving)
    mismatched = PemPair(serving.issue().certificate, serving.issue().key)
    with pytest.raises(CertificateError, match="cannot be used together"):
        serving.publish(mismatched)
    other_names = serving.issue("another.svc")
    with pytest.raises(CertificateError, match="would not accept"):
        serving.publish(other_names)
    stranger = trustme.CA().issue_cert(SERVICE)
    with pytest.raises(CertificateError, match="would not accept"):
        serving.publish(PemPair(stranger.cert_chain_pems[0].bytes(), stranger.private_key_pem.bytes()))
    for nonsense in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(CertificateError):
            serving.publish(PemPair(nonsense, nonsense))
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


async def test_before_the_first_certificate_handshakes_fail_and_the_server_keeps_running() -> None:
    served = ServedCertificate()
    server = ReviewServer(reviewed, Metrics())
    port = await server.start("127.0.0.1", 0, served.context)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", port, ssl=context)
    await server.stop(1)


async def test_the_expiry_of_the_certificate_is_a_metric(serve: Any) -> None:
    serving = await serve()
    pair = serving.issue()
    serving.publish(pair)
    ends = x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc.timestamp()
    found = serving.metrics.registry.get_sample_value("frameworkinjector_certificate_expiry_timestamp_seconds")
    assert found == ends
