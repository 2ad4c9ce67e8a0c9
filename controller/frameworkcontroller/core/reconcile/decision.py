"""One reconcile pass over a Framework: what it sees, what it decides, and how it emits an effect."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct

from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import Partial
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.pod_group import PodGroup
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.workload import Flavor, Workload
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import Effect
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.status.reports import Report


class View(Protocol):
    """One Framework in the caches."""

    @property
    def framework(self) -> Framework:
        """The object as the cache shows it, which may be older than what is known of it."""

    def config_map(self) -> Partial | None:
        """Return the object that has the name of the ConfigMap, no matter who created it."""

    def pod(self, name: str) -> Pod | None:
        """Return the Pod of this name, no matter who created it."""

    def unknown(self, what: str) -> str:
        """Return why nothing is known of this, "" if it is: `KUEUE`, a scheduler's groups, or `NODES`."""

    def workload(self, name: str) -> Workload | None:
        """Return the Workload of this name, no matter who created it."""

    def flavor(self, name: str) -> Flavor | None:
        """Return the ResourceFlavor of this name."""

    def group(self, scheduler: str, name: str) -> PodGroup | None:
        """Return the group of this name, no matter who created it."""

    def node_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of the node of this name, None if they are not known."""


@dataclass
class Decision:
    """What to do now, what to report, and when to reconcile again even if nothing is seen to change."""

    effects: list[Effect] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    """Made before any effect is performed: an effect may overwrite what a snapshot contains."""
    wake_at: datetime | None = None
    at_rest: bool = False
    """The Framework, as it is seen, is Completed, or not to start, and has nothing left to be done: only time or a user
    changes it."""

    def wake(self, at: datetime | None) -> None:
        """Ask to be called again at this time of the steady clock at the latest."""
        if at is not None and (self.wake_at is None or at < self.wake_at):
            self.wake_at = at


class ReconcileContext(Struct, frozen=True):
    """One pass: its input, and the decision that it collects."""

    clock: Now
    view: View
    framework: Framework
    """The newest state of the object that is known: the cache may still show an older one after a reload."""
    spec: FrameworkSpec
    in_flight: InFlight
    decision: Decision
    backpressure: timedelta
    """How long writes of statuses wait for their turn at present."""

    @property
    def now(self) -> datetime:
        """The steady time, by which pauses are measured."""
        return self.clock.steady

    @property
    def stamp(self) -> datetime:
        """The time of day in whole seconds, as statuses hold it."""
        return self.clock.stamp

    def emit(self, effect: Effect) -> datetime | None:
        """Emit the effect, unless it is in flight or delayed after its last try.

        The caller must ask again at the end of that delay, which is returned.
        """
        until = self.in_flight.delayed_until(effect.key, self.now)
        if until is not None:
            self.decision.wake(until)
        elif self.in_flight.start(effect):
            self.decision.effects.append(effect)
        return until
