"""Decides which connection of a port has a place, which waits for one, and which gives way; `listener` has the sockets.

No address says who is honest. Sources that are known to be wait for no others: most places are theirs as soon as they
want them. Else whoever has fewest places is served first, and those take turns; whoever has most gives way first.
"""

from collections import Counter, deque
from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

# An answer that takes longer is a stream, which has no end of its own.
ANSWER_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds on the connections of one port."""

    connections: int = 64
    """Open connections, those in their TLS handshake included. A quarter of them is for those that have brought no
    request yet."""
    others: int = 1_000_000
    """Of those that are not known, each of which takes up to 1 MiB of buffers."""
    of_one_source: int = 48
    """Open connections of one address that is not known."""
    known: int = 48
    """Open connections of the known ones together for which others give way; the rest is for these."""
    begun_per_second: int = 1_000_000
    """Connections of those that are not known that begin in a second, after `begun_at_once`."""
    begun_at_once: int = 64
    known_per_second: int = 1_000_000
    """Connections of the known ones that begin in a second, after as many at once as they have places, but for those
    whose last request was answered: each client that gives up ends one, and a handshake takes more time than a review.
    """
    waiting: int = 768
    """Accepted connections that wait to begin, as bare sockets: with all others they may be more than the 1,024 files
    that a process may have open by default. The system keeps up to 64 KiB of each."""
    grace_seconds: float = 0.3
    """Time to bring a request, the first or the next one, before a connection gives way; and for which one that has no
    place waits before others of its own source give way."""
    own_grace_seconds: float = 2.0
    """Time for which a connection does not give way to another one of its own source: many at once may be honest."""
    handshake_seconds: float = 5.0
    """Time for a TLS handshake, and before it to wait."""
    first_request_seconds: float = 10.0
    """Time for a new connection to send its first request head, the handshake included; not of those that are known,
    which open more than they use at once."""
    unread_seconds: float = 2.0
    """Time for a client to take in a last answer."""
    unread_bytes: int = 32 * 1024 * 1024
    """Of last answers that clients have yet to take in, and a quarter of it for those of others once somebody is known;
    TLS takes twice as much."""
    stalled_seconds: float = 4.0
    """Time without a sign of the client that it takes in what was sent. The system would try for minutes, and keep what
    is left of it when the connection is closed. API servers wait five seconds for a review, the kubelet for a probe."""
    idle_seconds: float = 100.0
    """Time between requests; above the 90 s after which the API server itself closes idle connections, because a call
    that meets a connection which is being closed fails."""


class Client(Protocol):
    """A connection, waiting or open."""

    @property
    def source(self) -> str:
        """The address of the client, without the port."""

    @property
    def since(self) -> float:
        """When it was accepted, or its request began or was answered, in seconds of a monotonic clock."""


class Caller(Client, Protocol):
    """A connection that is open."""

    @property
    def is_busy(self) -> bool:
        """Whether a request has begun and is not answered."""

    @property
    def has_spoken(self) -> bool:
        """Whether there was a request, and the last one has arrived as a whole."""


Open = TypeVar("Open", bound=Caller)
Waiting = TypeVar("Waiting", bound=Client)


class Places(Generic[Open]):
    """The open connections of a port.

    Attributes:
        of: Their number by source.
    """

    def __init__(self, limits: ConnectionLimits, known: Collection[str] = ()) -> None:
        self._known = known
        self._limits = limits
        self._open: set[Open] = set()
        self.of: Counter[str] = Counter()
        # When all that have begun would have, one after the other: the known ones, and all others.
        self._paced = {True: 0.0, False: 0.0}

    def take(self, one: Open, now: float) -> None:
        """Give a place to a connection that begins."""
        self._open.add(one)
        self.of[one.source] += 1
        is_known = self.is_known(one.source)
        _, per_second = self._pace(is_known=is_known)
        self._paced[is_known] = max(self._paced[is_known], now) + 1 / per_second

    def leave(self, one: Open) -> None:
        """Free the place of a connection, which has ended or gives way."""
        self._open.remove(one)
        if self.is_known(one.source) and one.has_spoken and not one.is_busy:
            # Its last request was answered: it takes part in no pace.
            self._paced[True] -= 1 / self._limits.known_per_second
        self.of[one.source] -= 1
        self.of = +self.of

    def is_known(self, source: str) -> bool:
        """Whether a source is known to be honest."""
        return source in self._known

    def is_other(self, source: str) -> bool:
        """Whether somebody is known, and this source is not."""
        return bool(self._known) and not self.is_known(source)

    def known_are_many(self) -> bool:
        """Whether the known ones have more places than others give way for."""
        return self._known_ones() > self._limits.known

    def _known_ones(self) -> int:
        return sum(count for source, count in self.of.items() if self.is_known(source))

    def may_begin(self, source: str, now: float) -> bool:
        """Whether the pace lets another one of a source begin."""
        is_known = self.is_known(source)
        at_once, per_second = self._pace(is_known=is_known)
        return self._paced[is_known] - now < at_once / per_second

    def _pace(self, *, is_known: bool) -> tuple[int, int]:
        """Return how many may begin at once, and in each second then."""
        limits = self._limits
        return (limits.known, limits.known_per_second) if is_known else (limits.begun_at_once, limits.begun_per_second)

    def has_share(self, source: str) -> bool:
        """Whether a source has all that one may have, so that it can only take the place of one of its own."""
        return self.of[source] >= (self._limits.known if self.is_known(source) else self._limits.of_one_source)

    def is_free(self, source: str) -> bool:
        """Whether a new one of a source takes nobody's place."""
        if len(self._open) >= self._limits.connections or self.has_share(source):
            return False
        return self.is_known(source) or len(self._open) - self._known_ones() < self._limits.others

    def gives_way(self, new: Client, now: float) -> Open | None:
        """Return the connection whose place a new one takes; None if it has to wait for one."""
        known = [one for one in self._open if self.is_known(one.source)]
        others = [one for one in self._open if not self.is_known(one.source)]
        if self.is_known(new.source):
            return self._for_known(new, known, others, now)
        return self._of_equals(others, new, now) or self._back_from(known, new, now)

    def _for_known(self, new: Client, known: Collection[Open], others: Collection[Open], now: float) -> Open | None:
        """Others give way first, until the known ones have their share."""
        if others and len(known) < self._limits.known and not self.has_share(new.source):
            return min(others, key=lambda one: (one.is_busy, one.since))
        return self._of_equals(known, new, now)

    def _back_from(self, known: Collection[Open], new: Client, now: float) -> Open | None:
        """Known ones that have more than their share give way if they rest."""
        if not self.known_are_many() or self.has_share(new.source):
            return None
        rested = (one for one in known if not one.is_busy and now - one.since >= self._limits.grace_seconds)
        return min(rested, key=lambda one: one.since, default=None)

    def _of_equals(self, equals: Collection[Open], new: Client, now: float) -> Open | None:
        source, limits, has_share = new.source, self._limits, self.has_share(new.source)
        # A client that opens one more is about to use all that it has: they get the time for that.
        has_waited = now - new.since >= limits.grace_seconds
        # Else those that say nothing could take the place of all that speak, or those the place of all others.
        keeps_spoken = sum(not one.has_spoken for one in equals) >= max(1, len(equals)) / 4

        def may_go(one: Open) -> bool:
            seconds = now - one.since
            if one.source == source and (has_share or not (keeps_spoken and one.has_spoken)):
                return not one.is_busy and seconds >= limits.own_grace_seconds and has_waited
            if has_share:
                return False
            if not one.has_spoken:
                return seconds >= limits.grace_seconds
            is_at_rest = seconds >= (ANSWER_SECONDS if one.is_busy else limits.grace_seconds)
            return not keeps_spoken and is_at_rest and self.of[one.source] > self.of[source]

        def order(one: Open) -> tuple[bool, int, float]:
            return one.has_spoken == keeps_spoken, -self.of[one.source], one.since

        return min(filter(may_go, equals), key=order, default=None)


