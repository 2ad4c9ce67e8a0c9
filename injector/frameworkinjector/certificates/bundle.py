"""The certificates in the Secret, as values: whether they can be used, and what replaces them.

`secret` calls `renewed` with the content of the Secret at each look. A small authority signs one server
certificate; both are renewed at two thirds of their life. A new authority is trusted beside the previous ones
(`Bundle.authorities` holds all of them) until these have expired, so that no call fails during a renewal.
Source: docs/reference/injector.md, section 2.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from frameworkinjector.certificates.issuing import Pair, Profile, certificate_pem, key_pem, make_authority, make_server
from frameworkinjector.errors import CertificateError

RENEW_AT: Final = 2 / 3
KEPT_AUTHORITIES: Final = 3

# The data of the Secret, in the order of the fields of `Bundle`.
_FILES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")


class Bundle(NamedTuple):
    """What the Secret holds, in PEM form; a missing part is empty."""

    authorities: bytes
    """All trusted authorities; the first one signs and belongs to `authority_key`."""
    authority_key: bytes
    certificate: bytes
    """That of the server, which belongs to `key`."""
    key: bytes

    def files(self) -> dict[str, bytes]:
        """Return the data of the Secret."""
        return dict(zip(_FILES, self, strict=True))


class Renewal(NamedTuple):
    """A bundle that replaces another, and the reason as a clause."""

    bundle: Bundle
    because: str


def bundle_of(files: Mapping[str, bytes]) -> Bundle:
    """Return the bundle in a Secret's data; a missing part is empty."""
    return Bundle(*(files.get(name, b"") for name in _FILES))


def renewed(bundle: Bundle, profile: Profile, now: dt.datetime) -> Renewal | None:
    """Return the bundle that must replace this one, None if this one can be used.

    Authorities that have not expired are kept beside the signing one, `KEPT_AUTHORITIES` in all.
    """
    older = _certificates(bundle.authorities)
    authority = _usable_pair(bundle.authorities, bundle.authority_key, now)
    if isinstance(authority, str):
        because = f"authority {authority}"
        authority = make_authority(profile, now)
        kept = [one for one in older if one.not_valid_after_utc > now][: KEPT_AUTHORITIES - 1]
    else:
        problem = _certificate_problem(bundle, authority, profile, now)
        if problem is None:
            return None
        because = f"certificate {problem}"
        kept = [one for one in older[1:] if one.not_valid_after_utc > now]
    server = make_server(authority, profile, now)
    authorities = b"".join(certificate_pem(one) for one in (authority.certificate, *kept))
    return Renewal(
        Bundle(authorities, key_pem(authority.key), certificate_pem(server.certificate), key_pem(server.key)), because
    )


def expiry(certificate: bytes) -> dt.datetime:
    """Return when a PEM certificate (the first of a chain) expires.

    Raises:
        CertificateError: The text holds no certificate.
    """
    return _first(certificate).not_valid_after_utc


def renewal_due(certificate: bytes) -> dt.datetime:
    """Return when a PEM certificate (the first of a chain) is due for renewal: at two thirds of its life.

    Raises:
        CertificateError: The text holds no certificate.
    """
    first = _first(certificate)
    return first.not_valid_before_utc + (first.not_valid_after_utc - first.not_valid_before_utc) * RENEW_AT


def signing_authority(authorities: bytes) -> bytes:
    """Return the first certificate of a PEM bundle, which signs.

    Raises:
        CertificateError: The text holds no certificate.
    """
    return certificate_pem(_first(authorities))


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _first(pem: bytes) -> x509.Certificate:
    found = _certificates(pem)
    if not found:
        raise CertificateError("there is no certificate in PEM form")
    return found[0]


def _usable_pair(certificate: bytes, key: bytes, now: dt.datetime) -> Pair | str:
    """Return the pair, or as a clause why it must be replaced."""
    found = _certificates(certificate)
    if not found:
        return "missing" if not certificate else "unreadable"
    try:
        loaded = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "without a readable key"
    if not isinstance(loaded, ec.EllipticCurvePrivateKey) or loaded.public_key() != found[0].public_key():
        return "with a key that is not its own"
    if not found[0].not_valid_before_utc <= now < renewal_due(certificate):
        return "at 2/3 of its life"
    return Pair(found[0], loaded)


def _certificate_problem(bundle: Bundle, authority: Pair, profile: Profile, now: dt.datetime) -> str | None:
    """Return as a clause why the server certificate must be replaced, None if it can be used."""
    server = _usable_pair(bundle.certificate, bundle.key, now)
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
    return None if set(profile.names) <= covered else "for other names"
