"""When the Tasks' ends complete the whole Framework attempt (source: the Framework API, section 7)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from frameworkcontroller.api.codes import PREDEFINED, Code, TypeName
from frameworkcontroller.api.states import State
from frameworkcontroller.api.types import CompletionPolicy, FrameworkCompletion, TaskStatus, Trigger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from frameworkcontroller.api.types import FrameworkSpec

    from .ledger import RoleLedger

NEVER: Final = datetime.max.replace(tzinfo=UTC)


def predefined(code: Code, diagnostics: str, trigger: Trigger | None = None) -> FrameworkCompletion:
    """A Framework attempt's completion by one of this program's own codes."""
    phrase, kind = PREDEFINED[code]
    return FrameworkCompletion(code=int(code), phrase=phrase, type=kind, diagnostics=diagnostics, trigger=trigger)


def decide_completion(spec: FrameworkSpec, roles: Mapping[str, RoleLedger]) -> FrameworkCompletion | None:
    """The end of the attempt by its policies, or None. Costs O(roles) until a policy is triggered, then O(Tasks).

    The trigger that came first by Task completionTime wins; Tasks that are deletionPending do not count.
    """
    triggers: list[tuple[datetime, Trigger, TaskStatus]] = []
    wanted = completed = 0
    for role in spec.task_roles or ():
        ledger = roles.get(role.name)
        wanted += role.task_number
        if ledger is None:
            continue
        completed += ledger.counts.completed
        triggers += _role_triggers(role.name, role.framework_attempt_completion_policy, ledger)
    if triggers:
        _, trigger, task = min(triggers, key=lambda entry: entry[0])
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


def _role_triggers(
    name: str, policy: CompletionPolicy, ledger: RoleLedger
) -> Iterable[tuple[datetime, Trigger, TaskStatus]]:
    for kind, minimum, reached in (
        (TypeName.FAILED, policy.min_failed_task_count, ledger.counts.failed),
        (TypeName.SUCCEEDED, policy.min_succeeded_task_count, ledger.counts.succeeded),
    ):
        if minimum < 1 or reached < minimum:
            continue
        task = _by_completion(_ended(ledger, kind))[minimum - 1]
        message = f"{kind}TaskCount {minimum} has reached Min{kind}TaskCount {minimum} in the TaskRole"
        yield (
            task.completion_time or NEVER,
            Trigger(message=message, task_role_name=name, task_index=task.index),
            task,
        )


def _ended(ledger: RoleLedger, kind: TypeName) -> Iterable[TaskStatus]:
    return (
        task
        for task in ledger.active()
        if task.state is State.COMPLETED and task.completion is not None and task.completion.type.name == kind
    )


def _by_completion(tasks: Iterable[TaskStatus]) -> Sequence[TaskStatus]:
    return sorted(tasks, key=lambda task: (task.completion_time or NEVER, task.index))


def _last_completed(spec: FrameworkSpec, roles: Mapping[str, RoleLedger]) -> tuple[str, TaskStatus]:
    return max(
        (
            (role.name, task)
            for role in spec.task_roles or ()
            if role.name in roles
            for task in roles[role.name].active()
        ),
        key=lambda entry: (entry[1].completion_time or NEVER, entry[1].index),
    )
