"""The state of a run: its steps, its Framework, its Tasks. `transitions` changes it, the display and `summary` read it.

Milestones of the gang are derived, not stored: each Task keeps the times at which it was first observed to reach them,
and the gang has reached a milestone when its last Task has.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from frameworkdemo.picture.objects import Completion, FrameworkInfo, PodInfo, RosterInfo, TaskKey


class StepStatus(enum.Enum):
    """The status of a step or of a part of one."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Span:
    """A step, or a part of a step.

    Attributes:
        name: Its name.
        status: Its status.
        began: When it began.
        ended: When it ended.
        updated: When it last reported progress.
        detail: What it is doing.
        step: For a part, the name of its step; else empty.
    """

    name: str
    status: StepStatus = StepStatus.PLANNED
    began: float = 0.0
    ended: float = 0.0
    updated: float = 0.0
    detail: str = ""
    step: str = ""

    def seconds(self, now: float) -> float:
        """Return its duration until its end, or until `now`."""
        match self.status:
            case StepStatus.PLANNED:
                return 0.0
            case StepStatus.RUNNING:
                return max(0.0, now - self.began)
            case StepStatus.DONE | StepStatus.FAILED:
                return self.ended - self.began


@dataclass(frozen=True)
class Task:
    """A Task with its current Pod.

    Attributes:
        state: The TaskState in the Framework's status; empty while the status has none.
        completion: The completion in the Framework's status.
        pod: The last version of its Pod, also after the deletion.
        deleted: Whether the Pod is deleted.
        created: When its Pod was first observed.
        addressed: When its Pod was first observed with an IP.
        barrier_passed: When its Pod was first observed with a barrier that exited with 0.
        barrier_logged: When its barrier wrote its last line, by the timestamp of the line.
        log: The last lines of the application.
        barrier_log: The last lines of the barrier.
    """

    state: str = ""
    completion: Completion | None = None
    pod: PodInfo | None = None
    deleted: bool = False
    created: float | None = None
    addressed: float | None = None
    barrier_passed: float | None = None
    barrier_logged: float | None = None
    log: tuple[str, ...] = ()
    barrier_log: tuple[str, ...] = ()

    @property
    def opened(self) -> float | None:
        """When its barrier released it.

        The timestamp of the barrier's last line is exact to the millisecond. The Pod's status arrives up to a second
        later, and its own times have whole seconds only.
        """
        if self.barrier_passed is None or self.barrier_logged is None:
            return self.barrier_passed
        return min(self.barrier_passed, self.barrier_logged)


@dataclass(frozen=True)
class RunState:
    """A run so far.

    Attributes:
        began: When it began.
        steps: Its steps, in order.
        parts: The parts of its steps, in order.
        notice: The last message for the person who watches.
        framework_name: The name of the Framework.
        applied: When the Framework was sent to the API server; None before.
        framework: The last version of the Framework.
        roster: The last version of the roster.
        tasks: The Tasks that the Framework's spec asks for.
        started: When the training started.
        completed: When the Framework was first observed to be Completed.
    """

    began: float = 0.0
    steps: tuple[Span, ...] = ()
    parts: tuple[Span, ...] = ()
    notice: str = ""
    framework_name: str = ""
    applied: float | None = None
    framework: FrameworkInfo | None = None
    roster: RosterInfo | None = None
    tasks: Mapping[TaskKey, Task] = field(default_factory=dict)
    started: float | None = None
    completed: float | None = None

    @property
    def finished(self) -> bool:
        """Whether the Framework is Completed, whatever its result."""
        return self.framework is not None and self.framework.state == "Completed"

    @property
    def succeeded(self) -> bool:
        """Whether the Framework is Completed and Succeeded."""
        completion = self.framework.completion if self.framework else None
        return self.finished and completion is not None and completion.succeeded

    @property
    def retries(self) -> int:
        """How often the Framework was retried."""
        return self.framework.attempt if self.framework else 0

    @property
    def created(self) -> float | None:
        """When the last Pod was first observed; None before."""
        return self._last(lambda task: task.created)

    @property
    def addressed(self) -> float | None:
        """When the last Pod was first observed with an IP; None before."""
        return self._last(lambda task: task.addressed)

    @property
    def opened(self) -> float | None:
        """When the last barrier released its Pod; None before."""
        return self._last(lambda task: task.opened)

    @property
    def gang(self) -> tuple[int, int]:
        """The number of ready Tasks and of all Tasks: from the roster if it counts all Tasks, else from the Pods."""
        seen = sum(task.addressed is not None for task in self.tasks.values())
        if self.roster is not None and self.roster.total == len(self.tasks):
            return max(self.roster.ready, seen), len(self.tasks)
        return seen, len(self.tasks)

    @property
    def chief(self) -> TaskKey | None:
        """The Task whose log is shown: the chief if there is one, else the first."""
        return next((key for key in self.tasks if key.role == "chief"), next(iter(self.tasks), None))

    def step(self, name: str) -> Span | None:
        """Return the step of that name; None if there is none."""
        return next((step for step in self.steps if step.name == name), None)

    def _last(self, when: Callable[[Task], float | None]) -> float | None:
        times = [when(task) for task in self.tasks.values()]
        known = [time for time in times if time is not None]
        return max(known) if known and len(known) == len(times) else None
