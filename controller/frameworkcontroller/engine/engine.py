"""The loop of the controller: observe, decide, write the status, act, observe again.

`run` makes one `Engine` per term of leadership and awaits `run()` until it is cancelled. On the way:

- `Caches` calls the engine for every change, and the engine puts the Framework's key into the `WorkQueue`;
- the dispatch loop takes a key and lets the Framework's reconciler (`core`) decide, with a view of the caches;
- logs, metrics, Events and snapshots are written, and effects are submitted to an `Executor`;
- the `Performer` makes the request, and the key is queued again: the next pass takes in the outcome.

The promise: decisions about one Framework are made one after the other; why a key was queued is never an input; no
effect starts unless this process may still act; whatever one Framework raises, the others go on (see `Reloader`).
"""

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, NoReturn

import structlog

from frameworkcontroller.api.framework import Framework
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import Subject
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.pods.facts import read_all
from frameworkcontroller.core.pods.snapshots import HistoryCause, Snapshot
from frameworkcontroller.core.policies.shares import PerNamespace, Shares
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.core.reconcile.decision import Decision
from frameworkcontroller.core.reconcile.reconciler import FrameworkReconciler
from frameworkcontroller.core.reconcile.task_pass import ends_turn
from frameworkcontroller.core.status.reports import Transition
from frameworkcontroller.engine.actions import Actions, Work
from frameworkcontroller.engine.cache.caches import Caches, CacheView, FrameworkKey
from frameworkcontroller.engine.cache.outline import Outline, outline_of
from frameworkcontroller.engine.foreign import ForeignGangs
from frameworkcontroller.engine.large import LargeFrameworks
from frameworkcontroller.engine.observe.event_recorder import EventRecorder
from frameworkcontroller.engine.observe.history import History
from frameworkcontroller.engine.observe.log import STDERR, LineWriter
from frameworkcontroller.engine.observe.metrics import Metrics
from frameworkcontroller.engine.quarantine import Reloader, edition_of
from frameworkcontroller.engine.requests.performer import Performer
from frameworkcontroller.engine.rest import Rest
from frameworkcontroller.engine.workers import DEFAULT_SLOTS, REST, Executor
from frameworkcontroller.engine.workqueue import WorkQueue
from frameworkkube.http.client import KubeClient
from frameworkkube.informer.watch_events import UndecodableObject

_log = structlog.get_logger(__name__)

# Statuses that can be put off leave their turn to others of their namespace for so long for each that waits, or was
# written lately.
PUT_OFF_SECONDS: Final = 0.5


