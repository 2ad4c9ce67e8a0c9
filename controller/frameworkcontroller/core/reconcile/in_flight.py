"""The effects in flight for one Framework, and the delays before failed ones are emitted again.

The back-off is a decision of the core, so it is pure here: the random draw and the time come in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from frameworkcontroller.core.clock import EARLIEST
from frameworkcontroller.core.effects import CreatePod, Effect, EffectKey, Failed
from frameworkcontroller.core.policies.backoff import SPREAD_SECONDS, Refusals, SlowStart, pause_seconds
from frameworkcontroller.core.policies.shares import Pace, Shares

# An effect that took place but is not seen yet may be emitted again after this time.
RECHECK_AFTER: Final = timedelta(seconds=5)
# The deletion of a Pod that stays, for a finalizer for example, is asked for again after longer and longer times.
LONGEST_RECHECK: Final = timedelta(minutes=5)
BEFORE_DELETION: Final = 2
"""Failures before an object that has the name of a new one is deleted: the creation, and the look at what is there."""
# Bytes of the Pods that are created at the same time. Each is rendered when its turn comes, and kept until the answer.
CREATION_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True)
class Delay:
    """How long an effect is not emitted again, and the failure of its last try."""

    until: datetime
    failures: int = 0
    message: str = ""


NO_DELAY: Final = Delay(EARLIEST)


class Tries:
    """At most one effect at a time per key; a failed one waits, longer with every failure.

    `draw` gives a random number in [0, 1), which keeps many Frameworks from coming back at once. What is refused waits
    for its turn among the `retries` of the namespace as well.
    """

    def __init__(self, draw: Callable[[], float], retries: Pace) -> None:
        self._draw, self._retries = draw, retries
        self._in_flight: dict[EffectKey, Effect] = {}
        self._delays: dict[EffectKey, Delay] = {}

    def is_busy(self, key: EffectKey) -> bool:
        """Report whether an effect of this key is in flight."""
        return key in self._in_flight

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in flight."""
        return not self._in_flight

    @property
    def delays_until(self) -> datetime | None:
        """When nothing waits for its next try any more, None if nothing does or did."""
        return max((delay.until for delay in self._delays.values()), default=None)

    def any_of(self, *kinds: str) -> bool:
        """Report whether an effect of one of these kinds, the first parts of a key, is in flight."""
        return any(key[0] in kinds for key in self._in_flight)

    def failures(self, key: EffectKey) -> int:
        """Return how often in a row the effect of this key has failed."""
        return self._delays.get(key, NO_DELAY).failures

    def last_failure(self, key: EffectKey) -> str:
        """Return the failure of the last try, "" if there is none."""
        return self._delays.get(key, NO_DELAY).message

    def delayed_until(self, key: EffectKey, now: datetime) -> datetime | None:
        """Return when an effect of this key may be emitted again, None if that is now."""
        until = self._delays.get(key, NO_DELAY).until
        return until if now < until else None

    def start(self, effect: Effect) -> bool:
        """Put the effect in flight, and report whether it is: not if one of its key is already."""
        if effect.key in self._in_flight:
            return False
        self._in_flight[effect.key] = effect
        return True

    def finish(self, key: EffectKey) -> Effect | None:
        """Note that the effect of this key has an outcome, and return the effect."""
        return self._in_flight.pop(key, None)

    def reset_delay(self, key: EffectKey) -> None:
        """Allow the next try at once."""
        self._delays.pop(key, None)

    def reset_delays(self) -> None:
        """Allow every next try at once."""
        self._delays.clear()

    def back_off(self, key: EffectKey, failure: Failed, now: datetime) -> None:
        """Delay the next try after a failure: longer every time, and at least as long as the API server asks for."""
        failures = self.failures(key) + 1
        seconds = max(pause_seconds(failures, self._draw, failure.retry_after_seconds), self._turn(failure, now))
        self._delays[key] = Delay(now + timedelta(seconds=seconds), failures, failure.message)

    def _turn(self, failure: Failed, now: datetime) -> float:
        """Return in how many seconds the next try has its turn."""
        return self._retries.reserve(now.timestamp()) if failure.refused else 0.0

    def go_on(self, key: EffectKey, now: datetime) -> None:
        """Allow the next try at once, after one that says nothing of the failures before it."""
        self._delays[key] = Delay(now, self.failures(key) + 1, self.last_failure(key))

    def recheck_later(self, key: EffectKey, now: datetime, *, longer: bool = False) -> None:
        """Delay the next try of an effect that took place but is not seen yet: `longer` each time in a row."""
        number = self.failures(key) if longer else 0
        pause = min(LONGEST_RECHECK, RECHECK_AFTER * 2 ** min(max(0, number - BEFORE_DELETION), 10))
        self._delays[key] = Delay(now + pause, number + longer)


