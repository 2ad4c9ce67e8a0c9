"""One pass over a Framework: what it sees, what it decides, and the way from a wish to an effect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from frameworkcontroller.api.types import Framework, FrameworkSpec, Partial, Pod

    from .announce import Announcement
    from .book import Transition
    from .effects import Effect
    from .gang import Milestone
    from .outbox import Outbox
    from .snapshots import Snapshot


class View(Protocol):
    """What the caches show of one Framework."""

    @property
    def framework(self) -> Framework:
        """The object as last seen."""

    def config_map(self) -> Partial | None:
        """Whatever has the name of its ConfigMap."""

    def pod(self, name: str) -> Pod | None:
        """Whatever has the name of one of its Pods."""


@dataclass
class Decision:
    """What to do now, what to tell, and when to look again without being told."""

    effects: list[Effect] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    announcements: list[Announcement] = field(default_factory=list)
    milestones: list[Milestone] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    """To be kept before any effect is performed: one of them may overwrite what they show."""
    wake_at: datetime | None = None

    def wake(self, at: datetime | None) -> None:
        """Look again at this time at the latest."""
        if at is not None and (self.wake_at is None or at < self.wake_at):
            self.wake_at = at


@dataclass(frozen=True)
class Pass:
    """One call of :meth:`FrameworkReconciler.reconcile`: what it sees, and what it decides."""

    now: datetime
    stamp: datetime
    """``now`` in whole seconds, as statuses hold it."""
    view: View
    spec: FrameworkSpec
    outbox: Outbox
    decision: Decision
    crowded: bool
    """Writes of statuses queue for the API server."""

    def emit(self, effect: Effect) -> datetime | None:
        """Ask for the effect, unless its last try calls for patience; until when, in that case."""
        until = self.outbox.wait_until(effect.key, self.now)
        if until is not None:
            self.decision.wake(until)
        elif self.outbox.send(effect):
            self.decision.effects.append(effect)
        return until
