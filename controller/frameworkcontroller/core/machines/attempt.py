"""What the attempts of a Framework and of a Task share: changes of state, the reason of the end, and the step.

Both are one state machine (`frameworkcontroller.api.states`), about a ConfigMap or about a Pod. `framework` and `task`
decide what leads from one state to the next; this module does the bookkeeping.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Generic, TypeVar, overload

from msgspec import Struct
from msgspec.structs import replace

from frameworkcontroller.api.states import NEXT, State
from frameworkcontroller.api.status import FrameworkCompletion, FrameworkStatus, TaskCompletion, TaskStatus

Status = TypeVar("Status", TaskStatus, FrameworkStatus)
Action = TypeVar("Action")


class Step(Struct, Generic[Status, Action], frozen=True):
    """The status after a step, and at most one thing that is to be done about the attempt's object."""

    status: Status
    action: Action | None = None
    uid: str | None = None
    """Of the object to delete."""
    wake_at: datetime | None = None
    """When to step again even if nothing is seen to change."""


def follow(
    advance: Callable[[Status, bool], Step[Status, Action]], status: Status, *, persisted: bool
) -> Step[Status, Action]:
    """Advance until nothing changes any more, or a new attempt begins.

    What changes here is not persisted yet, whether or not the API server has the status as given (`persisted`).
    """
    while True:
        step = advance(status, persisted)
        if step.status == status or step.status.attempt_status.id != status.attempt_status.id:
            return step
        status, persisted = step.status, False


def move(status: Status, state: State, now: datetime) -> Status:
    """Change the state, with the times that go with it.

    Raises:
        AssertionError: `frameworkcontroller.api.states.NEXT` forbids the change.
    """
    attempt = status.attempt_status
    assert state in NEXT[status.state], f"attempt {attempt.instance_uid or attempt.id}: {status.state} -> {state}"
    run_time, completion_time = status.run_time, status.completion_time
    if state is State.RUNNING:
        attempt, run_time = replace(attempt, run_time=now), run_time or now
    elif state is State.ATTEMPT_COMPLETED:
        attempt = replace(attempt, completion_time=now)
    elif state is State.COMPLETED:
        completion_time = now
    return replace(
        status,
        state=state,
        transition_time=now,
        attempt_status=attempt,
        run_time=run_time,
        completion_time=completion_time,
    )


def never_seen(what: str, timeout: timedelta) -> str:
    """Return what is said of an object that was created and does not appear."""
    return (
        f"{what} does not appear in the local cache within timeout {int(timeout.total_seconds())}s, "
        "so consider it was deleted and force delete it"
    )


@overload
def complete(status: TaskStatus, completion: TaskCompletion) -> TaskStatus: ...
@overload
def complete(status: FrameworkStatus, completion: FrameworkCompletion) -> FrameworkStatus: ...
def complete(
    status: TaskStatus | FrameworkStatus, completion: TaskCompletion | FrameworkCompletion
) -> TaskStatus | FrameworkStatus:
    """Set the reason why the attempt ends; the first reason stays."""
    if status.completion is not None:
        return status
    return replace(status, attempt_status=replace(status.attempt_status, completion_status=completion))
