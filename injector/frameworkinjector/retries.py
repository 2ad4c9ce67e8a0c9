"""The policies by which the injector tries a call again, as tenacity's predicates.

`certificates.secret`, `serving.capabilities` and `serving.self_call` use them. Their pauses are short and constant: no
replica can serve before the first success, a few replicas call the API server at most once a second each, and the
client itself keeps the pauses that an API server asks for. A policy object holds the state of one running call: each
part creates its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tenacity

if TYPE_CHECKING:
    from collections.abc import Callable


def until_success(
    *errors: type[Exception], pause: Callable[[], float], on_failure: Callable[[BaseException], object]
) -> tenacity.AsyncRetrying:
    """Return a policy that tries a call again until it succeeds.

    Args:
        *errors: Failures after which the call is tried again; any other exception is raised.
        pause: Returns the seconds before the next attempt; called after `on_failure`.
        on_failure: Receives each failure.
    """

    def failed(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        assert error is not None
        on_failure(error)

    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(errors),
        after=failed,
        wait=lambda _state: pause(),
        stop=tenacity.stop_never,
    )


def at_once(error: type[Exception], *, attempts: int) -> tenacity.AsyncRetrying:
    """Return a policy that repeats a call without a pause after `error`, and raises the last one after `attempts`."""
    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(error),
        wait=tenacity.wait_none(),
        stop=tenacity.stop_after_attempt(attempts),
        reraise=True,
    )
