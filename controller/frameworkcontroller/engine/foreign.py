"""The loop for gangs of other controllers, beside that of Frameworks: observe Pods, decide, write rosters.

Two caches of each namespace: Pods that ask for the barrier and belong to no Framework, and the ConfigMaps with the
rosters of their gangs. One loop decides on one gang after the other; the requests are those of the `Performer`.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NoReturn

import structlog

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Partial
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import Effect, Failed, Outcome
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.foreign.gang import ForeignGang, Paces
from frameworkcontroller.core.foreign.pods import FOREIGN_POD_DECODER, ForeignPod, ForeignPods, Member
from frameworkcontroller.core.gang.publisher import GangStatus
from frameworkcontroller.core.policies.shares import PerNamespace
from frameworkcontroller.engine.actions import NOT_LEADING
from frameworkcontroller.engine.cache.each import config_maps_of_each, of_each
from frameworkcontroller.engine.cache.slim_pods import SlimPods
from frameworkcontroller.engine.observe.event_recorder import EventRecorder
from frameworkcontroller.engine.observe.metrics import Metrics
from frameworkcontroller.engine.requests.performer import Performer
from frameworkcontroller.engine.workers import Executor
from frameworkcontroller.engine.workqueue import WorkQueue
from frameworkkube.http.client import KubeClient
from frameworkkube.informer.informer import Informer

_log = structlog.get_logger(__name__)

GangKey = tuple[str, str]
"""Namespace and name of a gang."""
PODS: Final = f"{names.BARRIER_LABEL}=enabled,!{names.FRAMEWORK_NAME}"
AFTER_ERROR_SECONDS: Final = 60.0


class ForeignGangs:
    """The gangs of other controllers in these namespaces, () for all; the rest is the engine's own.

    Args:
        grants: whether their Pods are given access to their rosters.
    """

    def __init__(
        self,
        client: KubeClient,
        namespaces: Sequence[str],
        performer: Performer,
        events: EventRecorder,
        metrics: Metrics,
        *,
        grants: bool,
        slots: int,
        may_act: Callable[[], bool],
        now: Callable[[], Now],
    ) -> None:
        self._performer, self._events, self._metrics = performer, events, metrics
        self._grants, self._may_act, self._now = grants, may_act, now
        self._gangs: dict[GangKey, ForeignGang] = {}
        self._paces = PerNamespace(Paces)
        self._queue: WorkQueue[GangKey] = WorkQueue()
        self._executor = Executor(slots=slots)
        self._slim_pods, self._namespaces = SlimPods(), namespaces
        self._pods = of_each(
            client,
            namespaces,
            "v1",
            "pods",
            FOREIGN_POD_DECODER,
            on_change=self._on_pod,
            keep=ForeignPods(self._slim_pods, self._slim_pods.share),
            label_selector=PODS,
        )
        self._config_maps = config_maps_of_each(client, namespaces, names.GANG_LABEL, self._on_config_map)
        metrics.frameworks.foreign = self.statuses

    def statuses(self) -> Iterable[GangStatus]:
        """Return how far the gangs are that have a roster."""
        return [status for gang in self._gangs.values() if (status := gang.status) is not None]

    def _informers(self) -> list[Informer[Any]]:
        return [*self._pods.values(), *self._config_maps.values()]

    @property
    def has_synced(self) -> bool:
        """Whether the caches are full, so that decisions are made."""
        return all(informer.has_synced for informer in self._informers())

    @property
    def stalled_seconds(self) -> float:
        """For how long no gang had its turn though one waits."""
        return self._queue.stalled_seconds

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers():
                group.create_task(informer.run())
            group.create_task(self._executor.run())
            group.create_task(self._dispatch())

    def _on_pod(self, old: ForeignPod | None, new: ForeignPod | None) -> None:
        if old is not None and new is None:
            self._slim_pods.forget(old)
        for key in {_key_of(one) for one in (old, new) if isinstance(one, Member)}:
            was, now = (one if isinstance(one, Member) and _key_of(one) == key else None for one in (old, new))
            self._gang(key).members.replace(was, now)
            self._queue.add(key)

    def _on_config_map(self, old: Partial | None, new: Partial | None) -> None:
        seen = new or old
        assert seen is not None
        key = seen.metadata.namespace, seen.metadata.name.removesuffix(names.config_map_name(""))
        self._gang(key)
        self._queue.add(key)

    def _gang(self, key: GangKey) -> ForeignGang:
        if key not in self._gangs:
            self._gangs[key] = ForeignGang(*key, random.random, self._paces[key[0]], grants=self._grants)
        return self._gangs[key]

    async def _dispatch(self) -> NoReturn:
        for informer in self._informers():
            await informer.synced.wait()
        await self._queue.serve(self._decide)

    def _decide(self, key: GangKey, _until: float) -> None:
        if (gang := self._gangs.get(key)) is not None:
            with self._isolated(key):
                self._decide_on(key, gang)

    def _decide_on(self, key: GangKey, gang: ForeignGang) -> None:
        now = self._now().steady
        config_map = self._config_maps[key[0] if self._namespaces else ""].get(key[0], names.config_map_name(key[1]))
        decision = gang.decide(now, config_map)
        for report in decision.reports:
            self._metrics.reported(report)
            if isinstance(report, KubeEvent):
                self._events.record(gang.subject, report)
        for effect in decision.effects:
            self._executor.submit(key, partial(self._perform, key, gang, effect))
        if decision.wake_at is not None:
            self._queue.add_after(key, (decision.wake_at - now).total_seconds())
        is_gone = config_map is None or config_map.metadata.deletion_timestamp is not None
        if is_gone and gang.is_over:
            del self._gangs[key]

    async def _perform(self, key: GangKey, gang: ForeignGang, effect: Effect) -> None:
        outcome: Outcome = NOT_LEADING
        if self._may_act():
            outcome = Failed("it cannot be made")
            with self._isolated(key):
                outcome = await self._performer.perform(gang.subject, effect)
        with self._isolated(key):
            if isinstance(outcome, Failed):
                self._metrics.retries.inc()
                what, why = type(effect).__name__, outcome.message
                _log.warning("request failed, will be tried again", gang="/".join(key), effect=what, error=why)
            gang.apply_outcome(effect, outcome, self._now().steady)
            self._queue.add(key)

    @contextmanager
    def _isolated(self, key: GangKey) -> Iterator[None]:
        """Let the other gangs go on, whatever one raises: a defect of this program."""
        try:
            yield
        except Exception:  # noqa: BLE001 -- as the engine does it for Frameworks
            _log.exception("a gang cannot be processed and will be tried again", gang="/".join(key))
            self._queue.add_after(key, AFTER_ERROR_SECONDS)


def _key_of(member: Member) -> GangKey:
    return member.metadata.namespace, member.claim.gang
