"""Waiting for what is to happen, in tests."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


def eventually(check: Callable[[], T], timeout: float = 10.0, interval: float = 0.05) -> T:
    """Call a check until it holds.

    Args:
        check: What has to hold; its AssertionErrors mean not yet, any other exception ends the wait at once.
        timeout: Seconds to try; it is called once at least.
        interval: Seconds between two calls.

    Returns:
        What the check returned when it held.

    Raises:
        AssertionError: The last one, when the time is over.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(interval)


async def eventually_async(
    check: Callable[[], Awaitable[T]],
    timeout: float = 10.0,  # noqa: ASYNC109 -- the same arguments as `eventually`
    interval: float = 0.05,
) -> T:
    """`eventually` for a check that is awaited."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return await check()
        except AssertionError:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(interval)
