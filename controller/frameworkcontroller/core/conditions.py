"""Standard conditions beside the compatible status, so that ``kubectl wait --for=condition=Complete`` works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.states import State
from frameworkcontroller.api.types import Condition, FrameworkSpec, FrameworkStatus

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
RUNNING: Final = "Running"
SUSPENDED: Final = "Suspended"


def conditions(
    before: Sequence[Condition], status: FrameworkStatus, spec: FrameworkSpec, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The conditions of a status.

    Args:
        before: as last written; a condition keeps its time for as long as its value stays.
        status: as it will be written.
        spec: what is wanted.
        generation: of the spec that was looked at.
        now: the time of a change.
    """
    ended = status.completion if status.state is State.COMPLETED else None
    succeeded = ended is not None and ended.type.name == TypeName.SUCCEEDED
    end = (ended.phrase, ended.diagnostics) if ended else ("NotCompleted", str(status.state))
    suspended = spec.execution_type == "Create" and status.state is State.CREATION_PENDING
    running = status.state is State.RUNNING
    wanted = (
        (COMPLETE, ended is not None and succeeded, *end),
        (FAILED, ended is not None and not succeeded, *end),
        (RUNNING, running, "TasksRun" if running else "NotRunning", str(status.state)),
        (SUSPENDED, suspended, "ExecutionTypeCreate" if suspended else "NotSuspended", spec.execution_type),
    )
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
