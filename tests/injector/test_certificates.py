"""The reconciliation of the certificate, against a stub of the API server; tests/apiserver has the real one."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from frameworkinjector.certificates import secret
from frameworkinjector.certificates.issuing import Profile
from frameworkinjector.certificates.secret import ManagedCertificates, ManagedObjects
from frameworkinjector.certificates.tls import ServedCertificate
from frameworkinjector.errors import CertificateError
from frameworkkube.errors import ConflictError, NotFoundError
from testkit.waiting import eventually_async
from tests.injector.reviews import SERVICE

if TYPE_CHECKING:
    from frameworkkube.http.client import KubeClient

OBJECTS = ManagedObjects(namespace="system", secret="tls", webhook_configuration="injector")
# Longer than the age of an authority that is due, so that real handshakes accept its certificate.
PROFILE = Profile(names=(SERVICE,), authority_seconds=1000, certificate_seconds=1000)
CHECK_SECONDS, SETTLE_SECONDS = 10.0, 5.0


class StubServer:
    """The Secret and the webhook configuration by path, and the next writes of the Secret that lose their race."""

    def __init__(self) -> None:
        self.lost_races = 0
        self.writes: list[str] = []
        webhook: dict[str, Any] = {"name": "barrier", "clientConfig": {}}
        self.objects: dict[str, dict[str, Any]] = {
            OBJECTS.secret_path: {"metadata": {"resourceVersion": "1"}},
            OBJECTS.configuration_path: {"metadata": {"resourceVersion": "1"}, "webhooks": [webhook]},
        }

    async def get(self, path: str) -> bytes:
        if path not in self.objects:
            raise NotFoundError(404, "NotFound", path)
        return json.dumps(self.objects[path]).encode()

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
        return base64.b64decode(self.objects[OBJECTS.secret_path]["data"]["tls.crt"])


class Clock:
    """A clock that is set by hand, in seconds from the real time of its creation."""

    def __init__(self) -> None:
        self._start = dt.datetime.now(dt.UTC)
        self.seconds = 0.0

    def __call__(self) -> dt.datetime:
        return self._start + dt.timedelta(seconds=self.seconds)


def managed(stub: StubServer, served: ServedCertificate, clock: Clock | None = None) -> ManagedCertificates:
    return ManagedCertificates(
        cast("KubeClient", stub),
        OBJECTS,
        PROFILE,
        served,
        check_seconds=CHECK_SECONDS,
        settle_seconds=SETTLE_SECONDS,
        now=clock or Clock(),
    )


async def test_a_first_certificate_is_written_trusted_and_served_and_then_left_alone() -> None:
    stub, served = StubServer(), ServedCertificate()
    certificates = managed(stub, served)
    assert await certificates.reconcile() == CHECK_SECONDS
    assert stub.writes == [OBJECTS.secret_path, OBJECTS.configuration_path]
    assert served.certificate == stub.in_secret
    await certificates.reconcile()
    assert len(stub.writes) == 2


async def test_a_lost_race_for_the_secret_is_tried_again_at_once() -> None:
    stub, served = StubServer(), ServedCertificate()
    stub.lost_races = 3
    await managed(stub, served).reconcile()
    assert stub.writes == [OBJECTS.secret_path] * 4 + [OBJECTS.configuration_path]
    assert served.certificate == stub.in_secret


async def test_the_number_of_races_is_bounded_and_the_error_names_the_objects() -> None:
    stub = StubServer()
    stub.lost_races = 1000
    with pytest.raises(CertificateError, match="Secret tls or MutatingWebhookConfiguration injector"):
        await managed(stub, ServedCertificate()).reconcile()
    assert len(stub.writes) == 20


@pytest.mark.parametrize("path", [OBJECTS.secret_path, OBJECTS.configuration_path])
async def test_a_missing_object_is_an_error_that_says_what_to_do(path: str) -> None:
    stub = StubServer()
    del stub.objects[path]
    with pytest.raises(CertificateError, match="does not exist: apply the manifests"):
        await managed(stub, ServedCertificate()).reconcile()
    assert stub.writes == []


async def test_a_certificate_of_a_new_authority_is_served_only_after_its_authority_has_settled() -> None:
    stub, served, clock = StubServer(), ServedCertificate(), Clock()
    certificates = managed(stub, served, clock)
    clock.seconds = -700
    await certificates.reconcile()
    first = served.certificate
    clock.seconds = 0
    assert await certificates.reconcile() == SETTLE_SECONDS
    assert served.certificate == first != stub.in_secret
    clock.seconds = SETTLE_SECONDS - 1
    assert await certificates.reconcile() == pytest.approx(1)
    assert served.certificate == first
    clock.seconds = SETTLE_SECONDS
    await certificates.reconcile()
    assert served.certificate == stub.in_secret != first


async def test_what_does_not_work_is_reported_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret, "RETRY_SECONDS", 0.01)
    stub = StubServer()
    missing = stub.objects.pop(OBJECTS.secret_path)
    certificates = managed(stub, ServedCertificate())
    running = asyncio.create_task(certificates.run())

    async def has_problem(expected: str | None) -> None:
        assert certificates.status.problem == expected

    await eventually_async(lambda: has_problem("Secret tls does not exist: apply the manifests"))
    stub.objects[OBJECTS.secret_path] = missing
    await eventually_async(lambda: has_problem(None))
    running.cancel()


async def test_a_defect_ends_the_loop() -> None:
    stub = StubServer()
    stub.objects[OBJECTS.configuration_path] = {"webhooks": [{}]}
    with pytest.raises(KeyError):
        await managed(stub, ServedCertificate()).run()
