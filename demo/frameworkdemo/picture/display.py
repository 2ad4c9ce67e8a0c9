"""Two ways to show a run: a live picture on a terminal, and plain lines. The store calls a display for each change."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from rich.console import Console, RenderableType
from rich.live import Live

from frameworkdemo.picture.plain import describe_changes
from frameworkdemo.picture.render import render_run, render_summary
from frameworkdemo.picture.state import RunState
from frameworkdemo.picture.summary import Summary, as_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Display(Protocol):
    """Shows a run. The store calls `changed` under its lock, so that calls never overlap."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def changed(self, before: RunState, after: RunState, now: float) -> None:
        """Show a change of the state, at `now` (seconds since the epoch)."""

    def report(self, title: str, lines: list[str]) -> None:
        """Show a text in full, for example the end of a log."""

    def summary(self, summary: Summary) -> None:
        """Show the summary at the end of a run."""


class PlainDisplay:
    """Writes lines without control characters, each with the seconds since the start."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def changed(self, before: RunState, after: RunState, now: float) -> None:
        """Write a line for each difference."""
        for line in describe_changes(before, after, now):
            self._write(f"[{now - after.began:7.1f} s] {line}")

    def report(self, title: str, lines: list[str]) -> None:
        """Write the title and the indented lines."""
        self._write(f"--- {title}")
        for line in lines:
            self._write(f"    {line}")

    def summary(self, summary: Summary) -> None:
        """Write the table."""
        for line in as_lines(summary):
            self._write(line)

    def _write(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class LiveDisplay:
    """Draws a picture of the current state eight times a second."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.time) -> None:
        self._console = console
        self._clock = clock
        self._state = RunState()
        self._live = Live(get_renderable=self._draw, console=console, refresh_per_second=8, transient=False)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def changed(self, before: RunState, after: RunState, now: float) -> None:  # noqa: ARG002 -- the protocol's
        """Keep the state for the next picture."""
        self._state = after

    def report(self, title: str, lines: list[str]) -> None:
        """Print the lines below the picture."""
        self._live.stop()
        self._console.rule(title, align="left", style="red")
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def summary(self, summary: Summary) -> None:
        """Print the table below the picture."""
        self._live.stop()
        self._console.print(render_summary(summary))

    def _draw(self) -> RenderableType:
        return render_run(self._state, self._clock(), self._console.height)


def choose_display(stream: TextIO, environ: Mapping[str, str]) -> Display:
    """Return the live picture if the stream is a terminal that can draw it, else plain lines.

    Args:
        stream: The output of the program.
        environ: The environment; `NO_COLOR`, `CI` and `TERM=dumb` ask for plain lines.
    """
    plain = environ.get("NO_COLOR") or environ.get("CI") or environ.get("TERM", "dumb") == "dumb"
    if plain or not stream.isatty():
        return PlainDisplay(stream)
    return LiveDisplay(Console(file=stream))
