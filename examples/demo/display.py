"""Two ways to show a run, behind one board that every thread may post events to."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from rich.console import Console, RenderableType
from rich.live import Live

from demo.lines import changes
from demo.model import Demo, advance
from demo.screen import picture, summary_picture
from demo.summary import Summary, as_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from demo.events import Event


class Display(Protocol):
    """Somebody who is told of every change, one at a time."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def changed(self, before: Demo, after: Demo, now: float) -> None:
        """The run went on, at `now` (seconds since the epoch)."""

    def report(self, title: str, lines: list[str]) -> None:
        """Show a piece of text in full, for example the tail of a log."""

    def summary(self, summary: Summary) -> None:
        """Show the end."""


class Plain:
    """Lines of text without control characters, each with the seconds since the start."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def changed(self, before: Demo, after: Demo, now: float) -> None:
        """Write one line per change."""
        for line in changes(before, after, now):
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


class Screen:
    """A picture that is drawn eight times a second from whatever is known."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.time) -> None:
        self._console = console
        self._clock = clock
        self._demo = Demo()
        self._live = Live(get_renderable=self._draw, console=console, refresh_per_second=8, transient=False)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def changed(self, before: Demo, after: Demo, now: float) -> None:  # noqa: ARG002 - the protocol's
        """Remember it for the next picture."""
        self._demo = after

    def report(self, title: str, lines: list[str]) -> None:
        """Print the lines below the picture."""
        self._live.stop()
        self._console.rule(title, align="left", style="red")
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def summary(self, summary: Summary) -> None:
        """Print the table below the picture."""
        self._live.stop()
        self._console.print(summary_picture(summary))

    def _draw(self) -> RenderableType:
        return picture(self._demo, self._clock(), self._console.height)


def choose(stream: TextIO, environ: Mapping[str, str]) -> Display:
    """Return the screen where a person looks at a terminal that can draw, else plain lines.

    Args:
        stream: Where the demo writes.
        environ: `NO_COLOR`, `CI` and `TERM=dumb` ask for plain lines.
    """
    plain = environ.get("NO_COLOR") or environ.get("CI") or environ.get("TERM", "dumb") == "dumb"
    if plain or not stream.isatty():
        return Plain(stream)
    return Screen(Console(file=stream))


class Board:
    """The run's one present state: threads post events to it, the main thread waits for what becomes true."""

    def __init__(self, display: Display, clock: Callable[[], float] = time.time) -> None:
        self._display = display
        self._clock = clock
        self._changed = threading.Condition()
        self._demo = Demo()
        self._closed = False

    @property
    def demo(self) -> Demo:
        """What is known now."""
        return self._demo

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self._clock()

    def post(self, event: Event) -> None:
        """Let an event happen; any thread may."""
        with self._changed:
            if self._closed:
                return
            before, self._demo = self._demo, advance(self._demo, event)
            self._display.changed(before, self._demo, self._clock())
            self._changed.notify_all()

    def close(self) -> None:
        """Take no more events.

        A thread that still wrote while the interpreter ends would bring it down by a signal, because it would hold the
        output's lock for ever.
        """
        with self._changed:
            self._closed = True

    def wait(self, until: Callable[[Demo], bool], seconds: float) -> bool:
        """Wait until something is true of the run, at most so many seconds; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: until(self._demo), timeout=seconds)
