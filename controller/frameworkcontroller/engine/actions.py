"""What a pass wants done, from its effects to their outcomes.

The engine submits the effects of a pass with its `Work`. The promise: no effect starts unless this process may still
act and the work is still the Framework's; a status waits for the history that it may overwrite; each outcome is left
with the work, for its next pass.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Final

import structlog

from frameworkcontroller.core import effects
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import Done, Dropped, Effect, Failed, Missing, Outcome, Refused, Subject
from frameworkcontroller.core.pods.facts import LARGE_BYTES
from frameworkcontroller.core.reconcile.outcomes import failure_of
from frameworkcontroller.core.reconcile.reconciler import FrameworkReconciler
from frameworkcontroller.engine.cache.caches import FrameworkKey
from frameworkcontroller.engine.observe.metrics import Metrics
from frameworkcontroller.engine.requests.performer import Performer
from frameworkcontroller.engine.workers import OBJECTS_PER_STATUS, REST, REST_BESIDE_OTHERS, Executor

_log = structlog.get_logger(__name__)

# The API server reads and writes a Framework whole, and sends it to whoever watches. The status of so many Tasks or
# TaskRoles, or a large Pod, costs it and this process much: one is sent at a time, with pauses, and others do not wait
# for it. A smaller one takes as much of the slots and pauses as it has Tasks; those of an eighth and less, each of
# which takes one slot, do not wait for it, either.
LARGE_STATUS_TASKS: Final = 500
LARGE_STATUS_BYTES: Final = 512 * 1024
# Pods are asked so many at a time, beside all else: one that does not answer takes 2 s.
ASKS: Final = 20
# The archive answers one after a second at the latest, and each Framework may ask for its Pods.
LOG_ASKS: Final = 100
# What a large one costs the API server, in small statuses: 0.2 s of CPU time for 1,000 TaskRoles.
LARGE_COST: Final = 20
NOT_LEADING: Final = Failed("this process does not hold the lease at the moment", nothing_happened=True)
"""Of an effect whose turn came then: a renewal may come late, and who lost the lease decides on nothing any more."""


@dataclass(eq=False)
class Work:
    """A Framework that is worked on."""

    key: FrameworkKey
    reconciler: FrameworkReconciler
    """Decides; all calls of `steps` and `apply_outcome` come from the dispatch loop."""
    begun: Iterator[None] | None = None
    """A pass that goes on in the next turn."""
    again: bool = False
    """Something came meanwhile, which that pass does not know."""
    outcomes: list[tuple[Effect, Outcome]] = field(default_factory=list)
    """Of effects, for the next pass."""
    history: asyncio.Future[None] | None = None
    """Done when the snapshots so far are written, or were waited for long enough."""
    reads: bool = False
    """Large Pod templates are being read."""
    settled: bool = False
    """A status was written or refused, or none had to be."""
    ledger_state: str = ""
    """What metrics know its time to be spent on."""

    @property
    def subject(self) -> Subject:
        """The Framework as requests name it."""
        return Subject(*self.key, self.reconciler.uid)


def _slots_of(share: float, slots: int) -> int:
    return min(max(1, ceil(share * slots)), slots)


class Actions:
    """Performs effects: of one namespace few statuses and one large thing at a time, and beside them `slots` others.

    Args:
        is_current: whether the work is still that of its Framework.
        may_act: whether this process may still change anything.
        on_end: is told of the end of an effect: of an outcome, which the next pass takes in, or of what was raised.
    """

    def __init__(
        self,
        is_current: Callable[[Work], bool],
        may_act: Callable[[], bool],
        on_end: Callable[[Work, Exception | None], None],
        performer: Performer,
        metrics: Metrics,
        *,
        slots: int,
        now: Callable[[], Now],
    ) -> None:
        self._is_current, self._may_act, self._on_end = is_current, may_act, on_end
        self._performer, self._metrics, self._now = performer, metrics, now
        self._object_slots, self._status_slots = slots, max(1, slots // OBJECTS_PER_STATUS)
        self._objects, self._finalizers = Executor(slots=slots, makes_way=self._is_beside), Executor(slots=slots)
        self._statuses = Executor(slots=self._status_slots, makes_way=self._is_beside)
        self._medium = Executor(slots=self._status_slots, rest=self._rest)
        self._large = Executor(slots=1, rest=self._rest)
        self._asks, self._log_asks = Executor(slots=ASKS), Executor(slots=LOG_ASKS)
        requests = (self._objects, self._finalizers, self._statuses, self._medium, self._large)
        self._executors = (*requests, self._asks, self._log_asks)

    def status_load(self, namespace: str) -> int:
        """How many statuses of a namespace wait for their turn, are written, or were within the last second.

        What is large counts as many, beside the one that a Framework may just have written itself.
        """
        others = self._statuses.load(namespace) + self._medium.load(namespace)
        return others + LARGE_COST * max(0, self._large.load(namespace) - 1)

    def _rest(self, namespace: Hashable) -> int:
        """Return the pause after what is large, in times that it took."""
        return REST if self._is_alone(namespace) else REST_BESIDE_OTHERS

    def _is_alone(self, namespace: Hashable) -> bool:
        return all(one.has_only(namespace) for one in (self._objects, self._statuses, self._medium))

    def _is_beside(self, namespace: Hashable) -> bool:
        return not self._is_alone(namespace)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for executor in self._executors:
                group.create_task(executor.run())

    def submit(self, work: Work, wanted: list[Effect]) -> None:
        """Queue the effects of a pass."""
        for effect in wanted:
            if isinstance(effect, effects.WriteStatus) and work.history is not None and not work.history.done():
                # It may overwrite what a snapshot shows.
                work.history.add_done_callback(partial(self._enqueue, work, effect))
            else:
                self._enqueue(work, effect)

    def withdraw(self, key: FrameworkKey) -> None:
        """Let go of the effects of work that was discarded, and with them of its Framework."""
        for executor in self._executors:
            executor.withdraw(key)

    def _enqueue(self, work: Work, effect: Effect, _history: asyncio.Future[None] | None = None) -> None:
        executor, slots = self._objects, 1
        match effect:
            case effects.AskProgress():
                executor = self._asks
            case effects.AskLogs():
                executor = self._log_asks
            case effects.CreatePod() if effect.source.size > LARGE_BYTES:
                executor = self._large
            case effects.SetFinalizers():
                # They are of one version of the Framework, and wait for nobody: a status before them makes them vain.
                executor, slots = self._finalizers, _slots_of(effect.size / LARGE_STATUS_BYTES, self._object_slots)
            case effects.WriteStatus():
                share = max(effect.summary.size / LARGE_STATUS_TASKS, effect.text_bytes / LARGE_STATUS_BYTES)
                if share > 1 or effect.rest_bytes > LARGE_BYTES:
                    executor = self._large
                elif (slots := _slots_of(share, self._status_slots)) == 1:
                    executor = self._statuses
                else:
                    executor = self._medium
        urgent = not isinstance(effect, effects.CreatePod | effects.DeletePod | effects.RetainPod)
        executor.submit(work.key, partial(self._perform, work, effect), urgent=urgent, slots=slots)

    async def _perform(self, work: Work, effect: Effect) -> bool:
        """Report whether it took effect at the first try, and took as long as others of its executor."""
        if self._is_current(work):
            try:
                outcome = await self._perform_for(work, effect)
                is_like = isinstance(effect, effects.WriteStatus | effects.CreatePod)
                return is_like and isinstance(outcome, Done) and not outcome.conflicts
            except Exception as error:  # noqa: BLE001 -- the executor's workers are everybody's
                self._on_end(work, error)
        return False

    async def _perform_for(self, work: Work, effect: Effect) -> Outcome:
        if not self._may_act():
            work.outcomes.append((effect, NOT_LEADING))
            self._on_end(work, None)
            return NOT_LEADING
        is_written = work.history is None or work.history.done()
        wanted = work.reconciler.at_turn(effect, self._now(), as_emitted=not is_written)
        effect = wanted or effect
        outcome = Dropped() if wanted is None else await self._performer.perform(work.subject, effect)
        if isinstance(effect, effects.CreatePod) and isinstance(outcome, Refused | Failed):
            work.reconciler.count_late(effect, outcome, self._now())
        work.settled = work.settled or (isinstance(effect, effects.WriteStatus) and isinstance(outcome, Done | Refused))
        if isinstance(effect, effects.WriteStatus) and not isinstance(outcome, Done):
            self._metrics.status_write_failed(outcome)
            if isinstance(outcome, Missing):
                _log.warning("status not written: there is no such Framework", framework="/".join(work.key))
        if (failure := failure_of(effect, outcome)) is not None:
            self._metrics.retries.inc()
            _log.warning(
                "request failed, will be tried again",
                framework="/".join(work.key),
                effect=type(effect).__name__,
                about="/".join(str(part) for part in effect.key),
                error=failure.message,
            )
        work.outcomes.append((effect, outcome))
        self._on_end(work, None)
        return outcome
