"""How long a failed effect is not tried again: pure, the random draw comes in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

BACKOFF_FIRST_SEC: Final = 0.5
BACKOFF_MAX_SEC: Final = 30.0


def pause_seconds(
    failures: int, draw: Callable[[], float], retry_after_seconds: float | None = None, *, most: float = BACKOFF_MAX_SEC
) -> float:
    """Return the pause after so many failures in a row: longer every time, at least what the API server asks for.

    Args:
        failures: in a row, at least 1.
        draw: gives a random number in [0, 1), to keep many Frameworks from coming back at once.
        retry_after_seconds: what the API server asks for.
        most: the longest pause that is not asked for.
    """
    seconds = min(most, BACKOFF_FIRST_SEC * 2.0 ** min(failures, 16)) * (0.5 + draw() / 2)
    return max(seconds, retry_after_seconds or 0.0)
