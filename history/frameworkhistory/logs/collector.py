"""Keeps the logs of Pods: follows the Pods, has each log read once its run is over, or while it runs, and stores it.

A log is read, its object is stored, its row is saved, each by a bounded number of workers. What fails comes again later
and holds up no other. What cannot be kept becomes a row that says so.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from frameworkclient.views.pods import TASK_POD_DECODER, TaskPod
from frameworkcontroller.api import names
from frameworkhistory.archive.changes import Changes
from frameworkhistory.logs import runs
from frameworkhistory.logs.reader import LOST, Reader, is_gone, reason_of
from frameworkhistory.logs.runs import Run
from frameworkhistory.logs.storage import Storage
from frameworkhistory.logs.tail import Memory, Tail
from frameworkkube.backoff import pause_seconds
from frameworkkube.errors import KubeError
from frameworkkube.http.client import KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.log import Logger
from frameworkkube.paths import resource_path

_log = Logger(__name__)

_KEEPERS: Final = 16
"""Logs that are stored and saved at a time."""
_LEAST_LINE: Final = 31
"""Bytes of a line, with its time."""
_MOST_GAP: Final = 300
SNAPSHOT: Final = "its Pod was being deleted; what it wrote after this is missing"


@dataclass(frozen=True)
class Limits:
    """What logs may cost: how many are read at a time after their end, and followed before it; bytes of each, of those
    whose Pod asks for the whole log, per second, and in memory; seconds for which one is tried to be read, and stored.
    """  # noqa: D205 -- one sentence

    reads: int = 32
    followed: int = 256
    log_bytes: int = 1 << 20
    whole_bytes: int = 256 << 20
    bytes_per_second: int = 32 << 20
    memory_bytes: int = 128 << 20
    read_seconds: float = 120.0
    store_seconds: float = 300.0


@dataclass
class _Known:
    """A Pod: its newest state, None once it is gone, and its runs by container and restart."""

    pod: TaskPod | None
    pending: set[tuple[str, int]] = field(default_factory=set)
    done: set[tuple[str, int]] = field(default_factory=set)
    was_asked: bool = False


@dataclass
class _Job:
    """A run whose log is to be kept: until when the next step is tried, and what there is of it by now."""

    run: Run
    until: float = 0.0
    failures: int = 0
    tail: Tail | None = None
    gap: str = ""
    key: str = ""
    bytes: int = 0
    is_whole: bool = True


class Collector:
    """Keeps the logs of all Pods of Frameworks.

    Args:
        client: Of the API server.
        storage: Where logs go.
        save: Saves rows of logs. What it raises is tried again, for ever.
        known: Returns container and restart of the runs of a Pod that have a row, by the UIDs of its Framework and its
            own.
        namespaces: Where Pods are looked at, everywhere if none is named.
        limits: What it may cost.

    Attributes:
        changed: Is set, and replaced, when nothing more is to be read of a Pod.
        reader: Counts requests and bytes.
        stored, gaps: Rows of logs that are stored, and of such as could not be kept, or not to their end.
        failures: What was tried again.
    """

    def __init__(
        self,
        client: KubeClient,
        storage: Storage,
        save: Callable[[Changes], Awaitable[None]],
        known: Callable[[str, str], Awaitable[set[tuple[str, int]]]],
        limits: Limits = Limits(),
        namespaces: Sequence[str] = (),
    ) -> None:
        self.changed = asyncio.Event()
        self.reader = Reader(client, limits.bytes_per_second)
        self.memory = Memory(limits.memory_bytes)
        self.stored = self.gaps = self.failures = 0
        self._storage, self._save, self._has_row, self._limits = storage, save, known, limits
        self._pods: dict[str, _Known] = {}
        self._to_read: asyncio.Queue[_Job] = asyncio.Queue()
        self._to_keep: asyncio.Queue[_Job] = asyncio.Queue()
        self._following: dict[Run, asyncio.Task[None]] = {}
        self.informers = [
            Informer(
                client,
                resource_path("v1", "pods", namespace=namespace),
                TASK_POD_DECODER,
                on_change=self.on_change,
                keep=_slim,
                label_selector=names.FRAMEWORK_NAME,
            )
            for namespace in namespaces or (None,)
        ]

    @property
    def has_synced(self) -> bool:
        """Whether all Pods were seen once."""
        return all(one.has_synced for one in self.informers)

    @property
    def waiting(self) -> dict[str, int]:
        """How many logs wait to be read or kept, and how many are followed."""
        queues = {"read": self._to_read, "keep": self._to_keep}
        return {"followed": len(self._following)} | {name: queue.qsize() for name, queue in queues.items()}

    def kept(self, pod_uid: str) -> bool:
        """Report whether nothing more is to be read of a Pod: each log has its row, or there is no such Pod."""
        known = self._pods.get(pod_uid)
        if known is None:
            return self.has_synced
        return not known.pending and (known.pod is None or runs.is_over(known.pod))

    def pods(self, namespace: str, framework: str) -> dict[str, TaskPod]:
        """Return the Pods of a Framework that exist, by Task."""
        found = (known.pod for known in self._pods.values() if known.pod is not None)
        place = namespace, framework
        return {pod.task: pod for pod in found if (pod.metadata.namespace, pod.metadata.labels.framework) == place}

    async def run(self) -> None:
        """Keep logs until cancelled.

        Raises:
            EtcdRestoredError: Start again; what is stored is known.
        """
        work = asyncio.create_task(self.work())
        try:
            await asyncio.gather(*(one.run() for one in self.informers))
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def work(self) -> None:
        """Read and keep what `on_change` finds, until cancelled."""
        steps = [(self._to_read, self._read)] * self._limits.reads + [(self._to_keep, self._keep)] * _KEEPERS
        try:
            await asyncio.gather(*(self._work(queue, step) for queue, step in steps))
        finally:
            following = [*self._following.values()]
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)

    def on_change(self, before: TaskPod | None, after: TaskPod | None) -> None:
        """Begin what a change of a Pod makes necessary."""
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            known = self._pods.get(before.metadata.uid)
            if known is not None:
                known.pod = None
                for run, _ in runs.runs(before):
                    # What is not read by now is lost: the reader says so.
                    self._queue(known, run)
                self._look_after(before.metadata.uid)
        if after is not None and runs.framework_uid(after):
            known = self._pods.setdefault(after.metadata.uid, _Known(after))
            known.pod = after
            self._look(known, after)
            self._look_after(after.metadata.uid)

    def _look(self, known: _Known, pod: TaskPod) -> None:
        is_deleted = pod.metadata.deletion_timestamp is not None
        for run, is_over in runs.runs(pod):
            if is_over:
                self._queue(known, run)
            elif run.place in known.pending or not (is_deleted or runs.is_in_place(pod)):
                continue
            elif len(self._following) < self._limits.followed:
                known.pending.add(run.place)
                self._following[run] = asyncio.create_task(self._follow(run, known, pod))
            elif is_deleted:
                # All that it has written until now is better than nothing.
                self._queue(known, run)

    def _queue(self, known: _Known, run: Run) -> None:
        if run.place not in known.done | known.pending:
            known.pending.add(run.place)
            self._to_read.put_nowait(_Job(run, time.monotonic() + self._limits.read_seconds))

    async def _work(self, queue: asyncio.Queue[_Job], step: Callable[[_Job], Awaitable[None]]) -> None:
        while True:
            job = await queue.get()
            try:
                await step(job)
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is of this log alone
                self.failures += 1
                job.failures += 1
                _log.warning("a log is tried again", step=step.__name__, key=job.run.key, error=_brief(error))
                pause = pause_seconds(job.failures, random.random)
                asyncio.get_running_loop().call_later(pause, queue.put_nowait, job)

    async def _is_done(self, run: Run) -> bool:
        """Report whether there is a row of a run already, from before this process; then nothing is left to do."""
        known = self._pods[run.pod_uid]
        if not known.was_asked:
            # While the database is away, a log is rather read twice.
            with contextlib.suppress(Exception):
                known.done |= await self._has_row(run.framework, run.pod_uid)
                known.was_asked = True
        if run.place in known.done:
            self._settle(run)
        return run.place in known.done

    def _tail(self, pod: TaskPod) -> tuple[Tail, int | None]:
        """Return what a log is read into, and how many lines to ask for: they have more bytes than are kept."""
        if pod.metadata.annotations.get(runs.KEEP_ANNOTATION) == runs.WHOLE:
            return Tail(self._limits.whole_bytes, self.memory), None
        return Tail(self._limits.log_bytes, self.memory), self._limits.log_bytes // _LEAST_LINE + 1

    async def _read(self, job: _Job) -> None:
        """Read a run that is over, or all that a Pod has written that is being deleted."""
        if await self._is_done(job.run):
            return
        pod = self._pods[job.run.pod_uid].pod
        if pod is None:
            self._hand_on(job, None, LOST)
            return
        gap = SNAPSHOT if (job.run, False) in runs.runs(pod) else ""
        tail, lines = self._tail(pod)
        try:
            await self.reader.read_once(job.run, tail, pod, lines)
            self._hand_on(job, tail, gap)
        except KubeError as error:
            if not (is_gone(error) or time.monotonic() > job.until):
                raise
            self._hand_on(job, None, reason_of(error))
        finally:
            if job.tail is None:
                tail.release()

    async def _follow(self, run: Run, known: _Known, pod: TaskPod) -> None:
        """Read a run while it runs."""
        job, (tail, lines) = _Job(run), self._tail(pod)
        try:
            if not await self._is_done(run):
                self._hand_on(job, tail, await self.reader.follow(run, tail, lambda: known.pod, lines))
        except Exception as error:  # noqa: BLE001 -- as in `_work`; what there is by now is read once more
            _log.warning("a log is not followed", key=run.key, error=_brief(error))
            self._to_read.put_nowait(job)
        finally:
            del self._following[run]
            if job.tail is None:
                tail.release()

    def _hand_on(self, job: _Job, tail: Tail | None, gap: str) -> None:
        """Have kept what was read, and what is missing; without both the log is empty."""
        job.tail = tail if tail is not None and len(tail) and tail.is_log else None
        job.gap, job.failures = gap, 0
        job.until = time.monotonic() + self._limits.store_seconds
        self._to_keep.put_nowait(job)

    async def _keep(self, job: _Job) -> None:
        """Store a log, then save its row: who finds a row finds the log."""
        run = job.run
        if job.tail is not None:
            lines = job.tail.lines()
            try:
                await self._storage.put(run.key, lines)
                job.key, job.bytes, job.is_whole = run.key, len(lines), job.tail.is_whole
            except Exception as error:
                if time.monotonic() < job.until:
                    raise
                job.gap = f"its log could not be stored: {_brief(error)}"
            job.tail.release()
            job.tail = None
        row = {"key": job.key, "bytes": job.bytes, "is_whole": job.is_whole and not job.gap, "taken": time.time()}
        row["gap"] = job.gap.replace("\0", "")[:_MOST_GAP]
        await self._save(Changes(run.framework, run.namespace, logs=[run.row() | row]))
        self.stored += bool(job.key)
        self.gaps += bool(job.gap)
        self._settle(run)

    def _settle(self, run: Run) -> None:
        known = self._pods[run.pod_uid]
        known.pending.discard(run.place)
        known.done.add(run.place)
        # A container may restart for ever, and of earlier runs only two are looked at.
        known.done.discard((run.container, run.restart - 3))
        self._look_after(run.pod_uid)

    def _look_after(self, uid: str) -> None:
        """Forget a Pod that is gone, and tell of one of which nothing is to be read."""
        known = self._pods[uid]
        if known.pod is None and not known.pending:
            del self._pods[uid]
        if self.kept(uid):
            self.changed.set()
            self.changed = asyncio.Event()


def _slim(pod: TaskPod) -> TaskPod:
    return msgspec.structs.replace(pod, metadata=pod.metadata.slim(runs.ANNOTATIONS))


def _brief(error: Exception) -> str:
    return str(error).partition("\n")[0][:_MOST_GAP]
