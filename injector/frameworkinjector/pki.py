"""Keys and certificates of our own, as values: what is in the Secret, whether it will do, and what replaces it.

A small authority signs one server certificate. Both are renewed at 2/3 of their life. A new authority is trusted
beside the old one (``authorities`` holds both) until the old one has expired, so that no call fails between.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from frameworkinjector.errors import CertificateError

if TYPE_CHECKING:
    from collections.abc import Mapping

DAY_SECONDS: Final = 24 * 3600
RENEW_AT: Final = 2 / 3
# Clocks differ between nodes: a certificate is valid from a little before it was made.
MAX_BACKDATE_SECONDS: Final = 300
KEPT_AUTHORITIES: Final = 3

AUTHORITY_FILE: Final = "ca.crt"
AUTHORITY_KEY_FILE: Final = "ca.key"
CERTIFICATE_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Lives in seconds, and the names that the server certificate is for (DNS names or addresses)."""

    names: tuple[str, ...]
    authority_seconds: float = 5 * 365 * DAY_SECONDS
    certificate_seconds: float = 90 * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Bundle:
    """What the Secret holds, all PEM. ``authorities`` starts with the one that ``authority_key`` belongs to."""

    authorities: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes

    def files(self) -> dict[str, bytes]:
        """The Secret's data."""
        return {
            AUTHORITY_FILE: self.authorities,
            AUTHORITY_KEY_FILE: self.authority_key,
            CERTIFICATE_FILE: self.certificate,
            KEY_FILE: self.key,
        }


@dataclass(frozen=True, slots=True)
class _Pair:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def bundle_of(files: Mapping[str, bytes]) -> Bundle:
    """The bundle in a Secret's data, parts that are missing left empty."""
    wanted = (AUTHORITY_FILE, AUTHORITY_KEY_FILE, CERTIFICATE_FILE, KEY_FILE)
    return Bundle(*(files.get(name, b"") for name in wanted))


def renewed(bundle: Bundle, policy: Policy, now: dt.datetime) -> tuple[Bundle, str] | None:
    """The bundle that should take this one's place and why, None if it will do."""
    older = _certificates(bundle.authorities)
    authority = _usable(bundle.authorities, bundle.authority_key, now)
    if isinstance(authority, str):
        why = f"authority {authority}"
        authority = _make_authority(policy, now)
        kept = [one for one in older if one.not_valid_after_utc > now][: KEPT_AUTHORITIES - 1]
    else:
        problem = _certificate_problem(bundle, authority, policy, now)
        if problem is None:
            return None
        why, kept = f"certificate {problem}", [one for one in older[1:] if one.not_valid_after_utc > now]
    server = _make_server(authority, policy, now)
    authorities = b"".join(_pem(one) for one in (authority.certificate, *kept))
    return Bundle(authorities, _key_pem(authority.key), _pem(server.certificate), _key_pem(server.key)), why


def expiry(certificate: bytes) -> dt.datetime:
    """When a PEM certificate (the first of a chain) ends.

    Raises:
        CertificateError: It is none.
    """
    return _first(certificate).not_valid_after_utc


def renewal(certificate: bytes) -> dt.datetime:
    """When a PEM certificate (the first of a chain) should be replaced: at 2/3 of its life.

    Raises:
        CertificateError: It is none.
    """
    return _renewal(_first(certificate))


def newest_authority(authorities: bytes) -> bytes:
    """The first certificate of a PEM bundle, which signs; empty if there is none."""
    found = _certificates(authorities)
    return _pem(found[0]) if found else b""


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _first(pem: bytes) -> x509.Certificate:
    found = _certificates(pem)
    if not found:
        raise CertificateError("no certificate in PEM form")
    return found[0]


def _usable(certificate: bytes, key: bytes, now: dt.datetime) -> _Pair | str:
    """The pair, or why it must be replaced, as a clause."""
    found = _certificates(certificate)
    if not found:
        return "missing" if not certificate else "unreadable"
    try:
        loaded = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "without a readable key"
    if not isinstance(loaded, ec.EllipticCurvePrivateKey) or loaded.public_key() != found[0].public_key():
        return "with a key that is not its own"
    if not found[0].not_valid_before_utc <= now < _renewal(found[0]):
        return "at 2/3 of its life"
    return _Pair(found[0], loaded)


def _certificate_problem(bundle: Bundle, authority: _Pair, policy: Policy, now: dt.datetime) -> str | None:
    server = _usable(bundle.certificate, bundle.key, now)
    if isinstance(server, str):
        return server
    try:
        server.certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return "signed by another authority"
    try:
        names = server.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return "without names"
    covered = {str(one) for one in names.get_values_for_type(x509.DNSName)}
    covered |= {str(one) for one in names.get_values_for_type(x509.IPAddress)}
    return None if set(policy.names) <= covered else "for other names"


def _renewal(certificate: x509.Certificate) -> dt.datetime:
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_before_utc + life * RENEW_AT


def _make_authority(policy: Policy, now: dt.datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "frameworkinjector authority")])
    usage = _key_usage(signs_certificates=True)
    builder = (
        _builder(name, name, key, now, policy.authority_seconds)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _Pair(builder.sign(key, hashes.SHA256()), key)


def _make_server(authority: _Pair, policy: Policy, now: dt.datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # A common name may have 64 characters at most; the names that count are the alternative ones.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, policy.names[0][:64])])
    remaining = (authority.certificate.not_valid_after_utc - now).total_seconds()
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(name, authority.certificate.subject, key, now, min(policy.certificate_seconds, remaining))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(one) for one in policy.names]), critical=False)
        .add_extension(identifier, critical=False)
    )
    return _Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: dt.datetime, seconds: float
) -> x509.CertificateBuilder:
    backdate = min(MAX_BACKDATE_SECONDS, seconds / 10)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(seconds=backdate))
        .not_valid_after(now + dt.timedelta(seconds=seconds))
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
