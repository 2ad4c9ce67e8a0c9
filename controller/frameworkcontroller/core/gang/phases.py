"""The state machine of a gang: when which roster is written, and which Event goes with it.

`NEXT` is the whole machine. A roster of a complete gang is written at once, progress now and then, a change of a
complete gang after a short pause in which further changes join it. Progress is for barriers alone. Each roster speaks
only of a persisted status (docs/reference/barrier.md, section 2). Nothing here has a memory of its own: `Gang` keeps
the state.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.core import events
from frameworkcontroller.core.effects import RolesSummary, WriteRoster
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.gang.roster import Behind, Identity, MissingTask, Published, behind, document, members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from frameworkcontroller.api.meta import Meta

PROGRESS_EVERY: Final = timedelta(seconds=5)
COALESCE: Final = timedelta(seconds=1)
LATE_AFTER: Final = timedelta(seconds=30)
MISSING_TASKS_IN_ROSTER: Final = 10


class Phase(Enum):
    """How far the gang is, as its peers and people know it."""

    GATHERING = auto()
    """Not all Tasks have been ready yet."""
    LATE = auto()
    """The same after 30 s: the Event that names the missing Tasks is sent."""
    COMPLETE = auto()
    """The last roster lists every Task; the Event GangReady is sent."""
    DEGRADED = auto()
    """The gang was complete before; the last roster, as far as is known, has no members."""


class Cause(Enum):
    """What leads from one phase to the next."""

    ALL_READY = auto()
    """A roster of the complete gang is written."""
    PROGRESS = auto()
    """A roster of an incomplete gang is written."""
    TIME = auto()
    """The gang has been incomplete for `LATE_AFTER`."""
    FAILURE = auto()
    """A write failed: what the ConfigMap says is unknown."""


NEXT: Final[dict[Phase, dict[Cause, Phase]]] = {
    Phase.GATHERING: {
        Cause.ALL_READY: Phase.COMPLETE,
        Cause.PROGRESS: Phase.GATHERING,
        Cause.TIME: Phase.LATE,
        Cause.FAILURE: Phase.GATHERING,
    },
    Phase.LATE: {
        Cause.ALL_READY: Phase.COMPLETE,
        Cause.PROGRESS: Phase.LATE,
        Cause.FAILURE: Phase.LATE,
    },
    Phase.COMPLETE: {
        Cause.ALL_READY: Phase.COMPLETE,
        Cause.PROGRESS: Phase.DEGRADED,
        Cause.FAILURE: Phase.DEGRADED,
    },
    Phase.DEGRADED: {
        Cause.ALL_READY: Phase.COMPLETE,
        Cause.PROGRESS: Phase.DEGRADED,
        Cause.FAILURE: Phase.DEGRADED,
    },
}
"""Every change of phase. The Event GangWaiting goes with a change to LATE, GangReady with the first one to COMPLETE."""


@dataclass(frozen=True)
class Attempt:
    """The Framework attempt whose peers are the gang."""

    identity: Identity
    config_map_uid: str
    created_at: datetime | None
    """When its ConfigMap was created: the gang is as old as that."""

    def age(self, now: datetime) -> timedelta:
        """Return how long the gang has been gathering."""
        return now - (self.created_at or now)


Progress: TypeAlias = tuple[int, int, tuple[MissingTask, ...]]
"""Tasks that are ready, Tasks in all, and some that are missing."""


class GangState(Struct, frozen=True):
    """What is known of the gang and its roster.

    Attributes:
        phase: how far the gang is.
        generation: of the last roster.
        digest: of the members in the last roster that was complete.
        written_at: the time of the last roster, None if the next one is due at once.
        progress: what the last roster of an incomplete gang said.
        member_revision: a revision of the Framework's state whose members are known to be those of `digest`.
        opened: a complete roster has been written, so that barriers open.
        epoch: of the last roster, unset if that has none.
        behind: what the last roster of an incomplete gang said of instances of an earlier epoch.
    """

    phase: Phase
    generation: int
    digest: str
    written_at: datetime | None
    progress: Progress | None = None
    member_revision: int | None = None
    opened: bool = False
    epoch: int | UnsetType = UNSET
    behind: tuple[Behind, ...] = ()


class GangStep(Struct, frozen=True):
    """The state as it is now, what to write and to send, and when to decide again at the latest."""

    state: GangState
    write: WriteRoster | None = None
    event: KubeEvent | None = None
    wake_at: datetime | None = None


def load(config_map: Meta) -> GangState:
    """Go on where the last controller stopped, or from the empty roster that the ConfigMap was created with."""
    try:
        published = msgspec.json.decode(config_map.annotations.get(names.ROSTER_ANNOTATION, "{}"), type=Published)
    except msgspec.MsgspecError:
        published = Published()
    phase = Phase.COMPLETE if published.complete else Phase.GATHERING
    return GangState(
        phase,
        published.generation,
        published.digest,
        config_map.creation_timestamp,
        opened=published.complete,
        epoch=published.epoch,
    )


def apply_outcome(state: GangState, *, done: bool, complete: bool) -> GangState:
    """Take in the outcome of a write.

    Args:
        state: as it was.
        done: the roster was written; otherwise the next one is due at once, the same members in the same generation.
        complete: the roster was one of a complete gang.
    """
    if not done:
        phase = NEXT[state.phase][Cause.FAILURE]
        return replace(state, phase=phase, written_at=None, progress=None, member_revision=None)
    return replace(state, opened=True) if complete else state


def decide(
    state: GangState,
    attempt: Attempt,
    summary: RolesSummary,
    missing: Callable[[], Iterable[MissingTask]],
    now: datetime,
) -> GangStep:
    """Decide on the next roster and Event.

    Args:
        state: as it was.
        attempt: whose gang it is.
        summary: the newest persisted status.
        missing: gives the Tasks that are not ready; called only when they are named.
        now: the time.
    """
    if summary.complete:
        return _decide_complete(state, attempt, summary, now)
    step = _decide_progress(state, attempt, summary, missing, now)
    if step.state.phase is not Phase.GATHERING or not summary.total:
        return step
    age = attempt.age(now)
    if age < LATE_AFTER:
        late_at = now - age + LATE_AFTER
        return replace(step, wake_at=late_at if step.wake_at is None else min(step.wake_at, late_at))
    named = [f"{one.task}: {one.why[: events.NAMED_TEXT]}" for one in islice(missing(), events.NAMED_TASKS)]
    event = events.of_gang_waiting(summary.ready, summary.total, named, age.total_seconds())
    return replace(step, state=_enter(step.state, Cause.TIME), event=event)


def last_roster(state: GangState, attempt: Attempt, summary: RolesSummary) -> WriteRoster | None:
    """Return the last roster once more, None if what it said is not known or the next one follows within seconds.

    Args:
        state: after `decide`, which had nothing to write.
        attempt: whose gang it is.
        summary: the newest persisted status.
    """
    progress, rows = state.progress, None
    if state.phase is Phase.COMPLETE:
        if not summary.complete or summary.member_revision != state.member_revision:
            return None
        rows = members(summary)
        listed = sum(len(role["tasks"]) for role in rows)
        progress = (listed, listed, ())
    elif not summary.has_barriers:
        # No progress was written, and none follows.
        progress = (summary.ready, summary.total, ())
    if progress is None:
        return None
    ready, total, named = progress
    content = document(
        attempt.identity,
        state.generation,
        ready,
        total,
        named,
        rows,
        by_arrival=summary.by_arrival,
        gate=summary.gate,
        behind=() if rows is not None else state.behind,
    )
    return _write(attempt, state, content)


def _decide_complete(state: GangState, attempt: Attempt, summary: RolesSummary, now: datetime) -> GangStep:
    listed = state.phase is Phase.COMPLETE
    if listed and summary.member_revision == state.member_revision:
        return GangStep(state)
    rows = members(summary)
    listed_tasks = sum(len(role["tasks"]) for role in rows)
    digest = hashlib.sha256(msgspec.json.encode(rows)).hexdigest()[:16]
    if listed and digest == state.digest:
        return GangStep(replace(state, member_revision=summary.member_revision))
    if listed and state.written_at is not None and now < state.written_at + COALESCE:
        return GangStep(state, wake_at=state.written_at + COALESCE)
    generation = state.generation + (digest != state.digest)
    after = replace(
        _enter(state, Cause.ALL_READY),
        generation=generation,
        digest=digest,
        written_at=now,
        # The next progress is news again, also if it says what the last one said.
        progress=None,
        member_revision=summary.member_revision,
        epoch=_epoch_of(summary),
        behind=(),
    )
    content = document(
        attempt.identity,
        generation,
        listed_tasks,
        listed_tasks,
        rows=rows,
        by_arrival=summary.by_arrival,
        gate=summary.gate,
    )
    is_first = state.phase in {Phase.GATHERING, Phase.LATE}
    event = events.of_gang_ready(summary.total, summary.waiting, attempt.age(now).total_seconds()) if is_first else None
    return GangStep(after, _write(attempt, after, content), event)


def _decide_progress(
    state: GangState,
    attempt: Attempt,
    summary: RolesSummary,
    missing: Callable[[], Iterable[MissingTask]],
    now: datetime,
) -> GangStep:
    if not (summary.has_barriers or state.phase is Phase.COMPLETE or state.written_at is None):
        # Nobody reads how far it is; that it is no longer complete is news to anybody.
        return GangStep(state)
    epoch = _epoch_of(summary)
    # That an epoch has ended is told at once: applications of it still run.
    is_news = (epoch or 0) != (state.epoch or 0)
    if not is_news and state.written_at is not None and now < state.written_at + PROGRESS_EVERY:
        return GangStep(state, wake_at=state.written_at + PROGRESS_EVERY)
    named = tuple(islice(missing(), MISSING_TASKS_IN_ROSTER))
    progress: Progress = (summary.ready, summary.total, named)
    late = () if is_news else behind(summary)
    if not is_news and (progress, late) == (state.progress, state.behind):
        return GangStep(replace(state, written_at=now), wake_at=now + PROGRESS_EVERY)
    after = replace(_enter(state, Cause.PROGRESS), written_at=now, progress=progress, epoch=epoch, behind=late)
    content = document(
        attempt.identity,
        state.generation,
        summary.ready,
        summary.total,
        named,
        by_arrival=summary.by_arrival,
        gate=summary.gate,
        behind=late,
    )
    return GangStep(after, _write(attempt, after, content), wake_at=now + PROGRESS_EVERY)


def _epoch_of(summary: RolesSummary) -> int | UnsetType:
    return UNSET if summary.gate is None else summary.gate.epoch


def _enter(state: GangState, cause: Cause) -> GangState:
    return replace(state, phase=NEXT[state.phase][cause])


def _write(attempt: Attempt, state: GangState, content: bytes) -> WriteRoster:
    complete = state.phase is Phase.COMPLETE
    published = Published(state.generation, complete=complete, digest=state.digest, epoch=state.epoch)
    annotation = msgspec.json.encode(published).decode()
    return WriteRoster(
        attempt.config_map_uid, attempt.identity.attempt_id, content, annotation, complete=published.complete
    )
