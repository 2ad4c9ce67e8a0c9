"""Feeds the reconcilers with what the informers see, performs what they decide, and tells them what became of it."""

from __future__ import annotations

import asyncio
import random
import sys
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

import structlog

from frameworkcontroller.api import names
from frameworkcontroller.api.types import FRAMEWORK_DECODER, PARTIAL_DECODER, POD_DECODER, Framework, Partial, Pod
from frameworkcontroller.cluster.informer import Informer
from frameworkcontroller.cluster.rest import PARTIAL_METADATA, KubeClient, KubeError, NotFound, resource_path
from frameworkcontroller.core import snapshots
from frameworkcontroller.core.effects import CreatePod, DeletePod, Dropped, Effect, Failed, WriteStatus
from frameworkcontroller.core.reconciler import FrameworkReconciler
from frameworkcontroller.core.snapshots import Snapshot, Trigger

from .events import EventRecorder
from .executor import DEFAULT_SLOTS, OBJECTS_PER_STATUS, Executor
from .manifests import Subject
from .metrics import Metrics
from .queue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkcontroller.core.config import CoreConfig

    from .performer import Performer

_log = structlog.get_logger(__name__)

Key: TypeAlias = tuple[str, str]
"""Namespace and name of a Framework."""

RELOAD_AGAIN_SECONDS: Final = 5.0
# A pass is short; after this many in a row the event loop's other tasks get their turn.
PASSES_AT_A_TIME: Final = 20


def write_line(line: bytes) -> None:
    """To stderr, at once: what follows may end what the line tells of."""
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()


@dataclass(frozen=True)
class Job:
    """An effect on its way, or the (re)loading of a reconciler if there is none."""

    key: Key
    reconciler: FrameworkReconciler | None = None
    effect: Effect | None = None


class _View:
    """One Framework as the caches show it."""

    def __init__(self, framework: Framework, config_maps: Informer[Partial], pods: Informer[Pod]) -> None:
        self.framework = framework
        self._config_maps, self._pods = config_maps, pods
        self._namespace = framework.metadata.namespace

    def config_map(self) -> Partial | None:
        return self._config_maps.get(self._namespace, names.config_map_name(self.framework.metadata.name))

    def pod(self, name: str) -> Pod | None:
        return self._pods.get(self._namespace, name)


