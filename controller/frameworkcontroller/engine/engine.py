"""The loop of the controller: observe, decide, write the status, act, observe again.

`run` makes one `Engine` per term of leadership and awaits `run()` until it is cancelled. On the way:

- `Caches` calls the engine for every change, and the engine puts the Framework's key into the `WorkQueue`;
- the dispatch loop takes a key and lets the Framework's reconciler (`core`) decide, with a view of the caches;
- logs, metrics, Events and snapshots are written, and effects are submitted to the `Executor`;
- the `Performer` makes the request, the reconciler applies the outcome, and the key is queued again.

The promise: decisions about one Framework are made one after the other; why a key was queued is never an input; no
effect starts unless this process may still act; whatever one Framework raises, the others go on (see `Reloader`).
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

from frameworkcontroller.api.pod import POD_DECODER
from frameworkcontroller.core import snapshots
from frameworkcontroller.core.attempt import duration
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import (
    CreatePod,
    DeletePod,
    Done,
    Dropped,
    Effect,
    Missing,
    RetainPod,
    WriteStatus,
)
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.framework import expiry_of
from frameworkcontroller.core.outcomes import failure_of
from frameworkcontroller.core.reconciler import FrameworkReconciler
from frameworkcontroller.core.snapshots import History, Snapshot, Trigger
from frameworkcontroller.engine.caches import Caches, FrameworkKey
from frameworkcontroller.engine.eventrecorder import EventRecorder
from frameworkcontroller.engine.executor import DEFAULT_SLOTS, OBJECTS_PER_STATUS, Executor
from frameworkcontroller.engine.log import STDERR, LineWriter
from frameworkcontroller.engine.manifests import Subject
from frameworkcontroller.engine.metrics import Metrics
from frameworkcontroller.engine.outline import Outline, outline_of
from frameworkcontroller.engine.queue import WorkQueue
from frameworkcontroller.engine.reloader import Reloader, edition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frameworkcontroller.api.framework import Framework
    from frameworkcontroller.core.config import CoreConfig
    from frameworkcontroller.core.context import Decision
    from frameworkcontroller.engine.performer import Performer
    from frameworkkube.rest import KubeClient
    from frameworkkube.watchevents import UndecodableObject

_log = structlog.get_logger(__name__)

# Decisions are made in a row for so long; then other tasks of the event loop get their turn: lease, health, requests.
DECIDING_SECONDS: Final = 0.01
# The status of so many Tasks costs the API server some hundred milliseconds: few are written at a time, and statuses
# of others do not wait for them.
LARGE_STATUS_TASKS: Final = 500
LARGE_STATUS_SLOTS: Final = 2
# How often an effect asks whether the history is written that it may overwrite, and whether a pass has ended.
WAIT_SECONDS: Final = 0.002
# How long effects wait for a line of history.
WRITTEN_SECONDS: Final = 0.1


@dataclass(frozen=True)
class WorkItem:
    """An effect that waits for its turn, or is performed."""

    key: FrameworkKey
    reconciler: FrameworkReconciler
    effect: Effect


class Engine:
    """The controller of all Frameworks of a cluster, or of one namespace.

    Args:
        client: of the API server, to watch with.
        performer: performs the effects.
        config: the settings that decisions depend on.
        namespace: "" for all.
        slots: requests about Pods and other objects at a time.
        metrics: where to count; a fresh set by default.
        triggers: which history snapshots to write.
        lines: takes lines of history.
        may_act: whether this process may still change anything; asked right before each effect.
        clock: the time of day, aware.
        monotonic: seconds that never go back, by which pauses are measured.
    """

    def __init__(
        self,
        client: KubeClient,
        performer: Performer,
        config: CoreConfig,
        *,
        namespace: str = "",
        slots: int = DEFAULT_SLOTS,
        metrics: Metrics | None = None,
        triggers: frozenset[Trigger] = frozenset(Trigger),
        lines: LineWriter = STDERR,
        may_act: Callable[[], bool] = lambda: True,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._config, self._clock = client, config, clock
        self._monotonic, self._started, self._started_wall = monotonic, monotonic(), clock()
        self._performer = performer
        self._triggers, self._lines, self._may_act = triggers, lines, may_act
        self._last_lines: dict[FrameworkKey, tuple[int, float]] = {}
        self._begun: dict[FrameworkKey, Iterator[None]] = {}
        self._history = History()
        self._last_kept: Framework | None = None
        self._events = EventRecorder(client, clock=clock)
        self._executor: Executor[WorkItem] = Executor(self._perform, slots=slots)
        self._status_executor: Executor[WorkItem] = Executor(self._perform, slots=max(1, slots // OBJECTS_PER_STATUS))
        self._large_executor: Executor[WorkItem] = Executor(self._perform, slots=LARGE_STATUS_SLOTS)
        self._queue: WorkQueue[FrameworkKey] = WorkQueue()
        self._reconcilers: dict[FrameworkKey, FrameworkReconciler] = {}
        self._at_rest: dict[FrameworkKey, None] = {}
        self._tasks = asyncio.TaskGroup()
        self._caches = Caches(client, namespace, self)
        self.metrics = metrics or Metrics(config.codes)
        self._reloader = Reloader(client, self._tasks, self.metrics, self._take_over, self._report_failure)
        self.metrics.watch(self._reconcilers.values, self._at_rest.__len__, self._queue.__len__)
        self.metrics.watch_trouble(self._reloader.quarantined, lambda: self._caches.undecodable)
        self._queue.on_add, self._queue.on_take = self.metrics.queue_adds.inc, self.metrics.queue_seconds.observe

    @property
    def has_synced(self) -> bool:
        """Whether the caches are full, so that decisions are made."""
        return self._caches.has_synced

    @property
    def oldest_wait_seconds(self) -> float:
        """How long the Framework that waits longest for a decision has waited; 0 while the caches are not full."""
        return self._queue.oldest_seconds if self.has_synced else 0.0

    async def run(self) -> NoReturn:
        """Work until cancelled; call it once."""
        async with self._tasks as group:
            group.create_task(self._caches.run())
            group.create_task(self._executor.run())
            group.create_task(self._status_executor.run())
            group.create_task(self._large_executor.run())
            group.create_task(self._events.run())
            group.create_task(self._dispatch())
        raise AssertionError

    # --- observe: called by the caches -------------------------------------------------------------------------------

    def on_framework(self, key: FrameworkKey) -> None:
        """Queue the Framework."""
        if key in self._reloader:
            self._reloader.notice(key, self._edition(key))
        self._queue.add(key)

    def keep_framework(self, found: Framework) -> Framework:
        """Keep an outline of a Framework that is at rest, unless it is still worked on."""
        meta = found.metadata
        if (meta.namespace, meta.name) in self._reconcilers:
            return found
        try:
            return outline_of(found) or found
        except Exception:  # noqa: BLE001 -- the attempt to decide on it says what is wrong; here it would end the informer
            return found

    def on_framework_gone(self, key: FrameworkKey) -> None:
        """Forget the Framework: the garbage collector deletes its Pods, and outcomes of its effects are ignored."""
        self._reconcilers.pop(key, None)
        self._at_rest.pop(key, None)
        self._queue.forget(key)
        self._last_lines.pop(key, None)
        self._begun.pop(key, None)
        self._reloader.forget(key)

    def on_framework_deletion(self, last: Framework) -> None:
        """Write the Framework's last state to the history."""
        if last.has_status:
            # As it was stored: a status that cannot be decoded belongs to the history, too.
            meta, snapshot = last.metadata, snapshots.of_framework(Trigger.FRAMEWORK_DELETION, last, last.status)
            self._write_snapshot(meta.namespace, meta.name, snapshot)

    def on_undecodable_framework(self, found: UndecodableObject) -> None:
        """Tell its users that the Framework cannot be read; the watch shows it again when they have mended it."""
        subject = Subject(found.identity.namespace, found.identity.name, found.identity.uid)
        self._warn(subject, "Unreadable", f"the Framework cannot be read and is left alone: {found.reason}")

    def on_config_map(self, key: FrameworkKey) -> None:
        """Queue the Framework if it is known; an unknown one is decided on when it is seen itself."""
        reconciler = self._reconcilers.get(key)
        if reconciler is not None:
            reconciler.touch_config_map()
            self._queue.add(key)

    def on_pod(self, key: FrameworkKey, name: str) -> None:
        """Queue the Framework if it is known, with this one Pod as changed."""
        reconciler = self._reconcilers.get(key)
        if reconciler is not None:
            reconciler.touch_pod(name)
            self._queue.add(key)

    def on_pod_gone(self, document: bytes) -> None:
        """Write the Pod's last state to the history."""
        meta = POD_DECODER.decode(document).metadata
        typed = b'{"apiVersion":"v1","kind":"Pod",' + document.lstrip()[1:]
        whole = document if b'"kind":"Pod"' in document else typed
        self._write_snapshot(meta.namespace, meta.name, snapshots.of_pod(whole))

    def _write_snapshot(self, namespace: str, name: str, snapshot: Snapshot) -> int:
        """Write a line of history, and return its number, 0 if it is not wanted."""
        if snapshot.trigger not in self._triggers:
            return 0
        size = snapshot.size
        if snapshot.seen is not self._last_kept and snapshot.seen is not None:
            # The snapshots of one pass keep one state of the Framework.
            size += snapshot.seen.size
        self._last_kept = snapshot.seen
        return self._lines.put(partial(self._history.lines, f"{namespace}/{name}", snapshot), size)

    # --- decide ------------------------------------------------------------------------------------------------------

    async def _dispatch(self) -> NoReturn:
        await self._caches.synced()
        _log.info("caches are full", **self._caches.sizes)
        since = time.perf_counter()
        while True:
            key = await self._queue.take()
            begun = time.perf_counter()
            work = self._begun.pop(key, None) or self._reconcile(key)
            for _ in work:
                if time.perf_counter() - begun > DECIDING_SECONDS:
                    # It goes on in its next turn, and its effects wait for that.
                    self._begun[key] = work
                    break
            ended = time.perf_counter()
            self._queue.charge(key, ended - begun)
            if key in self._begun:
                self._queue.add(key)
            if ended - since > DECIDING_SECONDS:
                await asyncio.sleep(0)
                since = time.perf_counter()

    def _reconcile(self, key: FrameworkKey) -> Iterator[None]:
        """Decide on a Framework, and yield now and then."""
        view = self._caches.view(key)
        if view is None or key in self._reloader:
            return
        try:
            reconciler = self._reconcilers.get(key)
            if isinstance(view.framework, Outline):
                if reconciler is None:
                    self._rest(key, view.framework)
                    return
                # It was read because its time is over; the cache needs no more of it.
                view.framework = reconciler.seen
            if reconciler is None or reconciler.uid != view.framework.metadata.uid:
                if reconciler is not None and reconciler.knows_newer(view.framework):
                    return  # the cache still shows an earlier Framework of this name, and will show this one
                reconciler = self._start(key, view.framework)
            now, begun = self._now(), time.perf_counter()
            backpressure = timedelta(seconds=self._status_executor.put_off_seconds)
            decision = yield from reconciler.steps(now, view, backpressure=backpressure)
            self.metrics.reconciled(time.perf_counter() - begun, again=decision.wake_at is not None)
            if reconciler.stale:
                del self._reconcilers[key]
                self._reloader.read(key, "another writer changed the status")
                return
            self._report(key, reconciler, decision)
            self._submit(key, reconciler, decision.effects)
            if decision.wake_at is not None:
                self._queue.add_after(key, (decision.wake_at - now.steady).total_seconds())
            outline = outline_of(view.framework) if decision.at_rest else None
            if outline is not None and self._left(outline) > timedelta():
                del self._reconcilers[key]
                self._caches.keep(outline)
                self._rest(key, outline)
        except Exception as error:  # noqa: BLE001 -- a status that cannot be read, a defect of this program
            self._isolate(key, error)

    def _rest(self, key: FrameworkKey, outline: Outline) -> None:
        """Leave the Framework alone until it is to be deleted; then it is read again, and decided on."""
        left = self._left(outline)
        self._at_rest[key] = None
        if left > timedelta():
            self._queue.add_after(key, left.total_seconds())
        else:
            self._reloader.read(key, "its time to be kept is over")

    def _left(self, outline: Outline) -> timedelta:
        retain = duration(self._config.framework_completed_retain_sec)
        return expiry_of(outline.since, outline.ttl_seconds, retain) - self._clock()

    def _now(self) -> Now:
        return Now(self._started_wall + timedelta(seconds=self._monotonic() - self._started), self._clock())

    def _report(self, key: FrameworkKey, reconciler: FrameworkReconciler, decision: Decision) -> None:
        """Write snapshots, metrics, logs and Events; before any effect starts, which may end what they show."""
        for snapshot in decision.snapshots:
            self._last_lines[key] = self._write_snapshot(*key, snapshot), time.monotonic() + WRITTEN_SECONDS
        for milestone in decision.milestones:
            self.metrics.milestone_reached(milestone)
        for reason in decision.restarts:
            self.metrics.gang_restarted(reason)
        for transition in decision.transitions:
            self.metrics.state_changed(transition)
            _log.info(
                "state changed",
                framework="/".join(key),
                kind=transition.kind,
                subject=transition.subject,
                before=str(transition.before),
                after=str(transition.after),
                reason=transition.reason,
            )
        subject = Subject(reconciler.namespace, reconciler.name, reconciler.uid)
        for event in decision.events:
            self._events.record(subject, event)
            self.metrics.events_dropped.set(self._events.dropped)

    def _submit(self, key: FrameworkKey, reconciler: FrameworkReconciler, effects: list[Effect]) -> None:
        for effect in effects:
            executor = self._executor
            if isinstance(effect, WriteStatus):
                is_large = effect.summary.tasks[1] > LARGE_STATUS_TASKS
                executor = self._large_executor if is_large else self._status_executor
            urgent = not isinstance(effect, CreatePod | DeletePod | RetainPod)
            executor.submit(key, WorkItem(key, reconciler, effect), urgent=urgent)

    def _start(self, key: FrameworkKey, seen: Framework) -> FrameworkReconciler:
        reconciler = FrameworkReconciler(seen, self._config, new_uid=lambda: str(uuid.uuid4()), draw=random.random)
        self._reconcilers[key] = reconciler
        self._begun.pop(key, None)
        self._at_rest.pop(key, None)
        return reconciler

    # --- act ---------------------------------------------------------------------------------------------------------

    async def _perform(self, item: WorkItem) -> None:
        number, until = self._last_lines.get(item.key, (0, 0.0))
        # An effect may overwrite what a snapshot shows; but nobody waits long for a reader that is slow.
        while self._lines.is_on_its_way(number) and time.monotonic() < until:  # noqa: ASYNC110 -- a thread writes it
            await asyncio.sleep(WAIT_SECONDS)
        await self._end_of_pass(item.key)
        if self._reconcilers.get(item.key) is not item.reconciler or not self._may_act():
            return  # the reconciler was discarded since it asked for the effect, or this replica lost the lease
        try:
            await self._perform_for(item.key, item.reconciler, item.effect)
        except Exception as error:  # noqa: BLE001 -- the executor's workers are everybody's
            if self._reconcilers.get(item.key) is item.reconciler:
                self._isolate(item.key, error)

    async def _perform_for(self, key: FrameworkKey, reconciler: FrameworkReconciler, effect: Effect) -> None:
        subject = Subject(reconciler.namespace, reconciler.name, reconciler.uid)
        wanted = reconciler.at_turn(effect, self._now())
        effect = wanted or effect
        outcome = Dropped() if wanted is None else await self._performer.perform(subject, effect)
        if isinstance(effect, WriteStatus) and not isinstance(outcome, Done):
            self.metrics.status_write_failed(outcome)
            if isinstance(outcome, Missing):
                _log.warning("status not written: there is no such Framework", framework="/".join(key))
        await self._end_of_pass(key)
        failure = failure_of(effect, outcome)
        if failure is not None:
            self.metrics.retries.inc()
            _log.warning(
                "request failed, will be tried again",
                framework="/".join(key),
                effect=type(effect).__name__,
                about="/".join(str(part) for part in effect.key),
                error=failure.message,
            )
        reconciler.apply_outcome(effect, outcome, self._now())
        if self._reconcilers.get(key) is reconciler:
            self._queue.add(key)

    async def _end_of_pass(self, key: FrameworkKey) -> None:
        while key in self._begun:  # noqa: ASYNC110 -- a long pass is rare, and lasts for some turns of the loop
            await asyncio.sleep(WAIT_SECONDS)

    # --- isolate -----------------------------------------------------------------------------------------------------

    def _isolate(self, key: FrameworkKey, error: Exception) -> None:
        """Discard the reconciler, and read the Framework again after a while: only this one raised."""
        self._reconcilers.pop(key, None)
        self._begun.pop(key, None)
        self._reloader.isolate(key, error, self._edition(key))

    def _report_failure(self, key: FrameworkKey, error: Exception) -> None:
        uid, _ = self._edition(key)
        text = f"the Framework cannot be processed and will be tried again: {type(error).__name__}: {error}"
        self._warn(Subject(*key, uid), "Quarantined", text)

    def _warn(self, subject: Subject, reason: str, text: str) -> None:
        if subject.uid:
            self._events.record(subject, KubeEvent(reason, text, warning=True))

    def _edition(self, key: FrameworkKey) -> tuple[str, int]:
        view = self._caches.view(key)
        return (None if view is None else edition_of(view.framework)) or ("", 0)

    def _take_over(self, key: FrameworkKey, seen: Framework) -> None:
        # It may be deleted since it was read; then nothing would ever discard the reconciler.
        if self._caches.view(key) is not None:
            self._start(key, seen)
            self._queue.add(key)
