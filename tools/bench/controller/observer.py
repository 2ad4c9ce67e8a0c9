"""What the controller's benchmark observes from outside: Pods, Frameworks and gates, by watches."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import msgspec

from bench.results import quantile
from frameworkcontroller.api import names
from frameworkcontroller.api.meta import PARTIAL_DECODER, Meta, Partial, Wire
from frameworkcontroller.api.pod import POD_DECODER, Pod
from frameworkcontroller.core.gang.roster import Published
from frameworkkube.http.client import PARTIAL_METADATA, KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.paths import resource_path


class ObservedStatus(Wire, frozen=True):
    """The part of a Framework's status that the benchmark reads."""

    state: str = ""


class ObservedFramework(Wire, frozen=True):
    """The part of a Framework that the benchmark reads."""

    metadata: Meta
    status: ObservedStatus | None = None


@dataclass
class Observer:
    """Counts Pods and Frameworks by watches of its own, independent of the controller."""

    tasks: int
    """The Pods of each Framework."""
    limit: float
    """The seconds after which `until` gives up."""
    on_end: Callable[[Pod], None] = lambda _pod: None
    """Called with each Pod that has ended."""
    created: int = 0
    """How many Pods were seen; `gone`: to vanish."""
    gone: int = 0
    ran: set[str] = field(default_factory=set)
    """The UIDs of Pods that ran; `ended`: of those that have ended."""
    ended: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)
    """The UIDs of Frameworks that were Completed."""
    opened: set[str] = field(default_factory=set)
    """The Frameworks whose gate has opened."""
    submitted: dict[str, float] = field(default_factory=dict)
    """When the creation of each Framework began, in monotonic seconds."""
    starts: dict[str, float] = field(default_factory=dict)
    """The seconds from then until all Pods of the Framework ran."""
    created_of: Counter[str] = field(default_factory=Counter)
    """The Pods of each Framework that were seen."""
    addressed_of: Counter[str] = field(default_factory=Counter)
    """The Pods of each Framework that have had an address."""
    _ran_of: Counter[str] = field(default_factory=Counter)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def submits(self, framework: str) -> None:
        """Note that a Framework, or its Pods, are about to be created."""
        self.submitted[framework] = time.monotonic()

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Count a change of a Pod; the informer calls it."""
        self._changed.set()
        self.created += old is None
        if new is None:
            self.gone += 1
            return
        uid, phase = new.metadata.uid, new.status.phase
        framework = new.metadata.labels.framework or ""
        self.created_of[framework] += old is None
        self.addressed_of[framework] += bool(new.status.pod_ip and not (old is not None and old.status.pod_ip))
        if phase != "Pending" and uid not in self.ran:
            self.ran.add(uid)
            self._ran_of[framework] += 1
            if self._ran_of[framework] == self.tasks and framework in self.submitted:
                self.starts[framework] = time.monotonic() - self.submitted[framework]
        if phase in {"Succeeded", "Failed"} and uid not in self.ended:
            self.ended.add(uid)
            self.on_end(new)

    def on_framework(self, _old: Any, new: ObservedFramework | None) -> None:
        """Count a change of a Framework; the informer calls it."""
        if new is not None and new.status is not None and new.status.state == "Completed":
            self.completed.add(new.metadata.uid)
        self._changed.set()

    def on_config_map(self, _old: Partial | None, new: Partial | None) -> None:
        """Look whether the roster of a ConfigMap is complete; the informer calls it."""
        if new is not None:
            annotation = new.metadata.annotations.get(names.ROSTER_ANNOTATION, "{}")
            if msgspec.json.decode(annotation, type=Published).complete:
                self.opened.add(new.metadata.labels.framework or "")
        self._changed.set()

    async def until(self, done: Callable[[], bool], start: float) -> float:
        """Wait until `done` holds, TimeoutError after the limit; return the seconds since `start`."""
        async with asyncio.timeout(self.limit):
            while not done():
                self._changed.clear()
                await self._changed.wait()
        return time.monotonic() - start

    def start_quantiles(self) -> dict[str, float]:
        """Return the median and the 99th percentile of `starts`, as columns; nothing of one Framework."""
        if len(self.starts) < 2:
            return {}
        seconds = self.starts.values()
        return {"start p50 s": median(seconds), "start p99 s": quantile(seconds, 0.99)}

    @asynccontextmanager
    async def watching(self, client: KubeClient, namespace: str) -> AsyncIterator[None]:
        """Observe a namespace for the block: its Pods, and Frameworks with their ConfigMaps."""
        pods = resource_path("v1", "pods", namespace=namespace)
        frameworks = resource_path(names.API_VERSION, names.PLURAL, namespace=namespace)
        rosters = resource_path("v1", "configmaps", namespace=namespace)
        informers: list[Informer[Any]] = [
            Informer(client, pods, POD_DECODER, on_change=self.on_pod),
            Informer(client, frameworks, msgspec.json.Decoder(ObservedFramework), on_change=self.on_framework),
            Informer(
                client,
                rosters,
                PARTIAL_DECODER,
                on_change=self.on_config_map,
                label_selector=names.FRAMEWORK_NAME,
                accept=PARTIAL_METADATA,
            ),
        ]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informer.run()) for informer in informers]
            for informer in informers:
                await informer.synced.wait()
            yield
            for task in tasks:
                task.cancel()
