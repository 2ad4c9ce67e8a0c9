"""What was seen and is not written yet, within what memory allows."""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from sys import getsizeof
from typing import Annotated, Final, Self

import msgspec
from msgspec.structs import replace

from frameworkclient.views.gangs import RosterMap
from frameworkcontroller.api import names
from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import Wire
from frameworkhistory.archive.changes import Changes
from frameworkhistory.follow.records import MOST

PENDING_BYTES: Final = 128 << 20
"""Of Events, rosters, and states but the newest of each Framework that exists, whether they wait to be written or for
their Framework. Beyond it, the namespace that has most of them loses its oldest."""
SEEN_BYTES: Final = 2048
"""What each takes beside its texts."""
ROSTER_BYTES: Final = 16 << 20
BATCH: Final = 64
"""Frameworks in one transaction."""
BATCH_BYTES: Final = 4 << 20
"""Of their states, or one larger one: to compress a mebibyte takes 50 ms, for which others wait."""
_ANNOTATIONS: Final = frozenset({names.ROSTER_ANNOTATION})


class ConfigMap(RosterMap, frozen=True):
    """A ConfigMap, which may have the roster of a gang."""

    def slim(self) -> Self:
        """Return it with what is read of it: anybody may write a mebibyte of keys beside that."""
        data = {key: one for key, one in self.data.items() if key == names.ROSTER_KEY}
        packed = {key: one for key, one in self.binary_data.items() if key == names.ROSTER_GZIP_KEY}
        return replace(self, metadata=self.metadata.slim(_ANNOTATIONS), data=data, binary_data=packed)

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
    attempt_id: Annotated[int, msgspec.Meta(ge=0, le=MOST)] = msgspec.field(name="attemptID")


class _Roster(Wire, frozen=True):
    framework: _Whose
    complete: bool = False


@dataclass(eq=False)
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

    @property
    def namespace(self) -> str:
        """Where it comes from."""
        found = self.state or self.config_map
        return found.metadata.namespace if found else self.rows.namespace if self.rows else ""

    @property
    def subject(self) -> str:
        """Its namespace, and the name of its object or the UID of the Framework of its rows."""
        found = self.state or self.config_map
        return f"{self.namespace}/{found.metadata.name if found else self.rows.uid if self.rows else ''}"

    @property
    def size(self) -> int:
        """How many bytes it takes, about."""
        texts: Iterable[object] = ()
        if self.config_map is not None:
            texts = (*self.config_map.data.values(), *self.config_map.binary_data.values())
        elif self.rows is not None:
            texts = (self.rows.uid, *(one for row in self.rows.events for one in row.values()))
        return SEEN_BYTES + (self.state.size if self.state else sum(map(getsizeof, texts)))

    def settle(self, *, is_known: bool = True) -> None:
        """Tell who waits for it that it is written, or passed over."""
        if self.written is not None and not self.written.done():
            self.written.set_result(is_known)


@dataclass
class _Waiting:
    """What waits of one namespace."""

    states: OrderedDict[str, deque[Seen]] = field(default_factory=OrderedDict)
    """By Framework."""
    awaited: OrderedDict[Seen, None] = field(default_factory=OrderedDict)
    rows: OrderedDict[Seen, None] = field(default_factory=OrderedDict)
    rosters: OrderedDict[str, Seen] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self.states) + len(self.awaited) + len(self.rows) + len(self.rosters)

    def oldest(self) -> Iterable[Seen]:
        """Return the oldest of each kind."""
        states = next(iter(self.states.values()), ())
        firsts = (next(iter(some), None) for some in (states, self.awaited, self.rows, self.rosters.values()))
        return (one for one in firsts if one is not None)

    def take_rows(self, most: int) -> list[Seen]:
        """Take out so many rows of either kind at most: those that somebody waits for once their Framework is known."""
        can = (one for one in self.awaited if one.rows is None or one.rows.uid not in self.states)
        found = [*islice(can, most)]
        for one in found:
            del self.awaited[one]
        most = 0 if self.states else min(len(self.rows), most)
        return found + [self.rows.popitem(last=False)[0] for _ in range(most)]


