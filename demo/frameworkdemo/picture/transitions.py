"""How events change the state of a run: `RunStore.post` calls `advance` for each event, one at a time.

Pure: the functions read no clock, draw nothing and do no I/O.
"""

from __future__ import annotations

from dataclasses import replace

from frameworkdemo.picture import events
from frameworkdemo.picture.objects import ContainerState
from frameworkdemo.picture.state import RunState, Span, StepStatus, Task

STARTED = "training started"
"""The text in the chief's log that marks the start of the training; the example prints it after its first step."""

LOG_LINES_KEPT = 60
"""The number of last lines that are kept of each container's log."""


def advance(state: RunState, event: events.Event) -> RunState:
    """Return the state after an event. Events of Tasks that the spec does not ask for change nothing."""
    match event:
        case events.RunPlanned():
            return RunState(began=event.at, steps=tuple(Span(name) for name in event.steps))
        case events.Notice():
            return replace(state, notice=event.text)
        case (
            events.StepStarted()
            | events.StepEnded()
            | events.PartStarted()
            | events.PartProgressed()
            | events.PartEnded()
        ):
            return _steps_changed(state, event)
        case _:
            return _gang_changed(state, event)


def _steps_changed(state: RunState, event: events.StepEvent) -> RunState:
    match event:
        case events.StepStarted():
            return replace(state, steps=_begin(state.steps, event.step, event.at, ""))
        case events.StepEnded():
            return replace(state, steps=_end(state.steps, event.step, event.at, ok=event.ok))
        case events.PartStarted():
            running = next((step.name for step in state.steps if step.status is StepStatus.RUNNING), "")
            return replace(state, parts=_begin(state.parts, event.part, event.at, running))
        case events.PartProgressed():
            return replace(state, parts=tuple(_progressed(part, event) for part in state.parts))
        case events.PartEnded():
            return replace(state, parts=_end(state.parts, event.part, event.at, ok=event.ok))


def _gang_changed(state: RunState, event: events.GangEvent) -> RunState:
    match event:
        case events.FrameworkApplied():
            tasks = {key: Task() for key in event.tasks}
            return replace(state, applied=event.at, framework_name=event.name, tasks=tasks)
        case events.FrameworkObserved():
            return _framework_observed(state, event)
        case events.RosterObserved():
            return replace(state, roster=event.roster)
        case events.PodObserved() | events.PodDeleted():
            return _pod_observed(state, event)
        case events.LogLine():
            return _logged(state, event)


def _begin(spans: tuple[Span, ...], name: str, at: float, step: str) -> tuple[Span, ...]:
    fresh = Span(name, StepStatus.RUNNING, began=at, updated=at, step=step)
    if any(span.name == name for span in spans):
        return tuple(fresh if span.name == name else span for span in spans)
    return (*spans, fresh)


def _progressed(part: Span, event: events.PartProgressed) -> Span:
    if part.name != event.part or part.status is not StepStatus.RUNNING:
        return part
    return replace(part, updated=event.at, detail=event.detail)


def _end(spans: tuple[Span, ...], name: str, at: float, *, ok: bool) -> tuple[Span, ...]:
    status = StepStatus.DONE if ok else StepStatus.FAILED
    return tuple(
        replace(span, status=status, ended=at, detail="")
        if span.name == name and span.status is StepStatus.RUNNING
        else span
        for span in spans
    )


def _framework_observed(state: RunState, event: events.FrameworkObserved) -> RunState:
    before, framework = state.framework, event.framework
    if before is not None and before.uid == framework.uid and framework.attempt > before.attempt:
        # A new attempt is a new gang, and milestones of the old one do not count for it. The new Pods may have been
        # observed before the status, because they come by another watch.
        kept = {
            key: task if task.pod is not None and task.pod.attempt >= framework.attempt else Task()
            for key, task in state.tasks.items()
        }
        state = replace(state, tasks=kept, roster=None, started=None)
    tasks = {
        key: replace(task, state=framework.tasks[key].state, completion=framework.tasks[key].completion)
        if key in framework.tasks
        else task
        for key, task in state.tasks.items()
    }
    state = replace(state, framework=framework, tasks=tasks)
    return replace(state, completed=event.at) if state.finished and state.completed is None else state


def _pod_observed(state: RunState, event: events.PodObserved | events.PodDeleted) -> RunState:
    pod, deleted = event.pod, isinstance(event, events.PodDeleted)
    task = state.tasks.get(pod.key)
    if task is None or (deleted and (task.pod is None or task.pod.uid != pod.uid)):
        return state
    if task.pod is not None and task.pod.uid != pod.uid:
        task = Task(state=task.state)
    task = replace(
        task,
        pod=pod,
        deleted=deleted,
        created=_first(task.created, event.at, reached=True),
        addressed=_first(task.addressed, event.at, reached=bool(pod.ip)),
        barrier_passed=_first(task.barrier_passed, event.at, reached=pod.barrier is ContainerState.SUCCEEDED),
    )
    return replace(state, tasks={**state.tasks, pod.key: task})


def _first(known: float | None, now: float, *, reached: bool) -> float | None:
    return now if known is None and reached else known


def _logged(state: RunState, event: events.LogLine) -> RunState:
    task = state.tasks.get(event.key)
    if task is None or (task.pod is not None and task.pod.uid != event.uid):
        return state
    if event.barrier:
        log = (*task.barrier_log, event.text)[-LOG_LINES_KEPT:]
        task = replace(task, barrier_log=log, barrier_logged=event.at)
    else:
        task = replace(task, log=(*task.log, event.text)[-LOG_LINES_KEPT:])
        if event.key == state.chief and state.started is None and STARTED in event.text:
            state = replace(state, started=event.at)
    return replace(state, tasks={**state.tasks, event.key: task})
