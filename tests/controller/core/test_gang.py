"""How a gang's start is told, and when the status is written."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api import names
from frameworkcontroller.api.states import State
from frameworkcontroller.api.types import FRAMEWORK_DECODER, Meta
from frameworkcontroller.core.book import Book
from frameworkcontroller.core.effects import Done, Failed, WriteRoster
from frameworkcontroller.core.gang import Gang, absentees, identity_of
from frameworkcontroller.core.outbox import Outbox
from frameworkcontroller.core.writer import StatusWriter

from .values import START, at, framework, pod, role, spec, task

if TYPE_CHECKING:
    from datetime import datetime

    from frameworkcontroller.api.types import Framework, Partial, Pod

WANTED = spec(role("worker", 3))


class Nobody:
    """Caches that are empty but for some Pods."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = {one.metadata.name: one for one in pods}

    @property
    def framework(self) -> Framework:
        raise AssertionError

    def config_map(self) -> Partial | None:
        raise AssertionError

    def pod(self, name: str) -> Pod | None:
        return self.pods.get(name)


class Start:
    """Three Tasks on their way."""

    def __init__(self, annotation: str = "{}") -> None:
        self.book = Book("fw")
        self.book.set(framework(State.PREPARING))
        uids = (f"uid-{number}" for number in itertools.count())
        self.book.rescale(WANTED, at(0), lambda: next(uids))
        meta = Meta(
            "fw-attempt",
            "config-map-uid",
            "1",
            creation_timestamp=START,
            annotations={names.ROSTER_ANNOTATION: annotation},
        )
        self.gang = Gang(meta, identity_of(self.book, "ns", "fw", "framework-uid"))
        self.outbox = Outbox(lambda: 0.5)

    def run(self, index: int) -> None:
        self.book.put(("worker", index), task(State.RUNNING, index=index, ip=f"10.0.0.{index}"))

    def decide(self, seconds: float) -> tuple[WriteRoster | None, datetime | None]:
        shown = self.book.show(WANTED)
        return self.gang.decide(self.book, self.outbox, Nobody(), shown, at(seconds))

    def told(self) -> list[str]:
        self.book.acknowledge(self.book.revision)
        return [f"{one.reason}: {one.message}" for one in self.book.take_announcements() if "Gang" in one.reason]

    def reached(self, seconds: float) -> list[tuple[str, float]]:
        return [(one.phase, one.seconds) for one in self.gang.milestones(self.book, WANTED, at(seconds))]


def test_who_is_missing_after_30_seconds_is_told_once_with_the_reason() -> None:
    start = Start()
    start.run(0)
    start.outbox.back_off(("pod", "worker", 2), Failed("exceeded quota"), at(0))
    assert start.decide(28)[1] == at(30)
    assert start.told() == []
    start.decide(30)
    start.decide(60)
    (told,) = start.told()
    assert told.startswith("GangWaiting: 1/3 Tasks are ready after 30 s, not ")
    assert told.endswith("worker-1: its Pod is not created yet; worker-2: exceeded quota")


def test_a_gang_that_is_ready_is_told_once() -> None:
    start = Start()
    for index in range(3):
        start.run(index)
    start.decide(7)
    start.decide(70)
    assert start.told() == ["GangReady: All 3 Tasks are ready after 7 s"]


def test_a_gang_that_was_ready_before_this_controller_is_not_told() -> None:
    start = Start('{"generation":1,"complete":true,"digest":"x"}')
    start.decide(100)
    for index in range(3):
        start.run(index)
    start.decide(200)
    assert start.told() == []
    assert start.reached(200) == []


def test_a_starts_phases_are_measured_once() -> None:
    start = Start()
    assert start.reached(1) == []
    for index in range(3):
        start.book.put(("worker", index), task(State.CREATION_REQUESTED, index=index))
    assert start.reached(2) == [("created", 2.0)]
    for index in range(3):
        start.run(index)
    assert start.reached(3) == [("addressed", 3.0)]
    effect, _ = start.decide(3)
    assert effect is not None
    assert effect.complete
    assert start.reached(3.5) == []
    start.gang.settle(effect, done=True)
    assert start.reached(4) == [("open", 4.0)]
    assert start.reached(5) == []


def test_a_roster_that_was_not_written_is_written_again() -> None:
    start = Start()
    for index in range(3):
        start.run(index)
    first, _ = start.decide(3)
    assert first is not None
    start.gang.settle(first, done=False)
    assert start.reached(4) == [("created", 4.0), ("addressed", 4.0)]
    assert start.decide(4)[0] == first


def test_the_absent_are_those_that_are_not_ready_each_with_the_best_reason() -> None:
    start = Start()
    start.run(1)
    start.book.put(("worker", 2), task(State.PREPARING, index=2))
    view = Nobody(pod("Pending", name="fw-worker-2"))
    found = [(one.task, one.why) for one in absentees(start.book, start.outbox, view)]
    assert found == [("worker-0", "its Pod is not created yet"), ("worker-2", "Pending: no IP yet")]


# --- when the status is written ---------------------------------------------------------------------------------------


def writer() -> StatusWriter:
    document = b'{"metadata":{"name":"fw","uid":"u","resourceVersion":"7","generation":4},"spec":{}}'
    return StatusWriter(FRAMEWORK_DECODER.decode(document))


def large(number: int) -> Book:
    book = Book("fw")
    book.set(framework(State.PREPARING))
    book.rescale(spec(role("worker", number)), at(0), lambda: "uid")
    return book


