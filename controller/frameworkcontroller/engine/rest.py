"""Frameworks at rest: nothing is decided on them until an edit, or until their time to be kept is over.

The engine puts each here with its `Outline`. The promise: one whose time is over is deleted exactly as it was seen, few
at a time, and without being read: thousands may be over at once, and each may have ten thousand Tasks.
"""

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog

from frameworkcontroller.api import names
from frameworkcontroller.api.states import State
from frameworkcontroller.api.workload import FINISHED
from frameworkcontroller.core.clock import duration
from frameworkcontroller.core.effects import DeleteFramework, Dropped, Failed, Outcome, Subject
from frameworkcontroller.core.machines.framework import expiry_of, is_going, is_held, is_ours
from frameworkcontroller.core.machines.record import is_change_due, released_at
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.engine.cache.caches import CacheView, FrameworkKey
from frameworkcontroller.engine.cache.outline import Outline
from frameworkcontroller.engine.observe.metrics import Metrics
from frameworkcontroller.engine.requests.performer import Performer
from frameworkcontroller.engine.workers import Executor

_log = structlog.get_logger(__name__)

SLOTS: Final = 4
"""Deletions at a time, of one namespace."""
AGAIN_SECONDS: Final = 300.0
"""After so long a deletion of which nothing was seen is tried again."""
SPREAD: Final = 0.02
MAX_SPREAD_SECONDS: Final = 5.0
"""The times of thousands may be over at one moment, as a tenant chose them; they are looked at in so many seconds."""


class Rest:
    """The Frameworks at rest.

    Args:
        config: how long a Framework is kept that says nothing about it, and whether there is an archive.
        clock: the time of day, aware.
        may_act: as the engine's.
        wake_after: has `put` called again for a Framework in so many seconds, if it is still at rest.
    """

    def __init__(
        self,
        performer: Performer,
        config: CoreConfig,
        clock: Callable[[], datetime],
        may_act: Callable[[], bool],
        wake_after: Callable[[FrameworkKey, float], object],
        metrics: Metrics,
    ) -> None:
        self._performer, self._history, self._clock = performer, config.history, clock
        self._retain = duration(config.framework_completed_retain_sec)
        self._may_act, self._wake_after, self._metrics = may_act, wake_after, metrics
        self._outlines: dict[FrameworkKey, Outline] = {}
        self._going: set[FrameworkKey] = set()
        self._deletions = Executor(slots=SLOTS)

    def states(self) -> Iterator[tuple[State, bool]]:
        """Iterate over the states of all, each with whether it is suspended, for metrics."""
        return ((outline.state, outline.is_suspended) for outline in self._outlines.values())

    def __contains__(self, key: FrameworkKey) -> bool:
        return key in self._outlines

    def is_suspended(self, key: FrameworkKey) -> bool:
        """Report whether a Framework is at rest because it is suspended."""
        return key in self._outlines and self._outlines[key].is_suspended

    async def run(self) -> None:
        """Delete those whose time is over, until cancelled."""
        await self._deletions.run()

    def put(self, key: FrameworkKey, outline: Outline) -> None:
        """Leave the Framework alone until its time is over; then delete it."""
        left = self.left(outline)  # it may raise: then this outline is not kept
        self._outlines[key] = outline
        if (until := released_at(outline)) is not None:
            self._wake_after(key, max(0.0, (until - self._clock()).total_seconds()))
        if left > timedelta():
            if left < timedelta.max:
                seconds = left.total_seconds()
                self._wake_after(key, seconds + random.uniform(0.0, min(SPREAD * seconds, MAX_SPREAD_SECONDS)))  # noqa: S311 -- no secret
        elif not outline.is_going and key not in self._going:
            self._going.add(key)
            self._deletions.submit(key, partial(self._delete, key))

    def forget(self, key: FrameworkKey) -> None:
        """Forget a Framework that is gone, or worked on again."""
        self._outlines.pop(key, None)

    def left(self, outline: Outline) -> timedelta:
        """Return for how long it is to be kept, `timedelta.max` for ever."""
        if outline.since is None:
            return timedelta.max
        return expiry_of(outline.since, outline.ttl_seconds, self._retain) - self._clock()

    def leftover(self, view: CacheView) -> str:
        """Return what of a Framework at rest is not as it should be, "" for nothing.

        A dead controller has left the ConfigMap of one whose creation it had asked for, or a Workload that is not
        finished. Or it is held for the archive, or not, and should not be, or should.
        """
        if is_change_due(view.framework, self._clock(), history=self._history):
            return "finalizer to change"
        meta = view.framework.metadata
        workload = view.workload(names.workload_name(meta.name, meta.uid))
        found, waiting = view.config_map(), view.framework
        is_waiting = isinstance(waiting, Outline) and waiting.is_suspended
        is_left = workload is not None and (is_waiting or not workload.is_true(FINISHED))
        if workload is not None and is_left and is_ours(workload.metadata, meta.uid):
            return "" if is_going(workload) else "Workload"
        return "ConfigMap" if is_held(found, meta.uid) else ""

    async def _delete(self, key: FrameworkKey) -> None:
        self._going.discard(key)
        outline = self._outlines.get(key)
        if outline is None or outline.is_going or self.left(outline) > timedelta():
            return
        outcome: Outcome = Dropped()
        if self._may_act():
            meta = outline.metadata
            try:
                outcome = await self._performer.perform(Subject(*key, meta.uid), DeleteFramework(meta.resource_version))
            except Exception as error:  # noqa: BLE001 -- the executor's workers are everybody's
                outcome = Failed(repr(error))
        if isinstance(outcome, Failed):
            self._metrics.retries.inc()
            _log.warning("cannot delete the Framework", framework="/".join(key), error=outcome.message)
        # Whatever has come of it, the watch shows; if it shows nothing, it is tried again.
        self._wake_after(key, AGAIN_SECONDS)
