"""What the time of a Framework was spent on, from the ledger in its status (docs/ledger.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frameworkcontroller.api.states import LedgerState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from frameworkclient.views.framework import FrameworkView

SIGNS: Final = dict(zip(LedgerState, "qwsigRHreb", strict=True))
"""A letter for each state, in a bar."""
MOST_SECONDS: Final = 1e10
"""Three hundred years."""


@dataclass(frozen=True)
class LedgerView:
    """Seconds by state, in the order of `LedgerState`, those that pass now included."""

    total: dict[LedgerState, float]
    """Of the whole life."""
    attempt: dict[LedgerState, float]
    """Of the current attempt."""
    state: str
    """What the time is spent on now, "" once the Framework is Completed."""
    since: datetime
    """Since when."""
    lost: float | None
    """Of what ran, so many seconds that a failure has made void; None if that is not known."""

    @property
    def life(self) -> float:
        """Seconds from the creation until now, or until the end."""
        return sum(self.total.values()) + (self.lost or 0.0)

    @property
    def goodput(self) -> float | None:
        """The share of its life that the Framework has run, None if an unknown part of that was lost."""
        return self.total[LedgerState.RUNNING] / self.life if self.lost is not None and self.life else None

    def bar(self, width: int) -> Iterator[tuple[LedgerState, str]]:
        """Yield each state that took time with its part of a bar of this width: each has a character at least."""
        used = {state: seconds for state, seconds in self.total.items() if seconds > 0}
        lengths = {state: max(1, round(width * seconds / self.life)) for state, seconds in used.items()}
        while sum(lengths.values()) > max(width, len(lengths)):
            lengths[max(lengths, key=lengths.__getitem__)] -= 1
        for state, length in lengths.items():
            yield state, SIGNS[state] * length


def share_text(goodput: float | None) -> str:
    """Return a share of 1 as text: `91 %`, `unknown`."""
    return "unknown" if goodput is None else f"{goodput:.0%}".replace("%", " %")


def ledger_of(view: FrameworkView, now: datetime) -> LedgerView | None:
    """Return what the time was spent on until now, None if the controller keeps no ledger of it."""
    ledger = view.status.ledger if view.status else None
    if not ledger:
        return None
    passing = (now - ledger.since).total_seconds()
    current = ledger.state if ledger.state in SIGNS else ""
    total, attempt = (
        {state: _bounded(getattr(spent, state) + max(0.0, passing) * (current == state)) for state in LedgerState}
        for spent in (ledger.total, ledger.attempt)
    )
    lost = ledger.total.lost
    return LedgerView(total, attempt, current, ledger.since, None if lost is None else _bounded(lost))


def _bounded(seconds: float) -> float:
    """Return a number of seconds that can be one: whoever may write statuses writes any."""
    return min(max(seconds, 0.0), MOST_SECONDS)
