"""The certificate that new TLS connections get, replaced without a restart.

`secret` or `files` publishes pairs, the listener of `server` uses the context. A pair is loaded into a
context of its own and must pass a whole handshake there before it is served: loading a certificate with the key of
another into a live context would break every new connection.
"""

import datetime as dt
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from frameworkinjector.certificates import bundle
from frameworkinjector.errors import CertificateError

MAX_SESSIONS: Final = 16
"""A context takes as much memory as nine of them, and a third of a millisecond."""


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return a context that serves a PEM chain and its key over TLS 1.2.

    Raises:
        CertificateError: They cannot be read, do not belong together, or there is no room for temporary files.
    """
    context = _bare_context()
    try:
        # The ssl module reads files only. The folder is private, and in memory in the Deployment.
        with tempfile.TemporaryDirectory(prefix="frameworkinjector-") as folder:
            chain_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
            chain_file.write_bytes(certificate)
            key_file.touch(mode=0o600)
            key_file.write_bytes(key)
            context.load_cert_chain(chain_file, key_file)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"the certificate and its key cannot be used together: {error}") from error
    except OSError as error:
        # Without the name of the folder, which is another one each time: what is known is not logged again.
        raise CertificateError(f"no temporary files for the ssl module: {error.strerror}") from error
    return context


def client_context(authorities: bytes) -> ssl.SSLContext:
    """Return a context that trusts exactly these PEM certificates, authorities or not.

    Raises:
        CertificateError: The text holds no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Certificates from files come with or without their authority, so a trusted leaf is enough.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"there is no certificate to trust: {error}") from error
    return context


def check_handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Perform a handshake between a client and a server in memory.

    Raises:
        CertificateError: The client does not accept the certificate.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(8):
        for end in tuple(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                raise CertificateError(f"a client of {name} would not accept the certificate: {error}") from error
        if not ends:
            return
    raise CertificateError(f"the handshake with a client of {name} does not complete")


class ServedCertificate:
    """The certificate that is served now; `on_publish` is called with the expiry of each.

    Attributes:
        certificate: The chain, PEM; empty before the first `publish`.
        trust: What a client trusts to accept it, PEM; empty before the first `publish`.
    """

    def __init__(self, on_publish: Callable[[dt.datetime], None] | None = None) -> None:
        self._on_publish = on_publish
        self._current: ssl.SSLContext | None = None
        self.certificate = b""
        self.trust = b""
        self._base = self._begun()

    def publish(self, certificate: bytes, key: bytes, trust: bytes, name: str) -> None:
        """Serve this certificate on new connections from now on; open connections keep theirs.

        All are PEM: the chain, its private key, and what a client that calls by `name` trusts to accept it.

        Raises:
            CertificateError: The pair does not work; the previous certificate stays served.
        """
        fresh = server_context(certificate, key)
        check_handshake(fresh, client_context(trust), name)
        ends = bundle.expiry(certificate)
        self._current, self.certificate, self.trust = fresh, certificate, trust
        if self._on_publish is not None:
            self._on_publish(ends)

    def context(self) -> ssl.SSLContext:
        """Return that in which the next connection begins; it serves what is published then.

        OpenSSL keeps a session there for each client that takes no ticket: a kilobyte or two, for two hours or until
        the last connection of the context ends.
        """
        if self._base.session_stats()["number"] >= MAX_SESSIONS:
            self._base = self._begun()
        return self._base

    def _begun(self) -> ssl.SSLContext:
        context = _bare_context()
        # OpenSSL calls it for every connection, with or without a name from the client.
        context.sni_callback = self._choose
        return context

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _base: ssl.SSLContext) -> None:
        if self._current is not None:
            connection.context = self._current


def _bare_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # TLS 1.3 has key updates: messages of 27 bytes of which OpenSSL takes any number, for 10 us each, so that a few
    # connections keep all others waiting. TLS 1.2 has renegotiation in their place, and that can be refused.
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context
