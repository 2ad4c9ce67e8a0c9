"""The policies by which the injector tries a call again."""

from __future__ import annotations

import asyncio

import pytest

from frameworkinjector.retries import at_once, until_success


class Call:
    """A call that raises these errors, one each time, and then returns how often it was made."""

    def __init__(self, *errors: BaseException) -> None:
        self.made = 0
        self._errors = list(errors)

    async def __call__(self) -> int:
        self.made += 1
        if self._errors:
            raise self._errors.pop(0)
        return self.made


async def test_a_call_is_tried_again_until_it_succeeds_and_each_failure_is_reported_before_the_pause() -> None:
    reported: list[str] = []
    failures_at_pause: list[int] = []

    def pause() -> float:
        failures_at_pause.append(len(reported))
        return 0.0

    policy = until_success(OSError, pause=pause, on_failure=lambda error: reported.append(str(error)))
    assert await policy(Call(OSError("a"), ConnectionError("b"))) == 3
    assert reported == ["a", "b"]
    assert failures_at_pause == [1, 2]
    # The same policy serves the next call of its loop.
    assert await policy(Call(OSError("c"))) == 2


@pytest.mark.parametrize("error", [ValueError("a defect"), asyncio.CancelledError()])
async def test_any_other_exception_ends_the_call(error: BaseException) -> None:
    call = Call(error)
    with pytest.raises(type(error)):
        await until_success(OSError, pause=lambda: 0.0, on_failure=lambda _: None)(call)
    assert call.made == 1


async def test_attempts_at_once_are_bounded_and_the_last_error_is_raised() -> None:
    call = Call(*(OSError(str(number)) for number in range(9)))
    with pytest.raises(OSError, match="2"):
        await at_once(OSError, attempts=3)(call)
    assert call.made == 3
    assert await at_once(OSError, attempts=3)(Call(OSError("x"))) == 2
