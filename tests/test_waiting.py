"""Waiting in tests until a check holds."""

from __future__ import annotations

import itertools

import pytest

from testkit.waiting import eventually, eventually_async


def test_it_returns_what_the_check_returns_when_it_holds() -> None:
    attempts = iter(range(10))

    def check() -> int:
        attempt = next(attempts)
        assert attempt == 3
        return attempt

    assert eventually(check, interval=0.001) == 3


def test_what_is_not_there_yet_is_waited_for() -> None:
    seen: dict[str, int] = {}
    attempts = itertools.count()

    def check() -> int:
        if next(attempts) == 3:
            seen["pod"] = 1
        return seen["pod"]

    assert eventually(check, interval=0.001) == 1


async def test_it_waits_for_coroutines_too() -> None:
    attempts = iter(range(10))

    async def check() -> None:
        assert next(attempts) == 3

    await eventually_async(check, interval=0.001)
    attempts = iter(range(10))
    await eventually_async(lambda: check(), interval=0.001)  # noqa: PLW0108 -- a lambda is no coroutine function
    assert next(attempts) == 4


def test_it_raises_the_last_assertion() -> None:
    attempts = itertools.count()

    def check() -> None:
        raise AssertionError(f"attempt {min(next(attempts), 2)}")

    with pytest.raises(AssertionError, match="attempt 2"):
        eventually(check, timeout=0.2, interval=0.001)


def test_any_other_error_ends_it_at_once() -> None:
    attempts: list[int] = []

    def check() -> None:
        attempts.append(1)
        raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        eventually(check, timeout=10)
    assert len(attempts) == 1
