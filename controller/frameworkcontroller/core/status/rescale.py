"""Bring the Tasks in line with the roles and numbers of the spec (docs/reference/framework-api.md, section 8).

A Task that is scaled down is marked deletionPending first. It is removed only once its state Completed is persisted, so
that clients see it before its name is used again.
"""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.spec import MAX_ROLES, MAX_TASKS, FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskStatus
from frameworkcontroller.api.stored_roles import MAX_STORED
from frameworkcontroller.core.machines.attempt import complete
from frameworkcontroller.core.machines.task import SCALED_DOWN, new_task
from frameworkcontroller.core.policies.role import FRAMEWORK, ROLE, RoleState, idle_in
from frameworkcontroller.core.policies.shares import MOST_IDLE

IDLE: Final = (
    "TooManyIdleTasks",
    f"the Frameworks of this namespace have {MOST_IDLE} Tasks without a Pod, or had minutes ago: it waits for fewer",
)


def held_back(
    spec: FrameworkSpec, roles: dict[str, RoleState], room: int = MOST_IDLE
) -> tuple[FrameworkSpec, tuple[str, str] | None]:
    """Return the spec without TaskRoles and Tasks that would be too many, and why as reason and text, None if all fit.

    The CRD bounds both; an object that was stored under another definition may ask for any number. It may keep and
    delete what it has, but gets nothing beyond `MAX_ROLES` and `MAX_TASKS`, nor, with what is still to go, more than
    can be read again, or twice as many TaskRoles; nor more Tasks without a Pod than there is `room` for.
    """
    why, number = None, len(spec.task_roles or ())
    new = sum(role.name not in roles for role in spec.task_roles or ())
    # One that is to go has Tasks, and none that are wanted.
    is_beyond = number > max(MAX_ROLES, sum(one.counts.active > 0 or not one.tasks for one in roles.values()))
    if is_beyond or (new and len(roles) + new > 2 * MAX_ROLES):
        spec = replace(spec, task_roles=tuple(role for role in spec.task_roles or () if role.name in roles))
        going = len(roles) + new - number
        text = f"{going} TaskRoles that are not asked for any more are still to go: their Pods have to end first"
        if is_beyond:
            text = f"spec.taskRoles has {number} TaskRoles, and a Framework may have {MAX_ROLES}: "
            text += "remove some, or use several Frameworks"
        why = ("TooManyTaskRoles", text)
    active = {name: role_state.counts.active for name, role_state in roles.items()}
    wanted, stored = spec.tasks, {name: len(role_state.tasks) for name, role_state in roles.items()}
    more = sum(max(0, role.task_number - stored.get(role.name, 0)) for role in spec.task_roles or ())
    # Each that is to go and is asked for again is replaced.
    again = sum(index < role.task_number for role in spec.task_roles or () for index in _going(roles, role.name))
    is_beyond = wanted > max(MAX_TASKS, sum(active.values())) or (more > 0 and sum(stored.values()) + more > MAX_STORED)
    if is_beyond:
        spec = _without_more(spec, active)
        going = sum(stored.values()) - spec.tasks
        text = f"{going} Tasks that are not asked for any more are still to go: their Pods have to end first"
        if wanted > MAX_TASKS:
            text = f"spec.taskRoles asks for {wanted} Tasks in all, and a Framework may have {MAX_TASKS}: "
            text += "reduce taskNumber, or use several Frameworks"
        why = why or ("TooManyTasks", text)
    elif (more or again or new) and idle_in(roles) + more + again + ROLE * new + (0 if roles else FRAMEWORK) > room:
        known = replace(spec, task_roles=tuple(role for role in spec.task_roles or () if role.name in roles))
        spec, why = _without_more(known, active), why or IDLE
    return spec, why


def _going(roles: Mapping[str, RoleState], name: str) -> Collection[int]:
    return roles[name].deletion_pending if name in roles else ()


def _without_more(spec: FrameworkSpec, active: Mapping[str, int]) -> FrameworkSpec:
    """Return the spec with no more Tasks than there are."""
    roles = spec.task_roles or ()
    fewer = (replace(role, task_number=min(role.task_number, active.get(role.name, 0))) for role in roles)
    return replace(spec, task_roles=tuple(fewer))


def rescale(
    framework: str,
    spec: FrameworkSpec,
    roles: dict[str, RoleState],
    *,
    now: datetime,
    new_uid: Callable[[], str],
    revision: int,
    persisted: int,
) -> Iterator[tuple[str, int]]:
    """Change `roles` in place where the spec differs; what changes gets the `revision`.

    A Task that is deletionPending and wanted again is replaced once it is Completed; it is never revived. Yielded are
    (role, index) of every Task that was marked, replaced or added, and (role, -1) for a removal.
    """
    wanted = {role.name: role.task_number for role in spec.task_roles or ()}
    for name in wanted:
        if name not in roles:
            role = spec.by_name[name]
            timeout = role.task.pod_graceful_deletion_timeout_sec
            waits = False if role.depends_on else UNSET
            roles[name] = RoleState(name, new_uid(), timeout, dependencies_met=waits)
            yield name, -1
    # One cache for all: to make one costs as much as all else that a role asks for here.
    family = functools.cache(lambda _role: new_uid())

    def fresh(role: str, index: int) -> TaskStatus:
        return new_task(index, _uid_in(family(role), index), names.pod_name(framework, role, index), now)

    for name, role_state in list(roles.items()):
        number = wanted.get(name, 0)
        yield from _mark(role_state, number, revision)
        for index in sorted(role_state.deletion_pending):
            if index < number and _is_over(role_state, index, persisted):
                role_state.put(index, fresh(name, index), revision)
                yield name, index
        while len(role_state.tasks) > number and _is_over(role_state, len(role_state.tasks) - 1, persisted):
            role_state.pop()
            yield name, -1
        for index in range(len(role_state.tasks), number):
            role_state.append(fresh(name, index), revision)
            yield name, index
        if name not in wanted and not role_state.tasks:
            del roles[name]
            yield name, -1


def _mark(role_state: RoleState, number: int, revision: int) -> Iterator[tuple[str, int]]:
    for index in range(number, len(role_state.tasks)):
        task = role_state.tasks[index]
        if not task.deletion_pending:
            task = replace(task, deletion_pending=True)
            if task.state is not State.COMPLETED:
                task = complete(task, SCALED_DOWN)
            role_state.put(index, task, revision)
            yield role_state.name, index


def _uid_in(family: str, index: int) -> str:
    """Return the UID of one of the Tasks that a role gets at once: only their ends differ, which compresses well.

    Of 10,000 Tasks that saves a sixth of the compressed status.
    """
    return f"{family[:24]}{index:012x}"


def _is_over(role_state: RoleState, index: int, persisted: int) -> bool:
    task = role_state.tasks[index]
    return task.deletion_pending and task.state is State.COMPLETED and role_state.revisions[index] <= persisted
