"""Keeps the logs of Pods: follows the Pods, has each log read once its run is over, or while it runs, and stores it.

Each log has a task, which reads it, stores its object, and saves its row; few of them are at work at a time. What fails
is tried again and holds up no other. What cannot be kept becomes a row that says so.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import tenacity
from msgspec.structs import replace

from frameworkclient.views.pods import TASK_POD_DECODER, TaskPod
from frameworkcontroller.api import names
from frameworkhistory.archive.changes import Changes
from frameworkhistory.logs import runs
from frameworkhistory.logs.reader import Reader
from frameworkhistory.logs.runs import Run
from frameworkhistory.logs.storage import Storage
from frameworkhistory.logs.tail import Memory, Tail
from frameworkkube.backoff import retrying
from frameworkkube.http.client import KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.log import Logger
from frameworkkube.paths import resource_path
from frameworkkube.slots import Slots

_log = Logger(__name__)

_STORES: Final = 16
_STORES_OF_ONE: Final = 12
"""Logs that are stored, and rows that are asked for, at a time: of all, and of one namespace."""
_LEAST_LINE: Final = 31
"""Bytes of a line, with its time."""
_MOST_GAP: Final = 300
_MOST_CONTAINERS: Final = 256
"""Of a Pod, as many as the controller lets it have."""
# Whatever storage and database raise: it may be over later.
_ANY: Final = tenacity.retry_if_exception_type(Exception)


@dataclass(frozen=True)
class Limits:
    """What logs may cost: how many of a namespace are read at a time after their end, and followed before it, and a
    quarter more of all; bytes of each, of those whose Pod asks for the whole log, per second, and in memory; seconds
    for which one is tried to be read, and stored.
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
    """A Pod: its newest state, None once it is gone, its Framework, its runs by container and restart, and its end."""

    pod: TaskPod | None
    place: tuple[str, str | None]
    pending: set[tuple[str, int]] = field(default_factory=set)
    done: set[tuple[str, int]] = field(default_factory=set)
    was_asked: bool = False
    is_over: bool = False


