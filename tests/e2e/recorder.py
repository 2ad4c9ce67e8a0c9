"""A recorder of watch events with their times, for tests that measure how fast files follow a status."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.background import in_background

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster.client import Json, RawClient

_WATCH_SECONDS = 2


@dataclass(frozen=True)
class WatchEvent:
    """One version of an object.

    Attributes:
        at: When its watch event arrived, in seconds since the epoch.
        kind: ADDED, MODIFIED or DELETED.
        object: The object.
    """

    at: float
    kind: str
    object: Json


@dataclass
class Recorder:
    """Records every version of the objects of a collection in the background.

    Attributes:
        raw: The client of the API server.
        path: The path of the collection.
        versions: The versions that were recorded so far.
    """

    raw: RawClient
    path: str
    versions: list[WatchEvent] = field(default_factory=list)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record until the block ends; an error in the background is raised at the end."""
        version = self.raw.get(self.path)["metadata"]["resourceVersion"]

        def record() -> None:
            nonlocal version
            for event in self.raw.watch(self.path, version, _WATCH_SECONDS):
                self.versions.append(WatchEvent(time.time(), event["type"], event["object"]))
                version = event["object"]["metadata"]["resourceVersion"]

        with in_background(record):
            yield
