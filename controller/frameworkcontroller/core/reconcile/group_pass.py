"""The groups' part of a reconcile pass: in which groups a scheduler places the Pods of an attempt (docs/groups.md).

`FrameworkPass.steps` calls `begin` before each step of its state machine, `FrameworkReconciler.steps` calls `write` at
the end. While no attempt has begun, the status says what the next one asks of the scheduler. An attempt's groups belong
to its ConfigMap and are there before its Pods. A TaskRole that waits for others has a group of its own, since its Pods
come later.
"""

from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Identity
from frameworkcontroller.api.pod_group import KINDS, NONE, PER_ROLE, SCHEDULED, GangScheduling, PodGroup
from frameworkcontroller.api.spec import MAX_ROLES
from frameworkcontroller.api.states import State
from frameworkcontroller.core import effects
from frameworkcontroller.core.clock import EARLIEST, Now
from frameworkcontroller.core.machines.framework import is_ending, is_ours
from frameworkcontroller.core.policies.role import RoleState
from frameworkcontroller.core.policies.shares import Pace
from frameworkcontroller.core.queue.verdict import GROUPS_UNKNOWN, MAX_MESSAGE, Verdict
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.core.reconcile.decision import ReconcileContext
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.status.state import FrameworkState

PREEMPTED: Final = "The Pods of the Framework were preempted by the scheduler: {why}"
NO_PLACE: Final = "the scheduler has found no place for {number} of {number}: {why}"
UNSEEN: Final = (
    "Pods have nodes, and the scheduler has said nothing of their group, so it placed them one by one: it needs {gate}"
)
NOT_GANG_SCHEDULED: Final = "NotGangScheduled"
GROUPS_REFUSED: Final = "GroupsRefused"
TOO_MANY: Final = f"an attempt has {MAX_ROLES} groups at most, with those of TaskRoles that are gone"
UNTOLD: Final = (False, "NothingSaid", "the groups are there, and their scheduler has said nothing of them yet")
LOOKED_AT: Final = 10
"""Groups without a place, in a pass."""
EVERY: Final = timedelta(seconds=10)
"""The scheduler says something else of a group with each Pod that comes or goes: so often it is written.

So long it may say nothing of a group whose Pods have nodes: Volcano places them first.
"""
# A Task in one of these states has no Pod yet, or one without a node.
WAITING: Final = (State.CREATION_PENDING, State.CREATION_REQUESTED, State.PREPARING)


Report: TypeAlias = tuple[bool, str, str]
"""Value, reason and message of the condition GangScheduled."""


