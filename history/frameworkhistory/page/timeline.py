"""The time line of a Framework: from rows of the archive to lanes of bars. Pure; `timeline.html` draws it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from frameworkclient.views.ledger import SIGNS
from frameworkclient.views.text import duration, shorten
from frameworkhistory.page.render import stamp

LANES: Final = 60  # of Tasks
BARS: Final = 100  # of a lane: the newest of them
LEFT, WIDTH = 130, 1000
"""Where the time begins and ends, in units of the picture."""
_TICKS: Final = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)
"""Seconds between two marks, of which there are at most eight."""
_RESULTS: Final = {"Succeeded": ("r-good", "+"), "Failed": ("r-bad", "x")}
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Bar:
    """A part of a lane; `kind` is its class."""

    x: float
    width: float
    kind: str
    title: str
    sign: str = ""


@dataclass
class Picture:
    """Lanes over a time, in seconds since 1970: each has a name, its bars, and what is written on it."""

    began: float
    ended: float
    lanes: list[tuple[str, list[Bar], str]] = field(default_factory=list)
    gaps: list[Bar] = field(default_factory=list)

    @property
    def kinds(self) -> set[str]:
        """The kinds of all bars, for the legend."""
        return {bar.kind for _, bars, _ in self.lanes for bar in bars}

    @property
    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield where the marks are, and their times since the beginning."""
        whole = self.ended - self.began
        step = next((one for one in _TICKS if whole / one <= 8), whole / 8)
        for number in range(int(whole / step) + 1):
            yield self.place(self.began + number * step), f"+{duration(number * step)}"

    def place(self, time: float) -> float:
        """Return where a time is."""
        part = (time - self.began) / (self.ended - self.began)
        return round(LEFT + (WIDTH - LEFT) * min(max(part, 0.0), 1.0), 1)

    def bar(self, start: float | None, end: float | None, kind: str, what: str, sign: str = "") -> Iterator[Bar]:
        """Yield a bar if it is in the picture; without an end it goes on."""
        until = self.ended if end is None else end
        if start is not None and until >= self.began and start <= self.ended:
            x = self.place(start)
            width = max(round(self.place(until) - x, 1), 1.0)
            title = f"{shorten(what, 80)}: {stamp(start)} UTC, {duration(until - start)}"
            yield Bar(x, width, kind, title if end is not None else f"{title}, goes on", sign if width >= 10 else "")

    def add(self, name: str, bars: Iterable[Iterator[Bar]], note: str = "") -> None:
        """Add a lane, if there is something in it."""
        found = [bar for each in bars for bar in each]
        if left := found[:-BARS]:
            first, shown = left[0], found[-BARS:]
            width = max(round(shown[0].x - first.x, 1), 1.0)
            found = [Bar(first.x, width, "r-others", f"{len(left)} more, left out"), *shown]
        if found:
            self.lanes.append((name, found, note))

    def add_runs(self, runs: Sequence[Row], others: int) -> None:
        """Add a lane for each Task, those that failed or ran more than once first, and one for all that are left."""
        by_task: dict[str, list[Row]] = {}
        for one in runs:
            by_task.setdefault(f"{one['role']}-{one['index']}", []).append(one)
        order = sorted(by_task.items(), key=lambda task: (_failed(task[1]) == 0, -len(task[1])))
        for name, own in order[:LANES]:
            self.add(name, (bar for one in own for bar in _run(self, one, name)))
        rest = [run for _, own in order[LANES:] for run in own]
        if left := len(rest) + others:
            failed = _failed(rest)
            note = f"{left} more runs" + (f", {failed} or more of them failed" if failed else "")
            self.add("others", [self.bar(self.began, self.ended, "r-others", note)], note)


def picture(
    began: float,
    ended: float,
    spans: Sequence[Row],
    attempts: Sequence[Row],
    epochs: Sequence[Row],
    runs: Sequence[Row],
    others: int,
    gaps: Sequence[Row],
) -> Picture:
    """Return the picture of a time, in seconds since 1970, from rows of these tables and the number of other runs."""
    found = Picture(began, max(ended, began + 1))
    found.gaps = [bar for one in gaps for bar in found.bar(one["began"], one["ended"], "gap", one["what"])]
    states = [(one, one["state"]) for one in spans if one["state"] in SIGNS]
    found.add("time", (found.bar(one["began"], one["ended"], f"s-{what}", what, SIGNS[what]) for one, what in states))
    found.add("attempts", (_end(found, one, one["started"], f"attempt {one['attempt'] + 1}") for one in attempts))
    ends = {one["attempt"]: one["ended"] for one in attempts}
    found.add("epochs", (_epoch(found, *both, ends) for both in pairwise([*epochs, {"attempt": -1}])))
    found.add_runs(runs, others)
    return found


def _failed(runs: Sequence[Row]) -> int:
    return sum(run["result"] == "Failed" for run in runs)


def _end(found: Picture, row: Row, start: float | None, name: str) -> Iterator[Bar]:
    """Yield what has ended somehow, or goes on."""
    kind, sign = _RESULTS.get(row["result"] or "", ("r-live", ">") if row["ended"] is None else ("r-others", ""))
    how = f" {row['phrase'] or row['result']} ({row['code']})" if row["result"] else ""
    return found.bar(start, row["ended"], kind, name + how, sign)


def _epoch(found: Picture, row: Row, after: Row, ends: Mapping[int, float | None]) -> Iterator[Bar]:
    end = after["began"] if after["attempt"] == row["attempt"] else ends.get(row["attempt"])
    why = f", after {row['task']} {row['reason']}" if row["reason"] else ""
    return found.bar(row["began"], end, f"e-{row['epoch'] % 2}", f"epoch {row['epoch']}{why}", str(row["epoch"]))


def _run(found: Picture, row: Row, name: str) -> Iterator[Iterator[Bar]]:
    what = f"{name} attempt {row['attempt'] + 1} run {row['run'] + 1} on {row['node'] or '?'}"
    yield found.bar(row["started"], row["ran"] or row["ended"], "r-wait", "until it ran", "-")
    yield _end(found, row, row["ran"], what)
