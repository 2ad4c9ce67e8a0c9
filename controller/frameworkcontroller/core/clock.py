"""The time as two clocks show it: statuses are stamped with one, waiting is measured with the other.

The wall clock may be set at any time. What is compared with a stored time (a deadline, the age of an orphan) has to use
it. Pauses between requests must not: a wall clock that is set back by an hour would make each of them last an hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frameworkcontroller.core.machines.attempt import after, utc_seconds

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class Now:
    """One moment.

    Attributes:
        steady: never goes back or jumps; it began with the wall clock when the process started.
        wall: the time of day.
    """

    steady: datetime
    wall: datetime

    @property
    def stamp(self) -> datetime:
        """The time of day in whole seconds, as statuses hold it."""
        return utc_seconds(self.wall)

    def steadily(self, deadline: datetime) -> datetime:
        """Return when the steady clock will show this time of day, if nobody sets the wall clock."""
        return after(self.steady, deadline - self.wall)