class Pending:
    """What was seen and is not written yet. Namespaces take turns: whoever has much keeps nobody waiting.

    Memory has no place for all: it always has rows that somebody waits for, and the newest state of what exists.

    Attributes:
        passed_over: States and rows that were not kept, and when the first of them was seen.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        """By namespace, the one first whose turn it is."""
        self._early: OrderedDict[Seen, None] = OrderedDict()
        """Rows whose Framework was not seen yet."""
        self._spare: dict[str, OrderedDict[Seen, int]] = {}
        """What may be passed over, by namespace, with its bytes."""
        self._sizes: Counter[str] = Counter()
        self.wake = asyncio.Event()
        self.passed_over = 0
        self.passed_over_since = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def since(self) -> float | None:
        """When the oldest was seen, in seconds."""
        return min((one.time for waiting in self._waiting.values() for one in waiting.oldest()), default=None)

    def _of(self, namespace: str) -> _Waiting:
        return self._waiting.setdefault(namespace, _Waiting())

    def pass_over(self, seen: Seen) -> None:
        """Count what is not kept."""
        self.passed_over_since = self.passed_over_since if self.passed_over else seen.time
        self.passed_over += 1

    def add(self, state: Framework, *, is_gone: bool) -> None:
        """Add a state that was just seen."""
        waiting = self._of(state.metadata.namespace).states.setdefault(state.metadata.uid, deque())
        waiting.append(Seen(time.time(), state, is_gone))
        if len(waiting) > 1:
            # Which attempts, runs and epochs are passed over, their numbers tell.
            self._count(waiting[-2])
        if is_gone:
            self._count(waiting[-1])
        self.wake.set()

    def add_rows(self, seen: Seen) -> None:
        """Add rows that need no Framework to be looked at."""
        if seen.written is not None:
            self._of(seen.namespace).awaited[seen] = None
        else:
            self._of(seen.namespace).rows[seen] = None
            self._count(seen)
        self.wake.set()

    def add_early(self, seen: Seen) -> None:
        """Add rows that wait for their Framework."""
        self._early[seen] = None
        if seen.written is None:
            self._count(seen)

    def add_roster(self, config_map: ConfigMap) -> None:
        """Add a ConfigMap, in the place of an older state of it."""
        rosters = self._of(config_map.metadata.namespace).rosters
        if before := rosters.pop(config_map.metadata.uid, None):
            self._discount(before)
        rosters[config_map.metadata.uid] = seen = Seen(time.time(), config_map=config_map)
        self._count(seen)
        self.wake.set()

    def take(self) -> list[Seen]:
        """Take out the oldest of each namespace; rows come after the states: the archive must know Frameworks."""
        found, size = list[Seen](), 0
        with_states = deque(name for name, waiting in self._waiting.items() if waiting.states)
        for _ in range(BATCH):
            if not with_states or size >= BATCH_BYTES:
                break
            name = with_states.popleft()
            self._waiting.move_to_end(name)
            states = self._waiting[name].states
            uid, own = states.popitem(last=False)
            while own and size < BATCH_BYTES:
                found.append(own.popleft())
                size += found[-1].size
            if own:
                states[uid] = own
            if states:
                with_states.append(name)
        for waiting in self._waiting.values():
            found += waiting.take_rows(max(1, 8 * BATCH // len(self._waiting)))
        # One at a time: it may be much larger in memory than it waits.
        for name in [name for name, waiting in self._waiting.items() if waiting.rosters and not waiting.states][:1]:
            self._waiting.move_to_end(name)
            found.append(self._waiting[name].rosters.popitem(last=False)[1])
        for name in [name for name, waiting in self._waiting.items() if not waiting]:
            del self._waiting[name]
        for seen in found:
            self._discount(seen)
        return found

    def take_early(self, known: Container[str], before: float) -> list[Seen]:
        """Take out rows whose Framework is known now, and those that were seen before a time."""
        found = [one for one in self._early if one.time < before or (one.rows is not None and one.rows.uid in known)]
        for seen in found:
            del self._early[seen]
            self._discount(seen)
        return found

    def _count(self, seen: Seen) -> None:
        """Count what may be passed over, and pass over what there is no place for."""
        size = self._spare.setdefault(seen.namespace, OrderedDict())[seen] = seen.size
        self._sizes[seen.namespace] += size
        while self._sizes.total() > PENDING_BYTES:
            ((most, _),) = self._sizes.most_common(1)
            self._drop(next(iter(self._spare[most])))

    def _discount(self, seen: Seen) -> None:
        """Count what was taken out no more, if it was counted."""
        if spare := self._spare.get(seen.namespace):
            self._sizes[seen.namespace] -= spare.pop(seen, 0)
            if not spare:
                del self._spare[seen.namespace], self._sizes[seen.namespace]

    def _drop(self, seen: Seen) -> None:
        place = self._of(seen.namespace)
        if seen.state is not None:
            waiting = place.states[seen.state.metadata.uid]
            waiting.popleft()  # what is spare of a Framework is its oldest
            if not waiting:
                del place.states[seen.state.metadata.uid]
        elif seen.config_map is not None:
            del place.rosters[seen.config_map.metadata.uid]
        else:
            place.rows.pop(seen, None)
            self._early.pop(seen, None)
        if not place:
            del self._waiting[seen.namespace]
        self._discount(seen)
        self.pass_over(seen)
