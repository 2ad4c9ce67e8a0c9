"""Certificates of a cluster: whom they name, what a connection accepts, and when they are made again."""

import ssl
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from localcluster.pki import KeyPair, Pki

HOSTS = ["kubernetes", "kubernetes.default.svc", "127.0.0.1"]


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "pki")


def connect(pki: Pki, server: KeyPair, client: KeyPair, host: str) -> None:
    """Let a client and a server shake hands, each of which asks for the other's certificate."""
    near = ssl.create_default_context(cafile=pki.ca.certificate)
    near.load_cert_chain(client.certificate, client.key)
    far = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pki.ca.certificate)
    far.verify_mode = ssl.CERT_REQUIRED
    far.load_cert_chain(server.certificate, server.key)
    to_far, to_near = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [near.wrap_bio(to_near, to_far, server_hostname=host), far.wrap_bio(to_far, to_near, server_side=True)]
    for _ in range(3):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
    assert not ends


def all_of(pki: Pki) -> list[KeyPair]:
    return [pki.ca, pki.service_account, pki.server("a", hosts=HOSTS), pki.client("a", user="u", group="g")]


def test_keys_are_on_elliptic_curves_and_readable_by_their_owner_only(pki: Pki) -> None:
    for files in all_of(pki):
        key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        assert stat.S_IMODE(files.key.stat().st_mode) == 0o600
    files = pki.service_account
    public = serialization.load_pem_public_key(files.certificate.read_bytes())
    assert public == serialization.load_pem_private_key(files.key.read_bytes(), password=None).public_key()


def test_certificates_of_the_same_request_are_kept_and_of_another_made_again(pki: Pki) -> None:
    def content(pki: Pki) -> list[bytes]:
        return [file.read_bytes() for files in all_of(pki) for file in (files.certificate, files.key)]

    made = content(pki)
    assert content(Pki(pki.folder)) == made
    others = [pki.server("a", hosts=HOSTS[1:]).certificate.read_bytes()]
    others += [pki.client("a", user="v", **more).certificate.read_bytes() for more in ({"group": "g"}, {})]
    assert len({*made, *others}) == len(made) + len(others)


def test_a_certificate_that_does_not_work_is_made_again(pki: Pki) -> None:
    for damage in (
        lambda _: pki.ca.certificate.unlink(),
        lambda files: files.key.unlink(),
        lambda files: files.certificate.unlink(),
        lambda files: files.certificate.write_text("damaged"),
    ):
        damage(pki.server("a", hosts=HOSTS))
        for host in HOSTS:
            connect(pki, pki.server("a", hosts=HOSTS), pki.client("b", user="u"), host)
