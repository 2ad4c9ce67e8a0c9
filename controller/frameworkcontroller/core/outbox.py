"""What is under way for one Framework, and what is not to be asked for again yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from .effects import CreatePod

if TYPE_CHECKING:
    from collections.abc import Callable

    from .effects import Effect, Failed, Key

# An answered request whose effect did not show yet is repeated after this time.
ASK_AGAIN: Final = timedelta(seconds=5)
BACKOFF_FIRST_SEC: Final = 0.5
BACKOFF_MAX_SEC: Final = 30.0


@dataclass(frozen=True)
class Patience:
    """Until when an effect is not asked for again, and what its last try met with."""

    until: datetime
    failures: int = 0
    message: str = ""


class Outbox:
    """At most one effect at a time per key; a failed one waits, longer with every failure.

    Args:
        draw: gives a random number in [0, 1), to keep many Frameworks from coming back at once.
    """

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._in_flight: dict[Key, Effect] = {}
        self._creations = 0
        self._patience: dict[Key, Patience] = {}

    def is_busy(self, key: Key) -> bool:
        """Whether an effect of this key is under way."""
        return key in self._in_flight

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._in_flight

    @property
    def creates_pods(self) -> bool:
        """Whether the creation of a Pod is under way."""
        return self._creations > 0

    def any_of(self, *kinds: str) -> bool:
        """Whether an effect of one of these kinds (the first part of a key) is under way."""
        return any(key[0] in kinds for key in self._in_flight)

    def trouble(self, key: Key) -> str:
        """What the last try met with, "" if nothing is wrong."""
        patience = self._patience.get(key)
        return "" if patience is None else patience.message

    @property
    def troubles(self) -> dict[Key, str]:
        """Everything that could not be done at its last try."""
        return {key: patience.message for key, patience in self._patience.items() if patience.message}

    def wait_until(self, key: Key, now: datetime) -> datetime | None:
        """When the key may be asked for again, None if that is now."""
        patience = self._patience.get(key)
        return patience.until if patience is not None and now < patience.until else None

    def send(self, effect: Effect) -> bool:
        """Take the effect on, unless one of its key is under way."""
        if effect.key in self._in_flight:
            return False
        self._in_flight[effect.key] = effect
        self._creations += isinstance(effect, CreatePod)
        return True

    def answered(self, key: Key) -> None:
        """The effect is no longer under way."""
        self._creations -= isinstance(self._in_flight.pop(key, None), CreatePod)

    def forgive(self, key: Key) -> None:
        """The next try may come at once."""
        self._patience.pop(key, None)

    def forgive_all(self) -> None:
        """Every next try may come at once."""
        self._patience.clear()

    def back_off(self, key: Key, failure: Failed, now: datetime) -> None:
        """It failed: wait, longer every time, and at least as long as the server asked for."""
        failures = self._patience[key].failures + 1 if key in self._patience else 1
        seconds = min(BACKOFF_MAX_SEC, BACKOFF_FIRST_SEC * 2 ** min(failures, 10)) * (0.5 + self._draw() / 2)
        delay = timedelta(seconds=max(seconds, failure.retry_after_seconds or 0.0))
        self._patience[key] = Patience(now + delay, failures, failure.message)

    def ask_again_later(self, key: Key, now: datetime) -> None:
        """It was answered, but what it was for has not shown yet."""
        self._patience[key] = Patience(now + ASK_AGAIN)
