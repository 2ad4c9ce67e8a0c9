"""What is counted of a Framework's roles: how far its gang is, and what a write of the status says beside them.

All of it follows from the state, from the counts that each role keeps, and costs O(roles).
"""

from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.core.effects import RolesSummary
from frameworkcontroller.core.policies import dependencies
from frameworkcontroller.core.policies.role import RoleState
from frameworkcontroller.core.status.revisions import Mark
from frameworkcontroller.core.status.state import FrameworkState


def gang_roles(state: FrameworkState) -> list[RoleState]:
    """Return the roles that the gang waits for.

    One that waits for others is no part of it yet. To restart in place, it waits for the roles with a barrier: the Pods
    of others do not restart. Only its first start waits for all.
    """
    gate = state.gate
    of_all = gate is None or (gate.epoch == 0 and not gate.is_open)
    return [one for one in state.roles.values() if not one.waits and (of_all or _is_member(state, one))]


def member_count(state: FrameworkState) -> int:
    """Return how many Tasks restart in place together."""
    return sum(one.counts.active for one in gang_roles(state) if _is_member(state, one))


def _is_member(state: FrameworkState, role_state: RoleState) -> bool:
    """Report whether the role restarts in place: its Pods have a barrier, or the template of the next ones does."""
    return role_state.counts.instances > 0 or role_state.name in state.facts.members


def readiness(state: FrameworkState, spec: FrameworkSpec) -> tuple[int, int]:
    """Return how many Tasks of the gang are ready, and how many it has: a role that waits is no part of it yet."""
    gang = gang_roles(state)
    outside = state.roles.keys() - {one.name for one in gang}
    ready = sum(one.counts.ready for one in gang if one.name in spec.by_name)
    return ready, sum(role.task_number for role in spec.task_roles or () if role.name not in outside)


def is_complete(state: FrameworkState, spec: FrameworkSpec) -> bool:
    """Report whether every Task of the gang is ready, and the gate of the epoch, if it has epochs, is open."""
    (ready, total), gate = readiness(state, spec), state.gate
    return ready == total > 0 and (gate is None or gate.is_open)


def may_end(state: FrameworkState) -> bool:
    """Report whether those that end together may: all want to, or one of them has failed for good."""
    begun = (one for one in state.roles.values() if not one.waits)
    counts = [one.counts for one in begun if one.name in state.facts.end_together]
    left = sum(one.active - one.held - one.completed - one.succeeding for one in counts)
    return any(one.held for one in counts) and (not left or any(one.failed for one in counts))


def summarize(state: FrameworkState, spec: FrameworkSpec) -> RolesSummary:
    """Return the roles as they are to be written, with what is counted about them."""
    wanted = spec.task_roles or ()
    role_states = [state.roles[role.name] for role in wanted if role.name in state.roles]
    ready, total = readiness(state, spec)
    waiting = sum(role.task_number for role in dependencies.waiting_roles(spec, state.roles))
    return RolesSummary(
        roles=tuple(role_state.snapshot() for role_state in state.roles.values()),
        order=tuple(role.name for role in wanted),
        ready=ready,
        total=total,
        waiting=waiting,
        others=(sum(one.counts.ready for one in role_states) - ready, spec.tasks - total - waiting),
        by_arrival=state.facts.waits_for_arrival,
        gpus=state.facts.gpus,
        progress=state.facts.progress_ports,
        has_barriers=state.facts.has_barriers,
        member_revision=state.revisions.of(Mark.MEMBERS),
        gate=state.gate,
        may_end=may_end(state),
    )
