"""Who has a place at a port, who waits for one and who gives way, on made-up clients and time."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from frameworkkube.serving.places import (
    ANSWER_SECONDS,
    CREDIT,
    HALF_SECONDS,
    ConnectionLimits,
    Places,
    WaitingRoom,
)

STEP = 0.02


@dataclass(eq=False)
class Someone:
    """A client, waiting or open."""

    source: str
    since: float = 0
    has_spoken: bool = False
    is_busy: bool = False
    is_open: bool = False


def places(held: Iterable[Someone]) -> Places[Someone]:
    made: Places[Someone] = Places(ConnectionLimits(connections=8, of_one_source=6))
    for one in held:
        made.take(one, one.since)
    return made


OLD, YOUNG = 0.0, 9.9
NOW = 10.0
SILENT = [Someone("quiet", OLD), Someone("quiet", OLD)]


@pytest.mark.parametrize(
    ("held", "goes"),
    [
        ([Someone("a", YOUNG)] * 8, None),
        ([Someone("a", OLD + number) for number in range(8)], 0),
        # Those that speak give way to nobody while enough others say nothing.
        ([Someone("a", OLD, has_spoken=True)] * 6 + [Someone("b", YOUNG), Someone("c", OLD)], 7),
        ([Someone("a", OLD, has_spoken=True)] * 6 + [Someone("b", YOUNG), Someone("c", YOUNG)], None),
        ([Someone("a", OLD, has_spoken=True)] * 7 + [Someone("b", OLD)], 0),
        ([Someone("a", OLD, has_spoken=True), *[Someone("b", OLD + 1, has_spoken=True) for _ in range(7)]], 1),
        # A request that has arrived is answered.
        ([Someone("a", OLD + 1, has_spoken=True, is_busy=True) for _ in range(8)], None),
        ([Someone("a", NOW - ANSWER_SECONDS, has_spoken=True, is_busy=True) for _ in range(8)], 0),
        # Of its own, a new one takes the place of those that do nothing.
        ([Someone("new", OLD, is_busy=True), Someone("new", YOUNG), *[Someone("new", OLD) for _ in range(6)]], 2),
        ([Someone("new", OLD, is_busy=True), *[Someone("new", YOUNG) for _ in range(5)], *SILENT], None),
        ([*[Someone("new", OLD, has_spoken=True) for _ in range(6)], *SILENT], 0),
    ],
)  # fmt: skip
def test_the_place_of_whom_a_new_one_takes(held: list[Someone], goes: int | None) -> None:
    held = [Someone(one.source, one.since, one.has_spoken, one.is_busy) for one in held]
    found = places(held).gives_way("new", NOW)
    assert (found and vars(found)) == (None if goes is None else vars(held[goes]))


def test_requests_pay_for_unused_connections_but_for_none_that_had_to_give_way_in_its_handshake() -> None:
    """An API server opens more connections for a burst than it uses: those that gave way put it behind all others."""
    held = [Someone("a", NOW, is_open=number < 4) for number in range(5)]
    found = places(held)
    for _ in range(4):
        found.asked("a", NOW)
    for one in held[:3]:
        found.leave(one, NOW, gives_way=one is held[0])
    assert (found.wasted("a"), found.has_credit("a")) == (0, True)
    found.leave(held[3], NOW)
    found.leave(held[4], NOW, gives_way=True)
    assert (found.wasted("a"), found.has_credit("a")) == (1, False)
    for _ in range(CREDIT * 2):
        found.asked("a", NOW)
    assert (found.wasted("a"), found.has_credit("a")) == (1, True)
    found.asked("b", NOW + 2 * HALF_SECONDS)
    assert (found.wasted("a"), found.has_credit("a")) == (0, True)


class Port:
    """A port whose clients do what they are told, in steps of time."""

    def __init__(self) -> None:
        self.limits = ConnectionLimits(begun_per_second=400)
        self.places: Places[Someone] = Places(self.limits)
        self.waiting: WaitingRoom[Someone, Someone] = WaitingRoom(self.places, self.limits)
        self.open: set[Someone] = set()
        self.lost: Counter[str] = Counter()
        self.now = 0.0

    def connect(self, one: Someone) -> None:
        one.since = self.now
        self.waiting.enter(one)
        if len(self.waiting) == 1:
            self._turns()
        if (refused := self.waiting.too_many()) is not None:
            self.lost[refused.source] += 1

    def step(self) -> None:
        self.now += STEP
        for one in self.waiting.late(self.now):
            self.lost[one.source] += 1
        self._turns()

    def close(self, one: Someone, *, gives_way: bool = False) -> None:
        self.open.remove(one)
        self.places.leave(one, self.now, gives_way=gives_way)

    def _turns(self) -> None:
        for one, other in self.waiting.turns(self.now):
            if other is not None:
                self.lost[other.source] += 1
                self.close(other, gives_way=True)
            one.since = self.now
            self.open.add(one)
            self.places.take(one, self.now)


HONEST = "api"


@pytest.mark.parametrize("hold", [0.0, 100.0], ids=["that end at once", "that stay"])
@pytest.mark.parametrize(("sources", "each"), [(1, 200), (3, 90), (8, 208), (100, 8)])
def test_connections_that_ask_nothing_cut_no_burst_of_requests_off(sources: int, each: int, hold: float) -> None:
    port, burst = Port(), 90
    served, slowest, asking = 0, 0.0, dict[Someone, float]()
    for step in range(1, 300):
        for number in range(sources):
            quiet = f"quiet {number}"
            open_or_waiting = port.places.of[quiet] + len(port.waiting._queues.get(quiet, ()))
            for _ in range(min(each - open_or_waiting, 10)):
                port.connect(Someone(quiet))
        port.step()
        if step in (150, 200, 250):
            for _ in range(burst):
                one = Someone(HONEST)
                asking[one] = port.now
                port.connect(one)
        for one in list(port.open):
            if one in asking and port.now - one.since > STEP:
                one.has_spoken = True
                port.places.asked(HONEST, port.now)
                slowest = max(slowest, port.now - asking.pop(one))
                served += 1
                port.close(one)
            elif one.source != HONEST and port.now - one.since >= hold:
                port.close(one)
    assert (served, port.lost[HONEST], slowest < 2) == (3 * burst, 0, True)


def test_who_was_quiet_has_no_more_turns_than_others() -> None:
    """Connections that rested for a while let an API server wait until as many others had begun as it had."""
    port = Port()
    for _ in range(20):
        port.connect(one := Someone("busy", has_spoken=True, is_open=True))
        port.close(one)
    for number in range(port.limits.connections):
        port.connect(Someone(f"held {number}", has_spoken=True, is_busy=True, is_open=True))
    for _ in range(10):
        port.step()
    held = list(port.open)
    for source in ["busy"] * 4 + ["quiet"] * 4:
        port.connect(Someone(source))
    begun = []
    for one in held[:8]:
        port.close(one)
        before = set(port.open)
        port.step()
        begun += [new.source for new in port.open - before]
    assert begun == ["busy", "quiet"] * 4


def test_who_finds_no_place_keeps_nobody_from_one() -> None:
    """Of those that say nothing there are many; only who has fewer connections than they may take a place of theirs."""
    port = Port()
    for source, number, has_spoken in (("hoards", 40, False), ("api", 12, True), ("another", 12, True)):
        for _ in range(number):
            port.connect(Someone(source, has_spoken=has_spoken, is_busy=not has_spoken, is_open=True))
    port.step()
    assert len(port.open) == port.limits.connections
    port.connect(Someone("hoards"))
    port.connect(Someone("new"))
    for _ in range(round(port.limits.grace_seconds / STEP) + 1):
        port.step()
    assert (port.places.of["new"], port.places.of["hoards"]) == (1, 39)
