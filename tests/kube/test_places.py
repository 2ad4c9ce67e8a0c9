"""Who has a place at a port, who waits for one and who gives way, on made-up clients and time."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from frameworkkube.serving.places import ANSWER_SECONDS, ConnectionLimits, Places, WaitingRoom

STEP = 0.02


@dataclass(eq=False)
class Someone:
    """A client, waiting or open."""

    source: str
    since: float = 0
    has_spoken: bool = False
    is_busy: bool = False


def places(held: Iterable[Someone]) -> Places[Someone]:
    made: Places[Someone] = Places(ConnectionLimits(connections=8, of_one_source=6))
    for one in held:
        made.take(one, one.since)
    return made


OLD, YOUNG = 0.0, 9.9
NOW = 10.0
WAITED = 0.3
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
    found = places(held).gives_way(Someone("new", NOW - WAITED), NOW)
    assert (found and vars(found)) == (None if goes is None else vars(held[goes]))


def test_a_client_that_opens_one_more_first_gets_to_use_what_it_has() -> None:
    """A burst of an API server after a rest closed idle connections of its own while it took them for its reviews."""
    found = places([Someone("api", OLD, has_spoken=True) for _ in range(6)])
    assert found.gives_way(Someone("api", NOW), NOW) is None
    assert found.gives_way(Someone("api", NOW - WAITED), NOW) is not None


def test_those_who_are_known_have_places_that_others_have_not() -> None:
    limits = ConnectionLimits(connections=8, others=4, of_one_source=3, known=5)
    found: Places[Someone] = Places(limits, {"api"})
    for source, most in {"a": 3, "b": 1, "api": 4}.items():
        for number in range(9):
            assert found.is_free(source) is (number < most)
            if number < most:
                found.take(Someone(source), NOW)
    found.leave(next(one for one in found._open if one.source == "a"))
    assert (found.is_free("api"), found.has_share("api")) == (True, False)
    found.take(Someone("api"), NOW)
    assert found.has_share("api")


class Port:
    """A port whose clients do what they are told, in steps of time."""

    def __init__(self, **limits: int) -> None:
        self.limits = ConnectionLimits(begun_per_second=400, **limits)
        self.known = set[str]()
        self.places: Places[Someone] = Places(self.limits, self.known)
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

    def close(self, one: Someone) -> None:
        self.open.remove(one)
        self.places.leave(one)

    def _turns(self) -> None:
        for one, other in self.waiting.turns(self.now):
            if other is not None:
                self.lost[other.source] += 1
                self.close(other)
            one.since = self.now
            self.open.add(one)
            self.places.take(one, self.now)


HONEST = "api"


@pytest.mark.parametrize("hold", [0.0, 100.0], ids=["that end at once", "that stay"])
@pytest.mark.parametrize(("sources", "each"), [(1, 200), (8, 208), (16, 80), (100, 8)])
def test_who_is_known_waits_for_nobody_and_who_is_not_is_heard(sources: int, each: int, hold: float) -> None:
    """Bursts beside others that ask nothing, and one connection of an API server that has yet to become known."""
    port, burst = Port(), 90
    served, slowest, asking = Counter[str](), Counter[str](), dict[Someone, float]()
    for step in range(1, 400):
        for number in range(sources):
            quiet = f"quiet {number}"
            open_or_waiting = port.places.of[quiet] + len(port.waiting._queues.get(quiet, ()))
            for _ in range(min(each - open_or_waiting, 10)):
                port.connect(Someone(quiet))
        port.step()
        if step == 100:
            # Until then nobody is.
            port.known.add(HONEST)
        if step in (100, 150, 200):
            for source in [HONEST] * burst + [f"new {step}"]:
                one = Someone(source)
                asking[one] = port.now
                port.connect(one)
        for one in list(port.open):
            if one in asking and port.now - one.since > STEP:
                one.has_spoken = True
                kind = one.source.split()[0]
                slowest[kind] = max(slowest[kind], port.now - asking.pop(one))
                served[kind] += 1
                port.close(one)
            elif one.source.startswith("quiet") and port.now - one.since >= hold:
                port.close(one)
    assert (served, port.lost[HONEST]) == ({HONEST: 3 * burst, "new": 3}, 0)
    assert slowest[HONEST] <= 0.2
    assert slowest["new"] <= 3


@pytest.mark.parametrize("known", [[], ["known"]])
def test_who_is_not_known_yet_is_no_worse_off_because_another_is(known: list[str]) -> None:
    port = Port()
    port.known.update(known)
    waits, asking = list[float](), dict[Someone, float]()
    for step in range(1, 400):
        for number in range(30):
            quiet = f"quiet {number}"
            for _ in range(20 - port.places.of[quiet] - len(port.waiting._queues.get(quiet, ()))):
                port.connect(Someone(quiet))
        port.step()
        for _ in range(90 if step == 100 else 0):
            asking[one := Someone(HONEST)] = port.now
            port.connect(one)
        for one in list(port.open):
            if one in asking and port.now - one.since > STEP:
                waits.append(port.now - asking.pop(one))
                one.has_spoken = True
                port.close(one)
    assert (len(waits), port.lost[HONEST]) == (90, 0)
    assert max(waits) < 4


@pytest.mark.parametrize("answered", [False, True])
def test_known_ones_that_end_without_an_answer_have_a_pace_which_others_do_not_wait_for(*, answered: bool) -> None:
    """Each Pod whose client gives up at once ends a connection of its API server, and the next one begins another.

    But a large answer is the last one of its connection, too.
    """
    port = Port(known_per_second=200)
    port.known.update({"first", "second"})
    begun = Counter[str]()
    for step in range(400):
        for _ in range(60 - len(port.waiting._queues.get("first", ()))):
            port.connect(Someone("first"))
        for source in ("second", "other") if step % 20 == 0 else ():
            port.connect(Someone(source))
        port.step()
        for one in list(port.open):
            begun[one.source] += 1
            one.has_spoken, one.is_busy = True, not answered
            port.close(one)
        assert not port.waiting.wants_place_of("first"), "an answer would end its connection, and begin another one"
    paced = begun["first"] + begun["second"] - port.limits.known
    assert (paced > 400 * port.now) if answered else (200 * port.now - 10 < paced < 200 * port.now + 2)
    assert (begun["second"], begun["other"]) == (20, 20)


@pytest.mark.parametrize("known", [[], ["first"]])
def test_where_too_many_wait_the_oldest_of_a_known_one_goes_and_the_newest_of_another(known: list[str]) -> None:
    """An API server dials for each request, and lets others use the connection of one that has given up by then."""
    port = Port(connections=0, known=0, waiting=3)
    port.known.update(known)
    waiting = [Someone("first") for _ in range(4)]
    for one in waiting[:3]:
        port.connect(one)
    port.waiting.enter(waiting[3])
    assert port.waiting.too_many() is waiting[0 if known else 3]


def test_no_request_of_one_that_is_known_gives_way_to_others() -> None:
    port = Port()
    port.known.update({"first", "second"})
    for number in range(64):
        source = "first" if number % 2 else "second"
        port.connect(Someone(source, has_spoken=True, is_busy=number < 60))
    port.step()
    for _ in range(30):
        port.connect(Someone("other"))
    for _ in range(100):
        port.step()
    assert (port.places.of["other"], port.lost["first"] + port.lost["second"]) == (4, 4)


def test_who_was_quiet_has_no_more_turns_than_others() -> None:
    """Connections that rested for a while let an API server wait until as many others had begun as it had."""
    port = Port()
    for _ in range(20):
        port.connect(one := Someone("busy", has_spoken=True))
        port.close(one)
    for number in range(port.limits.connections):
        port.connect(Someone(f"held {number}", has_spoken=True, is_busy=True))
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
            port.connect(Someone(source, has_spoken=has_spoken, is_busy=not has_spoken))
    port.step()
    assert len(port.open) == port.limits.connections
    port.connect(Someone("hoards"))
    port.connect(Someone("new"))
    for _ in range(round(port.limits.grace_seconds / STEP) + 1):
        port.step()
    assert (port.places.of["new"], port.places.of["hoards"]) == (1, 39)