class Engine:
    """The controller of all Frameworks of a cluster, or of some namespaces.

    Args:
        namespaces: () for all.
        foreign_gangs: whether to keep the rosters of gangs of other controllers.
        slots: requests about Pods and other objects at a time.
        metrics: where to count; a fresh set by default.
        triggers: of the history snapshots, which `lines` takes.
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
        namespaces: Sequence[str] = (),
        foreign_gangs: bool = False,
        slots: int = DEFAULT_SLOTS,
        metrics: Metrics | None = None,
        triggers: frozenset[HistoryCause] = frozenset(HistoryCause),
        lines: LineWriter = STDERR,
        may_act: Callable[[], bool] = lambda: True,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._clock = config, clock
        self._monotonic, self._started, self._started_wall = monotonic, monotonic(), clock()
        self._history = History(lines, triggers)
        self.on_pod_gone = self._history.write_pod
        self._events = EventRecorder(client, clock=clock)
        self._queue: WorkQueue[FrameworkKey] = WorkQueue()
        self._works: dict[FrameworkKey, Work] = {}
        self._shares = PerNamespace(Shares)
        self._large = LargeFrameworks(lambda namespace: self._shares[namespace].idle)
        self._tasks = asyncio.TaskGroup()
        self.metrics = metrics or Metrics(config.codes)
        self._caches = Caches(client, namespaces, self, config, self.metrics.group_seconds.observe)
        self._reads = Executor(slots=1, rest=lambda _: REST)
        self._actions = Actions(
            self._is_current, may_act, self._on_end, performer, self.metrics, slots=slots, now=self._now
        )
        self._rest = Rest(performer, config, clock, may_act, self._queue.add_after, self.metrics)
        self._reloader = Reloader(client, self._tasks, self.metrics, self._take_over, self._report_failure)
        self.metrics.watch(
            lambda: [work.reconciler for work in self._works.values()],
            self._rest.states,
            self._queue,
            self._reloader.quarantined,
            lambda: self._caches.undecodable,
        )
        self.metrics.events_dropped.set_function(partial(getattr, self._events, "dropped"))
        self._foreign = None
        if foreign_gangs:
            self._foreign = ForeignGangs(
                client,
                namespaces,
                performer,
                self._events,
                self.metrics,
                grants=config.grant_roster_access,
                slots=slots,
                may_act=may_act,
                now=self._now,
            )
        self._queue.on_add, self._queue.on_take = self.metrics.queue_adds.inc, self.metrics.queue_seconds.observe

    @property
    def has_synced(self) -> bool:
        """Whether the caches are full, so that decisions are made."""
        return self._caches.has_synced and (self._foreign is None or self._foreign.has_synced)

    @property
    def stalled_seconds(self) -> float:
        """For how long nothing was decided though something waits; 0 while the caches are not full."""
        foreign = 0.0 if self._foreign is None else self._foreign.stalled_seconds
        return max(self._queue.stalled_seconds, foreign) if self.has_synced else 0.0

    async def run(self) -> None:
        """Work until cancelled; call it once."""
        async with self._tasks as group:
            for part in (self._caches, self._actions, self._reads, self._rest, self._events):
                group.create_task(part.run())
            group.create_task(self._dispatch())
            if self._foreign is not None:
                group.create_task(self._foreign.run())

    # --- observe: called by the caches -------------------------------------------------------------------------------

    def on_framework(self, key: FrameworkKey) -> None:
        """Queue the Framework."""
        if key in self._reloader:
            self._reloader.notice(key, self._edition(key))
        self._wake(key)

    def _wake(self, key: FrameworkKey) -> None:
        """Queue the Framework; one whose pass goes on is queued for that, and once more after it."""
        if (work := self._works.get(key)) is not None and work.begun is not None:
            work.again = True
        self._queue.add(key)

    def keep_framework(self, found: Framework) -> Framework:
        """Keep an outline of a Framework that is at rest, unless it is still worked on."""
        meta = found.metadata
        if (meta.namespace, meta.name) in self._works:
            return found
        try:
            return outline_of(found) or found
        except Exception:  # noqa: BLE001 -- the attempt to decide on it says what is wrong; here it would end the informer
            return found

    def on_framework_gone(self, last: Framework) -> None:
        """Forget the Framework, and write its last state to the history.

        The garbage collector deletes its Pods, and outcomes of its effects are ignored.
        """
        key = last.metadata.namespace, last.metadata.name
        self._drop(key)
        self._large.forget(key)
        self._rest.forget(key)
        self._queue.forget(key)
        self._reloader.forget(key)
        self._history.write_framework(last)

    def on_undecodable_framework(self, found: UndecodableObject) -> None:
        """Tell its users that the Framework cannot be read; the watch shows it again when they have mended it."""
        subject = Subject(found.identity.namespace, found.identity.name, found.identity.uid)
        self._warn(subject, "Unreadable", f"the Framework cannot be read and is left alone: {found.reason}")

    def on_config_map(self, key: FrameworkKey) -> None:
        """Queue the Framework if it is known; an unknown one is decided on when it is seen itself."""
        if (work := self._works.get(key)) is not None:
            work.reconciler.touch_config_map()
            self._wake(key)
        elif self._rest.is_suspended(key):
            self._queue.add(key)

    def on_companion(self, key: FrameworkKey, group: str) -> None:
        """Queue the Framework if it is known, or at rest."""
        if (work := self._works.get(key)) is not None:
            if work.reconciler.touch_companion(group):
                self._wake(key)
        elif key in self._rest and not group:
            self._queue.add(key)

    def on_news(self) -> None:
        """Queue all Frameworks: some may have waited for that."""
        for key in self._works:
            self._wake(key)

    def on_pod(self, key: FrameworkKey, name: str) -> None:
        """Queue the Framework if it is known, with this one Pod as changed."""
        if (work := self._works.get(key)) is not None and work.reconciler.touch_pod(name):
            self._wake(key)

    # --- decide ------------------------------------------------------------------------------------------------------

    async def _dispatch(self) -> NoReturn:
        await self._caches.synced()
        _log.info("caches are full", **self._caches.sizes)
        await self._queue.serve(self._decide)

    def _decide(self, key: FrameworkKey, until: float) -> None:
        """Decide on a Framework until this time; what is left goes on in its next turn."""
        work = self._works.get(key)
        begun = None if work is None else work.begun
        for _ in (turn := begun or self._reconcile(key)):
            if time.perf_counter() > until:
                self._works[key].begun = turn
                self._queue.add(key)
                return
        if work is not None and work.again:
            work.again = False
            self._queue.add(key)

    def _reconcile(self, key: FrameworkKey) -> Iterator[None]:
        """Decide on a Framework, and yield now and then."""
        view = self._caches.view(key)
        if view is None or key in self._reloader:
            return
        try:
            work = self._work_on(key, view)
            if work is None:
                return
            now, begun = self._now(), time.perf_counter()
            outcomes, work.outcomes = work.outcomes, []
            for place, (effect, outcome) in enumerate(outcomes):
                if ends_turn(place):
                    yield
                work.reconciler.apply_outcome(effect, outcome, now)
            if not work.reads and work.reconciler.spec.unread(view.framework):
                work.reads = True
                self._reads.submit(key, partial(self._read_templates, work))
            backpressure = timedelta(seconds=PUT_OFF_SECONDS * self._actions.status_load(key[0]))
            decision = yield from work.reconciler.steps(now, view, backpressure=backpressure)
            self.metrics.reconciled(time.perf_counter() - begun, again=decision.wake_at is not None)
            if work.reconciler.stale:
                self._drop(key)
                self._reloader.read(key, "another writer changed the status")
                return
            self._large.add(work)
            yield from self._report(work, decision)
            work.begun, work.settled = None, work.settled or work.reconciler.is_persisted
            work.ledger_state = self.metrics.seconds.move(work.ledger_state, work.reconciler.ledger_state)
            self._actions.submit(work, decision.effects)
            if decision.wake_at is not None:
                self._queue.add_after(key, (decision.wake_at - now.steady).total_seconds())
            outline = outline_of(view.framework) if decision.at_rest else None
            if outline is not None and (outline.is_going or self._rest.left(outline) > timedelta()):
                self._drop(key)
                self._caches.keep(outline)
                self._rest.put(key, outline)
        except Exception as error:  # noqa: BLE001 -- a status that cannot be read, a defect of this program
            self._isolate(key, error)

    def _work_on(self, key: FrameworkKey, view: CacheView) -> Work | None:
        """Return the work of the Framework that the cache shows, None if nothing is to be decided now."""
        work = self._works.get(key)
        if isinstance(view.framework, Outline):
            if work is None and (left := self._rest.leftover(view)):
                self._read_in_turn(key, f"it is at rest and has a {left}")
                return None
            if work is None:
                self._large.forget(key)
                self._rest.put(key, view.framework)
                return None
            # It was read again although it is at rest; the cache needs no more of it.
            view.framework = work.reconciler.spec.seen
        if work is None and (seconds := self._large.wait_seconds(key, view.framework, view.config_map())):
            self._queue.add_after(key, seconds)
            return None
        if work is None or work.reconciler.uid != view.framework.metadata.uid:
            if work is not None and work.reconciler.spec.knows_newer(view.framework):
                return None  # the cache still shows an earlier Framework of this name, and will show this one
            work = self._start(key, view.framework)
        return work

    async def _read_templates(self, work: Work) -> None:
        """Read large templates in a thread, one Framework's at a time: a large one holds the interpreter throughout.

        Those that the cache shows by now: what waits for its turn keeps no bytes of a state that was edited since.
        """
        view, spec = self._caches.view(work.key), work.reconciler.spec
        if view is None or not self._is_current(work):
            return
        try:
            # Of one that is at rest and was read again the cache has an outline.
            shown = spec.seen if isinstance(view.framework, Outline) else view.framework
            spec.templates.learn(await asyncio.to_thread(read_all, spec.unread(shown)))
            self._wake(work.key)
        except Exception as error:  # noqa: BLE001 -- as above
            self._on_end(work, error)
        finally:
            work.reads = False

    def _now(self) -> Now:
        return Now(self._started_wall + timedelta(seconds=self._monotonic() - self._started), self._clock())

    def _report(self, work: Work, decision: Decision) -> Iterator[None]:
        """Write snapshots, metrics, logs and Events; before any effect starts, which may end what they show."""
        snapshots = [report for report in decision.reports if isinstance(report, Snapshot)]
        for written in self._history.write_pass(*work.key, snapshots):
            work.history = written
            yield
        for place, report in enumerate(decision.reports):
            if ends_turn(place):
                yield
            self.metrics.reported(report)
            match report:
                case Transition():
                    _log.info(
                        "state changed",
                        framework="/".join(work.key),
                        kind=report.kind,
                        subject=report.subject,
                        before=str(report.before),
                        after=str(report.after),
                        reason=report.reason,
                    )
                case KubeEvent():
                    self._events.record(work.subject, report)

    def _start(self, key: FrameworkKey, seen: Framework) -> Work:
        reconciler = FrameworkReconciler(
            seen, self._config, new_uid=lambda: str(uuid.uuid4()), draw=random.random, shares=self._shares[key[0]]
        )
        self._drop(key)
        work = Work(key, reconciler)
        self._large.add(work)
        self._works[key] = work
        self._rest.forget(key)
        return work

    def _is_current(self, work: Work) -> bool:
        return self._works.get(work.key) is work

    def _on_end(self, work: Work, error: Exception | None) -> None:
        """Take in that an effect has ended; what becomes of work that was discarded concerns nobody."""
        if not self._is_current(work):
            return
        if error is None:
            self._wake(work.key)
        else:
            self._isolate(work.key, error)

    # --- isolate -----------------------------------------------------------------------------------------------------

    def _isolate(self, key: FrameworkKey, error: Exception) -> None:
        """Discard the work, and read the Framework again after a while: only this one raised."""
        self._drop(key)
        self._reloader.isolate(key, error, self._edition(key))

    def _drop(self, key: FrameworkKey) -> None:
        if (work := self._works.pop(key, None)) is not None:
            # A pass that goes on refers to its work.
            work.begun, work.ledger_state = None, self.metrics.seconds.move(work.ledger_state, "")
            work.reconciler.leave()
            self._actions.withdraw(key)
            self._reads.withdraw(key)

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

    def _read_in_turn(self, key: FrameworkKey, why: str, after: float = 0.0) -> None:
        turn = self._shares[key[0]].reads.reserve(asyncio.get_running_loop().time())
        self._reloader.read(key, why, after=max(after, turn))

    def _take_over(self, key: FrameworkKey, seen: Framework) -> None:
        # It may be deleted since it was read; then nothing would ever discard the work.
        if (view := self._caches.view(key)) is None:
            return
        if seconds := self._large.wait_seconds(key, seen, view.config_map()):
            # What the cache has may be older than what was read, and what was read would be kept until then.
            self._read_in_turn(key, "it waits until others of its namespace have begun", after=seconds)
            return
        self._start(key, seen)
        self._queue.add(key)
