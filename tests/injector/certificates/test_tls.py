"""The served certificate, as clients see it."""

import asyncio
import ssl
import warnings
from typing import Any

import pytest
import trustme
from cryptography import x509

from frameworkinjector.certificates import tls
from frameworkinjector.errors import CertificateError
from tests.injector.loopback_server import LoopbackServer, PemPair, ReviewClient, read_until_closed
from tests.injector.reviews import SERVICE, small_review
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
    published = x509.load_pem_x509_certificate(pair.certificate)
    assert old != new == published.serial_number == await serial(serving, name=None)
    ends = serving.metric("certificate_expiry_timestamp_seconds")
    assert ends == published.not_valid_after_utc.timestamp()


async def test_a_pair_that_does_not_work_is_not_published_and_the_previous_one_stays_served(serve: Any) -> None:
    serving = await serve()
    old = await serial(serving)
    nonsense = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    for pair, why in (
        (PemPair(serving.issue().certificate, serving.issue().key), "cannot be used together"),
        (serving.issue("another.svc"), "would not accept"),
        (ReviewClient(0, trustme.CA()).issue(), "would not accept"),
        (PemPair(b"", b""), "cannot be used together"),
        (PemPair(nonsense, nonsense), "cannot be used together"),
    ):
        with pytest.raises(CertificateError, match=why):
            serving.publish(pair)
    assert await serial(serving) == old


async def refuses_handshakes(serving: LoopbackServer, context: ssl.SSLContext) -> None:
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", serving.port, ssl=context)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_3])
async def test_versions_of_tls_other_than_12_are_refused(serve: Any, version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    await refuses_handshakes(await serve(), context)


async def test_before_the_first_certificate_handshakes_fail_and_the_server_keeps_running(serve: Any) -> None:
    serving = await serve(certificate=False)
    await refuses_handshakes(serving, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    serving.publish(serving.issue())
    assert (await serving.review())[0] == 200


async def test_sessions_of_clients_that_take_no_ticket_do_not_pile_up(serve: Any, monkeypatch: Any) -> None:
    """OpenSSL keeps 20,000 of them, 25 MiB; those of a context that is replaced until its last connection ends."""
    monkeypatch.setattr(tls, "MAX_SESSIONS", 3)
    serving = await serve()
    trust = serving.trust()
    trust.options |= ssl.OP_NO_TICKET
    kept = list[int]()
    for _ in range(8):
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.port, ssl=trust, server_hostname=SERVICE)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await read_until_closed(reader)
        writer.close()
        kept.append(serving.served._base.session_stats()["number"])
    assert kept == [1, 2, 3, 1, 2, 3, 1, 2]
