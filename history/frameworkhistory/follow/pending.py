"""What was seen and is not written yet, within what memory allows."""

import asyncio
import time
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from frameworkclient.views.gangs import RosterMap
from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import Wire
from frameworkhistory.archive.changes import Changes

PENDING_BYTES: Final = 128 << 20
"""Of states that wait to be written; beyond it, of each Framework the newest alone waits."""
ROSTER_BYTES: Final = 16 << 20
PENDING_ROWS: Final = 20_000
"""Events that wait, and rows whose Framework was not seen yet."""
BATCH: Final = 64
"""Frameworks in one transaction."""


class ConfigMap(RosterMap, frozen=True):
    """A ConfigMap, which may have the roster of a gang."""

    @property
    def size(self) -> int:
        """How many bytes it has, about."""
        return sum(map(len, (*self.data.values(), *self.binary_data.values())))

    def rows(self) -> Changes | None:
        """Return the roster that it has, None if that is not complete, or none. It may take 100 ms."""
        with suppress(msgspec.MsgspecError, ValueError):
            document, namespace = self.roster(ROSTER_BYTES), self.metadata.namespace
            roster = msgspec.json.decode(document, type=_Roster)
            if roster.complete:
                row = {"attempt": roster.framework.attempt_id, "roster": document}
                return Changes(roster.framework.uid, namespace, attempts=[row])
        return None


class _Whose(Wire, frozen=True, rename=None):
    uid: str
    attempt_id: int = msgspec.field(name="attemptID")


class _Roster(Wire, frozen=True):
    framework: _Whose
    complete: bool = False


@dataclass
class Seen:
    """What waits to be written: a state of a Framework, or rows that need none to be looked at."""

    time: float
    """When it was seen, in seconds."""
    state: Framework | None = None
    is_gone: bool = False
    rows: Changes | None = None
    config_map: ConfigMap | None = None
    """Of which rows are made when its turn comes."""
    written: asyncio.Future[bool] | None = None
    """Whether the Framework of the rows is known, once they are written."""

    def settle(self, *, is_known: bool = True) -> None:
        """Tell who waits for it that it is written, or passed over."""
        if self.written is not None and not self.written.done():
            self.written.set_result(is_known)


class Pending:
    """What was seen and is not written yet. Memory has no place for all: rows that somebody waits for, it always has.

    Attributes:
        passed_over: States and rows that were not kept, and when the first of them was seen.
    """

    def __init__(self) -> None:
        self._states: OrderedDict[str, deque[Seen]] = OrderedDict()
        self._several: set[str] = set()
        """Of which more than one state waits."""
        self._rows: deque[Seen] = deque()
        self._awaited: deque[Seen] = deque()
        self._rosters: OrderedDict[str, Seen] = OrderedDict()
        self._size = 0
        self.wake = asyncio.Event()
        self.passed_over = 0
        self.passed_over_since = 0.0

    def __len__(self) -> int:
        return len(self._states) + len(self._awaited) + len(self._rows) + len(self._rosters)

    @property
    def since(self) -> float | None:
        """When the oldest was seen, in seconds."""
        states = next(iter(self._states.values()), ())
        firsts = (next(iter(some), None) for some in (states, self._awaited, self._rows, self._rosters.values()))
        return min((one.time for one in firsts if one is not None), default=None)

    def pass_over(self, seen: Seen) -> None:
        """Count what is not kept."""
        self.passed_over_since = self.passed_over_since if self.passed_over else seen.time
        self.passed_over += 1

    def add(self, state: Framework, *, is_gone: bool) -> None:
        """Add a state that was just seen."""
        uid = state.metadata.uid
        waiting = self._states.setdefault(uid, deque())
        waiting.append(Seen(time.time(), state, is_gone))
        self._size += state.size
        if len(waiting) > 1:
            self._several.add(uid)
        if self._size > PENDING_BYTES:
            # Which attempts, runs and epochs are passed over, their numbers tell.
            for waiting in map(self._states.__getitem__, self._several):
                while len(waiting) > 1:
                    self._size -= _size(first := waiting.popleft())
                    self.pass_over(first)
            self._several.clear()
        self.wake.set()

    def add_rows(self, seen: Seen) -> None:
        """Add rows that need no Framework to be looked at."""
        if seen.written is not None:
            self._awaited.append(seen)
        else:
            self._rows.append(seen)
            if len(self._rows) > PENDING_ROWS:
                self.pass_over(self._rows.popleft())
        self.wake.set()

    def add_roster(self, config_map: ConfigMap) -> None:
        """Add a ConfigMap, in the place of an older state of it."""
        before = self._rosters.pop(config_map.metadata.uid, None)
        self._rosters[config_map.metadata.uid] = Seen(time.time(), config_map=config_map)
        self._size += config_map.size - (_size(before) if before else 0)
        self.wake.set()

    def take(self) -> list[Seen]:
        """Take out the oldest; rows come after all states, since the archive must know their Frameworks."""
        found: list[Seen] = []
        for _ in range(min(len(self._states), BATCH)):
            uid, waiting = self._states.popitem(last=False)
            self._several.discard(uid)
            found += waiting
        if not self._states:
            for rows in (self._awaited, self._rows):
                found += [rows.popleft() for _ in range(min(len(rows), 8 * BATCH))]
            # One at a time: it may be much larger in memory than it waits.
            found += [self._rosters.popitem(last=False)[1]] if self._rosters else []
        self._size -= sum(map(_size, found))
        return found


def _size(seen: Seen) -> int:
    found = seen.state or seen.config_map
    return 0 if found is None else found.size
