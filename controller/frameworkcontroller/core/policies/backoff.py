"""How long a failed effect is not tried again, and how many Pods of one Framework are created at a time.

Many are while all goes well, one while they are refused. The first batch is as large as the executor; with each Pod
that is created, one more may be, so that batches double as in Kubernetes' Job controller. After a transient refusal (a
quota, an API server in trouble) all Tasks wait together, longer every time, and one creation probes for all of them. So
do the Tasks of one role whose Pods are refused for good and would be refused again, since their Tasks are retried.
Where a namespace has spent what refused Pods may cost, the batches of a role begin with one Pod.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from frameworkcontroller.core.clock import EARLIEST

BACKOFF_FIRST_SEC: Final = 0.5
BACKOFF_MAX_SEC: Final = 30.0
FIRST_BATCH: Final = 64
PROBE_EVERY_SEC: Final = 60.0
PROBES_PER_SEC: Final = 10
# What refused Pods may cost in a minute: so many times the largest one, or so many bytes, whatever is more.
LARGEST_A_MINUTE: Final = 10
BYTES_A_MINUTE: Final = 10 * 1024 * 1024
DEBT_MINUTES: Final = 3
"""So long nothing is sent at most, whatever was sent before all of it was refused."""
LEAST_BYTES: Final = 64 * 1024
"""As what a smaller Pod counts: 160 of them in a minute."""
# Many Frameworks of a namespace may wait for it, and do not ask at one moment.
SPREAD_SECONDS: Final = 10.0
UNSENT_BYTES: Final = 4 * 1024
"""As what a Pod counts that can never be, so that nobody asks for it: 2,560 in a minute. It costs no request."""


def pause_seconds(
    failures: int, draw: Callable[[], float], retry_after_seconds: float | None = None, *, most: float = BACKOFF_MAX_SEC
) -> float:
    """Return the pause after so many failures in a row: longer every time, at least what the API server asks for.

    `draw` gives a random number in [0, 1), to keep many Frameworks from coming back at once. `most` is the longest
    pause that is not asked for.
    """
    seconds = min(most, BACKOFF_FIRST_SEC * 2.0 ** min(failures, 16)) * (0.5 + draw() / 2)
    return max(seconds, retry_after_seconds or 0.0)


class SlowStart:
    """The creations of one Framework's Pods: the failure of the last one, "" after a success, is the `message`."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._limit = FIRST_BATCH
        self._failures = 0
        self._closed_until: datetime | None = None
        self.message = ""
        self.is_proven = False
        """A Pod was created."""

    def free(self, in_flight: int, now: datetime) -> int:
        """Return how many more creations may start while so many are in flight."""
        return 0 if self.closed_until(now) is not None else max(0, self._limit - in_flight)

    def closed_until(self, now: datetime) -> datetime | None:
        """Return until when no creation starts, None if some may."""
        return self._closed_until if self._closed_until is not None and now < self._closed_until else None

    def begin_anew(self) -> None:
        """Create one Pod next, and more with each that is created."""
        self._limit = 1

    def succeed(self, now: datetime) -> None:
        """Note that a Pod was created."""
        self.is_proven = True
        if self.closed_until(now) is None:
            self._limit += 1
            self._failures, self.message = 0, ""

    def fail(self, message: str, now: datetime, retry_after_seconds: float | None = None) -> bool:
        """Note that a creation failed; report whether it is news, not one more failure of the same batch."""
        self.message = message
        if self.closed_until(now) is not None:
            return False
        self._failures += 1
        self._limit = 1
        seconds = pause_seconds(self._failures, self._draw, retry_after_seconds)
        self._closed_until = now + timedelta(seconds=seconds)
        return True


@dataclass(frozen=True)
class Window:
    """The creations of one role, which are refused."""

    until: datetime
    """When the next one may start."""
    reason: str
    """Of the refusals, without the name of the Pod."""
    failures: int
    """In a row."""
    equal: int = 0
    """Refusals with this reason after the first one."""
    probes: bool = False
    """One creation has started to see whether they still are."""


class Spending:
    """What Pods have cost that were refused, of all Frameworks of a namespace: so many bytes a minute may be sent."""

    def __init__(self) -> None:
        self._largest, self._spent, self._at = 0, 0.0, EARLIEST
        self._tried_at = self._failed_at = EARLIEST
        self._asked = 0

    def ask(self, size: int) -> int:
        """Note that a Pod of so many bytes is sent that may be refused, and return what it counts until its `answer`.

        All that wait would be sent at one moment, before one of them has cost anything.
        """
        counted = max(size, LEAST_BYTES)
        self._asked += counted
        return counted

    def answer(self, counted: int) -> None:
        """Note that the answers have come for what counts so much, or that nobody waits for them."""
        self._asked -= counted

    def pay(self, size: int, now: datetime, *, sent: bool = True) -> None:
        """Note that a Pod of so many bytes was refused; a small one that was sent costs as much as any."""
        size = max(size, LEAST_BYTES) if sent else UNSENT_BYTES
        spent = self._still_spent(now)
        self._largest = max(self._largest, size) if spent else size
        self._spent, self._at = min(spent + size, DEBT_MINUTES * self._a_minute), now

    @property
    def _a_minute(self) -> int:
        return max(BYTES_A_MINUTE, LARGEST_A_MINUTE * self._largest)

    def _still_spent(self, now: datetime) -> float:
        minutes = (now - self._at) / timedelta(minutes=1)
        return max(0.0, self._spent - minutes * self._a_minute)

    def until(self, now: datetime) -> datetime | None:
        """Return until when nothing is to be sent, None if something may be."""
        more = self._still_spent(now) + self._asked + self._largest - self._a_minute
        return now + timedelta(minutes=more / self._a_minute) if more > 0 else None

    def owes(self, now: datetime) -> bool:
        """Report whether Pods were refused, and what they have cost is not paid."""
        return self._still_spent(now) > 0

    def note_failure(self, now: datetime) -> None:
        """Note that a creation failed, for a quota for example."""
        self._failed_at = now

    def has_failed(self, now: datetime) -> bool:
        """Report whether one failed lately: a Framework without any Pod begins with one then."""
        return now < self._failed_at + timedelta(seconds=BACKOFF_MAX_SEC)

    def note_try(self, now: datetime) -> None:
        """Note that a Framework without any Pod tries one."""
        self._tried_at = now

    def try_at(self, now: datetime) -> datetime | None:
        """Return when the next one of all that have no Pod may try one though all is spent, None if now."""
        due = self._tried_at + timedelta(minutes=self._largest / self._a_minute)
        return due if now < due else None


