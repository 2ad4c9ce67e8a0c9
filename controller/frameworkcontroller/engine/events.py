"""Kubernetes Events on Frameworks: best effort, never in the way, and never a flood.

The limits are those of client-go's spam filter: a burst of 25 for a Framework, then one in five minutes; what is said
again is counted on the Event that says it already.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec
import structlog

from frameworkcontroller.api import names
from frameworkcontroller.api.types import PARTIAL_DECODER
from frameworkcontroller.cluster.rest import PARTIAL_METADATA, KubeClient, KubeError, NotFound, resource_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkcontroller.core.announce import Announcement

    from .manifests import Subject

_log = structlog.get_logger(__name__)

COMPONENT: Final = "frameworkcontroller"
BURST: Final = 25
REFILL_SECONDS: Final = 300.0
REMEMBERED: Final = 4096
WAITING: Final = 1000


@dataclass
class _Bucket:
    tokens: float
    filled_at: float

    def take(self, now: float) -> bool:
        self.tokens = min(float(BURST), self.tokens + (now - self.filled_at) / REFILL_SECONDS)
        self.filled_at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass
class _Said:
    name: str
    count: int


class EventRecorder:
    """Writes Events in the background.

    Args:
        client: of the API server.
        clock: the time of day, aware.
    """

    def __init__(self, client: KubeClient, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._client, self._clock = client, clock
        self._queue: asyncio.Queue[tuple[Subject, Announcement]] = asyncio.Queue(WAITING)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._said: OrderedDict[tuple[str, str, str], _Said] = OrderedDict()
        self.dropped = 0
        """Events that were too many."""

    def record(self, subject: Subject, announcement: Announcement) -> None:
        """Write it soon, unless there are too many."""
        bucket = self._buckets.setdefault(subject.uid, _Bucket(BURST, self._clock().timestamp()))
        _bound(self._buckets)
        if self._queue.full() or not bucket.take(self._clock().timestamp()):
            self.dropped += 1
            return
        self._queue.put_nowait((subject, announcement))

    async def run(self) -> NoReturn:
        """Write until cancelled."""
        while True:
            subject, announcement = await self._queue.get()
            try:
                await self._write(subject, announcement)
            except KubeError as error:
                # An Event is for a person who looks; nothing depends on it.
                _log.debug("cannot write an Event", reason=announcement.reason, error=str(error))

    async def _write(self, subject: Subject, announcement: Announcement) -> None:
        key = (subject.uid, announcement.reason, announcement.message)
        events = resource_path("v1", "events", namespace=subject.namespace)
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        said = self._said.get(key)
        if said is not None:
            said.count += 1
            again = msgspec.json.encode({"count": said.count, "lastTimestamp": now})
            try:
                await self._client.patch(f"{events}/{said.name}", again, accept=PARTIAL_METADATA)
            except NotFound:
                del self._said[key]
            else:
                return
        body = msgspec.json.encode(event(subject, announcement, now))
        answer = await self._client.create(events, body, accept=PARTIAL_METADATA)
        self._said[key] = _Said(PARTIAL_DECODER.decode(answer).metadata.name, 1)
        _bound(self._said)


def event(subject: Subject, announcement: Announcement, now: str) -> dict[str, Any]:
    """The Event's body; the server finds the rest of its name."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{subject.name}.", "namespace": subject.namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "type": "Warning" if announcement.warning else "Normal",
        "reason": announcement.reason,
        "message": announcement.message[:1024],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _bound(memory: OrderedDict[Any, Any]) -> None:
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)
