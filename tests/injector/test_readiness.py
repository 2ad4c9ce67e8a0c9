"""Readiness as a value: which outcomes of the parts make a replica ready."""

from __future__ import annotations

from frameworkinjector.readiness import PartStatus, not_ready


def test_a_part_is_unready_until_its_first_success() -> None:
    part = PartStatus("not asked yet")
    assert part.unready == "not asked yet"
    part.failed("forbidden")
    assert part.unready == "forbidden"
    part.succeeded()
    assert part.unready is None


def test_a_part_that_tolerates_any_failure_stays_ready_and_shows_the_last_one() -> None:
    part = PartStatus("not asked yet")
    part.succeeded()
    for _ in range(100):
        part.failed("no answer")
    assert (part.unready, part.problem) == (None, "no answer")


def test_a_part_that_tolerates_two_failures_is_unready_after_the_third_in_a_row() -> None:
    part = PartStatus("not made yet", tolerated=2)
    part.succeeded()
    part.failed("slow")
    part.failed("slow")
    assert part.unready is None
    part.succeeded()
    for expected in (None, None, "slow"):
        part.failed("slow")
        assert part.unready == expected
    part.succeeded()
    assert part.unready is None


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
