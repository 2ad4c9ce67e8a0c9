"""How long a process has been silent, and which silence is too long for it, learned from its own steps. Pure."""

import math
from collections import deque
from dataclasses import dataclass

from frameworkbarrier.health.report import Report

KNOWN = 10
"""So many durations are needed before a limit is learned."""
WINDOW = 256
SECTIONS = 16
"""Sections that have limits of their own; all others together have one more."""
FORGETS = 0.9995
"""A long silence that has ended by itself counts half after 1,386 others."""
AGAIN = 1.5
"""A hang takes so many times as long as that."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Which silence is a hang, in seconds."""

    floor: float
    """Less never is."""
    factor: float
    """So many times the 99th percentile of the durations that are known."""
    first: float
    """As long as too few are known."""


class Section:
    """The durations of steps in one section of a program, or of the section itself where it ends without a step."""

    def __init__(self) -> None:
        self._durations: deque[float] = deque(maxlen=WINDOW)
        self._longest = 0.0

    def learn(self, seconds: float) -> None:
        """Take in how long one has taken."""
        self._durations.append(seconds)
        self._longest = max(seconds, self._longest * FORGETS)

    def limit(self, limits: Limits) -> float:
        """Return the seconds of silence above which it hangs."""
        known = sorted(self._durations)
        if len(known) < KNOWN:
            return limits.first
        percentile = known[math.ceil(len(known) * 0.99) - 1]
        return max(limits.floor, limits.factor * percentile, AGAIN * self._longest)


class Pulse:
    """One process. Times are of any steady clock, in seconds."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits, self.last = limits, Report()
        self.moved_at = self.lived_at = now
        """Its last step or change of section, and its last sign of life."""
        self.saved_at: float | None = None
        """Its last checkpoint, as far as it was seen."""
        self._sections: dict[str, Section] = {}
        self._has_begun = False

    def hear(self, report: Report, now: float) -> None:
        """Take in what it says. How long it takes to the second word, with compiling and loading, is not learned."""
        last, self.last = self.last, report
        if report.checkpoint not in {None, last.checkpoint}:
            self.saved_at = now
        is_same = (report.step, report.section) == (last.step, last.section)
        if report.alive != last.alive or not is_same:
            self.lived_at = now
        if is_same:
            return
        grown = 1 if report.step is None or last.step is None else report.step - last.step
        if self._has_begun and grown >= 0:
            self._section(last.section).learn((now - self.moved_at) / max(grown, 1))
        self._has_begun = self._has_begun or last.step is not None
        self.moved_at = now

    def live(self, now: float) -> None:
        """Take in a sign of life without a word."""
        self.lived_at = now

    def silent(self, now: float) -> float:
        """Return how long it has been silent, in seconds. Signs of life are believed for `first` after a step."""
        since = now - self.moved_at
        return since if since > self._limits.first else min(since, now - self.lived_at)

    def limit(self) -> float:
        """Return which silence is too long now, in seconds."""
        return self._section(self.last.section).limit(self._limits)

    def _section(self, name: str) -> Section:
        if name not in self._sections and len(self._sections) >= SECTIONS:
            name = ""
        return self._sections.setdefault(name, Section())
