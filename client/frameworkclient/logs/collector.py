"""The logs of all Tasks of a Framework: what there is now, or everything until its end.

While logs are followed, one task per container reads into a queue of a few batches. A reader that is slow holds back
the connections, and so the API server; nothing is dropped, and memory stays the same for any number of lines.
"""

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Final

from frameworkclient.cluster.following import followed_pods, following
from frameworkclient.errors import DeletedError
from frameworkclient.logs.container import Connections, ContainerLog, most_connections
from frameworkclient.logs.lines import LogBatch, LogLine, LogSource
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.pods import TaskPod
from frameworkkube.http.client import KubeClient

BATCH: Final = 500
"""Lines that are given on together, in the order of time."""
QUEUED: Final = 16
"""Batches that wait for the reader; each is at most what a connection's buffer holds."""
AFTER_END_SECONDS: Final = 30.0
"""Without a line for so long after the end of the Framework, no more are expected."""


async def read_logs(
    kube: KubeClient,
    namespace: str,
    pods: Iterable[TaskPod],
    selection: LogSelection,
    more: Sequence[AsyncGenerator[LogBatch, None]] = (),
) -> AsyncGenerator[LogBatch, None]:
    """Yield the lines that the containers of Pods have written, and those of `more` logs, in the order of time.

    Where there are more containers than connections (`most_connections`), one part of them follows the other.

    Raises:
        ClientError: The user may not read logs.
    """
    logs = [
        ContainerLog(kube, namespace, source, selection).read(previous=selection.previous)
        for pod in pods
        for source, status in selection.sources(pod)
        if (status.restart_count > 0 if selection.previous else status.has_started)
    ]
    logs += more
    most = most_connections()
    for start in range(0, len(logs), most):
        async with AsyncExitStack() as stack:
            for log in logs[start : start + most]:
                await stack.enter_async_context(aclosing(log))
            async with aclosing(merged(logs[start : start + most])) as batches:
                async for batch in batches:
                    yield batch


async def merged(logs: Sequence[AsyncGenerator[LogBatch, None]]) -> AsyncGenerator[LogBatch, None]:
    """Yield the lines of all logs by their times; the lines of one log keep their order.

    Notes come before the lines that follow them in their log. The logs are read together, but no further than needed:
    one batch of each is in memory.
    """
    read = [deque[LogLine]() for _ in logs]
    first = [asyncio.create_task(_read_on(*pair)) for pair in zip(logs, read, strict=True)]
    try:
        found = await asyncio.gather(*first)
    finally:
        # After the error of one the others still read, and a log that is being read cannot be closed.
        for reading in first:
            reading.cancel()
        await asyncio.gather(*first, return_exceptions=True)
    for notes in found:
        for note in notes:
            yield note
    heap = [(lines[0].stamp, number) for number, lines in enumerate(read) if lines]
    heapq.heapify(heap)
    ready: list[LogLine] = []
    while heap:
        _, number = heapq.heappop(heap)
        lines = read[number]
        ready.append(lines.popleft())
        # Those of this log go on that are not later than the next one of all others.
        while lines and (not heap or lines[0].stamp <= heap[0][0]):
            ready.append(lines.popleft())
        if not lines:
            notes = await _read_on(logs[number], lines)
            if notes and ready:
                yield LogBatch(ready)
                ready = []
            for note in notes:
                yield note
        if lines:
            heapq.heappush(heap, (lines[0].stamp, number))
        if len(ready) >= BATCH:
            yield LogBatch(ready)
            ready = []
    if ready:
        yield LogBatch(ready)


async def _read_on(log: AsyncGenerator[LogBatch, None], lines: deque[LogLine]) -> list[LogBatch]:
    """Add the next lines of a log, if there are any, and return the notes before them."""
    notes: list[LogBatch] = []
    async for batch in log:
        if batch.note:
            notes.append(batch)
        elif batch.lines:
            lines.extend(batch.lines)
            break
    return notes