class InFlight(Tries):
    """Those of one Framework, whose creations of Pods share one back-off."""

    def __init__(self, draw: Callable[[], float], shares: Shares | None = None) -> None:
        shares = shares or Shares()
        super().__init__(draw, shares.retries)
        self._looks = shares.looks
        self.slow_start = SlowStart(draw)
        """Bounds the creations of Pods."""
        self.refusals = Refusals(draw, shares.spending)
        """Bounds the creations of a role whose Pods are refused for good."""
        self._creations = self._creation_bytes = 0
        self.has_left = False
        """Nobody waits for outcomes any more."""
        self._doubtful: dict[EffectKey, int] = {}
        """What creations count, in bytes, that may be refused as others were."""

    @property
    def creates_pods(self) -> bool:
        """Whether the creation of a Pod is in flight."""
        return self._creations > 0

    def free_creations(self, now: datetime) -> int:
        """Return how many more Pods may be created now; of large ones the first ones fill what is allowed.

        Without any Pod it tries one, where others of the namespace have spent what refused Pods may cost, or fail.
        """
        free = 0 if self._creation_bytes >= CREATION_BYTES else self.slow_start.free(self._creations, now)
        if free and not self.slow_start.is_proven and self.refusals.spending.until(now) is not None:
            return 0 if self._creations or self.refusals.spending.try_at(now) is not None else 1
        if free and not self.slow_start.is_proven and self.refusals.spending.has_failed(now):
            return 0 if self._creations else 1
        return free

    def creations_until(self, now: datetime) -> datetime | None:
        """Return when to ask again for a creation where none is free, None if an outcome will say so."""
        if (closed := self.slow_start.closed_until(now)) is not None:
            return closed
        spending = self.refusals.spending
        due = None if self.slow_start.is_proven or spending.until(now) is None else spending.try_at(now)
        return None if due is None else due + timedelta(seconds=SPREAD_SECONDS * self._draw())

    def note_creation(self, role: str, now: datetime) -> None:
        """Note that the creation of a Pod of the role starts."""
        self.refusals.probe(role, now)
        if not self.slow_start.is_proven:
            self.refusals.spending.note_try(now)
        if not self.refusals.is_taken(role) and self.refusals.spending.owes(now):
            self.slow_start.begin_anew()

    def start(self, effect: Effect) -> bool:
        """Put the effect in flight, and report whether it is: not if one of its key is already."""
        if not super().start(effect):
            return False
        self._count(effect, 1)
        if isinstance(effect, CreatePod) and self.refusals.is_doubtful(effect.role):
            self._doubtful[effect.key] = self.refusals.spending.ask(effect.source.size)
        return True

    def finish(self, key: EffectKey) -> Effect | None:
        """Note that the effect of this key has an outcome, and return the effect."""
        effect = super().finish(key)
        self._count(effect, -1)
        self.refusals.spending.answer(self._doubtful.pop(key, 0))
        return effect

    def fail_creation(self, failure: Failed, now: datetime) -> bool:
        """Note that the creation of a Pod has failed; report whether that is news, not one more of its batch."""
        is_news = self.slow_start.closed_until(now) is None
        seconds = max(failure.retry_after_seconds or 0.0, self._turn(failure, now) if is_news else 0.0)
        return self.slow_start.fail(failure.message, now, seconds)

    def leave(self) -> None:
        """Expect no outcome any more."""
        self.has_left = True
        self.refusals.spending.answer(sum(self._doubtful.values()))
        self._doubtful.clear()

    def _count(self, effect: Effect | None, sign: int) -> None:
        if isinstance(effect, CreatePod):
            self._creations += sign
            self._creation_bytes += sign * effect.source.size

    def look_later(self, key: EffectKey, message: str, now: datetime) -> None:
        """Delay the next look at a name that is in use, which has its turn among those of the namespace."""
        self.back_off(key, Failed(message, self._looks.reserve(now.timestamp())), now)
