"""The groups' part of a reconcile pass: in which groups a scheduler places the Pods of an attempt (docs/groups.md).

`FrameworkPass.steps` calls `begin` before each step of its state machine, `FrameworkReconciler.steps` calls `write` at
the end. While no attempt has begun, the status says what the next one asks of the scheduler. An attempt's groups belong
to its ConfigMap and are there before its Pods. A TaskRole that waits for others has a group of its own, since its Pods
come later.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Identity
from frameworkcontroller.api.pod_group import (
    KINDS,
    NONE,
    PER_ROLE,
    SCHEDULED,
    GangScheduling,
    PodGroup,
    group_spec,
    membership,
)
from frameworkcontroller.api.states import State
from frameworkcontroller.core.clock import EARLIEST, Now
from frameworkcontroller.core.effects import CreateGroup, Done, GroupEffect, Missing, Outcome, PatchGroup
from frameworkcontroller.core.machines.framework import is_ending, is_ours
from frameworkcontroller.core.policies.role import RoleState
from frameworkcontroller.core.queue.verdict import GROUPS_UNKNOWN, Verdict
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
MAX_MESSAGE: Final = 1024
"""Characters of what a scheduler says."""
EVERY: Final = timedelta(seconds=10)
"""The scheduler says something else of a group with each Pod that comes or goes: so often it is written."""
# A Task in one of these states has no Pod yet, or one without a node.
WAITING: Final = (State.CREATION_PENDING, State.CREATION_REQUESTED, State.PREPARING)


@dataclass(slots=True)
class _Wanted:
    """A group as it is to be."""

    roles: list[RoleState] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The Tasks that have, or will have, a Pod in it."""
        return sum(role.counts.active - role.counts.completed for role in self.roles)

    def spec(self, asked: GangScheduling) -> bytes:
        """Return the spec of the group, as JSON."""
        return msgspec.json.encode(group_spec(asked, self.count))

    @property
    def waits(self) -> bool:
        """Whether the scheduler has something to do."""
        return any(role.by_state[state] for role in self.roles for state in WAITING)

    @property
    def has_nodes(self) -> bool:
        """Whether the first Task of a role has a node."""
        return any(role.tasks and role.tasks[0].attempt_status.pod_node_name for role in self.roles)


