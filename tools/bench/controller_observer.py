"""What the controller's benchmark observes from outside: Pods, Frameworks and gates by watches, requests by metrics."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import msgspec
import prometheus

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import PARTIAL_DECODER, Meta, Partial, Wire
from frameworkcontroller.api.pod import POD_DECODER
from frameworkcontroller.core.roster import Published
from frameworkkube.informer import Informer
from frameworkkube.rest import PARTIAL_METADATA, resource_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from frameworkcontroller.api.pod import Pod
    from frameworkkube.rest import KubeClient


class Request(StrEnum):
    """The kinds of requests that are counted, as columns."""

    PODS = "Pods created"
    STATUSES = "status writes"
    CONFIG_MAPS = "ConfigMaps"
    ACCESS = "Roles, RoleBindings"
    EVENTS = "Events"
    POD_DELETIONS = "Pods deleted"
    OTHERS = "others"


RESOURCES = frozenset({"frameworks", "pods", "configmaps", "events", "roles", "rolebindings"})
WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
_BY_RESOURCE = {
    "configmaps": Request.CONFIG_MAPS,
    "roles": Request.ACCESS,
    "rolebindings": Request.ACCESS,
    "events": Request.EVENTS,
}


class ObservedStatus(Wire, frozen=True):
    """The part of a Framework's status that the benchmark reads."""

    state: str = ""


class ObservedFramework(Wire, frozen=True):
    """The part of a Framework that the benchmark reads."""

    metadata: Meta
    status: ObservedStatus | None = None


@dataclass(frozen=True)
class Counted:
    """The API server's counts of all clients' requests for the objects of Frameworks, except watches.

    Attributes:
        requests: By kind.
        written: The bytes of request bodies.
    """

    requests: Counter[Request]
    written: float

    def since(self, before: Counted) -> Counted:
        """Return the counts since an earlier reading."""
        return Counted(self.requests - before.requests, self.written - before.written)


def request_of(labels: prometheus.Labels) -> Request | None:
    """Return the kind of a request by the labels of its metric, None if it is not counted."""
    verb, resource, subresource = (labels.get(name, "") for name in ("verb", "resource", "subresource"))
    if resource not in RESOURCES or verb == "WATCH":
        return None
    if (resource, subresource, verb) == ("pods", "", "POST"):
        return Request.PODS
    if (resource, subresource, verb) == ("frameworks", "status", "PUT"):
        return Request.STATUSES
    if (resource, subresource) == ("pods", "") and verb.startswith("DELETE"):
        return Request.POD_DELETIONS
    return _BY_RESOURCE.get(resource, Request.OTHERS) if verb in WRITES else Request.OTHERS


async def counted(client: KubeClient) -> Counted:
    """Read the counts of the API server so far."""
    text = (await client.request("GET", "/metrics", accept="text/plain", timeout_seconds=60)).decode()
    requests: Counter[Request] = Counter()
    for labels, value in prometheus.samples(text, "apiserver_request_total"):
        kind = request_of(labels)
        if kind is not None:
            requests[kind] += int(value)
    sizes = prometheus.samples(text, "apiserver_request_body_size_bytes_sum")
    return Counted(requests, sum(value for labels, value in sizes if labels.get("resource") in RESOURCES))


@dataclass
class Observer:
    """Counts Pods and Frameworks by watches of its own, independent of the controller.

    Attributes:
        tasks: The Pods of each Framework.
        limit: The seconds after which `until` gives up.
        on_end: Called with each Pod that has ended.
        created: The Pods that were seen.
        gone: The Pods that were seen to vanish.
        ran: The UIDs of Pods that ran.
        completed: The UIDs of Frameworks that were Completed.
        opened: The Frameworks whose gate has opened.
        submitted: When the creation of each Framework began, in monotonic seconds.
        starts: The seconds from then until all Pods of the Framework ran.
    """

    tasks: int
    limit: float
    on_end: Callable[[Pod], None] = lambda _pod: None
    created: int = 0
    gone: int = 0
    ran: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)
    submitted: dict[str, float] = field(default_factory=dict)
    starts: dict[str, float] = field(default_factory=dict)
    _created_of: Counter[str] = field(default_factory=Counter)
    _addressed_of: Counter[str] = field(default_factory=Counter)
    _ran_of: Counter[str] = field(default_factory=Counter)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def submits(self, framework: str) -> None:
        """Note that a Framework, or its Pods, are about to be created."""
        self.submitted[framework] = time.monotonic()

    def created_of(self, framework: str) -> int:
        """Return how many Pods of a Framework were seen."""
        return self._created_of[framework]

    def addressed_of(self, framework: str) -> int:
        """Return how many Pods of a Framework have had an address."""
        return self._addressed_of[framework]

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Count a change of a Pod; the informer calls it."""
        self._changed.set()
        self.created += old is None
        if new is None:
            self.gone += 1
            return
        uid, phase = new.metadata.uid, new.status.phase
        framework = new.metadata.labels.get(names.FRAMEWORK_NAME, "")
        self._created_of[framework] += old is None
        self._addressed_of[framework] += bool(new.status.pod_ip and not (old is not None and old.status.pod_ip))
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
                self.opened.add(new.metadata.labels.get(names.FRAMEWORK_NAME, ""))
        self._changed.set()

    async def until(self, done: Callable[[], bool], start: float) -> float:
        """Wait until `done` holds, and return the seconds since `start`.

        Raises:
            TimeoutError: It does not hold within the limit.
        """
        async with asyncio.timeout(self.limit):
            while not done():
                self._changed.clear()
                await self._changed.wait()
        return time.monotonic() - start

    def start_quantiles(self) -> dict[str, float]:
        """Return the median and the 99th percentile of `starts`, as columns; nothing of one Framework."""
        if len(self.starts) < 2:
            return {}
        seconds = list(self.starts.values())
        return {"start p50 s": median(seconds), "start p99 s": quantiles(seconds, n=100, method="inclusive")[98]}

    @asynccontextmanager
    async def watching(self, client: KubeClient, namespace: str, *, frameworks: bool = True) -> AsyncIterator[None]:
        """Observe a namespace for the block: its Pods, and Frameworks with their ConfigMaps."""
        informers: list[Informer[Any]] = [
            Informer(client, resource_path("v1", "pods", namespace=namespace), POD_DECODER, on_change=self.on_pod)
        ]
        if frameworks:
            path = resource_path(names.API_VERSION, names.PLURAL, namespace=namespace)
            decoder = msgspec.json.Decoder(ObservedFramework)
            informers.append(Informer(client, path, decoder, on_change=self.on_framework))
            informers.append(
                Informer(
                    client,
                    resource_path("v1", "configmaps", namespace=namespace),
                    PARTIAL_DECODER,
                    on_change=self.on_config_map,
                    label_selector=names.FRAMEWORK_NAME,
                    accept=PARTIAL_METADATA,
                )
            )
        tasks = [asyncio.ensure_future(informer.run()) for informer in informers]
        try:
            for informer in informers:
                await informer.synced.wait()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
