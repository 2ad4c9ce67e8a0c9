"""Everything that can happen in a demo, as values. All times are seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demo.facts import FrameworkFact, PodFact, RosterFact, TaskKey


@dataclass(frozen=True)
class Planned:
    """The demo starts, and these are the steps that it will take."""

    at: float
    steps: tuple[str, ...]


@dataclass(frozen=True)
class StepBegan:
    """A step starts."""

    at: float
    step: str


@dataclass(frozen=True)
class StepEnded:
    """A step is over, well or not."""

    at: float
    step: str
    ok: bool = True


@dataclass(frozen=True)
class WorkBegan:
    """A part of the step that is under way starts, for example the build of one program."""

    at: float
    work: str


@dataclass(frozen=True)
class WorkTold:
    """Such a part still goes on; `detail` is what it is doing now, where it says so."""

    at: float
    work: str
    detail: str


@dataclass(frozen=True)
class WorkEnded:
    """Such a part is over, well or not."""

    at: float
    work: str
    ok: bool = True


@dataclass(frozen=True)
class Said:
    """A sentence for the person who watches."""

    text: str


@dataclass(frozen=True)
class Applied:
    """The Framework was sent to the API server: the clock of the summary starts here."""

    at: float
    name: str
    tasks: tuple[TaskKey, ...]


@dataclass(frozen=True)
class FrameworkSeen:
    """The Framework's status changed."""

    at: float
    fact: FrameworkFact


@dataclass(frozen=True)
class PodSeen:
    """A Pod of the Framework is new or changed."""

    at: float
    fact: PodFact


@dataclass(frozen=True)
class PodGone:
    """A Pod of the Framework is no more."""

    at: float
    fact: PodFact


@dataclass(frozen=True)
class RosterSeen:
    """The controller wrote the gang's progress."""

    at: float
    fact: RosterFact


@dataclass(frozen=True)
class Logged:
    """A line in the log of a Pod; `barrier` tells whose: the barrier's or the application's."""

    at: float
    key: TaskKey
    uid: str
    barrier: bool
    text: str


SpanEvent = StepBegan | StepEnded | WorkBegan | WorkTold | WorkEnded
"""About the steps of the demo and their parts."""

GangEvent = Applied | FrameworkSeen | PodSeen | PodGone | RosterSeen | Logged
"""About the Framework and its Pods."""

Event = Planned | Said | SpanEvent | GangEvent