class Engine:
    """The controller of all Frameworks of a cluster, or of one namespace.

    Args:
        client: of the API server, to watch with.
        performer: performs the effects.
        config: what decisions depend on.
        namespace: "" for all.
        slots: requests about Pods and other objects at a time.
        metrics: where to count; a fresh set by default.
        kept: which history snapshots to write.
        sink: takes a line of history.
        may_act: whether this process may still change anything; asked right before each effect.
        clock: the time of day, aware.
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
        kept: frozenset[Trigger] = frozenset(Trigger),
        sink: Callable[[bytes], None] = write_line,
        may_act: Callable[[], bool] = lambda: True,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client, self._config, self._clock = client, config, clock
        self._performer = performer
        self._kept, self._sink, self._may_act = kept, sink, may_act
        self._events = EventRecorder(client, clock=clock)
        self._executor: Executor[Job] = Executor(self._perform, slots=slots)
        self._writers: Executor[Job] = Executor(self._perform, slots=max(1, slots // OBJECTS_PER_STATUS))
        self._queue: WorkQueue[Key] = WorkQueue()
        self._reconcilers: dict[Key, FrameworkReconciler] = {}
        self._loading: set[Key] = set()
        where = namespace or None
        self._frameworks = Informer(
            client,
            resource_path(names.API_VERSION, names.PLURAL, namespace=where),
            FRAMEWORK_DECODER,
            on_change=self._on_framework,
        )
        self._config_maps = Informer(
            client,
            resource_path("v1", "configmaps", namespace=where),
            PARTIAL_DECODER,
            on_change=self._on_config_map,
            label_selector=names.FRAMEWORK_NAME,
            accept=PARTIAL_METADATA,
        )
        self._pods = Informer(
            client,
            resource_path("v1", "pods", namespace=where),
            POD_DECODER,
            on_change=self._on_pod,
            on_deleted=self._on_deleted_pod,
            label_selector=names.FRAMEWORK_NAME,
        )
        self.metrics = metrics or Metrics()
        self.metrics.watch(self._reconcilers.values, self._queue.__len__)
        self._queue.on_add, self._queue.on_take = self.metrics.queue_adds.inc, self.metrics.queue_seconds.observe

    @property
    def has_synced(self) -> bool:
        """Whether the caches are full, so that decisions are made."""
        return all(informer.has_synced for informer in (self._frameworks, self._config_maps, self._pods))

    @property
    def waits_seconds(self) -> float:
        """How long a Framework has waited to be looked at; 0 while there are no caches to look at it with."""
        return self._queue.oldest_seconds if self.has_synced else 0.0

    async def run(self) -> NoReturn:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in (self._frameworks, self._config_maps, self._pods):
                group.create_task(informer.run())
            group.create_task(self._executor.run())
            group.create_task(self._writers.run())
            group.create_task(self._events.run())
            group.create_task(self._dispatch())
        raise AssertionError

    # --- what is seen ------------------------------------------------------------------------------------------------

    def _on_framework(self, old: Framework | None, new: Framework | None) -> None:
        seen = new or old
        assert seen is not None
        key = (seen.metadata.namespace, seen.metadata.name)
        if new is None:
            status = seen.stored_status()
            if status is not None:
                self._keep(key, snapshots.of_framework(Trigger.FRAMEWORK_DELETION, seen, status))
            # Its Pods are the garbage collector's; what is still under way is answered to nobody.
            self._reconcilers.pop(key, None)
            self._queue.forget(key)
        else:
            self._queue.add(key)

    def _on_config_map(self, old: Partial | None, new: Partial | None) -> None:
        seen = new or old
        assert seen is not None
        key = (seen.metadata.namespace, seen.metadata.labels.get(names.FRAMEWORK_NAME, ""))
        reconciler = self._reconcilers.get(key)
        if reconciler is not None:
            reconciler.touch_config_map()
            self._queue.add(key)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        seen = new or old
        assert seen is not None
        key = (seen.metadata.namespace, seen.metadata.labels.get(names.FRAMEWORK_NAME, ""))
        reconciler = self._reconcilers.get(key)
        if reconciler is not None:
            reconciler.touch_pod(seen.metadata.name)
            self._queue.add(key)

    def _on_deleted_pod(self, document: bytes) -> None:
        meta = POD_DECODER.decode(document).metadata
        typed = b'{"apiVersion":"v1","kind":"Pod",' + document.lstrip()[1:]
        whole = document if b'"kind":"Pod"' in document else typed
        self._keep((meta.namespace, meta.name), Snapshot(Trigger.POD_DELETION, whole))

    def _keep(self, key: Key, snapshot: Snapshot) -> None:
        if snapshot.trigger in self._kept:
            self._sink(snapshots.line("/".join(key), snapshot))

    # --- deciding ----------------------------------------------------------------------------------------------------

    async def _dispatch(self) -> NoReturn:
        for informer in (self._frameworks, self._config_maps, self._pods):
            await informer.synced.wait()
        _log.info("caches are full", frameworks=len(self._frameworks), pods=len(self._pods))
        passes = 0
        while True:
            key = await self._queue.take()
            self._pass(key)
            passes += 1
            if passes % PASSES_AT_A_TIME == 0:
                await asyncio.sleep(0)

    def _pass(self, key: Key) -> None:
        framework = self._frameworks.get(*key)
        if framework is None or key in self._loading:
            return
        reconciler = self._reconcilers.get(key)
        try:
            if reconciler is None or reconciler.uid != framework.metadata.uid:
                reconciler = self._start(key, framework)
            now, begun = self._clock(), time.perf_counter()
            view = _View(framework, self._config_maps, self._pods)
            decision = reconciler.reconcile(now, view, crowded=self._writers.crowded)
            self.metrics.passed(time.perf_counter() - begun, again=decision.wake_at is not None)
            if reconciler.outpaced:
                self._reload(key, "somebody else wrote the status")
                return
        except Exception:  # noqa: BLE001 - no other Framework shall suffer from this one
            # A defect of this program, or a status that cannot be read.
            _log.exception("cannot decide on this Framework", framework="/".join(key))
            self.metrics.failed()
            self._reload(key, "it could not be decided on", after_seconds=RELOAD_AGAIN_SECONDS)
            return
        for snapshot in decision.snapshots:
            self._keep(key, snapshot)
        for milestone in decision.milestones:
            self.metrics.reached(milestone)
        for transition in decision.transitions:
            self.metrics.moved(transition)
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
        for announcement in decision.announcements:
            self._events.record(subject, announcement)
            self.metrics.events_dropped.set(self._events.dropped)
        for effect in decision.effects:
            executor = self._writers if isinstance(effect, WriteStatus) else self._executor
            urgent = not isinstance(effect, CreatePod | DeletePod)
            executor.submit(key, Job(key, reconciler, effect), urgent=urgent)
        if decision.wake_at is not None:
            self._queue.add_after(key, (decision.wake_at - now).total_seconds())

    def _start(self, key: Key, seen: Framework) -> FrameworkReconciler:
        reconciler = FrameworkReconciler(seen, self._config, new_uid=lambda: str(uuid.uuid4()), draw=random.random)
        self._reconcilers[key] = reconciler
        return reconciler

    def _reload(self, key: Key, why: str, *, after_seconds: float = 0.0) -> None:
        """Forget what is held of the Framework and read it from the API server, not from a cache that may be older."""
        self._reconcilers.pop(key, None)
        self._loading.add(key)
        _log.warning("reading the Framework anew", framework="/".join(key), why=why)
        self._load_later(key, after_seconds)

    def _load_later(self, key: Key, seconds: float) -> None:
        submit = partial(self._executor.submit, key, Job(key), urgent=True)
        asyncio.get_running_loop().call_later(seconds, submit)

    # --- acting ------------------------------------------------------------------------------------------------------

    async def _perform(self, job: Job) -> None:
        reconciler, effect = job.reconciler, job.effect
        if reconciler is None or effect is None:
            await self._load(job.key)
            return
        if self._reconcilers.get(job.key) is not reconciler or not self._may_act():
            return  # decided by what is no longer held true, or by who is no longer asked
        subject = Subject(reconciler.namespace, reconciler.name, reconciler.uid)
        wanted = reconciler.at_turn(effect, self._clock())
        effect = wanted or effect
        outcome = Dropped() if wanted is None else await self._performer.perform(subject, effect)
        if isinstance(outcome, Failed):
            self.metrics.retries.inc()
            _log.warning(
                "could not be done, will be tried again",
                framework="/".join(job.key),
                effect=type(effect).__name__,
                about="/".join(str(part) for part in effect.key),
                error=outcome.message,
            )
        reconciler.settle(effect, outcome, self._clock())
        if self._reconcilers.get(job.key) is reconciler:
            self._queue.add(job.key)

    async def _load(self, key: Key) -> None:
        subject = Subject(*key, uid="")
        try:
            live = FRAMEWORK_DECODER.decode(await self._client.get(subject.path))
        except NotFound:
            self._loading.discard(key)
        except KubeError as error:
            _log.warning("cannot read the Framework", framework="/".join(key), error=str(error))
            self._load_later(key, RELOAD_AGAIN_SECONDS)
        else:
            self._loading.discard(key)
            try:
                self._start(key, live)
            except ValueError:
                _log.exception("cannot read the status of this Framework", framework="/".join(key))
                self._reload(key, "its status cannot be read", after_seconds=10 * RELOAD_AGAIN_SECONDS)
                return
            self._queue.add(key)
