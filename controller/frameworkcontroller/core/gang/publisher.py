"""When which roster of a gang is written, and which Event goes with it.

A roster of a complete gang is written at once, progress now and then, a change of a complete gang after a short pause
in which further changes join it. Progress is for barriers alone. Each roster speaks only of a persisted status
(docs/reference/barrier.md, section 2). The last one is written again where somebody changes it (`drift`).
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum, auto
from itertools import islice
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Meta
from frameworkcontroller.core import events
from frameworkcontroller.core.clock import EARLIEST
from frameworkcontroller.core.effects import Readiness, WriteRoster
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.gang import drift
from frameworkcontroller.core.gang.roster import AttemptName, Behind, Missing, Published, document
from frameworkcontroller.core.restart.epoch import Gate

PROGRESS_EVERY: Final = timedelta(seconds=5)
COALESCE: Final = timedelta(seconds=1)
END_STAYS: Final = timedelta(seconds=30)
LATE_AFTER: Final = timedelta(seconds=30)
MISSING_TASKS_IN_ROSTER: Final = 10
Progress: TypeAlias = tuple[int, int, tuple[Missing, ...]]
"""Tasks that are ready, Tasks in all, and some that are missing."""


class Phase(StrEnum):
    """How far the gang is, as its peers and people know it."""

    GATHERING = auto()
    """Not all Tasks have been ready yet."""
    LATE = auto()
    """The same after 30 s: the Event that names the missing Tasks is sent."""
    COMPLETE = auto()
    """The last roster lists every Task; the Event GangReady is sent."""
    DEGRADED = auto()
    """The gang was complete before; the last roster, as far as is known, has no members."""


@dataclass(frozen=True)
class GangStatus:
    """How far a gang is, for metrics."""

    phase: Phase
    since: datetime | None
    """When it began to gather, None if that is not known."""
    not_created: int
    """Its Tasks without a Pod."""
    not_ready: int
    """Its Tasks whose Pods peers cannot reach yet."""


class Publication(Struct, frozen=True):
    """What to write and to send now, and when to decide again at the latest."""

    write: WriteRoster | None = None
    event: KubeEvent | None = None
    wake_at: datetime | None = None


S = TypeVar("S", bound=Readiness)


class Publisher(Generic[S]):
    """What barriers and people were told of the gang of one attempt.

    It goes on where the last controller stopped, as the ConfigMap says when it is first seen, or from the empty roster
    that it was created with. `members` and `behind` return what a roster says of them, and `version` is the
    resourceVersion of the ConfigMap as this controller wrote it, "" if another one did. `looks_again` is whether what
    progress says may change without a call of `decide`.
    """

    def __init__(
        self,
        config_map: Meta,
        attempt: AttemptName,
        members: Callable[[S], list[dict[str, Any]]],
        behind: Callable[[S], tuple[Behind, ...]] = lambda _summary: (),
        version: str = "",
        *,
        looks_again: bool = True,
    ) -> None:
        self._members, self._find_behind, self._looks_again = members, behind, looks_again
        self.more: Mapping[str, Any] = {}
        """What else each roster says."""
        try:
            last = msgspec.json.decode(config_map.annotations.get(names.ROSTER_ANNOTATION, "{}"), type=Published)
        except msgspec.MsgspecError:
            last = Published()
        self.config_map_uid, self._name, self._attempt = config_map.uid, config_map.name, attempt
        self._guard = drift.Guard(version)
        self.since = config_map.creation_timestamp
        """When the gang began to gather, None if that is not known: with the ConfigMap at first."""
        self.opened = last.complete
        """A complete roster has been written, so that barriers open."""
        self._generation, self._digest, self._epoch = last.generation, last.digest, last.epoch
        self._was_complete, self._is_late = last.complete, False
        self._lists_all = last.complete
        """The last roster, as far as is known, lists every Task."""
        self._written_at = config_map.creation_timestamp
        """The steady time of the last roster, None if the next one is due at once."""
        self._compared_at = EARLIEST
        """The steady time at which members were found to be those of the last roster: 10,000 take 20 ms."""
        self._progress: Progress | None = None
        """What the last roster of an incomplete gang said."""
        self._behind: tuple[Behind, ...] = ()
        """What it said of instances of an earlier epoch."""
        self._may_end = False
        """What it said of the end of its applications."""
        self._member_revision: int | None = None
        """A revision of the Framework's state whose members are known to be those of the digest."""

    @property
    def phase(self) -> Phase:
        """How far the gang is."""
        if self._was_complete:
            return Phase.COMPLETE if self._lists_all else Phase.DEGRADED
        return Phase.LATE if self._is_late else Phase.GATHERING

    def is_gathering(self, gate: Gate | None) -> bool:
        """Whether no application of this epoch, or of the attempt if it has no epochs, can have its peers yet."""
        return not self._generation if gate is None or gate.epoch == 0 else not self._lists_all

    def age(self, now: datetime) -> timedelta:
        """Return how long the gang has been gathering."""
        return now - (self.since or now)

    def apply_outcome(self, effect: WriteRoster, version: str | None) -> KubeEvent | None:
        """Take in the resourceVersion after a roster was written, None if it was not; return an Event about it."""
        if version is None:
            self.forget()
            return None
        self.opened |= effect.complete
        self._guard, restored = drift.written(self._guard, version)
        return events.of_restored_roster(self._name) if restored else None

    def forget(self) -> None:
        """Take what the ConfigMap says for unknown: the next roster is due at once, with its members as they were."""
        self._lists_all, self._written_at, self._progress, self._member_revision = False, None, None, None
        self._compared_at, self._guard = EARLIEST, replace(self._guard, answering=None)

    def decide(self, summary: S, missing: Callable[[], Iterable[Missing]], now: datetime, seen: str) -> Publication:
        """Decide on the next roster and Event, by the newest persisted status and the steady time.

        `missing` gives the Tasks that are not ready, and is called only when they are named; `seen` is the
        resourceVersion of the ConfigMap in the cache.
        """
        found = self._decide(summary, missing, now)
        if found.write is not None or not drift.is_changed(self._guard, seen):
            return found
        due = drift.due(self._guard, now)
        if now < due:
            return replace(found, wake_at=due if found.wake_at is None else min(due, found.wake_at))
        again = self._again(summary)
        if again is None:
            return found
        self._guard = drift.answer(self._guard, seen, now)
        return replace(found, write=again)

    def _decide(self, summary: S, missing: Callable[[], Iterable[Missing]], now: datetime) -> Publication:
        if self._written_at is not None:
            # The ConfigMap's creationTimestamp is of another clock.
            self._written_at = min(self._written_at, now)
        if summary.complete:
            return self._decide_complete(summary, now)
        write, wake_at = self._decide_progress(summary, missing, now)
        if self.phase is not Phase.GATHERING or not summary.total:
            return Publication(write, wake_at=wake_at)
        age = self.age(now)
        if age < LATE_AFTER:
            late_at = now - age + LATE_AFTER
            return Publication(write, wake_at=late_at if wake_at is None else min(wake_at, late_at))
        self._is_late = True
        named = [f"{task}: {why[: events.NAMED_TEXT]}" for task, why in islice(missing(), events.NAMED_TASKS)]
        event = events.of_gang_waiting(summary.ready, summary.total, named, age.total_seconds())
        return Publication(write, event, wake_at)

    def _decide_complete(self, summary: S, now: datetime) -> Publication:
        due = self._end_told_at(summary, now)
        is_told = self._lists_all and (due is None or now < due)
        if is_told and summary.member_revision == self._member_revision:
            return Publication(wake_at=due)
        due_next = max(self._written_at or EARLIEST, self._compared_at) + COALESCE
        if self._lists_all and now < due_next:
            return Publication(wake_at=due_next)
        rows = self._members(summary)
        digest = hashlib.sha256(msgspec.json.encode(rows)).hexdigest()[:16]
        if is_told and digest == self._digest:
            self._member_revision, self._compared_at = summary.member_revision, now
            return Publication()
        event = None
        if not self._was_complete:
            rest = f"; {summary.waiting} more wait for their dependencies" if summary.waiting else ""
            seconds = self.age(now).total_seconds()
            event = KubeEvent("GangReady", f"All {summary.total} Tasks are ready after {seconds:.0f} s{rest}")
        self._generation += digest != self._digest
        self._digest, self._member_revision = digest, summary.member_revision
        self._was_complete = self._lists_all = True
        # The next progress is news again, also if it says what the last one said.
        self._written_at, self._progress, self._behind = now, None, ()
        self._note_epoch(summary)
        return Publication(self._listing(summary, rows), event)

    def _decide_progress(
        self, summary: S, missing: Callable[[], Iterable[Missing]], now: datetime
    ) -> tuple[WriteRoster | None, datetime | None]:
        if not (summary.has_barriers or self._lists_all or self._written_at is None):
            # Nobody reads how far it is; that it is no longer complete is news to anybody.
            return None, None
        # That an epoch has ended is told at once: applications of it still run.
        is_news = (0 if summary.gate is None else summary.gate.epoch) != (self._epoch or 0)
        due = self._end_told_at(summary, now)
        is_news = is_news or (due is not None and due <= now)
        if not is_news and self._written_at is not None and now < self._written_at + PROGRESS_EVERY:
            return None, self._written_at + PROGRESS_EVERY
        progress = (summary.ready, summary.total, tuple(islice(missing(), MISSING_TASKS_IN_ROSTER)))
        late = () if is_news else self._find_behind(summary)
        self._written_at = now
        again = now + PROGRESS_EVERY if self._looks_again else None
        if not is_news and (progress, late) == (self._progress, self._behind):
            return None, again
        self._lists_all, self._progress, self._behind = False, progress, late
        self._note_epoch(summary)
        return self._roster(summary, progress), again

    def _end_told_at(self, summary: S, now: datetime) -> datetime | None:
        """Return when a roster is due for what it says of the end alone, None if the last one says the same.

        That they may end stays for a while: those that have ended are not held any more, and others may not have read
        of it yet.
        """
        if summary.may_end is self._may_end:
            return None
        return now if summary.may_end or self._written_at is None else self._written_at + END_STAYS

    def _again(self, summary: S) -> WriteRoster | None:
        """Return the last roster once more, None if it is not known what that said, or the next one follows soon."""
        if self._lists_all:
            is_the_same = summary.complete and summary.member_revision == self._member_revision
            return self._listing(summary, self._members(summary)) if is_the_same else None
        if not summary.has_barriers:
            # No progress was written, and none follows.
            return self._roster(summary, (summary.ready, summary.total, ()))
        return None if self._progress is None else self._roster(summary, self._progress)

    def _note_epoch(self, summary: S) -> None:
        self._epoch = UNSET if summary.gate is None else summary.gate.epoch

    def _listing(self, summary: S, rows: list[dict[str, Any]]) -> WriteRoster:
        """Return the roster that lists every Task."""
        listed = sum(len(role["tasks"]) for role in rows)
        return self._roster(summary, (listed, listed, ()), rows)

    def _roster(self, summary: S, progress: Progress, rows: list[dict[str, Any]] | None = None) -> WriteRoster:
        content = document(
            self._attempt,
            self._generation,
            *progress,
            rows,
            by_arrival=summary.by_arrival,
            gate=summary.gate,
            behind=self._behind,
            may_end=summary.may_end,
            more=self.more,
        )
        self._may_end = summary.may_end
        complete = rows is not None
        last = Published(self._generation, complete=complete, digest=self._digest, epoch=self._epoch)
        annotation = msgspec.json.encode(last).decode()
        return WriteRoster(self.config_map_uid, self._attempt.attempt_id, content, annotation, complete=complete)
