"""The ends of logs, as bytes in memory: each bounded, and all of them together."""

from collections import Counter
from typing import Final

_STAMP: Final = 40
"""Bytes in which the time of a line has ended: `2006-01-02T15:04:05.000000000+07:00 `."""
_SECOND: Final = 19
CUT: Final = b" [the beginning of this line was not kept] "


class Memory:
    """The bytes of all ends of logs.

    Where there would be more, the longest one of the namespace that has most loses its older half.
    """

    def __init__(self, limit: int) -> None:
        self.used = 0
        self.tails: set[Tail] = set()
        self._limit = limit
        self._used_by: Counter[str] = Counter()

    def count(self, namespace: str, number: int) -> None:
        """Count bytes that have come, or have gone."""
        self.used += number
        self._used_by[namespace] += number
        if not self._used_by[namespace]:
            del self._used_by[namespace]

    def fit(self) -> None:
        """Drop what is more than there may be."""
        while self.used > self._limit:
            most = max(self._used_by, key=self._used_by.__getitem__)
            longest = max((one for one in self.tails if one.namespace == most), key=len)
            longest.drop((len(longest) + 1) // 2)


class Tail:
    """The end of a log whose lines begin with their times.

    Attributes:
        namespace: Of its Pod.
        seen: All bytes that have come.
        is_whole: Whether no byte was dropped.
    """

    def __init__(self, limit: int, memory: Memory, namespace: str = "") -> None:
        self.namespace, self.seen = namespace, 0
        self.is_whole = True
        self._limit = limit
        self._kept = bytearray()
        self._stamp = b""
        """The time of the line in which the bytes begin, if they do not begin with a line."""
        self._memory = memory

    def __len__(self) -> int:
        return len(self._kept)

    def feed(self, chunk: bytes) -> None:
        """Add the next bytes."""
        self.seen += len(chunk)
        self._kept += chunk
        self._memory.tails.add(self)
        self._memory.count(self.namespace, len(chunk))
        self._memory.fit()
        self.drop(len(self._kept) - self._limit)

    def drop(self, number: int) -> None:
        """Drop so many of the oldest bytes."""
        if number > 0:
            newline = self._kept.rfind(b"\n", 0, number)
            if newline == number - 1:
                self._stamp = b""
            elif newline >= 0 or not self._stamp:
                self._stamp = self._stamp_at(newline + 1)
            del self._kept[:number]
            self._memory.count(self.namespace, -number)
            self.is_whole = False

    @property
    def since(self) -> str:
        """The second in which the last whole line was written, from which on to ask again; "" without one."""
        end = self._kept.rfind(b"\n")
        stamp = self._stamp_of(self._kept.rfind(b"\n", 0, end) + 1) if end >= 0 else b""
        return (stamp[:_SECOND] + stamp[_SECOND:].lstrip(b".0123456789")).decode("ascii", "replace")

    def rewind(self, since: str) -> None:
        """Drop the lines of that second, and one that has not ended: an answer begins that has them again."""
        second, end = since[:_SECOND].encode(), self._kept.rfind(b"\n") + 1
        while end and self._stamp_of(start := self._kept.rfind(b"\n", 0, end - 1) + 1).startswith(second):
            end = start
        self._memory.count(self.namespace, end - len(self._kept))
        del self._kept[end:]
        if not end:
            self._stamp = b""

    def lines(self) -> bytes:
        """Return what is kept, from the first whole line on.

        If that would lose more than half, it begins within a line, with the time of that and a sentence.
        """
        start = self._kept.find(b"\n") + 1 if self._stamp else 0
        if self._stamp and (start == 0 or start > len(self._kept) // 2):
            return self._stamp + CUT + self._kept
        return bytes(memoryview(self._kept)[start:])

    def release(self) -> None:
        """Forget all bytes, for good."""
        self._memory.tails.discard(self)
        self._memory.count(self.namespace, -len(self._kept))
        self._kept = bytearray()

    def _stamp_of(self, start: int) -> bytes:
        return self._stamp if start == 0 and self._stamp else self._stamp_at(start)

    def _stamp_at(self, start: int) -> bytes:
        return bytes(self._kept[start : start + _STAMP]).partition(b"\n")[0].partition(b" ")[0]
