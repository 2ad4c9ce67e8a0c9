"""The call of a replica to itself, which readiness depends on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import trustme

from frameworkinjector.certificates.tls import ServedCertificate
from frameworkinjector.readiness import PartStatus
from frameworkinjector.serving import self_call
from frameworkinjector.serving.metrics import Metrics
from frameworkinjector.serving.self_call import SelfCall
from frameworkinjector.serving.server import ReviewServer
from testkit.waiting import eventually_async
from tests.injector.reviews import SERVICE, reviewed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def published(authority: trustme.CA) -> ServedCertificate:
    """Return a served certificate of this authority for the Service."""
    issued, served = authority.issue_cert(SERVICE), ServedCertificate()
    certificate, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    served.publish(certificate, key, authority.cert_pem.bytes(), SERVICE)
    return served


@pytest.fixture
async def server() -> AsyncIterator[tuple[ReviewServer, ServedCertificate, int]]:
    """Start a server that serves a certificate for the name of the Service."""
    served, found = published(trustme.CA()), ReviewServer(reviewed, Metrics())
    yield found, served, await found.start("127.0.0.1", 0, served.context)
    await found.stop(1)


class WatchedStatus(PartStatus):
    """A status that keeps, for each failure, whether the replica was ready after it."""

    def __init__(self, problem: str, *, tolerated: int) -> None:
        super().__init__(problem, tolerated=tolerated)
        self.ready_after_failures: list[bool] = []

    def failed(self, problem: str) -> bool:
        """Note a failure."""
        is_new = super().failed(problem)
        self.ready_after_failures.append(self.unready is None)
        return is_new


async def until(call: SelfCall, *, ready: bool) -> None:
    async def reached() -> None:
        assert (call.status.unready is None) is ready, call.status.unready

    await eventually_async(reached)


async def test_it_is_ready_once_the_server_answers_by_its_name(
    server: tuple[ReviewServer, ServedCertificate, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    running, served, port = server
    monkeypatch.setattr(self_call, "EVERY_SECONDS", 0.1)
    call = SelfCall(served, SERVICE)
    assert call.status.unready is not None
    task = asyncio.create_task(call.run("127.0.0.1", port))
    await until(call, ready=True)
    await running.stop(0)
    await until(call, ready=False)
    task.cancel()


async def test_with_a_certificate_for_another_name_it_is_unready(
    server: tuple[ReviewServer, ServedCertificate, int],
) -> None:
    _, served, port = server
    call = SelfCall(served, "another.svc")
    task = asyncio.create_task(call.run("127.0.0.1", port))

    async def says_so() -> None:
        assert "another.svc" in (call.status.unready or "")

    await eventually_async(says_so)
    task.cancel()


async def test_after_a_success_one_failure_is_tolerated_and_three_are_not(
    server: tuple[ReviewServer, ServedCertificate, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    running, served, port = server
    monkeypatch.setattr(self_call, "EVERY_SECONDS", 0.1)
    call = SelfCall(served, SERVICE)
    call.status = watched = WatchedStatus("not made yet", tolerated=self_call.FAILURES - 1)
    task = asyncio.create_task(call.run("127.0.0.1", port))
    await until(call, ready=True)
    watched.ready_after_failures.clear()
    await running.stop(0)
    await until(call, ready=False)
    assert watched.ready_after_failures[:3] == [True, True, False]
    task.cancel()
