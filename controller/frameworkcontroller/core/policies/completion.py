"""When the ends of Tasks complete the Framework attempt (docs/reference/framework-api.md, section 7)."""

from collections.abc import Iterable, Mapping

from frameworkcontroller.api.codes import PREDEFINED, Code, TypeName
from frameworkcontroller.api.spec import FrameworkSpec, TaskRoleSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkCompletion, TaskStatus, Trigger
from frameworkcontroller.core.policies.role import RoleState


def predefined(code: Code, diagnostics: str, trigger: Trigger | None = None) -> FrameworkCompletion:
    """Return a Framework attempt's completion by one of the predefined codes."""
    phrase, kind = PREDEFINED[code]
    return FrameworkCompletion(code=int(code), phrase=phrase, type=kind, diagnostics=diagnostics, trigger=trigger)


def decide_completion(spec: FrameworkSpec, roles: Mapping[str, RoleState]) -> FrameworkCompletion | None:
    """Return the completion of the attempt by its policies, or None.

    The trigger that came first by the ends of the Tasks wins; Tasks that are deletionPending do not count. It costs
    O(roles) until a policy is triggered, then O(Tasks).
    """
    triggers: list[tuple[Trigger, TaskStatus]] = []
    wanted = completed = 0
    for role in spec.task_roles or ():
        role_state = roles.get(role.name)
        wanted += role.task_number
        if role_state is None:
            continue
        completed += role_state.counts.completed
        triggers += _role_triggers(role, role_state)
    if triggers:
        trigger, task = min(triggers, key=lambda found: roles[found[0].task_role_name].order_of(found[1]))
        cause = task.completion
        assert cause is not None
        return FrameworkCompletion(
            code=cause.code, phrase=cause.phrase, type=cause.type, diagnostics=cause.diagnostics, trigger=trigger
        )
    if wanted > 0 and completed == wanted:
        message = (
            f"CompletedTaskCount {completed} has reached TotalTaskCount {wanted} and no user specified conditions in "
            "FrameworkAttemptCompletionPolicy have ever been triggered"
        )
        role_name, last = _last_completed(spec, roles)
        return predefined(
            Code.SUCCEEDED, message, Trigger(message=message, task_role_name=role_name, task_index=last.index)
        )
    return None


def decides_soon(spec: FrameworkSpec, roles: Mapping[str, RoleState]) -> bool:
    """Report whether a policy completes the attempt once the Tasks that have succeeded are Completed."""
    for role in spec.task_roles or ():
        role_state, policy = roles.get(role.name), role.framework_attempt_completion_policy
        if role_state is not None and role_state.counts.succeeding:
            minimum = _minimum(policy.min_succeeded_task_count, policy.min_succeeded_task_percent, role)
            if 1 <= minimum <= role_state.counts.succeeded + role_state.counts.succeeding:
                return True
    return False


def _minimum(count: int, percent: int | None, role: TaskRoleSpec) -> int:
    """Return how many Tasks a policy wants; the percentage takes the place of the count."""
    return count if percent is None else number_of(percent, role.task_number)


def _role_triggers(role: TaskRoleSpec, role_state: RoleState) -> Iterable[tuple[Trigger, TaskStatus]]:
    policy, counts = role.framework_attempt_completion_policy, role_state.counts
    for kind, count, percent, reached in (
        (TypeName.FAILED, policy.min_failed_task_count, policy.min_failed_task_percent, counts.failed),
        (TypeName.SUCCEEDED, policy.min_succeeded_task_count, policy.min_succeeded_task_percent, counts.succeeded),
    ):
        minimum = _minimum(count, percent, role)
        if minimum < 1 or reached < minimum:
            continue
        wanted = f"Min{kind}TaskCount {minimum}"
        if percent is not None:
            wanted = f"Min{kind}TaskPercent {percent} ({minimum} of {role.task_number})"
        task = sorted(_ended(role_state, kind), key=role_state.order_of)[minimum - 1]
        message = f"{kind}TaskCount {reached} has reached {wanted} in the TaskRole"
        yield Trigger(message=message, task_role_name=role.name, task_index=task.index), task


def number_of(percent: int, task_number: int) -> int:
    """Return so many percent of the Tasks, rounded up; 0 only of no Tasks."""
    return (percent * task_number + 99) // 100


def _ended(role_state: RoleState, kind: TypeName) -> Iterable[TaskStatus]:
    return (
        task
        for task in role_state.active()
        if task.state is State.COMPLETED and task.completion is not None and task.completion.type.name == kind
    )


def _last_completed(spec: FrameworkSpec, roles: Mapping[str, RoleState]) -> tuple[str, TaskStatus]:
    return max(
        (
            (role.name, task)
            for role in spec.task_roles or ()
            if role.name in roles
            for task in roles[role.name].active()
        ),
        key=lambda entry: roles[entry[0]].order_of(entry[1]),
    )
