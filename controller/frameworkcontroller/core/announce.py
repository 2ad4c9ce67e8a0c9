"""What a person who looks at a Framework should be told: the Events, as values, from what has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.states import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frameworkcontroller.api.types import FrameworkCompletion, FrameworkStatus, Pod, TaskCompletion, TaskStatus

    from .roster import Absentee

NAMED: Final = 3
"""So many Tasks are named in a sentence; the rest is counted."""


@dataclass(frozen=True)
class Announcement:
    """One Event: ``reason`` in CamelCase for machines, ``message`` for people."""

    reason: str
    message: str
    warning: bool = False


def of_framework(before: FrameworkStatus, after: FrameworkStatus) -> Iterator[Announcement]:
    """What a change of the Framework's own part says."""
    attempt = after.attempt_status.id
    if before.state is not after.state:
        if after.state is State.CREATION_REQUESTED:
            yield Announcement("AttemptStarted", f"Attempt {attempt} has started")
        elif after.state is State.RUNNING:
            yield Announcement("AttemptRunning", f"Attempt {attempt}: the first Task runs")
        elif after.state is State.COMPLETED and after.completion is not None:
            failed = after.completion.type.name == TypeName.FAILED
            reason = "FrameworkFailed" if failed else "FrameworkSucceeded"
            yield Announcement(reason, f"Attempt {attempt}: {_why(after.completion)}", failed)
    delay = after.retry_policy_status.retry_delay_sec
    if delay is not None and before.retry_policy_status.retry_delay_sec is None and after.completion is not None:
        yield Announcement(
            "AttemptRetried", f"Attempt {attempt}: {_why(after.completion)}; retried in {delay} s", warning=True
        )


def of_task(role: str, before: TaskStatus, after: TaskStatus) -> Iterator[Announcement]:
    """What a change of a Task says. Ends that follow from somebody's wish are told of the Framework only."""
    name = f"{role}-{after.index}"
    ended = before.completion
    if after.attempt_status.id > before.attempt_status.id and ended is not None:
        text = f"{name}: {_why(ended)}; retried as attempt {after.attempt_status.id}"
        yield Announcement("TaskRetried", text, warning=True)
    elif (
        before.state is not after.state
        and after.state is State.COMPLETED
        and ended is not None
        and ended.type.name == TypeName.FAILED
        and not -299 < ended.code <= -210
    ):
        yield Announcement("TaskFailed", f"{name}: {_why(ended)}", warning=True)


def of_rescale(role: str, before: int, after: int) -> Announcement:
    """Another number of Tasks is wanted."""
    return Announcement("Rescaled", f"TaskRole {role}: from {before} to {after} Tasks")


def of_gang(total: int, seconds: float) -> Announcement:
    """All Tasks have found each other."""
    return Announcement("GangReady", f"All {total} Tasks are ready after {seconds:.0f} s")


def of_absentees(ready: int, total: int, absentees: Sequence[Absentee], seconds: float) -> Announcement:
    """The gang waits for somebody."""
    named = "; ".join(f"{absentee.task}: {absentee.why}" for absentee in absentees[:NAMED])
    more = total - ready - min(len(absentees), NAMED)
    rest = f" and {more} more" if more > 0 else ""
    text = f"{ready}/{total} Tasks are ready after {seconds:.0f} s, not {named}{rest}"
    return Announcement("GangWaiting", text, warning=True)


def of_unguarded(pod: Pod) -> Announcement | None:
    """A Pod that asked for the barrier and came without it: its application does not wait for its peers."""
    asked = pod.metadata.labels.get(names.BARRIER_LABEL) == "enabled"
    if not asked or any(container.name == names.BARRIER_CONTAINER for container in pod.spec.init_containers):
        return None
    text = (
        f"Pod {pod.metadata.name} carries the label {names.BARRIER_LABEL} and has no barrier: "
        "was the injector's webhook registered when it was created?"
    )
    return Announcement("BarrierMissing", text, warning=True)


def of_trouble(about: str, message: str) -> Announcement:
    """Something could not be done and is tried again."""
    return Announcement("FailedCreate", f"{about}: {message}", warning=True)


def _why(completion: TaskCompletion | FrameworkCompletion) -> str:
    text = completion.diagnostics if len(completion.diagnostics) <= 400 else f"{completion.diagnostics[:400]}..."
    return f"{completion.phrase} ({completion.code}): {text}"
