"""What the attempts of a Framework and of a Task share: changes of state, the reason of the end, and the step.

Both are one state machine (`frameworkcontroller.api.states`), about a ConfigMap or about a Pod. `framework` and `task`
decide what leads from one state to the next; this module does the bookkeeping.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, overload

from msgspec import Struct
from msgspec.structs import replace

from frameworkcontroller.api.states import NEXT, State
from frameworkcontroller.api.status import FrameworkStatus, TaskStatus

if TYPE_CHECKING:
    from frameworkcontroller.api.status import FrameworkCompletion, TaskCompletion

Status = TypeVar("Status", TaskStatus, FrameworkStatus)
Action = TypeVar("Action")
Object_contra = TypeVar("Object_contra", contravariant=True)
Facts_contra = TypeVar("Facts_contra", contravariant=True)


class Step(Struct, Generic[Status, Action], frozen=True):
    """The outcome of a step.

    Attributes:
        status: as it is now.
        action: what to do about the attempt's object, at most one thing.
        uid: of the object to delete.
        wake_at: when to step again even if nothing is seen to change.
    """

    status: Status
    action: Action | None = None
    uid: str | None = None
    wake_at: datetime | None = None


class Advance(Protocol[Status, Action, Object_contra, Facts_contra]):
    """One step of a state machine."""

    def __call__(
        self, status: Status, seen: Object_contra | None, facts: Facts_contra, /, *, persisted: bool
    ) -> Step[Status, Action]:
        """Return the status as it is after the step."""


def follow(
    advance: Advance[Status, Action, Object_contra, Facts_contra],
    status: Status,
    seen: Object_contra | None,
    facts: Facts_contra,
    *,
    persisted: bool,
) -> Step[Status, Action]:
    """Advance until nothing changes any more, or a new attempt begins.

    Args:
        advance: makes one step.
        status: as last decided.
        seen: the attempt's object, None if it is not there.
        facts: what else the decision depends on.
        persisted: whether the API server has the status as given; what changes here is not persisted yet.
    """
    while True:
        step = advance(status, seen, facts, persisted=persisted)
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
