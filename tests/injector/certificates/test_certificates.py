"""Where certificates come from: a Secret, at a stub of the API server (tests/apiserver has the real one), or files."""

import asyncio
import base64
import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from frameworkinjector.certificates import files, secret
from frameworkinjector.certificates.issuing import Profile
from frameworkinjector.certificates.secret import ManagedCertificates, ManagedObjects
from frameworkinjector.certificates.tls import ServedCertificate
from frameworkinjector.errors import CertificateError
from frameworkkube.errors import ConflictError, NotFoundError
from tests.injector.loopback_server import ReviewClient, until
from tests.injector.reviews import SERVICE

OBJECTS = ManagedObjects(namespace="system", secret="tls", webhook_configuration="injector")
SECRET = "/api/v1/namespaces/system/secrets/tls"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/injector"
# Longer than the age of an authority that is due, so that real handshakes accept its certificate.
PROFILE = Profile(names=(SERVICE,), authority_seconds=1000, certificate_seconds=1000)
CHECK_SECONDS, SETTLE_SECONDS = 10.0, 5.0


class StubServer:
    """The Secret and the webhook configuration by path, and the next writes of the Secret that lose their race."""

    def __init__(self) -> None:
        self.lost_races = 0
        self.writes: list[str] = []
        self.page = b""
        """What a proxy answers in place of the API server, if anything."""
        webhook: dict[str, Any] = {"name": "barrier", "clientConfig": {}}
        self.objects: dict[str, dict[str, Any]] = {
            SECRET: {"metadata": {"resourceVersion": "1"}},
            CONFIGURATION: {"metadata": {"resourceVersion": "1"}, "webhooks": [webhook]},
        }

    async def get(self, path: str) -> bytes:
        if path not in self.objects and not self.page:
            raise NotFoundError(404, "NotFound", path)
        return self.page or json.dumps(self.objects[path]).encode()

    async def replace(self, path: str, body: bytes) -> None:
        self.writes.append(path)
        if self.lost_races:
            self.lost_races -= 1
            raise ConflictError(409, "Conflict", path)
        self.objects[path] = json.loads(body)

    async def patch(self, path: str, body: bytes, *, content_type: str) -> None:
        assert content_type == "application/strategic-merge-patch+json"
        self.writes.append(path)
        (changed,) = json.loads(body)["webhooks"]
        (webhook,) = self.objects[path]["webhooks"]
        webhook["clientConfig"].update(changed["clientConfig"])

    @property
    def in_secret(self) -> bytes:
        return base64.b64decode(self.objects[SECRET]["data"]["tls.crt"])


class Lab:
    """The reconciliation of one replica, with everything around it."""

    def __init__(self) -> None:
        self.stub, self.served, self.now = StubServer(), ServedCertificate(), dt.datetime.now(dt.UTC)
        client: Any = self.stub
        seconds = {"check_seconds": CHECK_SECONDS, "settle_seconds": SETTLE_SECONDS}
        self.certificates = ManagedCertificates(client, OBJECTS, PROFILE, self.served, **seconds, now=lambda: self.now)

    async def reconcile(self, after: float = 0) -> float:
        """Reconcile so many seconds later, and return the seconds until the next look."""
        self.now += dt.timedelta(seconds=after)
        return await self.certificates.reconcile()


@pytest.fixture
def lab() -> Lab:
    return Lab()


async def test_a_first_certificate_is_written_trusted_and_served_and_then_left_alone(lab: Lab) -> None:
    assert await lab.reconcile() == CHECK_SECONDS
    assert lab.stub.writes == [SECRET, CONFIGURATION]
    assert lab.served.certificate == lab.stub.in_secret
    await lab.reconcile()
    assert len(lab.stub.writes) == 2


async def test_a_lost_race_for_the_secret_is_tried_again_at_once(lab: Lab) -> None:
    lab.stub.lost_races = 3
    await lab.reconcile()
    assert lab.stub.writes == [SECRET] * 4 + [CONFIGURATION]
    assert lab.served.certificate == lab.stub.in_secret


async def test_the_number_of_races_is_bounded_and_the_error_names_the_objects(lab: Lab) -> None:
    lab.stub.lost_races = 1000
    with pytest.raises(CertificateError, match="Secret tls or MutatingWebhookConfiguration injector"):
        await lab.reconcile()
    assert len(lab.stub.writes) == 20


