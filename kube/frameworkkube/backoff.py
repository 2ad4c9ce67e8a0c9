"""How long to wait after a failure: one formula, for state machines (`Backoff`) and for plain retries (`retrying`).

A call that is simply tried again uses `retrying`, tenacity with this formula. A loop whose next step depends on more
than the failure (the informer: resume or list again, forget failures after healthy minutes) keeps a `Backoff`.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

import tenacity
from tenacity.retry import retry_base
from tenacity.stop import stop_base

from frameworkkube.errors import (
    ApiStatusError,
    RequestTimeoutError,
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)

FLOOR_SECONDS = 0.8
CEILING_SECONDS = 30.0
HEALTHY_SECONDS = 120.0
_MAX_DOUBLINGS = 10
"""Bounds the exponent: 2.0 ** 1100 would raise after a weekend without a server."""


def pause_seconds(failures: int, draw: Callable[[], float], retry_after_seconds: float | None = None) -> float:
    """Return how long to wait after so many failures in a row, never less than the server asked for.

    The figures are those of client-go's reflector: 0.8 s to 30 s, doubled with each failure. The jitter is full, so
    that replicas which lost the same server do not come back together, but the pause is never below the floor: a
    faulty server sees at most one attempt per 0.8 s. `draw` returns a random number in [0, 1).
    """
    ceiling = min(CEILING_SECONDS, FLOOR_SECONDS * 2.0 ** min(failures, _MAX_DOUBLINGS))
    pause = FLOOR_SECONDS + draw() * (ceiling - FLOOR_SECONDS)
    if retry_after_seconds is None:
        return pause
    return max(pause, retry_after_seconds + draw() * FLOOR_SECONDS)


class Backoff:
    """Counts failures in a row, and forgets them after two minutes without one.

    This is state only: the caller waits, and decides what to do next. The clock is monotonic.
    """

    def __init__(self, clock: Callable[[], float], draw: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._draw = draw
        self._failures = 0
        self._resumes_at = float("-inf")

    def next(self, retry_after_seconds: float | None = None) -> float:
        """Count one more failure and return the seconds to wait."""
        if self._clock() - self._resumes_at >= HEALTHY_SECONDS:
            self._failures = 0
        self._failures += 1
        pause = pause_seconds(self._failures, self._draw, retry_after_seconds)
        self._resumes_at = self._clock() + pause
        return pause


def is_transient(error: BaseException) -> bool:
    """Report whether the same call may succeed later although nobody changes anything.

    A write whose answer was lost may have happened, so the call must be idempotent: a read, a write with preconditions,
    or a create under a fixed name whose caller understands `AlreadyExistsError`.
    """
    match error:
        case ServerError(code=501):
            return False
        case TransportError() | RequestTimeoutError() | TooManyRequestsError() | ServerError() | UnauthorizedError():
            return True
        case ApiStatusError(code=408):
            return True
        case _:
            return False


def retrying(
    *,
    retry: retry_base | None = None,
    stop: stop_base = tenacity.stop_never,
    before_sleep: Callable[[tenacity.RetryCallState], None] | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    draw: Callable[[], float] = random.random,
) -> tenacity.AsyncRetrying:
    """Return a policy that repeats an idempotent call.

    Used as `body = await retrying()(client.get, path)`. By default it tries transient errors again (`is_transient`),
    and for ever. When it stops, the last error is raised as it is. `before_sleep` is called before each pause, to log
    or to count.
    """

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        retry_after = error.retry_after_seconds if isinstance(error, ApiStatusError) else None
        return pause_seconds(state.attempt_number, draw, retry_after)

    return tenacity.AsyncRetrying(
        retry=retry or tenacity.retry_if_exception(is_transient),
        wait=wait,
        stop=stop,
        before_sleep=before_sleep,
        sleep=sleep,
        reraise=True,
    )
