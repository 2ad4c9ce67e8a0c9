"""Retrying calls that may safely be sent twice."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import tenacity

from frameworkcontroller.cluster.errors import (
    ApiStatusError,
    ServerError,
    TimedOut,
    TooManyRequests,
    TransportError,
    Unauthorized,
)


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed later although nobody changes anything.

    A write that was lost may have happened: the call must be idempotent (a read, a write with preconditions, a
        create under a
    fixed name whose `AlreadyExists` the caller understands).
    """
    match error:
        case ServerError(code=501):
            return False
        case TransportError() | TimedOut() | TooManyRequests() | ServerError() | Unauthorized():
            return True
        case ApiStatusError(code=408):
            return True
        case _:
            return False


def retrying(
    *,
    max_elapsed_seconds: float = 30.0,
    first_seconds: float = 0.25,
    ceiling_seconds: float = 5.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    draw: Callable[[], float] = random.random,
) -> tenacity.AsyncRetrying:
    """A policy for idempotent calls.

    Used as ``body = await retrying()(client.get, path)``. Full jitter over an exponential back-off, and never less than
    the server's Retry-After. When the next attempt would come after `max_elapsed_seconds`, the last error is raised as
    it is.

    Args:
        max_elapsed_seconds: from the first attempt.
        first_seconds: upper end of the first wait.
        ceiling_seconds: upper end of every wait.
        sleep: waits so many seconds.
        draw: a random number in [0, 1).
    """

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        ceiling = min(ceiling_seconds, first_seconds * 2.0 ** min(state.attempt_number - 1, 30))
        pause = error.retry_after_seconds if isinstance(error, ApiStatusError) else None
        return (pause or 0.0) + draw() * ceiling

    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(is_transient),
        wait=wait,
        stop=tenacity.stop_before_delay(max_elapsed_seconds),
        sleep=sleep,
        reraise=True,
    )
