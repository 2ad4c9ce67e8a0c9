"""Puts finished logs into the order of time, with one batch per log in memory."""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from frameworkclient.logs.lines import LogBatch, LogLine

BATCH: Final = 500
"""Lines that are given on together."""


async def merged(logs: Sequence[AsyncGenerator[LogBatch, None]]) -> AsyncGenerator[LogBatch, None]:
    """Yield the lines of all logs by their times; the lines of one log keep their order.

    Notes come before the lines that follow them in their log. The logs are read together, but no further than needed.
    """
    heads = [_Head(log) for log in logs]
    notes = await asyncio.gather(*(head.fill() for head in heads))
    for note in (note for found in notes for note in found):
        yield note
    heap = [(head.lines[0].stamp, number) for number, head in enumerate(heads) if head.lines]
    heapq.heapify(heap)
    ready: list[LogLine] = []
    while heap:
        _, number = heapq.heappop(heap)
        head = heads[number]
        ready += head.take(heap[0][0] if heap else None)
        if not head.lines:
            found = await head.fill()
            if found and ready:
                yield LogBatch(ready)
                ready = []
            for note in found:
                yield note
        if head.lines:
            heapq.heappush(heap, (head.lines[0].stamp, number))
        if len(ready) >= BATCH:
            yield LogBatch(ready)
            ready = []
    if ready:
        yield LogBatch(ready)


class _Head:
    """The lines of one log that were read and not given on yet."""

    def __init__(self, log: AsyncGenerator[LogBatch, None]) -> None:
        self._log = log
        self.lines: deque[LogLine] = deque()

    async def fill(self) -> list[LogBatch]:
        """Read the next lines, if there are any, and return the notes before them."""
        notes: list[LogBatch] = []
        async for batch in self._log:
            if batch.note:
                notes.append(batch)
            elif batch.lines:
                self.lines.extend(batch.lines)
                break
        return notes

    def take(self, until: str | None) -> list[LogLine]:
        """Take the next line, and those after it that are not later than the next one of all others; None: all."""
        taken = [self.lines.popleft()]
        while self.lines and (until is None or self.lines[0].stamp <= until):
            taken.append(self.lines.popleft())
        return taken
