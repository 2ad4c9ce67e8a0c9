"""The time as two clocks show it: statuses are stamped with one, waiting is measured with the other.

The wall clock may be set at any time. What is compared with a stored time (a deadline, the age of an orphan) has to use
it. Pauses between requests must not: a wall clock that is set back by an hour would make each of them last an hour.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from frameworkcontroller.api.spec import MAX_SECONDS

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
LATEST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Now:
    """One moment."""

    steady: datetime
    """Never goes back or jumps; it began with the wall clock when the process started."""
    wall: datetime
    """The time of day."""

    @property
    def stamp(self) -> datetime:
        """The time of day in UTC and whole seconds, as Kubernetes and statuses write times."""
        return self.wall.astimezone(UTC).replace(microsecond=0)

    def steadily(self, deadline: datetime) -> datetime:
        """Return when the steady clock will show this time of day, if nobody sets the wall clock."""
        return after(self.steady, deadline - self.wall)


def duration(seconds: int) -> timedelta:
    """Return so many seconds, at most `MAX_SECONDS` in either direction: the number may be anybody's."""
    return timedelta(seconds=min(max(seconds, -MAX_SECONDS), MAX_SECONDS))


def after(moment: datetime, delay: timedelta) -> datetime:
    """Return the moment so much later; if no date is that late or early, the moment itself."""
    try:
        return moment + delay
    except OverflowError:
        return moment


def latest(moments: Sequence[datetime | None]) -> datetime | None:
    """Return when the last of them was, None if one is not known."""
    known = [one for one in moments if one is not None]
    return max(known) if known and len(known) == len(moments) else None
