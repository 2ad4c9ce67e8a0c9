"""What the parts do together, where no whole life shows it: refusals, other writers, calm."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api.states import State
from frameworkcontroller.core.config import CoreConfig
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    CreatePod,
    DeleteFramework,
    DeletePod,
    Done,
    Effect,
    Failed,
    GrantRosterAccess,
    Missing,
    Outcome,
    Outpaced,
    Refused,
    WriteRoster,
    WriteStatus,
)

from .run import Caches
from .scenarios import TWO_ROLES
from .world import Plan, World, framework_of

if TYPE_CHECKING:
    from frameworkcontroller.core.decision import Decision

STAY: dict[str, list[int | str]] = {slot: ["stay"] for slot in ("ps-0", "worker-0", "worker-1", "worker-2")}


class Desk:
    """A controller whose every request can be answered by hand."""

    def __init__(self, spec: str = TWO_ROLES, config: CoreConfig | None = None) -> None:
        self.world = World(framework_of(spec), Plan(dict(STAY)), config)
        self.reconciler = self.world.reconciler()
        self.caches = Caches(self.world)

    def decide(self) -> Decision:
        return self.reconciler.reconcile(self.world.now, self.caches)

    def ask(self) -> list[Effect]:
        return self.decide().effects

    def answer(self, effect: Effect, outcome: Outcome | None = None) -> None:
        self.reconciler.settle(effect, outcome or self.world.perform(effect), self.world.now)

    def second(self, seconds: float = 1) -> None:
        self.world.tick()
        self.world.now += timedelta(seconds=seconds - 1)
        self.see()

    def see(self) -> None:
        for name in self.caches.refresh():
            self.reconciler.touch_pod(name)
        self.reconciler.touch_config_map()

    def work_until(self, kind: type[Effect]) -> Effect:
        """All goes well until this is asked for; it is not answered."""
        for _ in range(50):
            found = None
            for effect in self.ask():
                if isinstance(effect, kind) and found is None:
                    found = effect
                else:
                    self.answer(effect)
            if found is not None:
                return found
            self.see()
            self.second()
        raise AssertionError(kind)

    def at_rest(self) -> None:
        for _ in range(20):
            for effect in self.ask():
                self.answer(effect)
            self.second()

    def waits(self, effect: Effect, outcome: Outcome) -> list[float]:
        """After how many seconds it is asked for again, if it is answered like that each time."""
        found = []
        for _ in range(5):
            self.answer(effect, outcome)
            begun = self.world.now
            again = None
            while again is None:
                decision = self.decide()
                again = next((one for one in decision.effects if one.key == effect.key), None)
                for other in decision.effects:
                    if other.key != effect.key:
                        self.answer(other)
                if again is None:
                    assert decision.wake_at is not None, "asks for nothing, and for no call either"
                    self.world.now = max(decision.wake_at, self.world.now)
            effect = again
            found.append((self.world.now - begun).total_seconds())
        return found


FORBIDDEN = Refused(403, "forbidden")
SICK = Failed("sick")


ASKED_AGAIN: list[tuple[type[Effect], Outcome]] = [
    (WriteStatus, SICK),
    (WriteStatus, FORBIDDEN),
    (WriteStatus, Missing()),
    (CreateConfigMap, SICK),
    (CreateConfigMap, FORBIDDEN),
    (CreateConfigMap, Missing()),
    (CreatePod, SICK),
    (CreatePod, Missing()),
    (DeletePod, SICK),
    (GrantRosterAccess, SICK),
    (GrantRosterAccess, FORBIDDEN),
    (WriteRoster, SICK),
    (WriteRoster, Missing()),
]


@pytest.mark.parametrize(
    ("kind", "outcome"), ASKED_AGAIN, ids=lambda value: getattr(value, "__name__", type(value).__name__)
)
def test_nothing_is_asked_for_in_a_loop(kind: type[Effect], outcome: Outcome) -> None:
    desk = Desk()
    desk.world.plan.ends["worker-0"] = [1]
    assert min(desk.waits(desk.work_until(kind), outcome)) >= 0.5


def test_a_framework_that_cannot_be_deleted_is_asked_for_later_and_later() -> None:
    desk = Desk("{taskRoles: [], executionType: Stop}", CoreConfig(framework_completed_retain_sec=1))
    waits = desk.waits(desk.work_until(DeleteFramework), SICK)
    assert waits == sorted(waits)
    assert waits[-1] > 5


def test_whoever_is_outpaced_writes_no_more() -> None:
    desk = Desk()
    effect = desk.work_until(WriteStatus)
    desk.answer(effect, Outpaced())
    assert desk.reconciler.outpaced
    desk.second(60)
    assert not [one for one in desk.ask() if isinstance(one, WriteStatus)]


def test_events_that_change_nothing_cost_no_request() -> None:
    desk = Desk()
    desk.at_rest()
    assert desk.reconciler.state is State.RUNNING
    for _ in range(5):
        desk.reconciler.touch_pod("fw-worker-1")
        desk.reconciler.touch_config_map()
        desk.reconciler.touch_pod("fw-worker-99")
        desk.reconciler.touch_pod("fw-nobody-x")
        assert desk.ask() == []
    assert desk.reconciler.quiet


def test_a_restart_of_a_framework_that_runs_costs_no_write() -> None:
    desk = Desk()
    desk.at_rest()
    desk.reconciler = desk.world.reconciler()
    desk.caches = Caches(desk.world)
    assert [type(one) for one in desk.ask()] == [GrantRosterAccess]


def test_a_creation_that_nobody_wants_any_more_is_dropped() -> None:
    desk = Desk()
    effect = desk.work_until(CreatePod)
    assert desk.reconciler.at_turn(effect, desk.world.now) is effect
    desk.world.stop()
    desk.see()
    desk.ask()
    assert desk.reconciler.at_turn(effect, desk.world.now) is None


def test_a_creation_for_a_task_that_is_scaled_down_is_dropped() -> None:
    desk = Desk()
    effect = desk.work_until(CreatePod)
    assert isinstance(effect, CreatePod)
    last = replace(effect, role="worker", index=2)
    assert desk.reconciler.at_turn(last, desk.world.now) is last
    desk.world.spec["taskRoles"][1]["taskNumber"] = 2
    desk.world.edited()
    desk.see()
    desk.ask()
    assert desk.reconciler.at_turn(last, desk.world.now) is None


def test_a_status_is_written_with_all_that_was_decided_while_it_waited_for_its_turn() -> None:
    desk = Desk()
    effect = desk.work_until(WriteStatus)
    assert isinstance(effect, WriteStatus)
    assert desk.reconciler.at_turn(effect, desk.world.now) is effect
    desk.world.spec["description"] = "another"
    desk.world.edited()
    desk.see()
    assert [one for one in desk.ask() if isinstance(one, WriteStatus)] == [], "one at a time"
    newer = desk.reconciler.at_turn(effect, desk.world.now)
    assert isinstance(newer, WriteStatus)
    assert newer.revision > effect.revision
    assert newer.status.observed_generation == 2


def test_the_generation_that_was_looked_at_is_shown_though_nothing_follows_from_it() -> None:
    desk = Desk()
    desk.at_rest()
    desk.world.spec["description"] = "another"
    desk.world.edited()
    desk.at_rest()
    assert desk.world.status.observed_generation == 2


def test_a_status_is_written_once_at_a_time_with_all_that_happened_meanwhile() -> None:
    desk = Desk()
    write = desk.work_until(WriteStatus)
    desk.world.stop()
    desk.see()
    assert not [one for one in desk.ask() if isinstance(one, WriteStatus)]
    desk.answer(write)
    desk.second()
    assert [one for one in desk.ask() if isinstance(one, WriteStatus)]


def test_done_means_done() -> None:
    """A grant that was given is not asked for again, whatever else happens."""
    desk = Desk()
    desk.answer(desk.work_until(GrantRosterAccess), Done())
    desk.at_rest()
    assert desk.world.history["GrantRosterAccess"] == 0
