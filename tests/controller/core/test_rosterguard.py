"""Whose change of a ConfigMap is seen, and when it is answered."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from msgspec.structs import replace

from frameworkcontroller.core.gang import drift
from frameworkcontroller.core.gang.drift import FORGET_AFTER, PAUSE_MAX, Guard
from tests.controller.core.values import START, at

VERSIONS = {
    "its own": ("7", "7", False),
    "a newer one": ("7", "8", True),
    "by number, not by text": ("7", "10", True),
    "a late cache": ("10", "9", False),
    "its own is not known": ("", "9", True),
    "not comparable": ("7", "opaque", False),
    "not comparable either": ("opaque", "7", False),
    "neither known nor comparable": ("", "opaque", True),
}


@pytest.mark.parametrize(("own", "seen", "changed"), VERSIONS.values(), ids=VERSIONS)
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


ANSWERED = drift.answer(Guard("1"), "5", at(0))


@pytest.mark.parametrize(
    ("guard", "version", "restored"),
    [(ANSWERED, "6", True), (ANSWERED, "5", False), (Guard("1"), "9", False), (drift.failed(ANSWERED), "6", False)],
    ids=["a change", "one that left all as it should be", "none: it was for another reason", "the answer was lost"],
)
def test_a_write_puts_right(guard: Guard, version: str, *, restored: bool) -> None:
    assert drift.is_changed(guard, "5"), "until it is written"
    assert drift.written(guard, version) == (replace(guard, version=version, answering=None), restored)
