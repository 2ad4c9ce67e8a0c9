"""The certificates of a cluster: its authority, server and client certificates, and the keys of service-account tokens.

Keys are elliptic-curve keys, because making an RSA key takes longer than starting etcd.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_VALID = dt.timedelta(days=3650)
# The clock of a virtual machine may jump back after its start.
_BACKDATED = dt.timedelta(hours=1)
_RENEW_BEFORE = dt.timedelta(days=30)


@dataclass(frozen=True)
class KeyPair:
    """The paths of two PEM files.

    Attributes:
        certificate: The certificate; for service-account tokens, the public key.
        key: The private key, readable by its owner only.
    """

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Pki:
    """The certificates and keys in a folder; each is made when it is first requested.

    Attributes:
        folder: The folder.
    """

    folder: Path

    @property
    def ca(self) -> KeyPair:
        """The certificate authority, which signs all other certificates and which clients trust."""
        files = self._files("ca")
        if not _usable(files):
            key = _new_key()
            name = _name("localcluster")
            usage = x509.KeyUsage(
                digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
                key_encipherment=False, data_encipherment=False, key_agreement=False,
                encipher_only=False, decipher_only=False,
            )  # fmt: skip
            certificate = (
                _builder(name, name, key.public_key())
                .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
                .add_extension(usage, critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .sign(key, hashes.SHA256())
            )
            _write(files, _pem(certificate), key)
        return files

    @property
    def service_account(self) -> KeyPair:
        """The key pair that signs service-account tokens; `certificate` is the public key."""
        files = self._files("service-account")
        if not (files.certificate.exists() and files.key.exists()):
            key = _new_key()
            public = key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            _write(files, public, key)
        return files

    def server(self, name: str, *, hosts: Sequence[str]) -> KeyPair:
        """Return a server certificate.

        Args:
            name: Names the files, and is the common name; other hosts for the same name make a new certificate.
            hosts: The DNS names and IP addresses that clients may use.
        """
        files = self._files(f"server-{name}")
        wanted = [_general_name(host) for host in hosts]
        if not (_usable(files, self.ca) and _names_of(files) == wanted):
            extension = x509.SubjectAlternativeName(wanted)
            self._issue(files, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, extension)
        return files

    def client(self, name: str, *, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Return a client certificate, which authenticates a user and its groups to the API server.

        Args:
            name: Names the files.
            user: The user name (common name).
            groups: The groups (organizations).
        """
        files = self._files(f"client-{name}")
        subject = _name(user, groups)
        if not (_usable(files, self.ca) and _load(files).subject == subject):
            self._issue(files, subject, ExtendedKeyUsageOID.CLIENT_AUTH, None)
        return files

    def _files(self, name: str) -> KeyPair:
        return KeyPair(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    def _issue(
        self,
        files: KeyPair,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> None:
        authority = self.ca
        issuer = _load(authority)
        issuer_key = serialization.load_pem_private_key(authority.key.read_bytes(), password=None)
        assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
        key = _new_key()
        builder = (
            _builder(subject, issuer.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(issuer_key, hashes.SHA256())
        _write(files, _pem(certificate), key)


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(common: str, organizations: Sequence[str] = ()) -> x509.Name:
    organization = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*organization, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _VALID)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _names_of(files: KeyPair) -> list[x509.GeneralName]:
    return list(_load(files).extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


def _load(files: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes())


def _usable(files: KeyPair, authority: KeyPair | None = None) -> bool:
    """Report whether both files exist and the certificate is valid for another month and signed by this authority."""
    if not (files.certificate.exists() and files.key.exists()):
        return False
    try:
        certificate = _load(files)
        if authority is not None:
            certificate.verify_directly_issued_by(_load(authority))
    except Exception:  # noqa: BLE001 -- a certificate that cannot be read, for any reason, is replaced
        return False
    return certificate.not_valid_after_utc > dt.datetime.now(dt.UTC) + _RENEW_BEFORE


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(files: KeyPair, public: bytes, key: ec.EllipticCurvePrivateKey) -> None:
    files.key.parent.mkdir(parents=True, exist_ok=True)
    files.key.unlink(missing_ok=True)
    files.key.touch(0o600)
    files.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    files.certificate.write_bytes(public)