class GroupPass:
    """The groups of one Framework."""

    def __init__(self, meta: Identity, config: CoreConfig, state: FrameworkState, in_flight: InFlight) -> None:
        self._meta, self._config, self._state, self._in_flight = meta, config, state, in_flight
        self._made: set[str] = set()
        """Those that were created and not seen yet."""
        self._next: list[GroupEffect] = []
        self._given: tuple[dict[str, bytes], dict[str, str], dict[str, bytes]] = {}, {}, {}
        self._reported = EARLIEST

    def begin(self, ctx: ReconcileContext, queue: Verdict) -> Verdict:
        """Return what its queue and its groups mean for the Framework now."""
        status, self._next = self._state.status, []
        if status.state is State.CREATION_PENDING and status.completion is None:
            return self._before(ctx, queue)
        asked, owner = status.attempt_status.gang_scheduling, status.attempt_status.config_map_uid
        if not asked or owner is None or is_ending(status):
            return queue
        return self._during(ctx, asked, owner, queue)

    def _before(self, ctx: ReconcileContext, queue: Verdict) -> Verdict:
        asked, status = ctx.spec.gang_scheduling or self._config.gang_scheduling, self._state.status
        asked = None if asked is None or asked.scheduler == NONE else asked
        if (status.attempt_status.gang_scheduling or None) != asked:
            changed = replace(status.attempt_status, gang_scheduling=asked or UNSET)
            self._state.set(replace(status, attempt_status=changed))
        why = ""
        if asked is not None and self._state.is_to_begin(ctx.spec):
            why = ctx.view.unknown_groups(asked.scheduler)
        return replace(queue, hold=(GROUPS_UNKNOWN, why)) if why and queue.hold is None else queue

    def _during(self, ctx: ReconcileContext, asked: GangScheduling, owner: str, queue: Verdict) -> Verdict:
        if why := self._state.preempted:
            return replace(queue, eviction=PREEMPTED.format(why=why[:MAX_MESSAGE]))
        if why := ctx.view.unknown_groups(asked.scheduler):
            self._tell(ctx, (False, GROUPS_UNKNOWN, why))
            return replace(queue, holds_pods=True)
        wanted, report = self._wanted(asked), None
        for name, one in wanted.items():
            found = ctx.view.group(asked.scheduler, name)
            if found is None or not is_ours(found.metadata, owner):
                if name not in self._made:
                    self._next.append(CreateGroup(asked.scheduler, name, owner, one.spec(asked)))
                continue
            if found.min_count != one.count and one.waits:
                self._next.append(PatchGroup(asked.scheduler, name, found.metadata.uid, one.spec(asked)))
            report = report or _report(asked, one, found)
        queue = replace(queue, additions=self._additions(wanted, queue.additions))
        missing = [effect for effect in self._next if isinstance(effect, CreateGroup)]
        failure = next(filter(None, (self._in_flight.last_failure(effect.key) for effect in missing)), "")
        self._tell(ctx, (False, GROUPS_REFUSED, failure[:MAX_MESSAGE]) if failure else report)
        return replace(queue, holds_pods=bool(missing))

    def _wanted(self, asked: GangScheduling) -> dict[str, _Wanted]:
        """Return the groups that are to be, by name."""
        found: dict[str, _Wanted] = {}
        attempt = self._state.status.attempt_status.id
        for role in self._state.roles.values():
            if role.waits or role.counts.active == role.counts.completed:
                continue
            is_alone = asked.group_per == PER_ROLE or role.dependencies_met is not UNSET
            name = names.pod_group_name(self._meta.name, attempt, role.name if is_alone else "")
            found.setdefault(name, _Wanted()).roles.append(role)
        return found

    def _additions(self, wanted: dict[str, _Wanted], given: dict[str, bytes]) -> dict[str, bytes]:
        """Return what the Pods of each role get by the queue (`given`), and by their group."""
        groups = {role.name: name for name, one in wanted.items() for role in one.roles}
        if self._given[0] is not given or self._given[1] != groups:
            both = {
                role: msgspec.json.encode(msgspec.json.decode(given.get(role) or b"{}") | membership(name))
                for role, name in groups.items()
            }
            self._given = given, groups, given | both
        return self._given[2]

    def _tell(self, ctx: ReconcileContext, report: tuple[bool, str, str] | None) -> None:
        """Report what keeps the first group waiting: at once if that begins or ends, and not too often in between."""
        before = self._state.group_report
        if report is None and before is not None:
            report = True, "Scheduled", ""
        if report is None or report == before:
            return
        if before is None or before[0] is not report[0] or ctx.now >= self._reported + EVERY:
            self._reported = ctx.now
            self._state.report_groups(report)
        else:
            ctx.decision.wake(self._reported + EVERY)

    @property
    def is_quiet(self) -> bool:
        """Whether the groups are as they are to be, as far as is known."""
        return not self._next

    def write(self, ctx: ReconcileContext) -> None:
        """Do what was decided."""
        for effect in self._next:
            ctx.emit(effect)

    def touch(self, name: str) -> None:
        """Note that the cache has heard of the group of this name, which may be gone again."""
        self._made.discard(name)
        self._in_flight.reset_delay(("group", name))

    def apply_outcome(self, effect: GroupEffect, outcome: Outcome, now: Now) -> None:
        """Take in what has become of a group; the cache will show it."""
        if isinstance(effect, CreateGroup):
            self._made |= {effect.name} if isinstance(outcome, Done) else set()
        elif isinstance(outcome, Done | Missing):
            self._in_flight.recheck_later(effect.key, now.steady)


def _report(asked: GangScheduling, wanted: _Wanted, found: PodGroup) -> tuple[bool, str, str] | None:
    """Return what is to be told of a group: nothing of one that has its place, or of which nothing is known yet."""
    said = found.condition(SCHEDULED)
    if said is None:
        if not wanted.has_nodes:
            return None
        return False, NOT_GANG_SCHEDULED, UNSEEN.format(gate=KINDS[asked.scheduler].gate)
    if said.status == "True":
        return None
    return False, said.reason or "Unschedulable", NO_PLACE.format(number=wanted.count, why=said.message[:MAX_MESSAGE])
