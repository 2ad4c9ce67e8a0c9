"""Measures what code costs: CPU time in units of this machine, memory by tracemalloc, requests by counting.

A `Target` makes a `Case` of a genome. The case is played step by step: a step is what runs in one turn of the event
loop, and only steps are measured; what happens between them is the world's. Each play begins anew, so that a cost that
is beyond its bound can be measured again, and the least counts: other processes can only add to it.
"""

import gc
import random
import signal
import time
import tracemalloc
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol, TypeAlias

import msgspec

MIB = 1024 * 1024
Genome: TypeAlias = Mapping[str, Any]
"""What an input is made of, as a JSON object: numbers and short texts, never the input itself."""
Step: TypeAlias = Callable[[], object]
Play: TypeAlias = Generator[Step, Any, None]
"""Yields each step and is sent what it returned."""
OVERDUE_SECONDS = 10.0
"""Of CPU time: a step that takes so long is stopped, and this counts as its cost."""
DOCUMENT = msgspec.json.encode(
    [{"name": f"worker-{number}", "tasks": [[1, "10.0.0.1", None]] * 4} for number in range(500)]
)
"""What a unit is made of."""


class OverdueError(Exception):
    """A step has used up its CPU time."""


@dataclass(frozen=True)
class Size:
    """What a cost is compared with: the bytes as the API server or a container sends them, and what is asked for.

    Items are TaskRoles, Tasks, dependencies, Pods, chunks.
    """

    bytes: int
    items: int = 0


@dataclass
class Cost:
    """What an input cost.

    Attributes:
        units: The CPU time of the longest step; a unit is about a millisecond.
        peak: The most bytes that were held during a step, the world's included.
        requests: How many requests were asked for.
    """

    units: float = 0.0
    peak: int = 0
    requests: int = 0


@dataclass(frozen=True)
class Bound:
    """What an input may cost: each is a constant, and so much for each KiB or byte and for each item."""

    units: tuple[float, float, float]
    peak: tuple[int, float, int]
    requests: tuple[int, int] = (0, 0)

    def of(self, size: Size) -> Cost:
        """Return the most that an input of this size may cost."""
        units, per_kib, per_item = self.units
        peak, per_byte, peak_per_item = self.peak
        requests, requests_per_item = self.requests
        return Cost(
            units + per_kib * size.bytes / 1024 + per_item * size.items,
            int(peak + per_byte * size.bytes + peak_per_item * size.items),
            requests + requests_per_item * size.items,
        )


class Case(Protocol):
    """An input, ready to be played; its size, the name of its bound and its requests are known after the last play."""

    bound: str
    requests: int

    @property
    def size(self) -> Size:
        """Its bytes and items."""

    def play(self) -> Play:
        """Play it from the beginning."""


class Target(Protocol):
    """A part of a program, and the inputs that it gets."""

    name: str

    def seeds(self) -> Mapping[str, Genome]:
        """Return inputs that were costly once, by what they are."""

    def mutated(self, genome: Genome, draw: random.Random) -> Genome:
        """Return a genome that differs a little."""

    def case(self, genome: Genome) -> Case | None:
        """Return the input, None if it is larger than any that gets in."""


@dataclass(frozen=True)
class Measured:
    """An input, with what it cost and may cost."""

    size: Size
    cost: Cost
    bound: Cost

    @property
    def faults(self) -> list[str]:
        """What is beyond the bound."""
        cost, bound = self.cost, self.bound
        found = [
            ("units of CPU time in one step", cost.units, bound.units),
            ("MiB of memory", cost.peak / MIB, bound.peak / MIB),
            ("requests", cost.requests, bound.requests),
        ]
        return [f"{is_:,.1f} {what}, at most {most:,.1f}" for what, is_, most in found if is_ > most]

    def __str__(self) -> str:
        return (
            f"{self.size.bytes / 1024:,.0f} KiB, {self.size.items:,} items: {self.cost.units:,.1f} units "
            f"(<= {self.bound.units:,.1f}), {self.cost.peak / MIB:,.1f} MiB (<= {self.bound.peak / MIB:,.1f}), "
            f"{self.cost.requests:,} requests (<= {self.bound.requests:,})"
        )


def unit_seconds() -> float:
    """Return the CPU time of one unit on this machine at this moment, in seconds."""
    times = []
    for _ in range(5):
        begun = time.thread_time()
        for _ in range(2):
            rows = msgspec.json.decode(DOCUMENT)
            # Half of it is bytecode, as it is in what is measured.
            _ = [(row["name"], len(task)) for row in rows for task in row["tasks"]]
            msgspec.json.encode(rows)
        times.append((time.thread_time() - begun) / 2)
    return min(times)


def measure(case: Case, bounds: Mapping[str, Bound], tries: int = 6) -> Measured:
    """Play a case and return its cost; CPU time beyond its bound is believed only after so many tries."""
    before = signal.signal(signal.SIGPROF, _stop)
    try:
        units = _units(case)
        for _ in range(tries - 1):
            if units <= bounds[case.bound].of(case.size).units:
                break
            units = min(units, _units(case))
        peak = _peak(case)
    finally:
        signal.signal(signal.SIGPROF, before)
    return Measured(case.size, Cost(units, peak, case.requests), bounds[case.bound].of(case.size))


def _units(case: Case) -> float:
    gc.collect()
    # What the tests have loaded is no part of the process that is measured.
    gc.freeze()
    try:
        return _longest(case)
    finally:
        gc.unfreeze()


def _longest(case: Case) -> float:
    unit, longest = unit_seconds(), 0.0
    play, result = case.play(), None
    try:
        while True:
            step = play.send(result)
            begun = time.thread_time()
            result = _limited(step)
            longest = max(longest, time.thread_time() - begun)
    except StopIteration:
        pass
    except OverdueError:
        longest = OVERDUE_SECONDS
        play.close()
    return longest / min(unit, unit_seconds())


def _peak(case: Case) -> int:
    most = 0
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        play, result = case.play(), None
        while True:
            step = play.send(result)
            tracemalloc.reset_peak()
            result = _limited(step, slower=6)
            most = max(most, tracemalloc.get_traced_memory()[1] - before)
    except (StopIteration, OverdueError):
        return most
    finally:
        tracemalloc.stop()


def _limited(step: Step, slower: int = 1) -> object:
    """Call a step, and stop it when its CPU time is used up."""
    signal.setitimer(signal.ITIMER_PROF, OVERDUE_SECONDS * slower)
    try:
        return step()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise OverdueError
