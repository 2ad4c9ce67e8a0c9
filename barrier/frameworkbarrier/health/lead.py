"""Who of the gang decides whether it hangs, and what he asks the others.

The first sidecar of the roster that answers leads; the others ask only those before them. Each answer says of which
instance of a Pod it is, since addresses are used again. No Pod writes to the API server.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from frameworkbarrier.health.pod import STACK_CHARACTERS
from frameworkbarrier.health.report import SECTION_CHARACTERS, is_number, whole, word
from frameworkbarrier.health.verdict import STACK_LINES, Answer, Hang, judge
from frameworkbarrier.text import bracketed

INTERVAL_SEC = 5.0
PER_SECOND = 50
"""Requests, at most."""
TIMEOUT_SEC = 2.0
ANSWER_BYTES = 4096
MISSES = 3
"""So often nobody before this Pod has answered when it begins to lead."""
ASKED_BEFORE = 16
"""Those before this Pod that it asks, at most."""
MUTE = Answer(step=None, fastest=None, silent=0.0, limit=0.0, lived=0.0, processes=0)
"""The sidecar answers, and no process has said anything."""
NAMED = 8
"""Tasks that a line or a verdict names."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A Task that has not ended, as the roster has it."""

    task: str
    ip: str
    uid8: str
    node: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a round of the lead has found."""

    answers: dict[str, Answer]
    silent: tuple[str, ...]
    """The Tasks that say nothing of any progress: they are left out."""
    hang: Hang | None


class Lead:
    """One sidecar of the gang. `ask` returns the answer at an address, None if there is none of this instance.

    A gang of which not everybody works is waited for with patience, as long as `first_sec`.
    """

    def __init__(
        self,
        own: str,
        ask: Callable[[Peer, int], Awaitable[Answer | None]],
        first_sec: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own, self._ask, self._first_sec, self._clock = own, ask, first_sec, clock
        self.peers: tuple[Peer, ...] = ()
        self.epoch = 0
        self._misses, self._is_ending = 0, False
        self._listed: dict[Peer, float] = {}
        """Since when each is in the gang."""
        self._last: dict[Peer, Answer] = {}
        """The last answer of each that has given one in this epoch."""
        self._spoken: set[Peer] = set()
        """Those of whose processes something was known."""

    def follow(self, peers: Sequence[Peer], epoch: int, *, is_ending: bool = False) -> None:
        """Go on with the gang as it is now; `is_ending`: some of its Tasks have ended for good."""
        if epoch != self.epoch:
            self._misses, self._listed, self._last, self._spoken = 0, {}, {}, set()
        self.peers, self.epoch, self._is_ending = tuple(peers), epoch, is_ending
        if peers:  # while the gang is not complete, those who stay are the same
            self._listed = {peer: self._listed.get(peer, self._clock()) for peer in peers}
            self._last = {peer: one for peer, one in self._last.items() if peer in self._listed}
            self._spoken.intersection_update(peers)

    @property
    def interval_sec(self) -> float:
        """The pause between two rounds."""
        return max(INTERVAL_SEC, len(self.peers) / PER_SECOND)

    async def round(self, own: Callable[[], Answer | None]) -> Finding | None:
        """Ask who is to be asked; return what was found if this Pod leads."""
        peers, place = self.peers, next((at for at, peer in enumerate(self.peers) if peer.task == self._own), None)
        if place is None:
            return None
        if self._misses < MISSES:
            for peer in peers[: min(place, ASKED_BEFORE)]:
                if (answer := await self._ask(peer, self.epoch)) is not None:
                    self._misses = 0
                    self._heard({peer: answer})
                    return None
            self._misses = MISSES if place == 0 else self._misses + 1
            if self._misses < MISSES:
                return None
        found = await self._ask_all([peer for peer in peers if peer.task != self._own])
        if any(peer in found for peer in peers[:place]):
            self._misses = 0
            self._heard(found)
            return None
        found[peers[place]] = own() or MUTE
        finding = self._judge(found)
        if finding.hang is not None and (missing := [peer for peer in self._last if peer not in found]):
            found |= await self._ask_all(missing)
            finding = self._judge(found)
        if self.peers is not peers:
            return None  # another gang than that of which was asked
        self._heard(found)
        return finding

    def _heard(self, found: dict[Peer, Answer]) -> None:
        self._last |= found
        self._spoken |= {peer for peer, one in found.items() if one is not MUTE}

    def _judge(self, found: dict[Peer, Answer]) -> Finding:
        answers = {peer.task: one for peer, one in found.items() if one is not MUTE}
        lost = {peer.task: self._last[peer] for peer in self.peers if peer in self._last and peer not in found}
        others = [peer for peer in self.peers if peer.task not in answers and peer.task not in lost]
        # What takes one that is lost long, a checkpoint, takes all others long.
        least = max((one.limit for one in lost.values()), default=0.0)
        if self._is_ending or any(self._may_yet_speak(one, found) for one in others):
            least = max(least, self._first_sec)
        if len(lost) > len(found) and self._own in answers:
            # Nobody can be reached any more: it decides for itself.
            lost, others, least = {}, [], self._first_sec
            answers = {self._own: answers[self._own]}
        return Finding(answers, tuple(peer.task for peer in others), judge(answers, [*lost], len(others), least))

    def _may_yet_speak(self, peer: Peer, found: dict[Peer, Answer]) -> bool:
        """Report whether one that says nothing of progress may be at work: only of some that never do it is known."""
        begins = self._clock() - self._listed[peer] < self._first_sec
        return peer not in found or peer in self._spoken or begins

    async def _ask_all(self, peers: Sequence[Peer]) -> dict[Peer, Answer]:
        asked = []
        for peer in peers:
            asked.append((peer, asyncio.ensure_future(self._ask(peer, self.epoch))))
            await asyncio.sleep(1 / PER_SECOND)
        return {peer: found for peer, future in asked if (found := await future) is not None}


async def ask(peer: Peer, epoch: int, port: int) -> Answer | None:
    """Ask the sidecar of a Pod how far that is; None if it does not answer, or is another instance."""
    request = f"GET / HTTP/1.0\r\nHost: {bracketed(peer.ip)}:{port}\r\n\r\n".encode()
    try:
        data = await exchange(peer.ip, port, request, 2 * ANSWER_BYTES, TIMEOUT_SEC)
    except OSError:  # TimeoutError is one
        return None
    return decode(data.partition(b"\r\n\r\n")[2], peer.uid8, epoch)


async def exchange(host: str, port: int | str, request: bytes, limit: int, seconds: float) -> bytes:
    """Return what is answered to a request until the connection ends, or the first `limit` bytes of that.

    Raises:
        OSError: there is no answer, or it does not end within so many seconds.
    """
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(host, port, limit=ANSWER_BYTES)
        with contextlib.closing(writer):
            writer.write(request)
            data = b""
            while len(data) < limit and (more := await reader.read(limit - len(data))):
                data += more
            return data


def encode(answer: Answer | None, uid8: str, epoch: int) -> bytes:
    """Write an answer as JSON."""
    found = asdict(answer or MUTE)
    return json.dumps({"uid": uid8, "epoch": epoch, **found}, separators=(",", ":")).encode()


def decode(data: bytes, uid8: str, epoch: int) -> Answer | None:
    """Read the answer of this instance of a Pod, None if it is not one."""
    try:
        found = json.loads(data) if len(data) <= ANSWER_BYTES else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or (found.get("uid"), found.get("epoch")) != (uid8, epoch):
        return None
    if found.get("processes") == 0:
        return MUTE
    numbers = {name: _seconds(found.get(name)) for name in ("silent", "limit", "lived")}
    stack = found.get("stack")
    if None in numbers.values():
        return None
    return Answer(
        step=whole(found.get("step")),
        fastest=whole(found.get("fastest")),
        **{name: one or 0.0 for name, one in numbers.items()},
        section=word(found.get("section"), SECTION_CHARACTERS),
        stack=tuple(word(line, STACK_CHARACTERS) for line in stack[:STACK_LINES]) if isinstance(stack, list) else (),
        checkpoint=whole(found.get("checkpoint")),
        saved_ago=_seconds(found.get("saved_ago")),
        processes=whole(found.get("processes")) or 1,
        saved=found.get("saved") is True,
    )


def _seconds(value: Any) -> float | None:
    return float(value) if is_number(value) and value >= 0 else None
