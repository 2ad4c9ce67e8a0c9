"""Waiting in tests and benchmarks until a check holds."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import tenacity

T = TypeVar("T")
_PATIENCE = 10.0


def patience(seconds: float) -> float:
    """Return how long to wait for what takes at most so many seconds on an idle machine.

    Only what hangs should exceed it: several test workers share few cores with others, and one false failure in
    thousands of tests costs more than a long wait for a true one.
    """
    return _PATIENCE * seconds


def eventually(check: Callable[[], T], timeout: float = 10.0, interval: float = 0.05) -> T:
    """Call a check until it holds, and return its result.

    Args:
        check: Raises AssertionError while it does not hold, or LookupError while what it looks at is not there; any
            other exception ends the wait at once.
        timeout: The seconds that it may take on an idle machine; see `patience`. The check is called at least once.
        interval: The seconds between two calls.

    Raises:
        AssertionError, LookupError: The last one of the check, when the time is over.
    """
    return tenacity.Retrying(**_until(timeout, interval))(check)


async def eventually_async(
    check: Callable[[], Awaitable[T]],
    timeout: float = 10.0,  # noqa: ASYNC109 -- the same arguments as `eventually`
    interval: float = 0.05,
) -> T:
    """Await a check until it holds; see `eventually`."""

    async def attempt() -> T:
        # tenacity awaits what a coroutine function returns, and nothing that a lambda does.
        return await check()

    return await tenacity.AsyncRetrying(**_until(timeout, interval))(attempt)


def _until(timeout: float, interval: float) -> dict[str, Any]:
    return {
        "retry": tenacity.retry_if_exception_type((AssertionError, LookupError)),
        "stop": tenacity.stop_after_delay(patience(timeout)),
        "wait": tenacity.wait_fixed(interval),
        "reraise": True,
    }