class Collector:
    """Keeps the logs of all Pods of Frameworks.

    Args:
        client: Of the API server.
        storage: Where logs go; None: none is read, and Pods are followed alone.
        save: Saves rows of logs, and returns whether their Framework is known. What it raises is tried again, for ever.
        known: Returns container and restart of the runs of a Pod that have a row, by the UIDs of its Framework and its
            own.
        namespaces: Where Pods are looked at, everywhere if none is named.
        limits: What it may cost.

    Attributes:
        changed: Is set, and replaced, when nothing more is to be read of a Pod.
        reader: Counts what is read.
        followed: Logs that are followed now, by namespace.
        stored, gaps: Rows of logs that are stored, and of such as could not be kept, or not to their end.
    """

    def __init__(
        self,
        client: KubeClient,
        storage: Storage | None,
        save: Callable[[Changes], Coroutine[Any, Any, bool]],
        known: Callable[[str, str], Awaitable[set[tuple[str, int]]]],
        limits: Limits = Limits(),
        namespaces: Sequence[str] = (),
    ) -> None:
        self.changed = asyncio.Event()
        self.reader = Reader(client, limits.reads, limits.bytes_per_second, limits.read_seconds)
        self.memory = Memory(limits.memory_bytes)
        self.followed: Counter[str] = Counter()
        self.stored = self.gaps = 0
        self._storage, self._save, self._has_row, self._limits = storage, save, known, limits
        self._turns = Slots(_STORES_OF_ONE, _STORES)
        self._pods: dict[str, _Known] = {}
        self._uids: dict[tuple[str, str | None], set[str]] = {}  # of Pods, by namespace and name of their Framework
        self._tasks: set[asyncio.Task[None]] = set()
        paths = [resource_path("v1", "pods", namespace=one) for one in namespaces or (None,)]
        own: Any = {"on_change": self.on_change, "keep": _slim, "label_selector": names.FRAMEWORK_NAME}
        self.informers = [Informer(client, path, TASK_POD_DECODER, **own) for path in paths]

    @property
    def has_synced(self) -> bool:
        """Whether all Pods were seen once."""
        return all(one.has_synced for one in self.informers)

    def kept(self, pod_uid: str) -> bool:
        """Report whether nothing more is to be read of a Pod: it was seen to end, and each of its logs has its row.

        One that is not known may have come and ended while the watch was broken.
        """
        known = self._pods.get(pod_uid)
        return known is not None and not known.pending and known.is_over

    def pods(self, namespace: str, framework: str) -> dict[str, TaskPod]:
        """Return the Pods of a Framework that exist, by Task."""
        found = (self._pods[uid].pod for uid in self._uids.get((namespace, framework), ()))
        return {pod.task: pod for pod in found if pod is not None}

    async def run(self) -> None:
        """Keep logs until cancelled.

        Raises:
            EtcdRestoredError: Start again; what is stored is known.
        """
        try:
            await asyncio.gather(*(one.run() for one in self.informers))
        finally:
            await self.close()

    async def close(self) -> None:
        """Leave what is not kept yet to the next process."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def on_change(self, before: TaskPod | None, after: TaskPod | None) -> None:
        """Begin what a change of a Pod makes necessary."""
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            known = self._pods.get(before.metadata.uid)
            if known is not None:
                known.pod, known.is_over = None, True
                for run, _ in runs.runs(before):
                    # What is not read by now is lost: the reader says so.
                    self._begin(known, run, before)
                self._look_after(before.metadata.uid)
        if after is not None and runs.framework_uid(after):
            place = after.metadata.namespace, after.metadata.labels.framework
            # Of a Pod that begins while this process is at work there are no rows.
            found = _Known(after, place, was_asked=self.has_synced)
            known = self._pods.setdefault(after.metadata.uid, found)
            self._uids.setdefault(known.place, set()).add(after.metadata.uid)
            known.pod, known.is_over = after, runs.is_over(after)
            is_deleted = after.metadata.deletion_timestamp is not None
            for run, is_over in runs.runs(after):
                follows = not is_over and self._may_follow(run.namespace)
                # Of one that is deleted and cannot be followed, what it has written until now is better than nothing.
                if is_over or is_deleted or (follows and runs.is_in_place(after)):
                    self._begin(known, run, after, follows=follows)
            self._look_after(after.metadata.uid)

    def _may_follow(self, namespace: str) -> bool:
        most = self._limits.followed
        return self.followed[namespace] < most and self.followed.total() < most + most // 4

    def _begin(self, known: _Known, run: Run, pod: TaskPod, *, follows: bool = False) -> None:
        if self._storage is not None and run.place not in known.done | known.pending:
            known.pending.add(run.place)
            self.followed[run.namespace] += follows
            task = asyncio.create_task(self._keep(self._storage, known, run, pod, follows=follows))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _keep(self, storage: Storage, known: _Known, run: Run, pod: TaskPod, *, follows: bool) -> None:
        """Read, store and save one log."""
        is_whole = pod.metadata.annotations.get(runs.KEEP_ANNOTATION) == runs.WHOLE
        limit = self._limits.whole_bytes if is_whole else self._limits.log_bytes
        # So many lines have more bytes than are kept.
        lines = None if is_whole else limit // _LEAST_LINE + 1
        tail = Tail(limit, self.memory, run.namespace)
        try:
            try:
                is_done = await self._is_done(known, run)
                gap = "" if is_done else await self.reader.read(run, tail, lambda: known.pod, lines, follows=follows)
            finally:
                self.followed[run.namespace] -= follows
            if not is_done:
                await self._store(storage, run, tail, gap)
        except Exception:  # noqa: BLE001 -- a fault of this program must not hold up the Pod
            _log.exception("a log is not kept", key=run.key)
        finally:
            tail.release()
        # Not when it was cancelled: nobody may call it kept.
        known.pending.discard(run.place)
        known.done.add(run.place)
        # A container may restart for ever, and of earlier runs only two are looked at.
        known.done.discard((run.container, run.restart - 3))
        self._look_after(run.pod_uid)

    async def _is_done(self, known: _Known, run: Run) -> bool:
        """Report whether there is a row of a run from before this process."""
        if not known.was_asked:
            # While the database is away, a log is rather read twice.
            async with self._turns.of(run.namespace):
                with contextlib.suppress(Exception):
                    known.done |= await self._has_row(run.framework, run.pod_uid)
                    known.was_asked = True
        return run.place in known.done

    async def _store(self, storage: Storage, run: Run, tail: Tail, gap: str) -> None:
        """Store a log, then save its row: who finds a row finds the log. What is neither stored nor a gap is empty."""
        key, size, packed = "", 0, 0
        if len(tail):
            try:
                stop = tenacity.stop_after_delay(self._limits.store_seconds)
                again = retrying(retry=_ANY, stop=stop, before_sleep=self._note)
                size, packed = await again(self._put, storage, run, tail)
                key = run.key
            except Exception as error:  # noqa: BLE001 -- of any storage
                gap = f"its log could not be stored: {_brief(error)}"
        tail.release()
        row = run.row() | {"key": key, "bytes": size, "packed": packed, "taken": time.time()}
        row |= {"is_whole": tail.is_whole and not gap, "gap": gap.replace("\0", "")[:_MOST_GAP]}
        rows = Changes(run.framework, run.namespace, logs=[row])
        is_known: bool = await retrying(retry=_ANY, before_sleep=self._note)(self._save, rows)
        if key and not is_known:
            # Of no Framework: whoever drops what is old would never meet it.
            with contextlib.suppress(Exception):
                await storage.delete([key])
            return
        self.stored += bool(key)
        self.gaps += bool(gap)

    async def _put(self, storage: Storage, run: Run, tail: Tail) -> tuple[int, int]:
        async with self._turns.of(run.namespace):
            lines = tail.lines()
            return len(lines), await storage.put(run.key, lines)

    @staticmethod
    def _note(state: tenacity.RetryCallState) -> None:
        error = state.outcome and state.outcome.exception()
        _log.warning("a log is tried again to be kept", attempt=state.attempt_number, error=_brief(error))

    def _look_after(self, uid: str) -> None:
        """Forget a Pod that is gone, and tell of one of which nothing is to be read."""
        known = self._pods.get(uid)
        if known is not None and known.pod is None and not known.pending:
            del self._pods[uid]
            of_framework = self._uids[known.place]
            of_framework.discard(uid)
            if not of_framework:
                del self._uids[known.place]
        if self.kept(uid):
            self.changed.set()
            self.changed = asyncio.Event()


def _slim(pod: TaskPod) -> TaskPod:
    first, spec, status = slice(_MOST_CONTAINERS), pod.spec, pod.status
    return replace(
        pod,
        metadata=pod.metadata.slim(runs.ANNOTATIONS),
        spec=replace(spec, containers=spec.containers[first], init_containers=spec.init_containers[first]),
        status=replace(
            status,
            container_statuses=status.container_statuses[first],
            init_container_statuses=status.init_container_statuses[first],
        ),
    )


def _brief(error: object) -> str:
    return str(error).partition("\n")[0][:_MOST_GAP]