class Refusals:
    """The windows of the roles whose Pods are refused for good, though their Tasks or the Framework are retried.

    Each is probed once a minute in the end; those of hundreds of roles less often, so that a Framework probes once a
    second then, and ten times at first. `spending` is what those of the namespace have cost.
    """

    def __init__(self, draw: Callable[[], float], spending: Spending) -> None:
        self._draw, self.spending = draw, spending
        self._windows: dict[str, Window] = {}
        self._final: dict[str, Window] = {}
        self._taken: set[str] = set()
        """The roles of whose template a Pod was created."""
        self._refused: set[str] = set()
        """Those of whose template one was refused: others of it may have been created."""
        self._was_refused = False
        """Whether a Pod of any role was refused: an edit of its template does not say that the next one is not."""

    def window(self, role: str) -> Window | None:
        """Return the window of a role, None if its Pods are not refused."""
        return self._windows.get(role)

    @property
    def until(self) -> datetime | None:
        """Until when the last of the windows is closed, None if there is none."""
        return max((window.until for window in self._windows.values()), default=None)

    def closed_until(self, role: str, now: datetime) -> datetime | None:
        """Return until when no Pod of the role is created, None if one may be."""
        window = self._windows.get(role)
        return window.until if window is not None and now < window.until else None

    def is_taken(self, role: str) -> bool:
        """Report whether a Pod of the role was created."""
        return role in self._taken

    def is_doubtful(self, role: str) -> bool:
        """Report whether Pods of the role were refused, or those of others and nothing is known of the role."""
        return role in self._refused or (self._was_refused and role not in self._taken)

    def spent_until(self, role: str, now: datetime) -> datetime | None:
        """Return until when no Pod of the role is sent, since what refused ones may cost is spent, None if one may be.

        Where Pods of a role were refused, others do not wait of which a Pod was created.
        """
        return self.paid_at(now) if self.is_doubtful(role) else None

    def paid_at(self, now: datetime) -> datetime | None:
        """Return when to ask again for what refused Pods may cost, None if that is now: not all at one moment."""
        until = self.spending.until(now)
        return None if until is None else until + timedelta(seconds=SPREAD_SECONDS * self._draw())

    def probe(self, role: str, now: datetime) -> None:
        """Note that a creation starts: all others of a role that is refused wait for its outcome."""
        if (window := self._windows.get(role)) is not None:
            self._windows[role] = replace(window, until=now + timedelta(seconds=PROBE_EVERY_SEC), probes=True)

    def refuse(self, role: str, reason: str, now: datetime) -> Window:
        """Close the window after a refusal, for longer each time, and return it; those of one batch count once."""
        window = self._windows.get(role) or Window(now, reason, failures=0, equal=-1)
        window = replace(window, reason=reason, equal=window.equal + 1 if window.reason == reason else 0)
        if window.probes or now >= window.until:
            window = self._longer(window, now)
        self._windows[role] = window
        self._refused.add(role)
        self._was_refused = True
        return window

    def give_up(self, role: str, reason: str, now: datetime) -> None:
        """Note that a Task has ended for good: the others have their chance, until the Framework is retried."""
        window = self._windows.pop(role, None) or Window(now, reason, failures=0)
        self._final.setdefault(role, window)
        self._refused.add(role)
        self._was_refused = True

    def next_attempt(self, now: datetime) -> None:
        """Close the windows in which Tasks have ended for good: the Framework is retried."""
        self._windows |= {role: self._longer(window, now) for role, window in self._final.items()}
        self._final.clear()

    def _longer(self, window: Window, now: datetime) -> Window:
        failures, most = window.failures + 1, max(PROBE_EVERY_SEC, float(len(self._windows)))
        least = len(self._windows) / PROBES_PER_SEC
        until = now + timedelta(seconds=max(least, pause_seconds(failures, self._draw, most=most)))
        return replace(window, failures=failures, until=until, probes=False)

    def keep(self, roles: Set[str]) -> None:
        """Forget all roles but these, which the spec has."""
        for known in (self._windows, self._final):
            for role in known.keys() - roles:
                del known[role]
        self._taken &= roles
        self._refused &= roles

    def open(self, role: str, *, taken: bool) -> None:
        """Note that a Pod of the role was created (`taken`), or that its template has changed.

        One that was created opens a window that it has probed: of a batch, some may be refused and others not.
        """
        window = self._windows.get(role)
        if not taken or window is None or window.probes:
            self._windows.pop(role, None)
            self._final.pop(role, None)
        (self._taken.add if taken else self._taken.discard)(role)
        if not taken:
            self._refused.discard(role)
