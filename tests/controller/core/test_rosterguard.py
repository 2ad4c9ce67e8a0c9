"""Whose change of a ConfigMap is seen, and when it is answered."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from frameworkcontroller.core.gang import drift
from frameworkcontroller.core.gang.drift import FORGET_AFTER, PAUSE_MAX, Guard
from tests.controller.core.values import START, at


@pytest.mark.parametrize(
    ("own", "seen", "changed"),
    [
        ("7", "7", False),
        ("7", "8", True),
        ("7", "10", True),
        ("10", "9", False),
        ("", "9", True),
        ("7", "opaque", False),
        ("opaque", "7", False),
        ("", "opaque", True),
    ],
    ids=[
        "its own",
        "a newer one",
        "by number, not by text",
        "a late cache",
        "its own is not known",
        "not comparable",
        "not comparable either",
        "neither known nor comparable",
    ],
)
def test_a_version_above_ones_own_is_somebody_elses(own: str, seen: str, *, changed: bool) -> None:
    assert drift.is_changed(Guard(own), seen) == changed


def test_who_goes_on_changing_it_is_answered_later_and_later() -> None:
    guard, now, pauses = Guard("1"), START, []
    for version in range(2, 200, 2):
        then = max(now, drift.due(guard, now))
        pauses.append((then - now).total_seconds())
        guard, restored = drift.written(drift.answer(guard, str(version), then), str(version + 1))
        assert restored
        now = then
    assert pauses[:8] == [0, 1, 2, 4, 8, 16, 32, 60]
    assert all(one <= other for one, other in itertools.pairwise(pauses))
    assert set(pauses[7:]) == {PAUSE_MAX.total_seconds()}


def test_after_a_quiet_while_the_next_change_is_answered_at_once() -> None:
    guard = Guard("1")
    for _ in range(9):
        guard = drift.answer(guard, "2", START)
    later = START + FORGET_AFTER
    assert drift.due(guard, later - timedelta(seconds=1)) == START + PAUSE_MAX
    assert drift.due(guard, later) == later
    assert drift.due(drift.answer(guard, "3", later), later) == later + timedelta(seconds=1)


def test_a_change_that_left_everything_as_it_should_be_put_nothing_right() -> None:
    answered = drift.answer(Guard("1"), "5", at(0))
    guard, restored = drift.written(answered, "5")
    assert (guard.version, guard.answering, restored) == ("5", None, False)


def test_a_write_for_another_reason_puts_nothing_right() -> None:
    assert drift.written(Guard("1"), "9") == (Guard("9"), False)


def test_an_answer_that_was_lost_is_given_again() -> None:
    guard = drift.failed(drift.answer(Guard("1"), "5", at(0)))
    assert (guard.version, guard.answering) == ("1", None)
    assert drift.is_changed(guard, "5")