class GroupPass:
    """The groups of one Framework, of which one is created or changed at a time, at the `pace` of the namespace."""

    def __init__(
        self, meta: Identity, config: CoreConfig, state: FrameworkState, in_flight: InFlight, pace: Pace
    ) -> None:
        self._meta, self._config, self._state, self._in_flight, self._pace = meta, config, state, in_flight, pace
        self._next: effects.CompanionEffect | None = None
        self._turn: datetime | None = None
        """When that may be sent."""
        self._unseen = ""
        """The group that was created or changed last, and not seen since."""
        self._made: tuple[str, set[str]] = "", set()
        """The groups that were created of this attempt, by the UID of its ConfigMap."""
        self._wanted: dict[str, list[RoleState]] = {}
        """The roles of each group as it is to be."""
        # Those that are to be looked at, and of the others those that have no place, in their order.
        self._changed: dict[str, None] = {}
        self._unplaced: dict[str, None] = {}
        self._read: list[tuple[object, ...]] = []
        """Of what they were made, role by role."""
        self._counts: list[tuple[int, bool]] = []
        """What of each role may change without another group."""
        self._group_of: dict[str, str] = {}
        self._given: tuple[object, object, dict[str, bytes]] = None, None, {}
        self._reported = EARLIEST
        self._unsaid: datetime | None = None
        """Since when Pods have nodes and nothing was said of their group."""

    def begin(self, ctx: ReconcileContext, queue: Verdict) -> Verdict:
        """Return what its queue and its groups mean for the Framework now."""
        status, self._next = self._state.status, None
        if status.state is State.CREATION_PENDING and status.completion is None:
            return self._before(ctx, queue)
        asked, owner = status.attempt_status.gang_scheduling, status.attempt_status.config_map_uid
        if not asked or owner is None or is_ending(status):
            return queue
        return self._during(ctx, asked, owner, queue)

    def _before(self, ctx: ReconcileContext, queue: Verdict) -> Verdict:
        given, status = ctx.spec.gang_scheduling or self._config.gang_scheduling, self._state.status
        asked = UNSET if given.scheduler == NONE else given
        if status.attempt_status.gang_scheduling != asked:
            changed = replace(status.attempt_status, gang_scheduling=asked)
            self._state.set(replace(status, attempt_status=changed))
        why = ctx.view.unknown(asked.scheduler) if asked and self._state.is_to_begin(ctx.spec) else ""
        return replace(queue, hold=(GROUPS_UNKNOWN, why)) if why and queue.hold is None else queue

    def _during(self, ctx: ReconcileContext, asked: GangScheduling, owner: str, queue: Verdict) -> Verdict:
        if why := self._state.preempted:
            return replace(queue, eviction=PREEMPTED.format(why=why[:MAX_MESSAGE]))
        if why := ctx.view.unknown(asked.scheduler):
            self._tell(ctx, (False, GROUPS_UNKNOWN, why))
            return replace(queue, holds_pods=True)
        self._follow_roles(asked)
        missing = self._compare(ctx, asked, owner)
        report = self._create(asked, owner, missing) if missing else self._look(ctx, asked)
        if self._next is None or self._next.name != self._unseen:
            # The cache may have shown a change before its answer was there.
            self._see(self._unseen)
        if report is not None or not (self._changed or self._unplaced):
            self._tell(ctx, report)
        return replace(queue, additions=self._additions(asked, queue.additions), holds_pods=bool(missing))

    def _compare(self, ctx: ReconcileContext, asked: GangScheduling, owner: str) -> str:
        """Find what of the groups is not as it is to be, and return the name of the first that is missing, or ""."""
        missing, kind = "", KINDS[asked.scheduler]
        for name in list(self._changed):
            roles, found = self._wanted[name], ctx.view.group(asked.scheduler, name)
            if found is None or not is_ours(found.metadata, owner):
                missing = missing or name
            elif found.min_count != _count(roles) and any(map(_has_waiting, roles)):
                patch = {"spec": kind.spec(asked, _count(roles))}
                self._next = self._next or effects.PatchCompanion(
                    effects.GROUP, kind.api_version, name, found.metadata.uid, patch
                )
            else:
                del self._changed[name]
                self._unplaced[name] = None
        return missing

    def _look(self, ctx: ReconcileContext, asked: GangScheduling) -> Report | None:
        """Return what is to be told of the first groups that have no place, as far as is known."""
        report, looked_at = None, 0
        for name in list(self._unplaced):
            found = ctx.view.group(asked.scheduler, name)
            if found is None:
                # It has gone, and the news of that is under way.
                return None
            is_placed, why = _judge(asked, self._wanted[name], found)
            if is_placed:
                del self._unplaced[name]
            else:
                report, looked_at = report or why, looked_at + 1
            if looked_at == LOOKED_AT:
                break
        before = self._state.group_report
        was_missing = before is not None and before[1] in {GROUPS_UNKNOWN, GROUPS_REFUSED}
        return UNTOLD if report is None and self._unplaced and was_missing else report

    def _create(self, asked: GangScheduling, owner: str, name: str) -> Report | None:
        """Create this group next, or return why it is not."""
        if self._made[0] != owner:
            self._made = owner, set()
        if len(self._made[1]) >= MAX_ROLES and name not in self._made[1]:
            return False, GROUPS_REFUSED, TOO_MANY
        kind = KINDS[asked.scheduler]
        spec = kind.spec(asked, _count(self._wanted[name]))
        self._next = effects.CreateCompanion(effects.GROUP, kind.api_version, name, spec, config_map_uid=owner)
        failure = self._in_flight.last_failure(effects.GROUP)
        return (False, GROUPS_REFUSED, failure[:MAX_MESSAGE]) if failure else None

    def _follow_roles(self, asked: GangScheduling) -> None:
        """Find the groups that are to be, by name; most passes change none."""
        attempt, per_role = self._state.status.attempt_status.id, asked.group_per == PER_ROLE
        roles = self._state.roles.values()
        # The roles of a group live as long as it is wanted, so that no other one has the identity of one of them.
        read: list[tuple[object, ...]] = [
            (attempt, id(role), role.waits, role.dependencies_met is UNSET, _number(role) > 0) for role in roles
        ]
        counts = [(_number(role), _has_waiting(role)) for role in roles]
        if read == self._read:
            for role, before, now in zip(roles, self._counts, counts, strict=True):
                if before != now and (name := self._group_of.get(role.name)) is not None:
                    self._changed[name] = None
                    self._unplaced.pop(name, None)
            self._counts = counts
            return
        self._read, self._counts, self._wanted, self._group_of = read, counts, {}, {}
        for role in roles:
            if role.waits or not _number(role):
                continue
            is_alone = per_role or role.dependencies_met is not UNSET
            name = names.pod_group_name(self._meta.name, attempt, role.name if is_alone else "")
            self._wanted.setdefault(name, []).append(role)
            self._group_of[role.name] = name
        self._changed, self._unplaced = dict.fromkeys(self._wanted), {}

    def _additions(self, asked: GangScheduling, given: dict[str, bytes]) -> dict[str, bytes]:
        """Return what the Pods of each role get by the queue (`given`), and by their group."""
        if self._given[0] is not given or self._given[1] is not self._wanted:
            member = KINDS[asked.scheduler].membership
            both = {role: _joined(given.get(role) or b"{}", member(name)) for role, name in self._group_of.items()}
            self._given = given, self._wanted, given | both
        return self._given[2]

    def _tell(self, ctx: ReconcileContext, report: Report | None) -> None:
        """Report what keeps the first group waiting: at once if that begins or ends, and not too often in between."""
        before = self._state.group_report
        if report is None and before is not None:
            report = True, "Scheduled", ""
        is_unsaid = report is not None and report[1] == NOT_GANG_SCHEDULED
        self._unsaid = (self._unsaid or ctx.now) if is_unsaid else None
        if report is None or report == before:
            return
        last = self._reported if before is not None and before[0] is report[0] else EARLIEST
        due = max(last, self._unsaid or EARLIEST) + EVERY
        if ctx.now < due:
            ctx.decision.wake(due)
        else:
            self._reported = ctx.now
            self._state.report_groups(report)

    def write(self, ctx: ReconcileContext) -> None:
        """Do what was decided, once its turn has come."""
        if self._next is None or self._in_flight.is_busy(effects.GROUP):
            return
        due = self._in_flight.delayed_until(effects.GROUP, ctx.now)
        if due is None:
            due = self._turn = self._turn or ctx.now + timedelta(seconds=self._pace.reserve(ctx.now.timestamp()))
        if ctx.now < due:
            ctx.decision.wake(due)
        else:
            self._turn = None
            ctx.emit(self._next)

    def touch(self, name: str) -> bool:
        """Note that the cache has heard of the group of this name, which may be gone again; whether it is wanted."""
        if name not in self._wanted:
            return False
        self._changed[name] = None
        self._unplaced.pop(name, None)
        self._see(name)
        return True

    def _see(self, name: str) -> None:
        if name and name == self._unseen:
            self._unseen = ""
            self._in_flight.reset_delay(effects.GROUP)

    def apply_outcome(self, effect: effects.CompanionEffect, outcome: effects.Outcome, now: Now) -> None:
        """Take in what has become of a group; the cache will show it."""
        if isinstance(effect, effects.CreateCompanion) and isinstance(outcome, effects.Done):
            self._made[1].add(effect.name)
        elif isinstance(effect, effects.CreateCompanion) or not isinstance(outcome, effects.Done | effects.Missing):
            return
        self._unseen = effect.name
        self._in_flight.recheck_later(effects.GROUP, now.steady)


