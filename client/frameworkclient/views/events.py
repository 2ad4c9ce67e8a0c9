"""Kubernetes Events of a Framework, its ConfigMap and its Pods, in the order in which they happened."""

import heapq
import re
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Wire

KEPT_BYTES: Final = 8 << 20
"""Of the JSON of Events: thousands of ordinary ones."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class EventMeta(Wire, frozen=True):
    """The metadata of an Event."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None


class About(Wire, frozen=True):
    """The object that an Event is about."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Series(Wire, frozen=True):
    """How often an Event of the newer API was repeated."""

    count: int = 0
    last_observed_time: datetime | None = None


class EventView(Wire, frozen=True):
    """One Event.

    Attributes:
        metadata: Name, namespace, UID, version and time of the Event itself.
        type: `Normal` or `Warning`.
        reason: One word.
        message: For people.
        involved_object: What it is about.
        count: How often it has happened; `times` also knows of `series`.
        first_timestamp: When it happened first.
        last_timestamp: When it happened last; `time` also knows of `series`.
        event_time: When it happened first, in Events of the newer API.
        series: How often it was repeated, in Events of the newer API.
    """

    metadata: EventMeta
    type: str = ""
    reason: str = ""
    message: str = ""
    involved_object: About = About()
    count: int | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: Series | None = None

    @property
    def time(self) -> datetime:
        """When it happened last, in UTC."""
        repeated = self.series.last_observed_time if self.series else None
        return (
            repeated or self.last_timestamp or self.event_time or self.metadata.creation_timestamp or _LONG_AGO
        ).astimezone(UTC)

    @property
    def times(self) -> int:
        """How often it has happened, at least 1."""
        return max(self.count or 0, self.series.count if self.series else 0, 1)

    @property
    def subject(self) -> str:
        """What it is about, such as `Pod training-worker-0`."""
        return f"{self.involved_object.kind} {self.involved_object.name}"


EVENT_DECODER: Final = msgspec.json.Decoder(EventView)


def is_about(event: EventView, framework: str) -> bool:
    """Report whether an Event is about a Framework, its ConfigMap or one of its Pods."""
    about = event.involved_object
    match about.kind:
        case names.KIND:
            return about.name == framework
        case "ConfigMap":
            return about.name == names.config_map_name(framework)
        case "Pod":
            return re.fullmatch(rf"{re.escape(framework)}-[a-z0-9]{{1,63}}-[0-9]{{1,9}}", about.name) is not None
        case _:
            return False


def selectors(framework: str, pods: Iterable[str] | None) -> list[str]:
    """Return field selectors of the Events of a Framework and these Pods; None: of its ConfigMap and any Pod, too."""
    of = "involvedObject.kind={},involvedObject.name={}".format
    if pods is not None:
        return [of(names.KIND, framework), *(of("Pod", pod) for pod in pods)]
    config_map = names.config_map_name(framework)
    return [of(names.KIND, framework), of("ConfigMap", config_map), "involvedObject.kind=Pod"]


async def newest(contents: AsyncIterator[bytes], framework: str) -> tuple[EventView, ...]:
    """Return the Events about a Framework, the oldest first; of more than `KEPT_BYTES`, the newest."""
    kept: list[tuple[datetime, int, int, EventView]] = []
    size = number = 0
    async for content in contents:
        try:
            event = EVENT_DECODER.decode(content)
        except msgspec.ValidationError:  # of a time that Python does not have, such as of the year 0
            continue
        if is_about(event, framework):
            number += 1
            heapq.heappush(kept, (event.time, number, len(content), event))
            size += len(content)
        while size > KEPT_BYTES:
            size -= heapq.heappop(kept)[2]
    return tuple(event for *_, event in sorted(kept))
