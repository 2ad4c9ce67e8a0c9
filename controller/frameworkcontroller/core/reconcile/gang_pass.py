"""The gang's part of a reconcile pass: what the status says of it, who may read its roster, and what the roster says.

`FrameworkReconciler.steps` calls `report` once the Tasks have no more to say, and `write` after the write of the
status, since a roster speaks of a persisted one alone. `Gang` decides; this module supplies what the decision needs and
emits what follows from it.
"""

from collections.abc import Iterator
from functools import cache, partial

from msgspec import UNSET, UnsetType

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Identity
from frameworkcontroller.api.rank_topology import NODES
from frameworkcontroller.api.states import State
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import (
    AskProgress,
    Done,
    GrantRosterAccess,
    Missing,
    Outcome,
    Told,
    WriteRoster,
)
from frameworkcontroller.core.events import NAMED_TEXT, KubeEvent
from frameworkcontroller.core.gang import rank_order
from frameworkcontroller.core.gang.gang import Gang, attempt_name, has_gang
from frameworkcontroller.core.gang.progress import Asking
from frameworkcontroller.core.gang.publisher import GangStatus
from frameworkcontroller.core.machines import framework
from frameworkcontroller.core.policies.readiness import Obstacle, is_ready, obstacle_of
from frameworkcontroller.core.policies.role import RoleState
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.core.reconcile.decision import ReconcileContext, View
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.status import gang_ready
from frameworkcontroller.core.status.revisions import Mark
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.summary import gang_roles, is_complete, readiness
from frameworkcontroller.core.status.writer import StatusWriter


