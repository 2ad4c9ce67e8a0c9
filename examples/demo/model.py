"""What is known of a run, and how each event changes it. Nothing here reads a clock, draws or talks to anybody.

Milestones are derived, never stored: each Task keeps when it was seen to get somewhere, and the gang is there when its
last Task is.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from demo import events
from demo.facts import Completion, FrameworkFact, PodFact, RosterFact, Stage, TaskKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STARTED = "training started"
"""What the example's chief prints after its first step."""

LOG_LINES_KEPT = 60
"""Of each container, for the panel and for the report of a failure."""


class Progress(enum.Enum):
    """How far a step or a part of one is."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Span:
    """A step, or a part of one (then `step` names what it is a part of). `told` is when it last gave a sign of life."""

    name: str
    progress: Progress = Progress.PLANNED
    began: float = 0.0
    ended: float = 0.0
    told: float = 0.0
    detail: str = ""
    step: str = ""

    def seconds(self, now: float) -> float:
        """Return how long it took, or has taken so far."""
        match self.progress:
            case Progress.PLANNED:
                return 0.0
            case Progress.RUNNING:
                return max(0.0, now - self.began)
            case Progress.DONE | Progress.FAILED:
                return self.ended - self.began


@dataclass(frozen=True)
class Task:
    """A Task with its present Pod.

    Attributes:
        state: The TaskState of the Framework's status, empty before there is one.
        completion: Its end, once the status tells it.
        pod: The Pod as last seen, kept when it is gone.
        created: When its Pod was first seen.
        addressed: When its Pod was first seen with an IP.
        passed: When its barrier was first seen to have ended well.
        barrier_spoke: When its barrier wrote its last line, by the line's own time stamp.
        log: The last lines of the application.
        barrier_log: The last lines of the barrier.
    """

    state: str = ""
    completion: Completion | None = None
    pod: PodFact | None = None
    gone: bool = False
    created: float | None = None
    addressed: float | None = None
    passed: float | None = None
    barrier_spoke: float | None = None
    log: tuple[str, ...] = ()
    barrier_log: tuple[str, ...] = ()

    @property
    def opened(self) -> float | None:
        """When its barrier let it through.

        The barrier's last line says so to the millisecond; the Pod's status comes up to a second later, and its own
        time has whole seconds only.
        """
        if self.passed is None or self.barrier_spoke is None:
            return self.passed
        return min(self.passed, self.barrier_spoke)


@dataclass(frozen=True)
class Demo:
    """The whole run so far. `applied` is None until the Framework was sent."""

    began: float = 0.0
    steps: tuple[Span, ...] = ()
    works: tuple[Span, ...] = ()
    said: str = ""
    framework_name: str = ""
    applied: float | None = None
    framework: FrameworkFact | None = None
    roster: RosterFact | None = None
    tasks: Mapping[TaskKey, Task] = field(default_factory=dict)
    started: float | None = None
    completed: float | None = None

    @property
    def finished(self) -> bool:
        """Whether the Framework is Completed, well or not."""
        return self.framework is not None and self.framework.state == "Completed"

    @property
    def succeeded(self) -> bool:
        """Whether the Framework is Completed and Succeeded."""
        completion = self.framework.completion if self.framework else None
        return self.finished and completion is not None and completion.succeeded

    @property
    def retries(self) -> int:
        """How often the whole gang was started again."""
        return self.framework.attempt if self.framework else 0

    @property
    def created(self) -> float | None:
        """When the last Pod was created."""
        return self._last(lambda task: task.created)

    @property
    def addressed(self) -> float | None:
        """When the last Pod had its IP."""
        return self._last(lambda task: task.addressed)

    @property
    def opened(self) -> float | None:
        """When the last barrier let its Pod through."""
        return self._last(lambda task: task.opened)

    @property
    def gang(self) -> tuple[int, int]:
        """How many Tasks are ready, of how many: as the controller counts if it does, else as the Pods show."""
        seen = sum(task.addressed is not None for task in self.tasks.values())
        if self.roster is not None and self.roster.total == len(self.tasks):
            return max(self.roster.ready, seen), len(self.tasks)
        return seen, len(self.tasks)

    @property
    def chief(self) -> TaskKey | None:
        """The Task whose log is shown: the chief if there is one, else the first."""
        return next((key for key in self.tasks if key.role == "chief"), next(iter(self.tasks), None))

    def step(self, name: str) -> Span | None:
        """Return a step by its name."""
        return next((step for step in self.steps if step.name == name), None)

    def _last(self, when: Callable[[Task], float | None]) -> float | None:
        times = [when(task) for task in self.tasks.values()]
        known = [time for time in times if time is not None]
        return max(known) if known and len(known) == len(times) else None


def advance(demo: Demo, event: events.Event) -> Demo:
    """Return what is known after an event. Events of Tasks that nobody expects change nothing."""
    match event:
        case events.Planned():
            return Demo(began=event.at, steps=tuple(Span(name) for name in event.steps))
        case events.Said():
            return replace(demo, said=event.text)
        case events.StepBegan() | events.StepEnded() | events.WorkBegan() | events.WorkTold() | events.WorkEnded():
            return _spans_changed(demo, event)
        case _:
            return _gang_changed(demo, event)


def _spans_changed(demo: Demo, event: events.SpanEvent) -> Demo:
    match event:
        case events.StepBegan():
            return replace(demo, steps=_begin(demo.steps, event.step, event.at, ""))
        case events.StepEnded():
            return replace(demo, steps=_end(demo.steps, event.step, event.at, ok=event.ok))
        case events.WorkBegan():
            running = next((step.name for step in demo.steps if step.progress is Progress.RUNNING), "")
            return replace(demo, works=_begin(demo.works, event.work, event.at, running))
        case events.WorkTold():
            return replace(demo, works=tuple(_tell(work, event) for work in demo.works))
        case events.WorkEnded():
            return replace(demo, works=_end(demo.works, event.work, event.at, ok=event.ok))


def _gang_changed(demo: Demo, event: events.GangEvent) -> Demo:
    match event:
        case events.Applied():
            tasks = {key: Task() for key in event.tasks}
            return replace(demo, applied=event.at, framework_name=event.name, tasks=tasks)
        case events.FrameworkSeen():
            return _framework_seen(demo, event)
        case events.RosterSeen():
            return replace(demo, roster=event.fact)
        case events.PodSeen() | events.PodGone():
            return _pod_seen(demo, event)
        case events.Logged():
            return _logged(demo, event)


def _begin(spans: tuple[Span, ...], name: str, at: float, step: str) -> tuple[Span, ...]:
    fresh = Span(name, Progress.RUNNING, began=at, told=at, step=step)
    if any(span.name == name for span in spans):
        return tuple(fresh if span.name == name else span for span in spans)
    return (*spans, fresh)


def _tell(work: Span, event: events.WorkTold) -> Span:
    if work.name != event.work or work.progress is not Progress.RUNNING:
        return work
    return replace(work, told=event.at, detail=event.detail)


def _end(spans: tuple[Span, ...], name: str, at: float, *, ok: bool) -> tuple[Span, ...]:
    progress = Progress.DONE if ok else Progress.FAILED
    return tuple(
        replace(span, progress=progress, ended=at, detail="")
        if span.name == name and span.progress is Progress.RUNNING
        else span
        for span in spans
    )


def _framework_seen(demo: Demo, event: events.FrameworkSeen) -> Demo:
    before, fact = demo.framework, event.fact
    if before is not None and before.uid == fact.uid and fact.attempt > before.attempt:
        # A new attempt is a new gang: what the old one reached does not count for it. Its Pods may have been seen
        # already, because they come by another watch.
        kept = {k: t if t.pod is not None and t.pod.attempt >= fact.attempt else Task() for k, t in demo.tasks.items()}
        demo = replace(demo, tasks=kept, roster=None, started=None)
    tasks = {
        key: replace(task, state=fact.tasks[key].state, completion=fact.tasks[key].completion)
        if key in fact.tasks
        else task
        for key, task in demo.tasks.items()
    }
    demo = replace(demo, framework=fact, tasks=tasks)
    return replace(demo, completed=event.at) if demo.finished and demo.completed is None else demo


def _pod_seen(demo: Demo, event: events.PodSeen | events.PodGone) -> Demo:
    fact, gone = event.fact, isinstance(event, events.PodGone)
    task = demo.tasks.get(fact.key)
    if task is None or (gone and (task.pod is None or task.pod.uid != fact.uid)):
        return demo
    if task.pod is not None and task.pod.uid != fact.uid:
        task = Task(state=task.state)
    task = replace(
        task,
        pod=fact,
        gone=gone,
        created=_first(task.created, event.at, reached=True),
        addressed=_first(task.addressed, event.at, reached=bool(fact.ip)),
        passed=_first(task.passed, event.at, reached=fact.barrier is Stage.DONE),
    )
    return replace(demo, tasks={**demo.tasks, fact.key: task})


def _first(known: float | None, now: float, *, reached: bool) -> float | None:
    return now if known is None and reached else known


def _logged(demo: Demo, event: events.Logged) -> Demo:
    task = demo.tasks.get(event.key)
    if task is None or (task.pod is not None and task.pod.uid != event.uid):
        return demo
    if event.barrier:
        log = (*task.barrier_log, event.text)[-LOG_LINES_KEPT:]
        task = replace(task, barrier_log=log, barrier_spoke=event.at)
    else:
        task = replace(task, log=(*task.log, event.text)[-LOG_LINES_KEPT:])
        if event.key == demo.chief and demo.started is None and STARTED in event.text:
            demo = replace(demo, started=event.at)
    return replace(demo, tasks={**demo.tasks, event.key: task})
