"""The picture of the cost per Task: both axes are logarithmic, so a cost that grows in proportion is a level line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from frameworkrelease.scale.results import Who

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from frameworkrelease.scale.results import Row

WIDTH: Final = 720
HEIGHT: Final = 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 230, 30, 60
_NAME_HEIGHT: Final = 16.0
_FONT: Final = "font-family='sans-serif' font-size='13'"
_DASHES: Final = ("", "7 4", "2 3")
_COLOURS: Final = ("#0060a8", "#c2410c", "#4b5563")
"""They differ in brightness, too, and each line ends with its name."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One line of the picture: its name, and its points in the order of their first value."""

    name: str
    points: tuple[Point, ...]


def lines_of(rows: Iterable[Row]) -> tuple[Line, ...]:
    """Return the cost of a Task in ms of CPU by the number of Tasks of one Framework."""
    starts = sorted((row for row in rows if row.is_start_of_one), key=lambda row: row.tasks)
    bare = [row for row in starts if row.who is Who.BARE]
    ours = [row for row in starts if row.who is Who.CONTROLLER]
    lines = (
        Line("controller", tuple((row.tasks, 1000 * row.controller_cpu / row.tasks) for row in ours)),
        Line("API server, controller", tuple((row.tasks, _started_ms(row)) for row in ours)),
        Line("API server, bare loop", tuple((row.tasks, _started_ms(row)) for row in bare)),
    )
    drawn = (Line(line.name, tuple(point for point in line.points if min(point) > 0)) for line in lines)
    return tuple(line for line in drawn if line.points)


def _started_ms(row: Row) -> float:
    return 1000 * (row.apiserver_cpu_running or 0.0) / row.tasks


def svg(lines: Sequence[Line]) -> str:
    """Return the picture as SVG; without lines it says that nothing was measured."""
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' role='img' {_FONT}>\n"
        "<title>CPU time per Task by the number of Tasks of one Framework</title>\n"
        f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>\n"
    )
    if not lines:
        return f"{head}<text x='{_LEFT}' y='{_TOP}'>Nothing was measured yet.</text>\n</svg>\n"
    points = [point for line in lines for point in line.points]
    across, up = (_Axis.around([point[place] for point in points]) for place in (0, 1))
    parts = [*_grid(across, up)]
    heights = _apart([_y(up, line.points[-1][1]) for line in lines])
    for number, line in enumerate(lines):
        parts += _drawn(line, across, up, _COLOURS[number % 3], _DASHES[number % 3])
        x = _x(across, line.points[-1][0]) + 9
        parts.append(f"<text x='{x}' y='{heights[number] + 4}' fill='{_COLOURS[number % 3]}'>{line.name}</text>")
    return head + "\n".join(parts) + "\n</svg>\n"


@dataclass(frozen=True)
class _Axis:
    """Whole decades."""

    first: int
    last: int

    @classmethod
    def around(cls, values: Sequence[float]) -> _Axis:
        first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(first, max(last, first + 1))

    def place(self, value: float) -> float:
        """Return where a value is, from 0 to 1."""
        return (math.log10(value) - self.first) / (self.last - self.first)

    def decades(self) -> Iterator[float]:
        yield from (10.0**power for power in range(self.first, self.last + 1))


def _x(axis: _Axis, value: float) -> float:
    return round(_LEFT + axis.place(value) * (WIDTH - _LEFT - _RIGHT), 1)


def _y(axis: _Axis, value: float) -> float:
    return round(HEIGHT - _BOTTOM - axis.place(value) * (HEIGHT - _TOP - _BOTTOM), 1)


def _apart(heights: Sequence[float]) -> list[float]:
    """Return the heights of the names of lines, moved down where they would cover each other."""
    placed = list(heights)
    order = sorted(range(len(placed)), key=placed.__getitem__)
    for above, below in pairwise(order):
        placed[below] = max(placed[below], placed[above] + _NAME_HEIGHT)
    return placed


def _grid(across: _Axis, up: _Axis) -> Iterator[str]:
    left, right, top, bottom = _LEFT, WIDTH - _RIGHT, _TOP, HEIGHT - _BOTTOM
    for value in across.decades():
        x = _x(across, value)
        yield f"<line x1='{x}' y1='{top}' x2='{x}' y2='{bottom}' stroke='#d4d4d4'/>"
        yield f"<text x='{x}' y='{bottom + 20}' text-anchor='middle'>{value:,.6g}</text>"
    for value in up.decades():
        y = _y(up, value)
        yield f"<line x1='{left}' y1='{y}' x2='{right}' y2='{y}' stroke='#d4d4d4'/>"
        yield f"<text x='{left - 8}' y='{y + 4}' text-anchor='end'>{value:,.6g}</text>"
    yield f"<text x='{(left + right) / 2}' y='{HEIGHT - 15}' text-anchor='middle'>Tasks of one Framework</text>"
    yield f"<text x='{left}' y='{top - 12}' text-anchor='middle'>ms of CPU per Task</text>"


def _drawn(line: Line, across: _Axis, up: _Axis, colour: str, dashes: str) -> Iterator[str]:
    places = [(_x(across, first), _y(up, second)) for first, second in line.points]
    path = " ".join(f"{x},{y}" for x, y in places)
    dashed = f" stroke-dasharray='{dashes}'" if dashes else ""
    yield f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'{dashed}/>"
    yield from (f"<circle cx='{x}' cy='{y}' r='3.5' fill='{colour}'/>" for x, y in places)
