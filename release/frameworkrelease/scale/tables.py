"""The tables of the figures, as lines of Markdown; the benchmarks print them, too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from frameworkrelease.scale.results import BENCHMARK, CONTROLLER, Part, Request, Who

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from frameworkrelease.scale.results import Origin, Restart, Row

_STEP_MIB: Final = 32
NOTHING: Final = ""
"""What a cell says that has no figure."""


def of_rows(rows: Sequence[Row]) -> Iterator[str]:
    """Yield all tables of the controller's benchmark that have figures."""
    for part in (
        of_times(rows),
        of_processes(rows),
        of_requests(rows),
        of_starts(rows),
        of_gates(rows),
        of_phases(rows),
    ):
        lines = list(part)
        if lines:
            yield from (*lines, "")


def of_times(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of times and costs."""
    bare = {row.shape: row for row in rows if row.who is Who.BARE}
    yield from _table(
        ("shape", "by", "all created s", "all run s", "of the loop", "completed s", "CPU s", "CPU ms/Task",
         "API server CPU s", "until all run", "of the loop's", "peak MiB"),
        [
            (
                row.shape,
                row.who,
                _number(row.created),
                _number(row.running),
                _ratio(row, bare.get(row.shape), lambda one: one.running),
                _number(row.completed),
                _number(row.controller_cpu),
                _number(1000 * row.controller_cpu / row.total, 2),
                _number(row.apiserver_cpu),
                _number(row.apiserver_cpu_running),
                _ratio(row, bare.get(row.shape), lambda one: one.apiserver_cpu_running),
                _number(row.peak_mib, 0),
            )
            for row in rows
        ],
    )  # fmt: skip


def of_processes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of the CPU seconds of each process until all Pods had run."""
    names = (*Part, BENCHMARK, CONTROLLER)
    yield from _table(
        ("shape", "by", *names, "all"),
        [
            (
                row.shape,
                row.who,
                *(_number(row.running_cpu.get(name)) for name in names),
                _number(sum(row.running_cpu.values())),
            )
            for row in rows
            if row.running_cpu
        ],
    )


def of_requests(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of requests by kind."""
    yield from _table(
        ("shape", "by", *Request, "all", "sent by the controller", "MB written"),
        [
            (
                row.shape,
                row.who,
                *(str(row.requests.get(kind, 0)) for kind in Request),
                str(sum(row.requests.values())),
                NOTHING if row.sent is None else str(row.sent),
                _number(row.written_mb),
            )
            for row in rows
        ],
    )


def of_starts(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of how long each Framework took to start, where there are several."""
    yield from _table(
        ("shape", "by", "start p50 s", "start p99 s", "queue p99 s, at most", "memory growth MiB"),
        [
            (
                row.shape,
                row.who,
                _number(row.start_p50, 2),
                _number(row.start_p99, 2),
                NOTHING if row.queue_p99 is None else f"{row.queue_p99:g}",
                _number(row.growth_mib),
            )
            for row in rows
            if row.start_p99 is not None
        ],
    )


def of_gates(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of the small gang beside a large Framework."""
    yield from _table(
        ("shape", "by", "Pods exist s", "have addresses s", "gate opens s", "of these by the controller s"),
        [
            (
                row.shape,
                row.who,
                _number(row.gate_created, 2),
                _number(row.gate_addressed, 2),
                _number(row.gate, 2),
                _number(row.gate_by_controller, 2),
            )
            for row in rows
            if row.gate_created is not None
        ],
    )


def of_phases(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of a whole life."""
    lives = [row for row in rows if row.phases]
    phases = dict.fromkeys(phase for row in lives for phase in row.phases)
    yield from _table(
        ("phase", *(f"{row.shape} by the {row.who} s" for row in lives)),
        [(phase, *(_number(row.phases.get(phase)) for row in lives)) for phase in phases] if lives else [],
    )


def of_restarts(restarts: Iterable[Restart]) -> Iterator[str]:
    """Yield the table of starts of a controller."""
    yield from _table(
        ("Pods", "Frameworks", "completed", "lists", "caches full s", "working s", "settled s", "peak MiB", "then MiB",
         "requests", "MB received", "MB written", "CPU s", "API server CPU s"),
        [
            (
                str(one.pods),
                str(one.frameworks),
                str(one.completed),
                one.lists,
                _number(one.full),
                _number(one.working),
                _number(one.settled),
                _number(one.peak_mib, 0),
                _number(one.rss_mib, 0),
                str(one.requests),
                _number(one.received_mb),
                _number(one.written_mb),
                _number(one.controller_cpu),
                _number(one.apiserver_cpu),
            )
            for one in restarts
        ],
    )  # fmt: skip


def of_resources(restarts: Iterable[Restart]) -> Iterator[str]:
    """Yield the table of the memory that the controller should have: a quarter more than it took, and twice that."""
    peaks: dict[int, float] = {}
    for one in restarts:
        # The way that takes less is the one that is used.
        peaks[one.pods] = min(one.peak_mib, peaks.get(one.pods, math.inf))
    yield from _table(
        ("Pods of running Tasks", "measured MiB", "memory request", "memory limit"),
        [
            (str(pods), _number(peak, 0), f"{wanted}Mi", f"{2 * wanted}Mi")
            for pods, peak in sorted(peaks.items())
            for wanted in (math.ceil(1.25 * peak / _STEP_MIB) * _STEP_MIB,)
        ],
    )


def measured(origins: Iterable[Origin]) -> str:
    """Return one sentence about where figures come from."""
    found = dict.fromkeys(origins)
    days = sorted({one.date for one in found})
    parts = (
        f"on {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else "",
        "of commit " + ", ".join(dict.fromkeys(f"`{one.commit}`" for one in found)),
        "on " + " and ".join(dict.fromkeys(one.machine for one in found)),
        "with Kubernetes " + ", ".join(dict.fromkeys(one.kubernetes for one in found)),
        "and Python " + ", ".join(dict.fromkeys(one.python for one in found)),
    )
    return f"Measured {', '.join(parts)}." if found else "Not measured yet."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield f"| {' | '.join(head)} |"
        yield "|" + " --- |" * len(head)
        yield from (f"| {' | '.join(cells)} |" for cells in rows)


def _number(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _ratio(row: Row, bare: Row | None, figure: Callable[[Row], float | None]) -> str:
    if row.who is Who.BARE or bare is None:
        return NOTHING
    ours, theirs = figure(row), figure(bare)
    return f"{ours / theirs:.2f}" if ours and theirs else NOTHING
