"""Which TaskRoles wait for others by `dependsOn`, and until when (docs/reference/framework-api.md, section 8).

A role begins once in a Framework attempt. What happens to the others after that does not hold it back any more.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from frameworkcontroller.api.spec import MAX_EDGES, READY

if TYPE_CHECKING:  # `frameworkctl lint` asks for problems without RE2, which `role` needs
    from collections.abc import Iterator, Mapping, Sequence

    from frameworkcontroller.api.pod import Pod
    from frameworkcontroller.api.spec import Dependency, FrameworkSpec, TaskRoleSpec
    from frameworkcontroller.api.status import TaskStatus
    from frameworkcontroller.core.policies.role import RoleState

NAMED_ROLES: Final = 10
"""A text names so many roles and circles of so many; it counts the others."""


def is_pod_ready(task: TaskStatus, pod: Pod | None) -> bool:
    """Report whether the Task's Pod is Ready by its readiness probes and gates, and stays."""
    return (
        pod is not None
        and task.completion is None
        and pod.metadata.uid == task.attempt_status.pod_uid
        and pod.metadata.deletion_timestamp is None
        and any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
    )


def watched_roles(spec: FrameworkSpec) -> frozenset[str]:
    """Return the roles for whose Pods to become Ready another role waits."""
    return frozenset(one.name for role in spec.task_roles or () for one in role.depends_on or () if one.status == READY)


def is_met(dependency: Dependency, spec: FrameworkSpec, roles: Mapping[str, RoleState], *, soon: bool = False) -> bool:
    """Report whether no Task of the other role holds this one up.

    A Task that is Completed holds nobody up: had its failure mattered, its role's policy would have ended the attempt.
    `soon` takes the Tasks that have succeeded for Completed.
    """
    wanted, role_state = spec.by_name.get(dependency.name), roles.get(dependency.name)
    number = 0 if wanted is None else wanted.task_number
    if role_state is None:
        return number == 0
    ready = len(role_state.ready_pods) if dependency.status == READY else 0
    succeeding = role_state.counts.succeeding if soon else 0
    return role_state.counts.completed + succeeding + ready >= number


def may_begin(role: TaskRoleSpec, spec: FrameworkSpec, roles: Mapping[str, RoleState], *, soon: bool = False) -> bool:
    """Report whether all that the role depends on is met, or will be `soon`, see `is_met`."""
    return all(is_met(one, spec, roles, soon=soon) for one in role.depends_on or ())


def begins_soon(spec: FrameworkSpec, roles: Mapping[str, RoleState]) -> bool:
    """Report whether a role may begin once the Tasks that have succeeded are Completed."""
    return any(may_begin(role, spec, roles, soon=True) for role in waiting_roles(spec, roles))


def problems_of(spec: FrameworkSpec) -> dict[str, str]:
    """Return why roles can never begin, by their names, with the path of the field; it costs O(dependencies)."""
    wanted = {role.name: [one.name for one in role.depends_on or ()] for role in spec.task_roles or ()}
    if (edges := sum(map(len, wanted.values()))) > MAX_EDGES:
        text = f"the TaskRoles have {edges} entries in all, and a Framework may have {MAX_EDGES}: remove some"
        return {name: f"spec.taskRoles[{name}].dependsOn: {text}" for name, others in wanted.items() if others}
    known = ", ".join(heapq.nsmallest(NAMED_ROLES, wanted))
    where = "spec.taskRoles[{0}].dependsOn"
    problems = {
        name: f"{where}: waits for itself: {way}; remove one of them".format(name)
        for name, way in _circles(wanted).items()
    }
    for name, others in wanted.items():
        if missing := next((other for other in others if other not in wanted), None):
            problems[name] = f"spec.taskRoles[{name}].dependsOn[{missing}]: there is no such TaskRole, only {known}"
    return problems


def _circles(wanted: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return a way back to itself of each role that has one, as text.

    Kosaraju's algorithm: a role is in a circle with the roles that wait for it among those that it waits for.
    """
    waiters: dict[str, list[str]] = {name: [] for name in wanted}
    for name, others in wanted.items():
        for other in others:
            waiters.get(other, []).append(name)
    ended: list[str] = []
    met: set[str] = set()
    for start in wanted:
        todo = [] if start in met else [(start, iter(wanted[start]))]
        met.add(start)
        while todo:
            following = next((one for one in todo[-1][1] if one in wanted and one not in met), None)
            if following is None:
                ended.append(todo.pop()[0])
            else:
                met.add(following)
                todo.append((following, iter(wanted[following])))
    onward: dict[str, str] = {}
    for root in reversed(ended):
        if root not in met:
            continue  # it is in a circle with an earlier one
        met.discard(root)
        together = [root]
        for name in together:
            for waiter in waiters[name]:
                if waiter in met:
                    met.discard(waiter)
                    onward[waiter] = name
                    together.append(waiter)
        members = set(together)
        if (following := next((one for one in wanted[root] if one in members), None)) is not None:
            onward[root] = following
    return {name: _way(name, onward) for name in onward}


def _way(start: str, onward: Mapping[str, str]) -> str:
    """Name the roles from this one back to itself, the first ones of many."""
    way = [start]
    while onward[way[-1]] not in way and len(way) < NAMED_ROLES:
        way.append(onward[way[-1]])
    more = [] if onward[way[-1]] == start else ["..."]
    return " -> ".join([*way, *more, start])


def waiting_roles(spec: FrameworkSpec, roles: Mapping[str, RoleState]) -> Iterator[TaskRoleSpec]:
    """Yield the roles of the spec that have not begun, in its order."""
    for role in spec.task_roles or ():
        role_state = roles.get(role.name)
        if role_state is not None and role_state.waits:
            yield role


def describe(waiting: Sequence[TaskRoleSpec]) -> str:
    """Return for people which roles wait, and for what: `reduce waits until map is Complete`."""
    named = [f"{role.name} waits until {conditions_of(role)}" for role in waiting[:NAMED_ROLES]]
    more = [f"{len(waiting) - NAMED_ROLES} more TaskRoles wait"] if len(waiting) > NAMED_ROLES else []
    return "; ".join([*named, *more])


def conditions_of(role: TaskRoleSpec) -> str:
    """Return what the role waits for: `map is Complete and server is Ready`."""
    wanted = [f"{one.name} is {one.status}" for one in role.depends_on or ()]
    return " and ".join(wanted) or "it depends on nothing any more"
