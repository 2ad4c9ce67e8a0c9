"""Kubernetes Events on Frameworks: best effort, in the background, and never a flood.

Nothing depends on whether an Event is written, so a failed write is not tried again; an Event that is repeated raises
the count of the existing one. Namespaces take turns, and so do the Frameworks of each. The limits are those of
client-go's spam filter: a burst of 25 for a Framework, then one in five minutes. Those of a namespace are limited
together as well, since of thousands of Frameworks not each is remembered.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Final

import msgspec
import structlog

from frameworkcontroller.api.meta import PARTIAL_DECODER
from frameworkcontroller.core.effects import Subject
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.policies.shares import Pace, PerNamespace
from frameworkcontroller.engine.workers import Executor
from frameworkkube.errors import NotFoundError
from frameworkkube.http.client import PARTIAL_METADATA, KubeClient
from frameworkkube.paths import resource_path

_log = structlog.get_logger(__name__)

COMPONENT: Final = "frameworkcontroller"
BURST: Final = 25
REFILL_SECONDS: Final = 300.0
NAMESPACE_BURST: Final = 2000
NAMESPACE_REFILL_SECONDS: Final = 0.1
REMEMBERED: Final = 4096
"""Frameworks, and Events that may be repeated; those that were used last."""
MESSAGE_CHARACTERS: Final = 1024
WAITING: Final = 1000
"""Events of a namespace."""


class EventRecorder:
    """Writes Events in the background; `clock` gives the time of day, aware."""

    def __init__(self, client: KubeClient, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._client, self._clock = client, clock
        self._queue = Executor(slots=1)
        self._pace_of = lru_cache(REMEMBERED)(lambda _uid: Pace(1 / REFILL_SECONDS, BURST))
        self._namespaces = PerNamespace(lambda: Pace(1 / NAMESPACE_REFILL_SECONDS, NAMESPACE_BURST))
        # Name and count by what an Event says.
        self._written: OrderedDict[tuple[str, str, str], tuple[str, int]] = OrderedDict()
        self.dropped = 0
        """Events that were not written, because of the limits."""

    def record(self, subject: Subject, event: KubeEvent) -> None:
        """Queue the Event, unless a limit is reached."""
        now, where = self._clock().timestamp(), subject.namespace
        pace, together = self._pace_of(subject.uid), self._namespaces[where]
        if self._queue.load(where) >= WAITING or not (pace.take(now) and together.take(now)):
            self.dropped += 1
            return
        short = replace(event, message=event.message[:MESSAGE_CHARACTERS])
        self._queue.submit((subject.namespace, subject.name), partial(self._write_safely, subject, short))

    async def run(self) -> None:
        """Write queued Events until cancelled."""
        await self._queue.run()

    async def _write_safely(self, subject: Subject, event: KubeEvent) -> None:
        try:
            await self._write(subject, event)
        except Exception as error:  # noqa: BLE001 -- an Event is information for people; nothing depends on it
            _log.debug("cannot write an Event", reason=event.reason, error=str(error))

    async def _write(self, subject: Subject, event: KubeEvent) -> None:
        key = (subject.uid, event.reason, event.message)
        events = resource_path("v1", "events", namespace=subject.namespace)
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        name, count = self._written.get(key, ("", 0))
        if name:
            self._written[key] = name, count + 1
            self._written.move_to_end(key)
            again = msgspec.json.encode({"count": count + 1, "lastTimestamp": now})
            try:
                await self._client.patch(f"{events}/{name}", again, accept=PARTIAL_METADATA)
            except NotFoundError:
                self._written.pop(key, None)
            else:
                return
        body = msgspec.json.encode(_manifest(subject, event, now))
        answer = await self._client.create(events, body, accept=PARTIAL_METADATA)
        self._written[key] = PARTIAL_DECODER.decode(answer).metadata.name, 1
        if len(self._written) > REMEMBERED:
            self._written.popitem(last=False)


def _manifest(subject: Subject, event: KubeEvent, now: str) -> dict[str, Any]:
    about = subject.object
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{about.name}.", "namespace": subject.namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": subject.namespace,
            "name": about.name,
            "uid": about.uid,
        },
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": event.message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
