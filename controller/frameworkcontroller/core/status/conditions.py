"""Standard conditions beside the compatible status, so that `kubectl wait --for=condition=Complete` works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import Condition, FrameworkStatus
from frameworkcontroller.core.machines.framework import is_ending
from frameworkcontroller.core.policies.dependencies import describe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from frameworkcontroller.api.spec import FrameworkSpec, TaskRoleSpec

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
RUNNING: Final = "Running"
SUSPENDED: Final = "Suspended"
WAITING_FOR_DEPENDENCY: Final = "WaitingForDependency"
STATUS_TOO_LARGE: Final = "StatusTooLarge"
CRASH_LOOP: Final = "CrashLoop"


def conditions(
    before: Sequence[Condition],
    status: FrameworkStatus,
    spec: FrameworkSpec,
    generation: int,
    now: datetime,
    *,
    waiting: Sequence[TaskRoleSpec] = (),
    gang: tuple[str, bool, str, str] | None = None,
    too_large: str = "",
    held_back: tuple[str, str] | None = None,
    crash_loop: str = "",
) -> tuple[Condition, ...]:
    """Return the conditions of a status.

    Args:
        before: the conditions last written; a condition keeps its time while its value stays.
        status: as it will be written.
        spec: what is wanted.
        generation: of the observed spec.
        now: the time of a change.
        waiting: the TaskRoles that wait for others.
        gang: type, value, reason and message of the condition GangReady, None for none.
        too_large: why the Tasks are not part of the status, "" if they are.
        held_back: why the Framework gets no more TaskRoles or Tasks, as reason and text, None if it does.
        crash_loop: which Tasks pause, "" for none.
    """
    ended = status.completion if status.state is State.COMPLETED else None
    succeeded = ended is not None and ended.type.name == TypeName.SUCCEEDED
    end = (ended.phrase, ended.diagnostics) if ended else ("NotCompleted", str(status.state))
    suspension = ("NotSuspended", spec.execution_type)
    if spec.execution_type == "Create":
        suspension = ("ExecutionTypeCreate", spec.execution_type)
    elif held_back:
        suspension = held_back
    suspended = suspension[0] != "NotSuspended" and status.state is State.CREATION_PENDING
    running = status.state is State.RUNNING
    wanted: tuple[tuple[str, bool, str, str], ...] = (
        (COMPLETE, ended is not None and succeeded, *end),
        (FAILED, ended is not None and not succeeded, *end),
        (RUNNING, running, "TasksRun" if running else "NotRunning", str(status.state)),
        (SUSPENDED, suspended, *(suspension if suspended else ("NotSuspended", spec.execution_type))),
    )
    if any(role.depends_on for role in spec.task_roles or ()):
        waits = bool(waiting) and not is_ending(status)
        text = describe(waiting) if waits else str(status.state)
        wanted += ((WAITING_FOR_DEPENDENCY, waits, "TaskRolesWait" if waits else "NoTaskRoleWaits", text),)
    if gang is not None:
        wanted += (gang,)
    crash_loop = "" if is_ending(status) else crash_loop
    if crash_loop or any(condition.type == CRASH_LOOP for condition in before):
        reason = "TasksPaused" if crash_loop else "NoTaskPaused"
        wanted += ((CRASH_LOOP, bool(crash_loop), reason, crash_loop or str(status.state)),)
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
