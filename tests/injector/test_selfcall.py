"""The call of a replica to itself, which readiness depends on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from frameworkinjector.readiness import PartStatus
from frameworkinjector.serving import self_call
from frameworkinjector.serving.self_call import SelfCall
from testkit.waiting import eventually_async
from tests.injector.reviews import SERVICE

if TYPE_CHECKING:
    import pytest


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


async def test_with_a_certificate_for_another_name_it_is_unready(serve: Any) -> None:
    serving = await serve()
    call = SelfCall(serving.served, "another.svc")
    task = asyncio.create_task(call.run("127.0.0.1", serving.port))

    async def says_so() -> None:
        assert "another.svc" in (call.status.unready or "")

    await eventually_async(says_so)
    task.cancel()


async def test_it_is_ready_once_the_server_answers_by_its_name_and_then_tolerates_two_failures(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = await serve()
    monkeypatch.setattr(self_call, "EVERY_SECONDS", 0.1)
    call = SelfCall(serving.served, SERVICE)
    assert call.status.unready is not None
    call.status = watched = WatchedStatus("not made yet", tolerated=self_call.FAILURES - 1)
    task = asyncio.create_task(call.run("127.0.0.1", serving.port))
    await until(call, ready=True)
    watched.ready_after_failures.clear()
    await serving.server.stop(0)
    await until(call, ready=False)
    assert watched.ready_after_failures[:3] == [True, True, False]
    task.cancel()
