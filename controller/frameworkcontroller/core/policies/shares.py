"""What all Frameworks of a namespace share, whose owner may make as many of them as it likes."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

from frameworkcontroller.api.status import TaskStatus
from frameworkcontroller.core.policies.backoff import Spending

T = TypeVar("T")

REMEMBERED: Final = 1000
"""Namespaces that nobody is in; those that were asked for last."""
LONGEST_SECONDS: Final = 300.0
MOST_IDLE: Final = 100_000
"""Tasks without a Pod, of one namespace: 70 MiB, and 90 if they have ended, or 140 of the process."""
GONE_A_SECOND: Final = 500
"""Of those that went without a Pod, so many are forgotten: each has written a line of history of 1 KB."""
SMALL: Final = 200
"""A Framework that takes no more goes on until there are twice as many."""
LOOKS_A_SECOND: Final = 10
ATTEMPTS_AT_ONCE: Final = 10
"""So many attempts of a namespace begin at once that can only fail, or follow one that has ended at once, then one a
second: each takes 14 requests."""
READS_AT_ONCE: Final = 10
NAMES_AT_ONCE: Final = 100
NAMES_A_SECOND: Final = 50
RETRIES_AT_ONCE: Final = 100
RETRIES_A_SECOND: Final = 10
GROUPS_AT_ONCE: Final = 500
GROUPS_A_SECOND: Final = 50


class Pace:
    """How often something may happen, a token bucket, and when the next one may be.

    Args:
        rate: how many may be in a second.
        burst: how many may be at once; at least one.

    Nothing waits longer than five minutes, also where more are reserved by then: who reserves may be gone long since.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, max(burst, 1)
        self._left = 0.0
        """How many may be at once; below 0 so many are reserved."""
        self._at = float("-inf")

    def reserve(self, now: float) -> float:
        """Reserve the next one, and return in how many seconds it may be, 0 if at once."""
        self._fill(now)
        self._left = max(self._left - 1, -LONGEST_SECONDS * self._rate)
        return max(0.0, -self._left / self._rate)

    def take(self, now: float) -> bool:
        """Take one if it may be at once, and report whether it may."""
        self._fill(now)
        is_free = self._left >= 1
        self._left -= is_free
        return is_free

    def _fill(self, now: float) -> None:
        # A time of day may go back.
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._rate)
        self._at = now


def new_retries() -> Pace:
    """Return the pace of what the API server has refused in a namespace."""
    return Pace(RETRIES_A_SECOND, RETRIES_AT_ONCE)


class IdleTasks:
    """The Tasks of a namespace that have no Pod: each takes memory, and nothing of what a quota counts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        """By the UID of each Framework that has any."""
        self._total = 0
        self._gone, self._gone_at = 0, 0.0
        self._waiting: set[str] = set()

    @property
    def is_full(self) -> bool:
        """Whether Frameworks wait until others have Pods."""
        return self._total >= MOST_IDLE

    def note(self, uid: str, number: int) -> None:
        """Note how many the Framework has, or is to get."""
        self._total += number - self._numbers.pop(uid, 0)
        if number:
            self._numbers[uid] = number

    def let_go(self, gone: Iterable[TaskStatus], now: float) -> None:
        """Note Tasks that have gone: those count that never had a Pod, up to what keeps all from getting more."""
        if number := sum(not one.attempt_status.pod_uid for one in gone):
            self._gone, self._gone_at = min(self.gone(now) + number, 2 * MOST_IDLE), max(now, self._gone_at)

    def gone(self, now: float) -> int:
        """Return how many have gone lately."""
        # A time of day may go back.
        return max(0, self._gone - int(GONE_A_SECOND * max(0.0, now - self._gone_at))) if self._gone else 0

    def room(self, uid: str, wanted: int) -> int:
        """Return how many a Framework may have that wants so many."""
        most = MOST_IDLE if wanted > SMALL else 2 * MOST_IDLE
        return most - self._total + self._numbers.get(uid, 0)

    def wait(self, uid: str) -> timedelta:
        """Note that the Framework waits, and return after what time it should look again."""
        self._waiting.add(uid)
        return timedelta(seconds=max(1.0, len(self._waiting) / LOOKS_A_SECOND))

    def is_waiting(self, uid: str) -> bool:
        """Report whether the Framework waits."""
        return uid in self._waiting

    def go_on(self, uid: str) -> None:
        """Note that the Framework does not wait."""
        self._waiting.discard(uid)

    def forget(self, uid: str) -> None:
        """Note that the Framework takes no memory any more."""
        self.note(uid, 0)
        self.go_on(uid)


@dataclass
class Shares:
    """What the Frameworks of a namespace share."""

    spending: Spending = field(default_factory=Spending)
    idle: IdleTasks = field(default_factory=IdleTasks)
    attempts: Pace = field(default_factory=lambda: Pace(1, ATTEMPTS_AT_ONCE))
    """Of attempts that can only fail, since Pods of theirs can never be, and that follow one that has ended at once."""
    groups: Pace = field(default_factory=lambda: Pace(GROUPS_A_SECOND, GROUPS_AT_ONCE))
    """Of groups of Pods that are created or changed: no quota of Pods counts them."""
    retries: Pace = field(default_factory=new_retries)
    """Of requests that were refused: a tenant can have thousands of Frameworks whose requests are, for ever."""
    looks: Pace = field(default_factory=lambda: Pace(NAMES_A_SECOND, NAMES_AT_ONCE))
    """At names of Pods that are in use."""
    reads: Pace = field(default_factory=lambda: Pace(1, READS_AT_ONCE))
    """Of Frameworks at rest that are read whole: a ConfigMap of a few bytes can make each of 1.4 MB be read again."""


class PerNamespace(Generic[T]):
    """What each namespace has one of, as long as somebody keeps it; what nobody keeps goes after a thousand others."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._kept: WeakValueDictionary[str, T] = WeakValueDictionary()
        self._last: OrderedDict[str, T] = OrderedDict()

    def __getitem__(self, namespace: str) -> T:
        found = self._kept.get(namespace)
        if found is None:
            found = self._kept[namespace] = self._make()
        self._last[namespace] = found
        self._last.move_to_end(namespace)
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        return found
