"""How the start of a gang is reported, and which Tasks are missing."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Identity, Meta
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import Failed, WriteRoster
from frameworkcontroller.core.gang.gang import Gang, GangStatus, attempt_name
from frameworkcontroller.core.gang.publisher import Phase
from frameworkcontroller.core.pods.facts import SpecFacts
from frameworkcontroller.core.reconcile.gang_pass import obstacles
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.summary import summarize
from tests.controller.core.values import START, at, events_in, framework, pod, role, spec, task

if TYPE_CHECKING:
    from datetime import datetime

    from frameworkcontroller.api.pod import Pod

WANTED = spec(role("worker", 3))


def caches(*pods: Pod) -> Any:
    """What shows these Pods, and nothing else."""
    return SimpleNamespace(pod={one.metadata.name: one for one in pods}.get)


class Start:
    """Three Tasks on their way."""

    def __init__(self, annotation: str = "{}", version: str = "1") -> None:
        self.state = FrameworkState("fw")
        self.state.take_over(SpecFacts(members=frozenset({"worker"})))
        self.state.set(framework(State.PREPARING))
        uids = (f"uid-{number}" for number in itertools.count())
        list(self.state.rescale(WANTED, at(0), lambda: next(uids)))
        meta = Meta(
            "fw-attempt",
            "config-map-uid",
            "1",
            creation_timestamp=START,
            annotations={names.ROSTER_ANNOTATION: annotation},
        )
        self.gang = Gang(meta, attempt_name(self.state, Identity("fw", "framework-uid", "1", "ns")), version)
        self.in_flight = InFlight(lambda: 0.5)

    def run(self, index: int) -> None:
        self.state.put(("worker", index), task(State.RUNNING, index=index, ip=f"10.0.0.{index}"))

    def run_all(self) -> None:
        for index in range(3):
            self.run(index)

    def decide(self, seconds: float, seen: str = "1") -> tuple[WriteRoster | None, datetime | None]:
        summary = summarize(self.state, WANTED)
        return self.gang.decide(
            self.state, lambda: obstacles(self.state, self.in_flight, caches()), summary, at(seconds), seen
        )

    def events(self) -> list[str]:
        self.state.mark_persisted(self.state.revisions.now)
        return [
            f"{one.reason}: {one.message}"
            for one in events_in(self.state.reports.take(self.state.revisions.persisted))
            if "Gang" in one.reason or "Roster" in one.reason
        ]

    def reached(self, seconds: float) -> list[tuple[str, float]]:
        return [(one.phase, one.seconds) for one in self.gang.milestones(self.state, WANTED, at(seconds))]


def test_tasks_missing_after_30_seconds_are_reported_once_with_the_reason() -> None:
    start = Start()
    start.run(0)
    start.in_flight.back_off(("pod", "worker", 2), Failed("exceeded quota"), at(0))
    assert start.decide(28)[1] == at(30)
    assert start.events() == []
    start.decide(30)
    start.decide(60)
    (events,) = start.events()
    assert events.startswith("GangWaiting: 1/3 Tasks are ready after 30 s, not ")
    assert events.endswith("worker-1: its Pod is not created yet; worker-2: exceeded quota")


def test_a_gang_that_is_ready_is_reported_once() -> None:
    start = Start()
    start.run_all()
    start.decide(7)
    start.decide(70)
    assert start.events() == ["GangReady: All 3 Tasks are ready after 7 s"]


def test_a_gang_that_was_ready_before_this_controller_is_not_reported() -> None:
    start = Start('{"generation":1,"complete":true,"digest":"x"}')
    start.decide(100)
    start.run_all()
    start.decide(200)
    assert start.events() == []
    assert start.reached(200) == []


def test_a_starts_phases_are_measured_once() -> None:
    start = Start()
    assert start.reached(1) == []
    for index in range(3):
        start.state.put(("worker", index), task(State.CREATION_REQUESTED, index=index))
    assert start.reached(2) == [("created", 2.0)]
    start.run_all()
    assert start.reached(3) == [("addressed", 3.0)]
    effect, _ = start.decide(3)
    assert effect.complete
    start.gang.apply_outcome(effect, None)
    assert start.reached(3.5) == [], "the roster was not written"
    assert start.decide(3.5)[0] == effect
    start.gang.apply_outcome(effect, "2")
    # One second after the last address.
    assert start.reached(4) == [("open", 4.0), ("released", 1.0)]
    assert start.reached(5) == []


def test_a_gang_counts_the_tasks_that_lack_a_pod_and_those_that_lack_an_address() -> None:
    start = Start()
    start.run(0)
    start.state.put(("worker", 1), task(State.CREATION_REQUESTED, index=1))
    assert start.gang.status(start.state) == GangStatus(Phase.GATHERING, START, not_created=1, not_ready=1)
    start.decide(30)
    assert start.gang.status(start.state).phase is Phase.LATE
    start.run(1)
    start.run(2)
    start.decide(31)
    assert start.gang.status(start.state) == GangStatus(Phase.COMPLETE, START, not_created=0, not_ready=0)


def test_tasks_that_are_not_ready_are_missing_each_with_the_best_reason() -> None:
    start = Start()
    start.run(1)
    start.state.put(("worker", 2), task(State.PREPARING, index=2))
    view = caches(pod("Pending", name="fw-worker-2"))
    found = [(name, one.phrase) for name, one in obstacles(start.state, start.in_flight, view)]
    assert found == [("worker-0", "its Pod is not created yet"), ("worker-2", "Pending: no IP yet")]


def complete(start: Start) -> WriteRoster:
    """All are ready, and the roster that says so is written; its version is 2."""
    start.run_all()
    first, _ = start.decide(3)
    assert first is not None
    assert start.gang.apply_outcome(first, "2") is None, "nothing was to be put right"
    start.events()
    return first


def test_a_complete_roster_that_somebody_changed_is_written_again_as_it_was() -> None:
    start = Start()
    first = complete(start)
    assert start.decide(10, "2") == (None, None)
    again, _ = start.decide(11, "3")
    assert again == first
    event = start.gang.apply_outcome(again, "4")
    assert (event.reason, event.warning) == ("RosterRestored", True)
    assert "ConfigMap fw-attempt" in event.message
    assert start.decide(12, "3") == (None, None), "a cache that is late"
    assert start.decide(11.5, "5") == (None, at(12)), "the next change"
    assert start.decide(12, "5") == (first, None)


def test_progress_that_somebody_changed_is_written_again_as_it_was() -> None:
    start = Start()
    start.run(0)
    first, _ = start.decide(6)
    assert first is not None
    start.gang.apply_outcome(first, "2")
    again, wake_at = start.decide(7, "3")
    assert again == first
    assert wake_at == at(11), "the next progress"


def test_a_new_member_is_more_urgent_than_what_somebody_changed() -> None:
    start = Start()
    complete(start)
    start.state.put(("worker", 1), task(State.RUNNING, index=1, ip="10.0.0.9"))
    soon, wake_at = start.decide(3.5, "3")
    assert (soon, wake_at) == (None, at(4))
    effect, _ = start.decide(4, "3")
    assert b"10.0.0.9" in effect.document
