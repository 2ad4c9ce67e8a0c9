"""Everything that can happen in a run, as values. All times are seconds since the epoch.

`run`, `progress`, `target` and `watch` post events to the store; `transitions.advance` applies them to the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frameworkdemo.picture.objects import FrameworkInfo, PodInfo, RosterInfo, TaskKey


@dataclass(frozen=True)
class RunPlanned:
    """A run begins; `steps` are the names of the steps that it will take."""

    at: float
    steps: tuple[str, ...]


@dataclass(frozen=True)
class StepStarted:
    """A step has begun."""

    at: float
    step: str


@dataclass(frozen=True)
class StepEnded:
    """A step has ended; `ok` says whether it succeeded."""

    at: float
    step: str
    ok: bool = True


@dataclass(frozen=True)
class PartStarted:
    """A part of the running step has begun, for example the build of one program."""

    at: float
    part: str


@dataclass(frozen=True)
class PartProgressed:
    """A part still runs; `detail` says what it is doing, and may be empty."""

    at: float
    part: str
    detail: str


@dataclass(frozen=True)
class PartEnded:
    """A part has ended; `ok` says whether it succeeded."""

    at: float
    part: str
    ok: bool = True


@dataclass(frozen=True)
class Notice:
    """A message for the person who watches."""

    text: str


@dataclass(frozen=True)
class FrameworkApplied:
    """The Framework was sent to the API server; milestones count from here."""

    at: float
    name: str
    tasks: tuple[TaskKey, ...]


@dataclass(frozen=True)
class FrameworkObserved:
    """The watch showed a version of the Framework."""

    at: float
    framework: FrameworkInfo


@dataclass(frozen=True)
class PodObserved:
    """The watch showed a version of a Pod of the Framework."""

    at: float
    pod: PodInfo


@dataclass(frozen=True)
class PodDeleted:
    """The watch showed that a Pod of the Framework was deleted; `pod` is its last version."""

    at: float
    pod: PodInfo


@dataclass(frozen=True)
class RosterObserved:
    """The watch showed a version of the roster."""

    at: float
    roster: RosterInfo


@dataclass(frozen=True)
class LogLine:
    """A container of a Pod wrote a line: the barrier if `barrier` is set, else the application."""

    at: float
    key: TaskKey
    uid: str
    barrier: bool
    text: str


StepEvent = StepStarted | StepEnded | PartStarted | PartProgressed | PartEnded
"""An event of a step or of a part of one."""

GangEvent = FrameworkApplied | FrameworkObserved | PodObserved | PodDeleted | RosterObserved | LogLine
"""An event of the Framework, its Pods or their logs."""

Event = RunPlanned | Notice | StepEvent | GangEvent
