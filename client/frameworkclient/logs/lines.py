"""Lines of logs: from bytes of the API server to text with a time, each line exactly once.

Pure. The API server writes `{time} {text}` per line if it is asked for timestamps; the time has a fixed width and the
zone of the node, so that the times of one container compare as text.
"""

from datetime import datetime
from typing import Final

import msgspec

MAX_LINE_BYTES: Final = 256 * 1024
"""A longer line, of a program that writes no newlines, comes in pieces."""
_STAMP: Final = len("2006-01-02T15:04:05Z")


class LogSource(msgspec.Struct, frozen=True):
    """Where lines come from: one run of one container.

    Attributes:
        attempt: The attempt of the Framework and that of the Task in it, each from 0.
        restart: How often the kubelet had restarted the container before this run.
        label: What to call the source: the Task, and the container if there are several.
    """

    task: str
    attempt: tuple[int, int]
    pod: str
    uid: str
    container: str
    restart: int
    label: str


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One line of a log.

    Attributes:
        source: Where it comes from.
        stamp: When it was written, by the clock of its node, as text in RFC 3339.
        text: The line without its newline.
    """

    source: LogSource
    stamp: str
    text: str

    def __str__(self) -> str:
        return f"[{self.source.label}] {self.text}"

    @property
    def time(self) -> datetime:
        """When it was written, as an aware datetime, to the microsecond."""
        return datetime.fromisoformat(self.stamp)


class LogBatch(msgspec.Struct, frozen=True):
    """Lines that arrived together, or a note about a source, which is no line of a log.

    Attributes:
        lines: In order for each source.
        source: Whom the note is about.
    """

    lines: list[LogLine] = []
    note: str = ""
    source: LogSource | None = None


class LineCutter:
    """Cuts the bytes of one answer into lines with their times."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._pending = bytearray()
        self._stamp = ""
        self._is_inside = False

    def feed(self, chunk: bytes) -> list[LogLine]:
        """Add the next bytes and return the lines that they complete."""
        whole, newline, rest = chunk.rpartition(b"\n")
        if newline:
            found = self._lines(self._pending + whole)
            self._pending = bytearray(rest)
            self._is_inside = False
            return found
        self._pending += chunk
        return self.rest() if len(self._pending) > MAX_LINE_BYTES else []

    def rest(self) -> list[LogLine]:
        """Return what follows the last newline, at the end of the answer."""
        pending, self._pending = self._pending, bytearray()
        found = self._lines(pending) if pending else []
        self._is_inside = bool(found)
        return found

    def _lines(self, block: bytes | bytearray) -> list[LogLine]:
        source = self._source
        found = []
        lines = block.decode("utf-8", "replace").split("\n")
        if self._is_inside:
            # The next piece of a line that was too long.
            found.append(LogLine(source, self._stamp, lines.pop(0)))
        for line in lines:
            stamp, _, text = line.partition(" ")
            # A line without a time is not of the log: the kubelet says that the container is gone.
            if len(stamp) >= _STAMP and stamp[4] == "-" and stamp[10] == "T":
                found.append(LogLine(source, stamp, text))
        if found:
            self._stamp = found[-1].stamp
        return found


class Position:
    """How far a log was read, so that a request that repeats its end adds nothing twice.

    A time is not enough: a burst of lines may have one time. So the lines of the last time are counted.

    Attributes:
        stamp: The time of the last line, "" before the first.
    """

    def __init__(self) -> None:
        self.stamp = ""
        self._at_stamp = 0
        self._to_skip = 0
        self._resuming = False

    def resume(self) -> None:
        """Begin an answer that starts at `stamp` or before."""
        self._resuming = bool(self.stamp)
        self._to_skip = self._at_stamp

    def fresh(self, lines: list[LogLine]) -> list[LogLine]:
        """Return the lines that were not read before, and count them as read."""
        if self._resuming:
            lines = self._unread(lines)
        if lines:
            last = lines[-1].stamp
            same = sum(1 for line in reversed(lines) if line.stamp == last) if lines[0].stamp != last else len(lines)
            self._at_stamp = same + (self._at_stamp if last == self.stamp and same == len(lines) else 0)
            self.stamp = last
        return lines

    def _unread(self, lines: list[LogLine]) -> list[LogLine]:
        for place, line in enumerate(lines):
            if line.stamp < self.stamp:
                continue
            if line.stamp == self.stamp and self._to_skip > 0:
                self._to_skip -= 1
                continue
            self._resuming = False
            return lines[place:]
        return []
