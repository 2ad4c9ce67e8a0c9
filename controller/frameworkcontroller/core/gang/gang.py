"""The gang of one Framework attempt: the Tasks that are missing from it, its milestones, and its roster.

The reconciler makes one `Gang` per ConfigMap and asks it once per pass what to write.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from frameworkcontroller.api.meta import Identity, Meta
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import RolesSummary, WriteRoster
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.gang.publisher import GangStatus, Publisher
from frameworkcontroller.core.gang.roster import AttemptName, behind, members
from frameworkcontroller.core.policies.readiness import Obstacle
from frameworkcontroller.core.restart.epoch import Gate
from frameworkcontroller.core.status.reports import Milestone
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.summary import gang_roles, is_complete, member_count, readiness

PHASES: Final = ("created", "addressed", "open")


class Gang:
    """The gang of the attempt that a ConfigMap, as first seen, belongs to.

    `version` is its resourceVersion as this controller created it, "" if another one did.
    """

    def __init__(self, config_map: Meta, attempt: AttemptName, version: str = "") -> None:
        self.publisher = Publisher(config_map, attempt, members, behind, version)
        # A gang that was complete before this controller started is not measured again.
        self._ahead = [] if self.publisher.opened else [*PHASES]
        self._addressed_at: datetime | None = None
        self._restarts = RestartTimes()

    def status(self, state: FrameworkState) -> GangStatus:
        """Return how far the gang is, from the counts that the roles keep."""
        counts = [role_state.counts for role_state in gang_roles(state)]
        active, created, ready = (sum(getattr(one, name) for one in counts) for name in ("active", "created", "ready"))
        return GangStatus(self.publisher.phase, self.publisher.since, active - created, created - ready)

    def apply_outcome(self, effect: WriteRoster, version: str | None) -> KubeEvent | None:
        """Take in the resourceVersion after a roster was written, None if it was not; return an Event about it."""
        self._restarts.is_released |= effect.complete and version is not None
        return self.publisher.apply_outcome(effect, version)

    def milestones(self, state: FrameworkState, spec: FrameworkSpec, now: datetime) -> Iterator[Milestone]:
        """Yield the milestones that the gang has reached since the last call."""
        for phase in [one for one in self._ahead if self._has_reached(one, state, spec)]:
            self._ahead.remove(phase)
            if self.publisher.since is not None:
                yield Milestone(phase, self.publisher.age(now).total_seconds())
            if phase == "addressed":
                self._addressed_at = now
            if phase == "open" and self._addressed_at is not None:
                yield Milestone("released", (now - self._addressed_at).total_seconds())
        yield from self._restarts.milestones(state, lambda: member_count(state), now)

    def _has_reached(self, phase: str, state: FrameworkState, spec: FrameworkSpec) -> bool:
        total = readiness(state, spec)[1]
        match phase:
            case "created":
                return 0 < total <= sum(role_state.counts.created for role_state in gang_roles(state))
            case "addressed":
                return is_complete(state, spec)
            case _:
                return total > 0 and self.publisher.opened

    def decide(
        self,
        state: FrameworkState,
        missing: Callable[[], Iterable[tuple[str, Obstacle]]],
        summary: RolesSummary,
        now: datetime,
        seen: str,
    ) -> tuple[WriteRoster | None, datetime | None]:
        """Return the roster to write now, if any, and when to decide again; an Event goes to the state.

        `missing` gives the Tasks that are not ready, and what keeps each; it is called only when they are named. The
        summary is that of the newest persisted status, and `seen` the resourceVersion of the ConfigMap in the cache.
        """
        self._restarts.note(summary.gate)
        if summary.ready == summary.total and not summary.complete:
            # Its members wait for others, or there are none: it is as old as the first of them.
            self.publisher.since = now
        found = self.publisher.decide(summary, lambda: ((task, why.phrase) for task, why in missing()), now, seen)
        if found.event is not None:
            state.add_event(found.event)
        return found.write, found.wake_at


class RestartTimes:
    """How long the last restart of a gang has taken: until its gate was open, and until all applications ran."""

    def __init__(self) -> None:
        self._gate: Gate | None = None
        self._said_open = False
        self.is_released = False
        """The complete roster of the epoch was written."""

    def note(self, gate: Gate | None) -> None:
        """Note the gate as it is persisted: a closed one, but the first, begins a restart."""
        if gate is None or gate.is_open or gate.epoch == 0:
            return
        if self._gate is None or self._gate.epoch != gate.epoch:
            self._gate, self._said_open, self.is_released = gate, False, False

    def milestones(self, state: FrameworkState, total: Callable[[], int], now: datetime) -> Iterator[Milestone]:
        """Yield the milestones of the restart since the last call; the first goes with an Event."""
        gate = self._gate
        if gate is None or gate.since is None or not self.is_released:
            return
        seconds = max(0.0, (now - gate.since).total_seconds())
        if not self._said_open:
            self._said_open = True
            text = f"Epoch {gate.epoch}: all {total()} Tasks are ready again after {seconds:.1f} s"
            state.add_event(KubeEvent("GangRestarted", text))
            yield Milestone("restart-open", seconds)
        if len(state.applications) >= total():
            self._gate = None
            yield Milestone("restart-running", seconds)


def attempt_name(state: FrameworkState, meta: Identity) -> AttemptName:
    """Return the current attempt of this Framework as the roster names it."""
    attempt = state.status.attempt_status
    return AttemptName(meta.namespace, meta.name, meta.uid, attempt.id, attempt.instance_uid)


def has_gang(state: FrameworkState) -> bool:
    """Report whether the attempt has a gang: it has begun, and its end is not decided."""
    return state.status.state in {State.PREPARING, State.RUNNING}
