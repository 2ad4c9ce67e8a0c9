"""How long a process has been silent, and which silence is too long for it, learned from its own steps. Pure."""

import math
from collections import deque
from dataclasses import dataclass

from frameworkbarrier.health.report import Report

KNOWN = 10
"""So many silences are needed before a limit is learned."""
WINDOW = 256
SECTIONS = 16
"""Sections that have limits of their own; all others together have one more."""
FORGETS = 0.9999
"""A long silence that has ended by itself counts half after 6,931 others."""
AGAIN = 2.0
"""A hang takes so many times as long as that."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Which silence is a hang, in seconds."""

    floor: float
    """Less never is."""
    factor: float
    """So many times the 99th percentile of the silences that are known."""
    first: float
    """As long as too few are known."""


class Section:
    """The silences in one section of a program: the longest until each step, or until the section has ended."""

    def __init__(self) -> None:
        self._silences: deque[float] = deque(maxlen=WINDOW)
        self._longest = 0.0

    def learn(self, seconds: float) -> None:
        """Take in a silence that has ended by itself."""
        self._silences.append(seconds)
        self._longest = max(seconds, self._longest * FORGETS)

    def limit(self, limits: Limits) -> float:
        """Return the seconds of silence above which it hangs."""
        known = sorted(self._silences)
        percentile = known[math.ceil(len(known) * 0.99) - 1] if known else 0.0
        least = limits.first if len(known) < KNOWN else max(limits.floor, limits.factor * percentile)
        return max(least, AGAIN * self._longest)


class Pulse:
    """One process. Times are of any steady clock, in seconds."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.limits, self.last = limits, Report()
        self.moved_at = self.lived_at = now
        """Its last step or change of section, and its last sign of life."""
        self.saved_at: float | None = None
        """Its last checkpoint, as far as it was seen."""
        self._sections: dict[str, Section] = {}
        self._longest = 0.0
        """That it has been silent since it has moved last."""
        self._has_begun = False

    def hear(self, report: Report, now: float) -> None:
        """Take in what it says. How long it takes to the second word, with compiling and loading, is not learned.

        What is learned is how long it was silent, however many steps it then tells of, and with signs of life between.
        """
        last, self.last = self.last, report
        if report.checkpoint not in {None, last.checkpoint}:
            self.saved_at = now
        is_same = (report.step, report.section) == (last.step, last.section)
        if report.alive != last.alive or not is_same:
            self.live(now)
        if is_same:
            return
        has_fallen = report.step is not None and last.step is not None and report.step < last.step
        if self._has_begun and not has_fallen:
            self._section(last.section).learn(self._longest)
        self._has_begun = self._has_begun or last.step is not None
        self.moved_at, self._longest = now, 0.0

    def live(self, now: float) -> None:
        """Take in a sign of life without a word."""
        self._longest = max(self._longest, self.silent(now))
        self.lived_at = now

    def silent(self, now: float) -> float:
        """Return how long it has been silent, in seconds. Signs of life are believed for `first` after a step."""
        since = now - self.moved_at
        return since if since > self.limits.first else min(since, now - self.lived_at)

    def limit(self) -> float:
        """Return which silence is too long now, in seconds."""
        return self._section(self.last.section).limit(self.limits)

    def _section(self, name: str) -> Section:
        if name not in self._sections and len(self._sections) >= SECTIONS:
            name = ""
        return self._sections.setdefault(name, Section())
