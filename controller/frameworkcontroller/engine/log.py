"""Logs: constant messages with keys, on stderr, as text for people or JSON for machines.

A gang of thousands of Tasks logs tens of thousands of state changes, so a line has to be cheap: the renderers are a
join or one call of the JSON encoder. Who reads them may be slow, or stop reading: nothing else waits for that.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import select
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import msgspec
import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import EventDict, WrappedLogger

_encoder = msgspec.json.Encoder(enc_hook=str)
_log = structlog.get_logger(__name__)

CAPACITY: Final = 32 * 1024 * 1024
"""Bytes that wait to be written; beyond it lines are dropped."""
LINE_BYTES: Final = 400
"""What each line that waits takes beside its bytes."""
AT_ONCE: Final = 256 * 1024
"""Bytes that are written together: each call has to wait until the event loop lets this thread go on."""
LAST_SECONDS: Final = 2.0
"""How long the end of the process waits for its reader."""


@dataclass
class _Share:
    """What one owner has waiting: the numbers of its lines, and their bytes."""

    numbers: deque[int] = field(default_factory=deque)
    size: int = 0


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
        self._lines: OrderedDict[int, tuple[Callable[[], bytes], int, str]] = OrderedDict()
        self._shares: dict[str, _Share] = {}
        self._marks: deque[tuple[int, Callable[[], object]]] = deque()
        self._waiting = self._put = self._said = self.dropped = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, line: Callable[[], bytes], size: int, owner: str = "") -> None:
        """Add a line. Where there is no place for all, the oldest of the owner with the most bytes are dropped.

        Args:
            line: makes it, right before it is written.
            size: about how many bytes it keeps in memory until then.
            owner: whose share of the place it takes, "" for the program.
        """
        size += LINE_BYTES
        with self._changed:
            self._put += 1
            self._lines[self._put] = (line, size, owner)
            share = self._shares.setdefault(owner, _Share())
            share.numbers.append(self._put)
            share.size += size
            self._waiting += size
            while self._waiting > self._capacity and len(self._lines) > 1:
                most = max(self._shares.values(), key=lambda one: one.size)
                self._waiting -= self._remove(most.numbers[0])[1]
                self.dropped += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _remove(self, number: int) -> tuple[Callable[[], bytes], int]:
        """Remove a line, which is the oldest of its owner."""
        line, size, owner = self._lines.pop(number)
        share = self._shares[owner]
        share.numbers.popleft()
        share.size -= size
        if not share.numbers:
            del self._shares[owner]
        return line, size

    def when_written(self, done: Callable[[], object]) -> None:
        """Call this, in any thread, once all lines so far are written or dropped."""
        with self._changed:
            if self._waiting:
                self._marks.append((self._put, done))
                return
        done()

    def write(self, line: bytes) -> None:
        """Add a line as it is."""
        self.put(lambda: line, len(line))

    def flush(self, seconds: float = 0) -> None:
        """Wait until everything is written, no longer than so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                lost, self._said = self.dropped - self._said, self.dropped
            if lost:
                _log.warning("lines of this log were dropped: its reader is too slow", lines=lost)
            made, taken = bytearray(), 0
            while len(made) < AT_ONCE:
                with self._changed:
                    if not self._lines:
                        break
                    line, size = self._remove(next(iter(self._lines)))
                    taken += size
                try:
                    made += line()
                except Exception as error:  # noqa: BLE001 -- one line that cannot be made must not end all others
                    _log.error("a line of this log cannot be made", error=repr(error))
            with contextlib.suppress(OSError):
                self._write(bytes(made))
            del line
            with self._changed:
                self._waiting -= taken
                first = next(iter(self._lines), self._put + 1)
                due = [self._marks.popleft()[1] for _ in range(sum(number < first for number, _ in self._marks))]
                self._changed.notify_all()
            for done in due:
                with contextlib.suppress(RuntimeError):  # whoever waited has ended
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


def configure_logging(*, json: bool, debug: bool = False) -> None:
    """Set up structlog for the process."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            render_json if json else render_text,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if debug else logging.INFO),
        logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", STDERR)),
        cache_logger_on_first_use=True,
    )


def render_json(_logger: WrappedLogger, _name: str, event: EventDict) -> bytes:
    """Render one JSON object: `ts`, `level`, `msg` and the keys."""
    return _encoder.encode({"ts": _now(), "level": event.pop("level"), "msg": event.pop("event"), **event})


def render_text(_logger: WrappedLogger, _name: str, event: EventDict) -> bytes:
    """Render `TIME level message key=value ...`, with a traceback below."""
    traceback = event.pop("exception", "")
    head = f"{_now()} {event.pop('level'):<7} {event.pop('event')}"
    keys = " ".join(f"{key}={_quoted(value)}" for key, value in event.items())
    return "\n".join(filter(None, (f"{head}  {keys}".rstrip(), traceback))).encode(errors="backslashreplace")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _quoted(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and not any(mark in text for mark in ' "=') else repr(text)
