"""Standard conditions beside the compatible status, so that `kubectl wait --for=condition=Complete` works."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeAlias

from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.spec import FrameworkSpec, TaskRoleSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import Condition, FrameworkStatus, cut
from frameworkcontroller.core.machines.framework import is_ending
from frameworkcontroller.core.policies.dependencies import describe

CRASH_LOOP: Final = "CrashLoop"
STATUS_TOO_LARGE: Final = "StatusTooLarge"
GANG_SCHEDULED: Final = "GangScheduled"
"""Whether the scheduler has a place for the groups of Pods, once it has said that it has none."""
Told: TypeAlias = tuple[str, bool, str, str]
"""A condition: type, value, reason and message."""
MAX_MESSAGE: Final = 1024
"""Characters of the diagnostics that three conditions repeat; `completionStatus` has all."""


def conditions(
    before: Sequence[Condition],
    status: FrameworkStatus,
    spec: FrameworkSpec,
    generation: int,
    now: datetime,
    *,
    complete: bool = False,
    waiting: Sequence[TaskRoleSpec] = (),
    more: Sequence[Told | None] = (),
    too_large: str = "",
    held_back: tuple[str, str] | None = None,
    crash_loop: tuple[str, str] | None = None,
) -> tuple[Condition, ...]:
    """Return the conditions of a status as it will be written. One keeps its time while its value stays.

    What they say beside the status is whether the whole gang is complete; which TaskRoles wait for others; `more` that
    is told of the gang; why the Tasks are not part of the status; why the Framework gets no more TaskRoles or Tasks, as
    reason and text; and which Tasks pause, or that the attempt does, likewise.
    """
    ended = status.completion if status.state is State.COMPLETED else None
    succeeded = ended is not None and ended.type.name == TypeName.SUCCEEDED
    end = (ended.phrase, cut(ended.diagnostics, MAX_MESSAGE)) if ended else ("NotCompleted", str(status.state))
    delayed = status.state is State.ATTEMPT_COMPLETED and bool(status.retry_policy_status.retry_delay_sec)
    suspension = None
    if status.state is State.CREATION_PENDING and spec.execution_type == "Create":
        suspension = ("ExecutionTypeCreate", spec.execution_type)
    elif spec.suspend and (status.state is State.CREATION_PENDING or delayed):
        suspension = ("Suspended", "spec.suspend is true")
    elif status.state is State.CREATION_PENDING:
        suspension = held_back
    running = status.state is State.RUNNING
    # For tools that know no type, and read `Ready` of every object (kstatus): what ends well stays ready.
    reason = "NotRunning" if not running else "AllTasksReady" if complete else "TasksNotReady"
    ready = (succeeded, *end) if ended else (running and complete, reason, status.ready or "0/0")
    wanted: tuple[Told, ...] = (
        ("Complete", ended is not None and succeeded, *end),
        ("Failed", ended is not None and not succeeded, *end),
        ("Running", running, "TasksRun" if running else "NotRunning", str(status.state)),
        ("Ready", *ready),
        ("Suspended", suspension is not None, *(suspension or ("NotSuspended", spec.execution_type))),
    )
    if any(role.depends_on for role in spec.task_roles or ()):
        waits = bool(waiting) and not is_ending(status)
        text = describe(waiting) if waits else str(status.state)
        wanted += (("WaitingForDependency", waits, "TaskRolesWait" if waits else "NoTaskRoleWaits", text),)
    wanted += tuple(one for one in more if one is not None)
    crash_loop = None if is_ending(status) and status.state is not State.ATTEMPT_COMPLETED else crash_loop
    if crash_loop or any(condition.type == CRASH_LOOP for condition in before):
        wanted += ((CRASH_LOOP, crash_loop is not None, *(crash_loop or ("NoTaskPaused", str(status.state)))),)
    if too_large:
        wanted += ((STATUS_TOO_LARGE, True, "RequestTooLarge", too_large),)
    times = {(condition.type, condition.status): condition.last_transition_time for condition in before}
    return tuple(
        Condition(
            type=kind,
            status=(value := "True" if is_true else "False"),
            reason=reason,
            message=message,
            last_transition_time=times.get((kind, value), now),
            observed_generation=generation,
        )
        for kind, is_true, reason, message in wanted
    )
