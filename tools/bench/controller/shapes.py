"""The shapes of the controller's benchmark: how many Frameworks of how many Tasks, when, and what becomes of them."""

import re
from dataclasses import dataclass, replace
from enum import StrEnum

_SHAPE = re.compile(r"(?:(?P<kind>[a-z]+):)?(?P<frameworks>\d{1,6})x(?P<tasks>\d{1,5})(?:@(?P<over>\d+(?:\.\d+)?))?")
_LEAST_TASKS_OF_A_LIFE = 20
GANG = 2
"""The Tasks of the Framework that is submitted beside a large one."""


class Kind(StrEnum):
    """What happens to the Frameworks of a shape."""

    START = "start"
    """They start, run and end."""
    STEADY = "steady"
    """They arrive, run for 5 seconds, end and are deleted, all the time."""
    GROUPS = "groups"
    """As `start`, but kube-scheduler places the Pods of each together."""
    BESIDE = "beside"
    """While their Pods are created, a Framework of two Tasks is submitted."""
    LIFE = "life"
    """Half of the Tasks are retried, a tenth is removed and added again, and the Framework is stopped and deleted."""


@dataclass(frozen=True)
class Shape:
    """So many Frameworks of so many Tasks each, which arrive one after another over some seconds; 0 for all at once."""

    frameworks: int
    tasks: int
    over: float = 0.0
    kind: Kind = Kind.START

    @property
    def name(self) -> str:
        """The shape as a flag spells it."""
        kind = "" if self.kind is Kind.START else f"{self.kind}:"
        over = f"@{self.over:g}" if self.over else ""
        return f"{kind}{self.frameworks}x{self.tasks}{over}"

    @property
    def total(self) -> int:
        """The Tasks of all Frameworks."""
        return self.frameworks * self.tasks

    @property
    def pods(self) -> int:
        """The Pods of all Frameworks and of what is submitted beside them."""
        return self.total + (GANG if self.kind is Kind.BESIDE else 0)

    @property
    def run_seconds(self) -> int | None:
        """How long a Pod runs; None for ever. Pods that start together run longer than the start of all takes."""
        match self.kind:
            case Kind.START | Kind.GROUPS:
                return 30 if self.over else max(10, self.total // 60)
            case Kind.STEADY:
                return 5
            case Kind.BESIDE | Kind.LIFE:
                return None

    def scaled(self, factor: float) -> "Shape":
        """Return a smaller or larger shape: Tasks of one Framework; of many, their number at the same rate."""
        if self.frameworks > 1:
            return replace(self, frameworks=max(2, round(self.frameworks * factor)), over=self.over * factor)
        least = _LEAST_TASKS_OF_A_LIFE if self.kind is Kind.LIFE else 2
        return replace(self, tasks=max(least, round(self.tasks * factor)))


SHAPES = "1x10,1x100,1x1000,1x10000,200x10,2000x2@60,steady:3000x1@300,steady:15000x1@300,beside:1x10000,life:1x10000"
"""All shapes, as the flag spells them."""


def parse(text: str) -> Shape:
    """Return the shape of one word of the flag, or raise a ValueError that says how one looks."""
    found = _SHAPE.fullmatch(text)
    kinds = [str(kind) for kind in Kind]
    if found is None or (found["kind"] or Kind.START) not in kinds:
        raise ValueError(f"--shapes: {text!r} is not [{'|'.join(kinds)}:]FRAMEWORKSxTASKS[@SECONDS], such as 200x10")
    shape = Shape(
        int(found["frameworks"]), int(found["tasks"]), float(found["over"] or 0), Kind(found["kind"] or Kind.START)
    )
    if not shape.total:
        raise ValueError(f"--shapes: {text!r} has no Tasks")
    if shape.kind in {Kind.BESIDE, Kind.LIFE} and shape.frameworks != 1:
        raise ValueError(f"--shapes: {text!r} has several Frameworks, {shape.kind} is about one")
    if shape.kind is Kind.LIFE and shape.tasks < _LEAST_TASKS_OF_A_LIFE:
        raise ValueError(f"--shapes: {text!r} has less than {_LEAST_TASKS_OF_A_LIFE} Tasks")
    return shape
