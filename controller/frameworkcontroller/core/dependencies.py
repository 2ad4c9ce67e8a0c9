"""Which TaskRoles wait for others by `dependsOn`, and until when (docs/reference/framework-api.md, section 8).

A role begins once in a Framework attempt. What happens to the others after that does not hold it back any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkcontroller.api.spec import READY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frameworkcontroller.api.pod import Pod
    from frameworkcontroller.api.spec import Dependency, FrameworkSpec, TaskRoleSpec
    from frameworkcontroller.api.status import TaskStatus
    from frameworkcontroller.core.rolestate import RoleState

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

    Args:
        dependency: what the role waits for.
        spec: of the Framework.
        roles: by name.
        soon: take the Tasks that have succeeded for Completed.
    """
    number = next((role.task_number for role in spec.task_roles or () if role.name == dependency.name), 0)
    role_state = roles.get(dependency.name)
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


def problem_of(name: str, spec: FrameworkSpec) -> str:
    """Return why the role can never begin, with the path of the field; "" if it can."""
    wanted = {role.name: role.depends_on or () for role in spec.task_roles or ()}
    for one in wanted.get(name, ()):
        if one.name not in wanted:
            known = ", ".join(sorted(wanted)[:NAMED_ROLES])
            return f"spec.taskRoles[{name}].dependsOn[{one.name}]: there is no such TaskRole, only {known}"
    circle = _circle(name, {role: [one.name for one in depends_on] for role, depends_on in wanted.items()})
    if not circle:
        return ""
    more = f" -> {len(circle) - NAMED_ROLES} more" if len(circle) > NAMED_ROLES else ""
    way = " -> ".join(circle[:NAMED_ROLES])
    return f"spec.taskRoles[{name}].dependsOn: waits for itself: {way}{more} -> {name}; remove one of them"


def _circle(start: str, wanted: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a way from the role back to itself, without the end; [] if there is none."""
    came_from: dict[str, str] = {}
    todo = [start]
    while todo:
        role = todo.pop()
        for following in wanted.get(role, ()):
            if following == start:
                way = [role]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if following not in came_from:
                came_from[following] = role
                todo.append(following)
    return []


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