def distance(number: int, *, pressing: bool) -> float:
    """Seconds between two writes of so many Tasks."""
    book, wanted, one = large(number), spec(role("worker", number)), writer()
    assert one.due(book, wanted, at(0), crowded=True) is None
    one.compose(book, wanted, 4, at(10), at(10))
    book.put(("worker", 0), task(State.ATTEMPT_COMPLETED if pressing else State.RUNNING))
    due = one.due(book, wanted, at(10), crowded=False)
    assert due is not None
    return (due - at(10)).total_seconds()


def test_the_first_write_is_at_once_and_later_ones_wait_the_longer_the_larger() -> None:
    assert distance(10, pressing=True) < distance(10_000, pressing=True) == pytest.approx(1, abs=0.1)
    assert distance(10, pressing=False) < distance(10_000, pressing=False) == pytest.approx(5, abs=0.6)


@pytest.mark.parametrize("number", [1, 100, 10_000])
def test_what_holds_something_up_waits_less_than_what_only_tells(number: int) -> None:
    assert distance(number, pressing=True) < distance(number, pressing=False) / 4


def test_a_gang_that_has_become_complete_waits_for_nothing() -> None:
    book, wanted, one = large(2), spec(role("worker", 2)), writer()
    effect = one.compose(book, wanted, 4, at(10), at(10))
    one.settle(effect, Done(resource_version="8"), book)
    for index in range(2):
        assert one.due(book, wanted, at(10), crowded=False) is not None
        book.put(("worker", index), task(State.RUNNING, index=index, ip="10.0.0.1"))
    assert one.due(book, wanted, at(10), crowded=True) is None
    effect = one.compose(book, wanted, 4, at(10.001), at(10))
    one.settle(effect, Done(resource_version="9"), book)
    assert one.due(book, wanted, at(10), crowded=False) is not None


def test_where_writes_queue_what_only_tells_gives_way_and_what_holds_something_up_does_not() -> None:
    book, wanted, one = large(10), spec(role("worker", 10)), writer()
    one.compose(book, wanted, 4, at(10), at(10))
    book.put(("worker", 0), task(State.RUNNING))
    due = one.due(book, wanted, at(60), crowded=True)
    assert due is not None
    assert due > at(60)
    book.put(("worker", 1), task(State.ATTEMPT_COMPLETED, index=1))
    due = one.due(book, wanted, at(60), crowded=True)
    assert due is not None
    assert due < at(60)


STATUS = (
    '{"startTime":"2026-01-01T00:00:00Z","state":"AttemptRunning","transitionTime":"2026-01-01T00:00:00Z",'
    '"attemptStatus":{"id":0,"startTime":"2026-01-01T00:00:00Z","configMapName":"fw-attempt"}}'
)


def shown(version: str, status: str = STATUS) -> Framework:
    meta = f'{{"name":"fw","uid":"u","resourceVersion":"{version}"}}'
    return FRAMEWORK_DECODER.decode(f'{{"metadata":{meta},"spec":{{}},"status":{status}}}')


@pytest.mark.parametrize(
    ("seen", "overtaken"),
    [
        (shown("7"), False),
        (shown("5", "null"), False),
        (shown("8"), False),
        (shown("8", "null"), True),
        (shown("10", STATUS.replace("AttemptRunning", "Completed")), True),
        (shown("opaque", "null"), False),
    ],
    ids=["the same", "older", "newer, of others", "newer, without a status", "newer, of a rival", "not a number"],
)
def test_a_status_that_somebody_else_has_written_is_noticed(seen: Framework, *, overtaken: bool) -> None:
    assert StatusWriter(shown("7")).is_overtaken(seen) is overtaken


def test_a_newer_version_with_our_status_is_what_the_next_write_builds_upon() -> None:
    one = StatusWriter(shown("7"))
    assert not one.is_overtaken(shown("9"))
    effect = one.compose(large(1), spec(role("worker", 1)), 4, at(10), at(10))
    assert effect.resource_version == "9"


def test_a_write_says_everything_and_what_it_builds_upon() -> None:
    book, wanted, one = large(2), spec(role("worker", 2)), writer()
    book.put(("worker", 1), task(State.RUNNING, index=1, ip="10.0.0.1"))
    effect = one.compose(book, wanted, 4, at(10.5), at(10))
    status = effect.status
    assert (status.ready, status.attempts, status.observed_generation) == ("1/2", 1, 4)
    assert status.attempt_status.task_role_statuses == effect.shown.roles
    assert (effect.revision, effect.resource_version, effect.previous) == (book.revision, "7", None)
    one.settle(effect, Done(resource_version="8"), book)
    assert book.acknowledged == book.revision
    following = one.compose(book, wanted, 5, at(11), at(11))
    assert (following.resource_version, following.previous) == ("8", status)


@pytest.mark.parametrize(("stored", "generation"), [("", 0), (',"observedGeneration":3', 3)], ids=["unknown", "known"])
def test_the_generation_that_was_looked_at_is_remembered(stored: str, generation: int) -> None:
    status = (
        '{"startTime":"2026-01-01T00:00:00Z","state":"AttemptRunning","transitionTime":"2026-01-01T00:00:00Z",'
        '"attemptStatus":{"id":0,"startTime":"2026-01-01T00:00:00Z","configMapName":"fw-attempt"}' + stored + "}"
    )
    document = '{"metadata":{"name":"fw","uid":"u","resourceVersion":"7"},"spec":{},"status":' + status + "}"
    assert StatusWriter(FRAMEWORK_DECODER.decode(document.encode())).generation == generation
