"""What the API server showed, and when: for tests that measure how fast something follows from it."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.background import in_background

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.raw import Json, Raw

_WATCH_SECONDS = 2


@dataclass(frozen=True)
class Shown:
    """One version of an object.

    Attributes:
        at: Seconds since the epoch at which its watch event arrived.
        kind: ADDED, MODIFIED or DELETED.
        object: The object.
    """

    at: float
    kind: str
    object: Json


@dataclass
class Recorder:
    """Keeps every version of the objects of a collection, in the background.

    Attributes:
        raw: The API server.
        path: Of the collection.
        versions: What was shown so far.
    """

    raw: Raw
    path: str
    versions: list[Shown] = field(default_factory=list)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """From now on; what goes wrong there is raised at the end."""
        version = self.raw.get(self.path)["metadata"]["resourceVersion"]

        def record() -> None:
            nonlocal version
            for event in self.raw.watch(self.path, version, _WATCH_SECONDS):
                self.versions.append(Shown(time.time(), event["type"], event["object"]))
                version = event["object"]["metadata"]["resourceVersion"]

        with in_background(record):
            yield
