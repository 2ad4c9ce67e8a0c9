"""A run as plain lines, one per change, for logs, pipes and simple terminals. `PlainDisplay` calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frameworkclient.text import sanitize
from frameworkdemo.picture.objects import ContainerState
from frameworkdemo.picture.state import RunState, Span, StepStatus, Task
from frameworkdemo.picture.text import describe_gate, describe_outcome, describe_task, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT = 1.0
"""The seconds that a part of a step must take to get a line at its end."""

LONG = 30.0
"""The seconds between two lines about a part that still runs."""


def describe_changes(before: RunState, after: RunState, now: float) -> list[str]:
    """Return the lines that describe how a state differs from the one before it.

    Args:
        before: The state before an event.
        after: The state after it.
        now: The time in seconds since the epoch, for the durations of what still runs.
    """
    return [sanitize(line) for line in _changes(before, after, now)]


def _changes(before: RunState, after: RunState, now: float) -> Iterator[str]:
    if after.notice and after.notice != before.notice:
        yield from after.notice.splitlines()
    for step in after.steps:
        yield from _step(before.step(step.name), step, now)
    parts = {part.name: part for part in before.parts}
    for part in after.parts:
        yield from _part(parts.get(part.name), part, now)
    if after.applied is not None:
        yield from _framework(before, after)
        for key, task in after.tasks.items():
            yield from _task(str(key), before.tasks.get(key, Task()), task, with_log=key == after.chief)
        yield from _gang(before, after)


def _framework(before: RunState, after: RunState) -> Iterator[str]:
    if before.applied is None:
        yield f"Framework {after.framework_name} applied, {len(after.tasks)} Tasks"
    if after.retries > before.retries:
        yield f"the gang starts again, attempt {after.retries + 1}"
    if after.framework is not None and describe_outcome(after) != describe_outcome(before):
        yield f"Framework {after.framework_name}: {describe_outcome(after)}"


def _task(name: str, before: Task, after: Task, *, with_log: bool) -> Iterator[str]:
    if _place(after) != _place(before):
        yield f"{name}: {_place(after)}"
    if with_log and after.log != before.log:
        yield from (f"{name} | {line}" for line in _new(before.log, after.log))


def _gang(before: RunState, after: RunState) -> Iterator[str]:
    ready, total = after.gang
    if (ready, total) != before.gang:
        yield f"gang: {ready} of {total} ready"
    if describe_gate(after) != describe_gate(before):
        yield describe_gate(after)
    if after.applied is not None and after.started is not None and before.started is None:
        yield f"training started after {format_duration(after.started - after.applied)}"


def _step(old: Span | None, step: Span, now: float) -> Iterator[str]:
    if old is not None and old.status is step.status and old.began == step.began:
        return
    match step.status:
        case StepStatus.RUNNING:
            yield f"{step.name} ..."
        case StepStatus.DONE:
            yield f"{step.name}: done in {format_duration(step.seconds(now))}"
        case StepStatus.FAILED:
            yield f"{step.name}: FAILED after {format_duration(step.seconds(now))}"
        case StepStatus.PLANNED:
            pass


def _part(old: Span | None, part: Span, now: float) -> Iterator[str]:
    if old is None:
        return
    seconds = part.seconds(now)
    if part.status is StepStatus.RUNNING and (part.updated - part.began) // LONG > (old.updated - old.began) // LONG:
        yield f"  {part.name}: goes on, {format_duration(seconds)}" + (f", {part.detail}" if part.detail else "")
    elif old.status is StepStatus.RUNNING and part.status is StepStatus.FAILED:
        yield f"  {part.name}: FAILED after {format_duration(seconds)}"
    elif old.status is StepStatus.RUNNING and part.status is StepStatus.DONE and seconds >= SHORT:
        yield f"  {part.name}: {format_duration(seconds)}"


def _place(task: Task) -> str:
    """Return a Task's state with its node, its address and the reason of a failure."""
    state, pod = describe_task(task), task.pod
    if pod is None:
        return state
    parts = [state]
    if pod.node and not task.deleted:
        parts.append(f"on {pod.node}")
    if pod.ip and not task.deleted:
        parts.append(pod.ip)
    text = ", ".join(parts)
    failed = pod.application is ContainerState.FAILED or state in ("starting", "not scheduled")
    return f"{text} ({pod.reason})" if pod.reason and failed else text


def _new(old: tuple[str, ...], log: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines that were appended to a log of which only the end is kept."""
    for dropped in range(len(old) + 1):
        kept = old[dropped:]
        if log[: len(kept)] == kept:
            return log[len(kept) :]
    return log
