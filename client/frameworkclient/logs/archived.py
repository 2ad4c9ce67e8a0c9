"""Logs that the archive has: which of them are wanted, and their lines."""

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final

from frameworkclient.archive import Archive, ArchivedLog
from frameworkclient.errors import ClientError
from frameworkclient.logs.container import PIECE_BYTES
from frameworkclient.logs.lines import LineCutter, LogBatch, LogLine, LogSource
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.framework import FrameworkView
from frameworkcontroller.api import names

CUT: Final = "the archive has the end of its log alone"


def chosen(
    view: FrameworkView, rows: Iterable[ArchivedLog], selection: LogSelection, *, all_runs: bool
) -> Iterator[tuple[LogSource, ArchivedLog]]:
    """Yield the logs that are wanted: of each container the last run, or the one before it, or all runs."""
    wanted = [
        one
        for one in rows
        if selection.takes(one.role, f"{one.role}-{one.index}")
        and selection.barrier == (one.container == names.BARRIER_CONTAINER)
    ]
    wanted.sort(key=lambda one: (one.role, one.index, one.run, one.pod_uid, one.container, one.restart))
    last = {(one.role, one.index): one.pod_uid for one in wanted}
    part = slice(None) if all_runs else slice(-2, -1) if selection.previous else slice(-1, None)
    for (role, index, pod), of_pod in groupby(wanted, key=lambda one: (one.role, one.index, one.pod_uid)):
        if not all_runs and last[role, index] != pod:
            continue
        found, task = list(of_pod), f"{role}-{index}"
        several = selection.barrier or len({one.container for one in found}) > 1
        for container, runs in groupby(found, key=lambda one: one.container):
            label = f"{task}/{container}" if several else task
            for one in list(runs)[part]:
                ids = f"{view.name}-{task}", pod, container, one.restart
                yield LogSource(task, (one.attempt, one.run), *ids, label), one


async def read_archived(
    archive: Archive, view: FrameworkView, source: LogSource, log: ArchivedLog, selection: LogSelection
) -> AsyncGenerator[LogBatch, None]:
    """Yield the lines of a log that are wanted; a note says what of it is not there."""
    if log.gap or not log.is_whole:
        yield LogBatch(note=log.gap or CUT, source=source)
    if not log.key:
        return
    begin = None if selection.since_seconds is None else datetime.now(UTC) - timedelta(seconds=selection.since_seconds)
    tail: deque[LogLine] = deque(maxlen=selection.tail)
    try:
        async with aclosing(_lines(archive, view, source, log)) as pieces:
            async for lines in pieces:
                if selection.tail is not None:
                    tail.extend(lines)
                elif found := selection.matching(_not_before(begin, lines)):
                    yield LogBatch(found)
    except ClientError as error:
        yield LogBatch(note=str(error), source=source)
    if found := selection.matching(_not_before(begin, list(tail))):
        yield LogBatch(found)


async def _lines(
    archive: Archive, view: FrameworkView, source: LogSource, log: ArchivedLog
) -> AsyncGenerator[list[LogLine], None]:
    cutter = LineCutter(source)
    async with aclosing(archive.log(view, log)) as chunks:
        async for chunk in chunks:
            # A piece at a time: as objects, lines take several times the memory of their bytes.
            for start in range(0, len(chunk), PIECE_BYTES):
                yield cutter.feed(chunk[start : start + PIECE_BYTES])
    yield cutter.rest()


def _not_before(begin: datetime | None, lines: list[LogLine]) -> list[LogLine]:
    """Return the lines that are not older; a time that is none is not."""
    return lines if begin is None else [line for line in lines if _time(line, begin) >= begin]


def _time(line: LogLine, otherwise: datetime) -> datetime:
    try:
        return line.time
    except ValueError:
        return otherwise
