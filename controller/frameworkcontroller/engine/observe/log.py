"""Logs: constant messages with keys, on stderr, as text for people or JSON for machines.

A gang of thousands of Tasks logs tens of thousands of state changes, so a line has to be cheap: the renderers are a
join or one call of the JSON encoder. Who reads them may be slow, or stop reading: nothing else waits for that.
"""

import atexit
import contextlib
import logging
import os
import select
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from structlog.typing import EventDict

from frameworkkube.log import render_json, timestamp

_log = structlog.get_logger(__name__)

CAPACITY: Final = 32 * 1024 * 1024
"""Bytes that wait to be written; beyond it lines are dropped."""
LINE_BYTES: Final = 400
"""What each line that waits takes beside its bytes."""
OWNER_BYTES: Final = 1200
"""What each owner of lines takes beside them."""
AT_ONCE: Final = 256 * 1024
"""Bytes that are written together: each call has to wait until the event loop lets this thread go on."""
COLLECT_SECONDS: Final = 0.02
"""How long lines are collected, unless somebody waits for one or there are many: a line for which the thread is woken
takes three times as much of the processor."""
LAST_SECONDS: Final = 2.0
"""How long the end of the process waits for its reader."""
_MARKS: Final = frozenset(' "=')
"""A value with one of them is quoted."""


@dataclass(frozen=True)
class _Line:
    make: Callable[[], bytes]
    size: int
    owner: str
    done: Callable[[], object] | None


@dataclass
class _Share:
    """What one owner has waiting: the numbers of its lines, and their bytes."""

    numbers: deque[int] = field(default_factory=deque)
    size: int = OWNER_BYTES


class LineWriter:
    """Writes lines in a thread of its own, in their order.

    Args:
        write: writes bytes, and may block.
        capacity: bytes that may wait.

    Attributes:
        dropped: lines that were not written, since the reader was too slow.
    """

    def __init__(self, write: Callable[[bytes], object], *, capacity: int = CAPACITY) -> None:
        self._write, self._capacity = write, capacity
        self._lines: OrderedDict[int, _Line] = OrderedDict()
        self._shares: dict[str, _Share] = {}
        self._waiting = self._put = self._said = self._awaited = self.dropped = 0
        self._is_idle = self._is_writing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(
        self, line: Callable[[], bytes], size: int, owner: str = "", done: Callable[[], object] | None = None
    ) -> None:
        """Add a line. Where there is no place for all, the oldest of the owners with the most bytes are dropped.

        Args:
            line: makes it, right before it is written.
            size: about how many bytes it keeps in memory until then.
            owner: whose share of the place it takes, "" for the program.
            done: called, in any thread, once this line and all before it of its owner are written or dropped.
        """
        with self._changed:
            self._put += 1
            found = self._lines[self._put] = _Line(line, size + LINE_BYTES, owner, done)
            if owner not in self._shares:
                self._shares[owner] = _Share()
                self._waiting += OWNER_BYTES
            share = self._shares[owner]
            share.numbers.append(self._put)
            share.size += found.size
            self._waiting += found.size
            self._awaited += done is not None
            if self._waiting > self._capacity:
                self._make_place()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
                self._thread.start()
            if self._is_idle or done is not None:
                self._changed.notify_all()

    def _make_place(self) -> None:
        """Drop an eighth of what waits: of each owner up to a half, beginning with those that have most.

        An owner is `namespace/name`: those of the namespace that has most come first.
        """
        target = self._capacity - self._capacity // 8
        totals: Counter[str] = Counter()
        for owner, share in self._shares.items():
            totals[owner.partition("/")[0]] += share.size
        while self._waiting > target and len(self._lines) > 1:
            for _, share in sorted(
                self._shares.items(), key=lambda one: (totals[one[0].partition("/")[0]], one[1].size), reverse=True
            ):
                most = share.size // 2
                while self._waiting > target and share.numbers and share.size > most and len(self._lines) > 1:
                    self.dropped += 1
                    _call(self._remove(share.numbers[0]).done)

    def _remove(self, number: int) -> _Line:
        """Remove a line, which is the oldest of its owner."""
        line = self._lines.pop(number)
        share = self._shares[line.owner]
        share.numbers.popleft()
        share.size -= line.size
        self._waiting -= line.size
        self._awaited -= line.done is not None
        if not share.numbers:
            self._waiting -= share.size
            del self._shares[line.owner]
        return line

    def write(self, line: bytes, owner: str = "") -> None:
        """Add a line as it is."""
        self.put(lambda: line, len(line), owner)

    def flush(self, seconds: float = 0) -> None:
        """Wait until everything is written, no longer than so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._is_writing), seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_idle = True
                self._changed.wait_for(lambda: self._lines)
                self._is_idle = False
                self._changed.wait_for(lambda: self._awaited or self._waiting > AT_ONCE, COLLECT_SECONDS)
                lost, self._said = self.dropped - self._said, self.dropped
            if lost:
                _log.warning("lines of this log were dropped: its reader is too slow", lines=lost)
            made = bytearray()
            ended: list[Callable[[], object]] = []
            while len(made) < AT_ONCE:
                with self._changed:
                    if not self._lines:
                        break
                    line = self._remove(next(iter(self._lines)))
                    self._is_writing = True
                try:
                    made += line.make()
                except Exception as error:  # noqa: BLE001 -- one line that cannot be made must not end all others
                    _log.error("a line of this log cannot be made", error=repr(error))
                ended += [] if line.done is None else [line.done]
                del line  # what it was made of is not kept while a reader is slow
            with contextlib.suppress(OSError):
                self._write(bytes(made))
            for done in ended:
                _call(done)
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()


def _call(done: Callable[[], object] | None) -> None:
    if done is not None:
        with contextlib.suppress(RuntimeError):  # the loop of whoever waits has ended
            done()


def _write_stderr(lines: bytes) -> None:
    left = memoryview(lines)
    while left:
        try:
            left = left[os.write(2, left) :]
        except BlockingIOError:  # somebody who shares it has made it so
            select.select((), (2,), ())


STDERR: Final = LineWriter(_write_stderr)
atexit.register(STDERR.flush, LAST_SECONDS)


class OwnedLines:
    """What structlog hands events to: a line about an object takes the place of its namespace."""

    def __init__(self, lines: LineWriter, render: Callable[[object, str, EventDict], bytes]) -> None:
        self._lines, self._render = lines, render

    def msg(self, **event: Any) -> None:
        """Add a line."""
        owner = str(event.get("framework") or event.get("gang") or event.get("namespace") or "")
        self._lines.write(self._render(None, "", event) + b"\n", owner)

    debug = info = warning = error = critical = msg


def configure_logging(*, json: bool) -> None:
    """Set up structlog for the process."""
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.format_exc_info],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: OwnedLines(STDERR, render_json if json else render_text),
        cache_logger_on_first_use=True,
    )


def render_text(_logger: object, _name: str, event: EventDict) -> bytes:
    """Render `TIME level message key=value ...`, with a traceback below."""
    traceback = event.pop("exception", "")
    head = f"{timestamp()} {event.pop('level'):<7} {event.pop('event')}"
    keys = " ".join(f"{key}={_quoted(value)}" for key, value in event.items())
    return "\n".join(filter(None, (f"{head}  {keys}".rstrip(), traceback))).encode(errors="backslashreplace")


def _quoted(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and _MARKS.isdisjoint(text) else repr(text)
