"""Makes keys and certificates: an authority, and a server certificate that it signs.

`bundle.renewed` calls it when it has decided that one of them must be replaced.
"""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clocks differ between nodes: a certificate is valid from a little before it was made.
MAX_BACKDATE_SECONDS: Final = 300
# Upper bound of a common name in RFC 5280; clients read the subject alternative names instead.
_MAX_COMMON_NAME: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What certificates are made for, and for how long."""

    names: tuple[str, ...]
    """DNS names or IP addresses of the server certificate."""
    authority_seconds: float
    """Life of an authority."""
    certificate_seconds: float
    """Life of a server certificate; it ends no later than its authority."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_authority(profile: Profile, now: dt.datetime) -> Pair:
    """Return a new authority, valid from `now`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "frameworkinjector authority")])
    builder = (
        _builder(name, name, key, now, profile.authority_seconds)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def make_server(authority: Pair, profile: Profile, now: dt.datetime) -> Pair:
    """Return a new server certificate for the names of the profile, signed by the authority, valid from `now`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, profile.names[0][:_MAX_COMMON_NAME])])
    remaining = (authority.certificate.not_valid_after_utc - now).total_seconds()
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(name, authority.certificate.subject, key, now, min(profile.certificate_seconds, remaining))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(one) for one in profile.names]), critical=False)
        .add_extension(identifier, critical=False)
    )
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate in PEM form."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key in PEM form (PKCS #8, not encrypted)."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


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
