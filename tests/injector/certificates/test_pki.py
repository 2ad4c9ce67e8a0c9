"""Certificates as values: what is replaced, when, and whether clients accept it."""

import datetime as dt

import pytest
from cryptography import x509

from frameworkinjector.certificates import bundle as pki
from frameworkinjector.certificates.issuing import Profile
from frameworkinjector.certificates.tls import check_handshake, client_context, server_context
from frameworkinjector.errors import CertificateError
from tests.injector.reviews import SERVICE
from tests.support.rows import each

NAMES = (SERVICE, f"{SERVICE}.cluster.local")
PROFILE = Profile(names=NAMES, authority_seconds=1000, certificate_seconds=100)
DAY_SECONDS = 24 * 3600
YEAR_SECONDS = 365 * DAY_SECONDS
START = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
EMPTY = pki.bundle_of({})
NO_KEY = b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"


def at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def now() -> dt.datetime:
    """Return the real time, for certificates that a handshake judges."""
    return dt.datetime.now(dt.UTC)


def renewed(bundle: pki.Bundle, when: dt.datetime = START, profile: Profile = PROFILE) -> pki.Renewal:
    found = pki.renewed(bundle, profile, when)
    assert found is not None
    return found


def first(profile: Profile = PROFILE, when: dt.datetime = START) -> pki.Bundle:
    return renewed(EMPTY, when, profile).bundle


def check_works(bundle: pki.Bundle, trust: bytes | None = None) -> None:
    server = server_context(bundle.certificate, bundle.key)
    for name in NAMES:
        check_handshake(server, client_context(trust or bundle.authorities), name)


def test_an_empty_secret_gets_a_bundle_that_works_and_lasts() -> None:
    bundle = first(when=now())
    check_works(bundle)
    assert pki.renewed(bundle, PROFILE, now()) is None


FIRST, OTHER = first(), first()
ELSEWHERE = Profile(names=("elsewhere.svc", "192.0.2.7"), authority_seconds=1000, certificate_seconds=100)
LOOKS = {
    "a new one": (FIRST, PROFILE, 0, None),
    "one that is read back": (pki.bundle_of(FIRST.files()), PROFILE, 0, None),
    "before two thirds of its life": (FIRST, PROFILE, 60, None),
    "at two thirds of its life": (FIRST, PROFILE, 66, "certificate at 2/3 of its life"),
    "for names and an address": (first(ELSEWHERE), ELSEWHERE, 0, None),
    "for other names": (FIRST, ELSEWHERE, 0, "certificate for other names"),
    "of another authority": (
        pki.Bundle(OTHER.authorities, OTHER.authority_key, FIRST.certificate, FIRST.key),
        PROFILE,
        0,
        "certificate signed by another authority",
    ),
}


@each("bundle, profile, seconds, expected", LOOKS.values(), ids=LOOKS)
def test_a_certificate_is_replaced_for_a_reason(
    bundle: pki.Bundle, profile: Profile, seconds: float, expected: str | None
) -> None:
    found = pki.renewed(bundle, profile, at(seconds))
    assert (found and found.because) == expected


def test_a_new_certificate_comes_from_the_same_authority() -> None:
    old = first()
    new = renewed(old, at(70)).bundle
    assert (new.authorities, new.authority_key) == (old.authorities, old.authority_key)
    assert new.certificate != old.certificate
    assert pki.renewed(new, PROFILE, at(70)) is None


def test_an_authority_is_replaced_at_two_thirds_of_its_life_and_still_trusted() -> None:
    start = now()
    bundle = first(when=start)
    found = renewed(bundle, start + dt.timedelta(seconds=700))
    assert found.because == "authority at 2/3 of its life"
    assert len(x509.load_pem_x509_certificates(found.bundle.authorities)) == 2
    # A client that trusts the new bundle accepts a replica that still serves the old certificate.
    check_works(bundle, trust=found.bundle.authorities)


def test_authorities_that_ended_are_not_kept() -> None:
    bundle = first()
    for seconds in (700, 1400, 2100, 2800):
        bundle = renewed(bundle, at(seconds)).bundle
        kept = x509.load_pem_x509_certificates(bundle.authorities)
        assert len(kept) <= pki.KEPT_AUTHORITIES
        assert all(one.not_valid_after_utc > at(seconds) for one in kept)


def test_a_certificate_does_not_outlive_its_authority() -> None:
    profile = Profile(names=NAMES, authority_seconds=50, certificate_seconds=1000)
    bundle = first(profile)
    assert pki.expiry(bundle.certificate) <= pki.expiry(bundle.authorities)


@each(
    "part, value, expected",
    [
        ("ca.crt", b"", "authority missing"),
        ("ca.crt", b"garbage", "authority unreadable"),
        ("ca.key", b"garbage", "authority without a readable key"),
        ("ca.key", None, "authority with a key that is not its own"),
        ("tls.crt", b"", "certificate missing"),
        ("tls.crt", b"garbage", "certificate unreadable"),
        ("tls.crt", None, "certificate with a key that is not its own"),
        ("tls.key", NO_KEY, "certificate without a readable key"),
        ("tls.key", None, "certificate with a key that is not its own"),
    ],
)
def test_a_damaged_secret_is_repaired(part: str, value: bytes | None, expected: str) -> None:
    other = first().files()[part]
    damaged = first(when=now()).files() | {part: other if value is None else value}
    found = renewed(pki.bundle_of(damaged), now())
    assert found.because == expected
    check_works(found.bundle)


def test_a_clock_that_is_a_minute_behind_accepts_a_new_certificate() -> None:
    bundle = first(Profile(names=NAMES, authority_seconds=5 * YEAR_SECONDS, certificate_seconds=90 * DAY_SECONDS))
    certificate = x509.load_pem_x509_certificate(bundle.certificate)
    assert certificate.not_valid_before_utc <= at(-60)


def test_without_a_certificate_there_is_no_expiry() -> None:
    with pytest.raises(CertificateError):
        pki.expiry(b"")
    with pytest.raises(CertificateError):
        pki.renewal_due(b"nothing")