async def follow_logs(kube: KubeClient, view: FrameworkView, selection: LogSelection) -> AsyncGenerator[LogBatch, None]:
    """Yield all lines as they arrive, of Pods that come and go, until the Framework has ended and its logs are read.

    Raises:
        ClientError: The user may not read Pods or logs.
        DeletedError: The Framework was deleted; what its Pods had written was yielded before.
    """
    follower = _Follower(kube, view, selection)
    supervisor = asyncio.create_task(follower.run())
    try:
        while not (supervisor.done() and follower.queue.empty()):
            getting = asyncio.ensure_future(follower.queue.get())
            try:
                await asyncio.wait({getting, supervisor}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                # Also when whoever reads is cancelled; it changes nothing that is done.
                getting.cancel()
            if getting.done():
                yield getting.result()
        await supervisor
    finally:
        supervisor.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await supervisor


class _Follower:
    """Starts a reader for each run of each container, which fills `queue`, and knows when all is read."""

    def __init__(self, kube: KubeClient, view: FrameworkView, selection: LogSelection) -> None:
        self.queue: asyncio.Queue[LogBatch] = asyncio.Queue(QUEUED)
        self._kube = kube
        self._view = view
        self._selection = selection
        self._wake = asyncio.Event()
        self._connections = Connections()
        self._readers: dict[LogSource, asyncio.Task[None]] = {}
        self._is_initial = True
        self._batches = 0
        self._pods: dict[tuple[str, str], TaskPod] = {}

    async def run(self) -> None:
        """Read until the Framework has ended and its logs are read."""
        deleted = None
        # Not when woken: a container may have started, ended and gone by then.
        pods = followed_pods(self._kube, self._view, self._pods, self._wake, seen=self._start_readers)
        try:
            async with pods as check, following(self._kube, self._view, self._wake) as current:
                self._is_initial = False
                try:
                    while not current().finished:
                        self._wake.clear()
                        check()
                        self._check()
                        await self._wake.wait()
                except DeletedError as error:
                    deleted = error
                await self._finish()
                check()
                self._check()
        finally:
            for reader in self._readers.values():
                reader.cancel()
            await asyncio.gather(*self._readers.values(), return_exceptions=True)
        if deleted is not None:
            raise deleted

    def _start_readers(self, pod: TaskPod) -> None:
        for source, _ in self._selection.sources(pod):
            if source not in self._readers:
                reader = asyncio.create_task(self._read(source, is_initial=self._is_initial))
                reader.add_done_callback(lambda _: self._wake.set())
                self._readers[source] = reader

    def _check(self) -> None:
        """Raise what has ended a reader, if it was an error."""
        for reader in self._readers.values():
            if reader.done() and not reader.cancelled():
                reader.result()

    async def _finish(self) -> None:
        """Wait for the ends of the logs: their Pods are gone or going."""
        while running := [reader for reader in self._readers.values() if not reader.done()]:
            known = self._batches
            await asyncio.wait(running, timeout=AFTER_END_SECONDS)
            # With a full queue it is the reader of the queue who is slow.
            if self._batches == known and not self.queue.full():
                break

    async def _put(self, batch: LogBatch) -> None:
        await self.queue.put(batch)
        self._batches += 1

    async def _read(self, source: LogSource, *, is_initial: bool) -> None:
        """Put the lines of one run into the queue; of what starts while logs are followed, from the first line on."""
        kube, namespace = self._kube, self._view.namespace
        selection = self._selection if is_initial else replace(self._selection, since_seconds=None, tail=None)
        if source.attempt != (0, 0) and not is_initial:
            await self._put(LogBatch(note=_begins(source), source=source))
        if source.restart and not is_initial and not self._knows_run_before(source):
            async with self._connections.turns:
                async for batch in ContainerLog(kube, namespace, source, selection).read(previous=True):
                    await self._put(batch)
        log = ContainerLog(kube, namespace, source, selection)
        key = namespace, source.pod
        following = log.follow(lambda: self._pods.get(key), asyncio.sleep, self._connections)
        async with aclosing(following) as batches:
            async for batch in batches:
                await self._put(batch)

    def _knows_run_before(self, source: LogSource) -> bool:
        return any(
            (one.uid, one.container, one.restart) == (source.uid, source.container, source.restart - 1)
            for one in self._readers
        )


def _begins(source: LogSource) -> str:
    framework, task = source.attempt
    parts = [f"attempt {task + 1} of the Task"] if task else []
    parts += [f"attempt {framework + 1} of the Framework"] if framework else []
    return ", ".join(parts)