def _number(role: RoleState) -> int:
    """Return how many Tasks have, or will have, a Pod."""
    return role.counts.active - role.counts.completed


def _count(roles: list[RoleState]) -> int:
    return sum(map(_number, roles))


def _has_waiting(role: RoleState) -> bool:
    """Report whether the scheduler has something to do."""
    return any(role.by_state[state] for state in WAITING)


def _joined(given: bytes, more: dict[str, Any]) -> bytes:
    """Return what a queue gives the Pods with what their group gives them."""
    fields = msgspec.json.decode(given)
    for name, value in more.items():
        fields[name] = fields.get(name, {}) | value if isinstance(value, dict) else value
    return msgspec.json.encode(fields)


def _judge(asked: GangScheduling, roles: list[RoleState], found: PodGroup) -> tuple[bool, Report | None]:
    """Return whether the scheduler has found a place for a group, and if not what is to be told of it, if it is known.

    The first Task of a role speaks for its nodes. Of a Pod that is made again Volcano may say that it has no place.
    """
    kind, said = KINDS[asked.scheduler], found.condition(SCHEDULED)
    has_nodes = any(role.tasks and role.tasks[0].attempt_status.pod_node_name for role in roles)
    if said is None and kind.said is not None and has_nodes:
        return False, (False, NOT_GANG_SCHEDULED, UNSEEN.format(gate=kind.gate))
    if has_nodes or (said is not None and said.status == "True"):
        return True, None
    if said is None:
        return False, None
    text = NO_PLACE.format(number=_count(roles), why=said.message[:MAX_MESSAGE])
    return False, (False, said.reason or "Unschedulable", text)
