"""The run as plain lines, one per change: for logs, pipes and terminals that cannot do better."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demo.facts import Stage
from demo.model import Demo, Progress, Span, Task
from demo.words import clean, duration, gate, outcome, task_state

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT = 1.0
"""Parts of a step that took less, in seconds, get no line."""

LONG = 30.0
"""A part of a step that goes on gets a line each time so many seconds have passed."""


def changes(before: Demo, after: Demo, now: float) -> list[str]:
    """Return the lines that tell how `after` differs from `before`, without times in front.

    Args:
        before: What was known.
        after: What is known.
        now: Seconds since the epoch, for the durations of what goes on.
    """
    return [clean(line) for line in _changes(before, after, now)]


def _changes(before: Demo, after: Demo, now: float) -> Iterator[str]:
    if after.said and after.said != before.said:
        yield from after.said.splitlines()
    for step in after.steps:
        yield from _step(before.step(step.name), step, now)
    works = {work.name: work for work in before.works}
    for work in after.works:
        yield from _work(works.get(work.name), work, now)
    if after.applied is not None:
        yield from _framework(before, after)
        for key, task in after.tasks.items():
            yield from _task(str(key), before.tasks.get(key, Task()), task, with_log=key == after.chief)
        yield from _gang(before, after)


def _framework(before: Demo, after: Demo) -> Iterator[str]:
    if before.applied is None:
        yield f"Framework {after.framework_name} applied, {len(after.tasks)} Tasks"
    if after.retries > before.retries:
        yield f"the gang starts again, attempt {after.retries + 1}"
    if after.framework is not None and outcome(after) != outcome(before):
        yield f"Framework {after.framework_name}: {outcome(after)}"


def _task(name: str, before: Task, after: Task, *, with_log: bool) -> Iterator[str]:
    if _place(after) != _place(before):
        yield f"{name}: {_place(after)}"
    if with_log and after.log != before.log:
        yield from (f"{name} | {line}" for line in _new(before.log, after.log))


def _gang(before: Demo, after: Demo) -> Iterator[str]:
    ready, total = after.gang
    if (ready, total) != before.gang:
        yield f"gang: {ready} of {total} ready"
    if gate(after) != gate(before):
        yield gate(after)
    if after.applied is not None and after.started is not None and before.started is None:
        yield f"training started after {duration(after.started - after.applied)}"


def _step(old: Span | None, step: Span, now: float) -> Iterator[str]:
    if old is not None and old.progress is step.progress and old.began == step.began:
        return
    match step.progress:
        case Progress.RUNNING:
            yield f"{step.name} ..."
        case Progress.DONE:
            yield f"{step.name}: done in {duration(step.seconds(now))}"
        case Progress.FAILED:
            yield f"{step.name}: FAILED after {duration(step.seconds(now))}"
        case Progress.PLANNED:
            pass


def _work(old: Span | None, work: Span, now: float) -> Iterator[str]:
    if old is None:
        return
    seconds = work.seconds(now)
    if work.progress is Progress.RUNNING and (work.told - work.began) // LONG > (old.told - old.began) // LONG:
        yield f"  {work.name}: goes on, {duration(seconds)}" + (f", {work.detail}" if work.detail else "")
    elif old.progress is Progress.RUNNING and work.progress is Progress.FAILED:
        yield f"  {work.name}: FAILED after {duration(seconds)}"
    elif old.progress is Progress.RUNNING and work.progress is Progress.DONE and seconds >= SHORT:
        yield f"  {work.name}: {duration(seconds)}"


def _place(task: Task) -> str:
    """Return a Task's state with its node, address and trouble."""
    words = task_state(task)
    pod = task.pod
    if pod is None:
        return words
    if pod.node and not task.gone:
        words += f", on {pod.node}"
    if pod.ip and not task.gone:
        words += f", {pod.ip}"
    trouble = pod.reason and (pod.application is Stage.FAILED or task_state(task) in ("starting", "not scheduled"))
    return f"{words} ({pod.reason})" if trouble else words


def _new(old: tuple[str, ...], log: tuple[str, ...]) -> tuple[str, ...]:
    """Return what was appended to a log of which only the end is kept."""
    for dropped in range(len(old) + 1):
        kept = old[dropped:]
        if log[: len(kept)] == kept:
            return log[len(kept) :]
    return log