class GangPass:
    """The gangs of one Framework, one of each attempt."""

    def __init__(
        self, meta: Identity, config: CoreConfig, state: FrameworkState, in_flight: InFlight, writer: StatusWriter
    ) -> None:
        self._meta, self._config, self._state, self._in_flight, self._writer = meta, config, state, in_flight, writer
        self._gang: Gang | None = None
        self._ordered: tuple[str, int] | None = None
        """The ConfigMap and the epoch of the gang whose ranks were put in order last, or were not for a reason."""
        self._asking = Asking()
        self.config_map = Done()
        """The outcome of its last creation."""
        self.granted: GrantRosterAccess | None = None
        """The last access that was given."""

    @property
    def status(self) -> GangStatus | None:
        """How far the gang is, None if there is none."""
        return None if self._gang is None or not has_gang(self._state) else self._gang.status(self._state)

    def apply_outcome(self, effect: WriteRoster | AskProgress, outcome: Outcome, now: Now) -> None:
        """Take in the outcome of a write of the roster, or how far the gang is."""
        if isinstance(effect, AskProgress):
            self._asking.take(self._state, effect, outcome.body if isinstance(outcome, Told) else None, now)
            return
        if self._gang is not None and self._gang.publisher.config_map_uid == effect.config_map_uid:
            version = outcome.resource_version if isinstance(outcome, Done) else None
            event = self._gang.apply_outcome(effect, version)
            if event is not None:
                self._state.add_event(event)
        if isinstance(outcome, Missing):
            self._in_flight.recheck_later(effect.key, now.steady)

    @property
    def is_open(self) -> bool:
        """Whether the gang of this attempt has been released."""
        return self._gang is not None and self._gang.publisher.opened

    def report(self, ctx: ReconcileContext) -> None:
        """Decide what the status says of a gang that waits, where Pods have a barrier."""
        state = self._state
        self._follow(ctx)
        if not state.facts.has_barriers or not has_gang(state):
            return
        self._order_ranks(ctx)
        ready, total = readiness(state, ctx.spec)
        missing = partial(obstacles, state, self._in_flight, ctx.view)
        report = gang_ready.decide(state.gang_report, missing, ctx.now, complete=ready == total)
        state.report_gang(report)
        ctx.decision.wake(report.due)

    def write(self, ctx: ReconcileContext) -> None:
        """Let the barriers read the roster, let the gang decide on it, and take the gang's milestones."""
        self._grant_access(ctx)
        gang = self._follow(ctx)
        if not has_gang(self._state):
            return
        if self._config.ask_progress:
            request, due = self._asking.decide(self._state, ctx.spec, ctx.now, is_open=self.is_open)
            ctx.decision.wake(due)
            if request is not None:
                ctx.emit(request)
        if gang is not None:
            self._write_roster(gang, ctx)
            for milestone in gang.milestones(self._state, ctx.spec, ctx.now):
                self._state.reports.add(milestone)

    def _grant_access(self, ctx: ReconcileContext) -> None:
        """Let the barriers of this attempt read the roster, as soon as its ConfigMap is persisted."""
        uid = self._state.status.attempt_status.config_map_uid
        begun = self._state.revisions.is_persisted(Mark.FRAMEWORK) and not framework.is_ending(self._state.status)
        accounts = self._state.facts.service_accounts
        if self._config.grant_roster_access and accounts and uid is not None and begun:
            access = GrantRosterAccess(accounts, uid)
            if access != self.granted:
                ctx.emit(access)

    def _follow(self, ctx: ReconcileContext) -> Gang | None:
        """Return the gang of this attempt, once its ConfigMap was seen."""
        uid, found = self._state.status.attempt_status.config_map_uid, ctx.view.config_map()
        if self._gang is not None and self._gang.publisher.config_map_uid != uid:
            self._gang = None
        if self._gang is None and has_gang(self._state) and found is not None and found.metadata.uid == uid:
            # A deletion answers without a UID.
            version = self.config_map.resource_version if self.config_map.uid == uid else ""
            self._gang = Gang(found.metadata, attempt_name(self._state, self._meta), version)
        return self._gang

    def _write_roster(self, gang: Gang, ctx: ReconcileContext) -> None:
        config_map, summary = ctx.view.config_map(), self._writer.persisted_summary
        if summary is None or config_map is None or config_map.metadata.uid != gang.publisher.config_map_uid:
            return
        until = self._in_flight.delayed_until(WriteRoster.key, ctx.now)
        if until is not None:
            ctx.decision.wake(until)
        elif not self._in_flight.is_busy(WriteRoster.key):
            seen = config_map.metadata.resource_version
            missing = partial(obstacles, self._state, self._in_flight, ctx.view)
            effect, wake_at = gang.decide(self._state, missing, summary, ctx.now, seen)
            ctx.decision.wake(wake_at)
            if effect is not None:
                ctx.emit(effect)

    def _order_ranks(self, ctx: ReconcileContext) -> None:
        """Find the order of the ranks as the gate opens; where it cannot be as it was asked for, an Event says why.

        It is part of the status of which the roster speaks, and stays there until the gate opens again.
        """
        facts, roles, gate = self._state.facts, gang_roles(self._state), self._state.gate
        is_ordered = any(role.rank_order is not UNSET for role in roles)
        if not (facts.rank_keys or facts.rank_problem or is_ordered):
            return
        if gate is not None and not gate.is_open:
            for role in roles:
                self._set_order(role, UNSET)
        gang, epoch = self._follow(ctx), 0 if gate is None else gate.epoch
        if gang is None or (this := (gang.publisher.config_map_uid, epoch)) == self._ordered:
            return
        if not is_complete(self._state, ctx.spec):
            return
        self._ordered = this
        if is_ordered or not gang.publisher.is_gathering(gate):
            return
        why = facts.rank_problem or ctx.view.unknown(NODES) or next(self._unread(roles, ctx.view), "")
        if why:
            text = f"The ranks follow the indices of the Tasks: {why[:NAMED_TEXT]}"
            self._state.add_event(KubeEvent("RanksByIndex", text, warning=True))
        if self._config.rank_topology:
            keys = {} if why else facts.rank_keys
            # Each node is looked at once, not for each TaskRole.
            place = cache(partial(rank_order.place_of, ctx.view.node_labels))
            for role in roles:
                order: tuple[int, ...] = ()
                if role.name in keys:
                    nodes = [current.attempt_status.pod_node_name or "" for current in role.active()]
                    order = rank_order.order(nodes, partial(place, keys[role.name]))
                self._set_order(role, order)

    def _set_order(self, role: RoleState, order: tuple[int, ...] | UnsetType) -> None:
        if role.rank_order != order:
            role.rank_order = order
            self._state.revisions.change(Mark.MEMBERS)

    def _unread(self, roles: list[RoleState], view: View) -> Iterator[str]:
        """Yield the Pods whose barrier may not know that ranks have an order: all have to count them alike."""
        for role in roles:
            for current in role.active() if role.name in self._state.facts.injected else ():
                pod = view.pod(current.attempt_status.pod_name)
                if pod is None or pod.metadata.annotations.get(names.BARRIER_READS_ANNOTATION) != names.READS_ORDER:
                    yield rank_order.UNREAD.format(pod=current.attempt_status.pod_name)


def obstacles(state: FrameworkState, in_flight: InFlight, view: View) -> Iterator[tuple[str, Obstacle]]:
    """Yield the names of the Tasks that are not ready, and what keeps each: the most specific reason that is known."""
    for role_state in gang_roles(state):
        name = role_state.name
        if role_state.counts.ready == role_state.counts.active:
            continue
        for current in role_state.active():
            if not is_ready(current):
                failure = in_flight.last_failure(("pod", name, current.index))
                if current.state is State.CREATION_PENDING:
                    window = in_flight.refusals.window(name)
                    failure = failure or state.crash_loops.why((name, current.index))
                    failure = failure or (window.reason if window is not None else in_flight.slow_start.message)
                pod = view.pod(current.attempt_status.pod_name)
                obstacle = obstacle_of(current, pod)
                if failure:
                    obstacle = Obstacle(failure, obstacle.reason, failure)
                yield f"{name}-{current.index}", obstacle
