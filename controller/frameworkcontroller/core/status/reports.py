"""What has happened to a Framework and is still to be reported.

A pass adds reports while the state changes. At its end the reconciler takes those that are due, and hands them to the
engine in a `Decision`: clients see no Event before the status that it speaks of.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkStatus, GangRestart, Hang, TaskStatus
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.pods.snapshots import Snapshot

MOST_EVENTS: Final = 100
"""Events of a Framework that wait for a write of its status; of many, the recorder writes the first 25."""


@dataclass(frozen=True)
class Transition:
    """A decided change of state, for logs and metrics."""

    kind: str
    """`framework` or `task`."""
    subject: str
    """The Framework's name or the name of the Task's Pod."""
    before: State
    after: State
    reason: str = ""
    """The phrase of the completion, "" if the attempt has not ended."""
    code: int | None = None
    """Of the completion, None if the attempt has not ended."""


@dataclass(frozen=True)
class Milestone:
    """A point that the start of a gang has reached, so many `seconds` after its ConfigMap was created.

    The `seconds` of the phase `released` begin when all of its Pods were addressed.
    """

    phase: str
    seconds: float


Report: TypeAlias = Transition | KubeEvent | Milestone | GangRestart | Hang | Snapshot
"""What is told to people and metrics: a `GangRestart` as it ends an epoch, a `Hang` as it becomes known, each
of the others as its class says."""


class Reports:
    """The reports that are not taken yet, each with the revision that has to be persisted before."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Report]] = []
        self._events = 0
        """How many of them are Events."""

    @property
    def is_empty(self) -> bool:
        """Whether everything was taken."""
        return not self._waiting

    def add(self, report: Report, revision: int = 0) -> None:
        """Report this once the revision is persisted, 0 for at once.

        A status may wait for its turn for minutes, while each edit of the spec brings an Event for each TaskRole: those
        beyond `MOST_EVENTS` are left out.
        """
        if isinstance(report, KubeEvent) and revision:
            if self._events >= MOST_EVENTS:
                return
            self._events += 1
        self._waiting.append((revision, report))

    def take(self, persisted: int) -> list[Report]:
        """Return what is due when this revision is persisted, each report once."""
        due = [report for revision, report in self._waiting if revision <= persisted]
        self._waiting = [(revision, report) for revision, report in self._waiting if revision > persisted]
        self._events = sum(isinstance(report, KubeEvent) for _, report in self._waiting)
        return due


def transition(
    kind: str, subject: str, before: FrameworkStatus | TaskStatus, after: FrameworkStatus | TaskStatus
) -> Transition:
    """Return the report of a change of state."""
    end = after.completion
    reason, code = (end.phrase, end.code) if end is not None else ("", None)
    return Transition(kind, subject, before.state, after.state, reason, code)
