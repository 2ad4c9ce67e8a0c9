"""Keeps the roster of a gang true: what the `Publisher` decides is written, and again where somebody changes it."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Generic

from msgspec.structs import replace

from frameworkcontroller.core import events
from frameworkcontroller.core.effects import WriteRoster
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.gang import drift
from frameworkcontroller.core.gang.drift import Guard
from frameworkcontroller.core.gang.publisher import Publication, Publisher, S
from frameworkcontroller.core.gang.roster import Missing


class RosterKeeper(Generic[S]):
    """The roster in the ConfigMap `name`; `version` is its resourceVersion as this controller wrote it, "" if none."""

    def __init__(self, name: str, publisher: Publisher[S], version: str = "") -> None:
        self.publisher = publisher
        self._name, self._guard = name, Guard(version)

    def decide(self, summary: S, missing: Callable[[], Iterable[Missing]], now: datetime, seen: str) -> Publication:
        """Return what to write and to send; `seen` is the resourceVersion of the ConfigMap in the cache."""
        found = self.publisher.decide(summary, missing, now)
        if found.write is not None or not drift.is_changed(self._guard, seen):
            return found
        due = drift.due(self._guard, now)
        if now < due:
            return replace(found, wake_at=due if found.wake_at is None else min(due, found.wake_at))
        again = self.publisher.again(summary)
        if again is None:
            return found
        self._guard = drift.answer(self._guard, seen, now)
        return replace(found, write=again)

    def apply_outcome(self, effect: WriteRoster, version: str | None) -> KubeEvent | None:
        """Take in the resourceVersion after a roster was written, None if it was not; return an Event about it."""
        self.publisher.apply_outcome(done=version is not None, complete=effect.complete)
        if version is None:
            self._guard = drift.failed(self._guard)
            return None
        self._guard, restored = drift.written(self._guard, version)
        return events.of_restored_roster(self._name) if restored else None