class WaitingRoom(Generic[Waiting, Open]):
    """Connections that have no place yet, in their order for each source; who was served last comes last."""

    def __init__(self, places: Places[Open], limits: ConnectionLimits) -> None:
        self._places = places
        self._limits = limits
        self._queues: dict[str, deque[Waiting]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def enter(self, one: Waiting) -> None:
        """Let a connection wait."""
        self._queues.setdefault(one.source, deque()).append(one)
        self._count += 1

    def too_many(self) -> Waiting | None:
        """Return the one for which there is no room, which waits no more: of known ones it is the first.

        Whoever asked for that one may have given up; an API server then uses it for the next one that asks.
        """
        if self._count <= self._limits.waiting:
            return None
        places = self._places

        def order(source: str) -> tuple[bool, int]:
            return not places.is_known(source), places.of[source] + len(self._queues[source])

        most = max(self._queues, key=order)
        queue = self._queues[most]
        return self._left(most, queue.popleft() if places.is_known(most) else queue.pop())

    def turns(self, now: float) -> Iterator[tuple[Waiting, Open | None]]:
        """Return those whose turn it is, and who gives way to each; the caller takes and frees the places meanwhile."""
        places, skipped = self._places, set[str]()
        while (source := self._next_source(skipped)) is not None:
            may_begin, is_free = places.may_begin(source, now), places.is_free(source)
            other = places.gives_way(self._queues[source][0], now) if may_begin and not is_free else None
            if may_begin and (is_free or other is not None):
                queue = self._queues.pop(source)
                self._queues[source] = queue
                yield self._left(source, queue.popleft()), other
            elif places.is_known(source) or places.has_share(source):
                skipped.add(source)
            else:
                # Nobody gives way to those that have as many, either.
                return

    def late(self, now: float) -> Iterator[Waiting]:
        """Return those that have waited for too long, and wait no more."""
        for source, queue in list(self._queues.items()):
            while queue and now - queue[0].since >= self._limits.handshake_seconds:
                yield self._left(source, queue.popleft())

    def wants_place_of(self, source: str) -> bool:
        """Whether a place of a source is due to one that waits."""
        places = self._places
        is_known, are_many = places.is_known(source), places.known_are_many()
        return any(
            one == source
            or (places.of[one] < places.of[source] if places.is_known(one) is is_known else is_known and are_many)
            for one in self._queues
            if not places.is_free(one)
        )

    def _next_source(self, skipped: Container[str]) -> str | None:
        """Return who has fewest places, of those that are known if any waits; equals take turns."""
        places = self._places
        waiting = (source for source in self._queues if source not in skipped)
        return min(waiting, key=lambda source: (not places.is_known(source), places.of[source]), default=None)

    def _left(self, source: str, one: Waiting) -> Waiting:
        self._count -= 1
        if not self._queues[source]:
            del self._queues[source]
        return one