@pytest.mark.parametrize("path", [SECRET, CONFIGURATION])
async def test_a_missing_object_is_an_error_that_says_what_to_do(path: str, lab: Lab) -> None:
    del lab.stub.objects[path]
    with pytest.raises(CertificateError, match="does not exist: apply the manifests"):
        await lab.reconcile()
    assert lab.stub.writes == []


async def test_a_certificate_of_a_new_authority_is_served_only_after_its_authority_has_settled(lab: Lab) -> None:
    await lab.reconcile(-700)
    first = lab.served.certificate
    assert await lab.reconcile(700) == SETTLE_SECONDS
    assert lab.served.certificate == first != lab.stub.in_secret
    assert await lab.reconcile(SETTLE_SECONDS - 1) == pytest.approx(1)
    assert lab.served.certificate == first
    await lab.reconcile(1)
    assert lab.served.certificate == lab.stub.in_secret != first


@pytest.mark.parametrize("restored", [False, True], ids=["emptied Secret", "restored Secret"])
async def test_a_certificate_that_nobody_trusts_any_more_is_replaced_at_once(lab: Lab, *, restored: bool) -> None:
    backup = Lab()
    if restored:
        await backup.reconcile()
    await lab.reconcile()
    first = lab.served.certificate
    lab.stub.objects[SECRET] = backup.stub.objects[SECRET]
    await lab.reconcile()
    assert lab.served.certificate == lab.stub.in_secret != first


async def test_what_does_not_work_is_reported_and_tried_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret, "RETRY_SECONDS", 0.01)
    missing = lab.stub.objects.pop(SECRET)
    running = asyncio.create_task(lab.certificates.run())

    await until(lambda: lab.certificates.status.problem == "Secret tls does not exist: apply the manifests")
    lab.stub.page = b"<html>"
    await until(lambda: "JSON is malformed" in (lab.certificates.status.problem or ""))
    lab.stub.page = b""
    lab.stub.objects[SECRET] = missing
    await until(lambda: lab.certificates.status.problem is None)
    running.cancel()


async def test_a_defect_ends_the_loop(lab: Lab) -> None:
    lab.stub.objects[CONFIGURATION] = {"webhooks": [{}]}
    with pytest.raises(KeyError):
        await lab.certificates.run()


async def test_files_that_change_are_served_and_files_that_do_not_fit_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHECK_SECONDS", 0.01)
    served, client = ServedCertificate(), ReviewClient(0)
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificates = files.CertificateFiles(chain, key, SERVICE, served)
    running = asyncio.create_task(certificates.run())

    async def becomes(certificate: bytes, problem: str) -> None:
        await until(lambda: served.certificate == certificate and problem in (certificates.status.problem or ""))

    await becomes(b"", "No such file")
    for pair in (client.issue(), client.issue()):
        # As the kubelet updates a Secret: the two files change one after the other, within moments.
        chain.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        await becomes(pair.certificate, "")
        key.write_bytes(client.issue().key)
        await becomes(pair.certificate, "cannot be used together")
        assert certificates.status.unready is None
    running.cancel()


async def test_files_that_could_not_be_served_are_tried_again_and_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    served, pair = ServedCertificate(), ReviewClient(0).issue()
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    certificates = files.CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key", SERVICE, served)
    with capture_logs() as entries:
        certificates.reconcile()
        certificates.reconcile()
        (tmp_path / "full").mkdir()
        certificates.reconcile()
        certificates.reconcile()
    assert served.certificate == pair.certificate
    assert [one["event"] for one in entries] == ["certificate files not usable", "certificate served"]


async def test_a_changed_pair_that_is_taken_back_is_no_problem_any_more(tmp_path: Path) -> None:
    chain, key, pair = tmp_path / "tls.crt", tmp_path / "tls.key", ReviewClient(0).issue()
    certificates = files.CertificateFiles(chain, key, SERVICE, ServedCertificate())
    chain.write_bytes(pair.certificate)
    for text, problem in ((pair.key, False), (b"", True), (pair.key, False)):
        key.write_bytes(text)
        certificates.reconcile()
        assert bool(certificates.status.problem) is problem
