"""Which outcomes of its parts make a replica ready, and that of its call to itself."""

import asyncio
from math import inf
from typing import Any

import pytest

from frameworkinjector.readiness import PartStatus, not_ready
from frameworkinjector.serving import self_call
from frameworkinjector.serving.self_call import SelfCall
from tests.injector.loopback_server import until
from tests.injector.reviews import SERVICE
from tests.support.rows import each


@each(
    "tolerated, outcomes, unready, problem",
    [
        (inf, "", "at first", "at first"), (inf, "a", "a", "a"), (inf, "a+", None, None),
        (inf, "+" + "a" * 100, None, "a"), (0, "+a", "a", "a"), (2, "+aa", None, "a"), (2, "+aaa", "a", "a"),
        (2, "+aa+aa", None, "a"), (2, "+aa+aab", "b", "b"), (2, "+aaa+", None, None),
    ],
)  # fmt: skip
def test_a_part_is_unready_until_its_first_success_and_after_more_failures_in_a_row_than_it_tolerates(
    tolerated: float, outcomes: str, unready: str | None, problem: str | None
) -> None:
    """Each letter is a failure, and each plus a success."""
    part = PartStatus("at first", tolerated=tolerated)
    for one in outcomes:
        part.succeeded() if one == "+" else part.failed(one)
    assert (part.unready, part.problem) == (unready, problem)


def test_only_a_failure_that_differs_from_the_previous_outcome_is_worth_a_log_line() -> None:
    part = PartStatus("not asked yet")
    assert [part.failed("a"), part.failed("a"), part.failed("b")] == [True, False, True]
    part.succeeded()
    assert part.failed("b")


def test_a_replica_is_ready_if_no_part_objects_and_it_is_not_stopping() -> None:
    ready, unready = PartStatus("x"), PartStatus("no certificate yet")
    ready.succeeded()
    assert not_ready({"call": ready}, stopping=False) == []
    assert not_ready({"call": ready, "certificate": unready}, stopping=True) == [
        "stopping",
        "certificate: no certificate yet",
    ]


async def test_with_a_certificate_for_another_name_it_is_unready(serve: Any) -> None:
    serving = await serve()
    call = SelfCall(serving.served, "another.svc")
    task = asyncio.create_task(call.run("127.0.0.1", serving.port))
    await until(lambda: "another.svc" in (call.status.unready or ""))
    task.cancel()


async def test_it_is_ready_once_the_server_answers_by_its_name_and_then_tolerates_two_failures(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = await serve()
    monkeypatch.setattr(self_call, "EVERY_SECONDS", 0.1)
    call = SelfCall(serving.served, SERVICE)
    assert call.status.unready is not None
    failed, ready_after_failures = call.status.failed, list[bool]()

    def noted(problem: str) -> bool:
        is_new = failed(problem)
        ready_after_failures.append(call.status.unready is None)
        return is_new

    task = asyncio.create_task(call.run("127.0.0.1", serving.port))
    await until(lambda: call.status.unready is None)
    monkeypatch.setattr(call.status, "failed", noted)
    await serving.server.stop(0)
    await until(lambda: call.status.unready is not None)
    assert ready_after_failures[:3] == [True, True, False]
    task.cancel()
