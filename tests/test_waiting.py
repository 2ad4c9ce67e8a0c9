"""Waiting in tests until a check holds."""

import itertools

import pytest

from testkit.waiting import eventually, eventually_async


def test_it_returns_what_the_check_returns_when_it_holds_and_what_it_looks_at_is_there() -> None:
    attempts, seen = itertools.count(), dict[str, int]()

    def check() -> int:
        attempt = next(attempts)
        assert attempt > 1
        if attempt == 3:
            seen["pod"] = 7
        return seen["pod"]

    assert eventually(check, interval=0.001) == 7


async def test_it_waits_for_coroutines_too() -> None:
    attempts = itertools.count()

    async def check() -> int:
        attempt = next(attempts)
        assert attempt % 4 == 3
        return attempt

    assert await eventually_async(check, interval=0.001) == 3
    again = await eventually_async(lambda: check(), interval=0.001)  # noqa: PLW0108 -- it is no coroutine function
    assert again == 7


def test_it_raises_the_last_assertion() -> None:
    attempts = itertools.count()

    def check() -> None:
        raise AssertionError(f"attempt {min(next(attempts), 2)}")

    with pytest.raises(AssertionError, match="attempt 2"):
        eventually(check, timeout=0.2, interval=0.001)


def test_any_other_error_ends_it_at_once() -> None:
    attempts = itertools.count()

    def check() -> None:
        raise ValueError(f"defect {next(attempts)}")

    with pytest.raises(ValueError, match="defect 0"):
        eventually(check, timeout=10)
