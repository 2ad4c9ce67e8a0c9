"""The condition GangReady: which gangs have it, what it says, and how many writes of the status it costs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api.status import Condition
from frameworkcontroller.core.effects import Failed, RolesSummary, WriteStatus
from frameworkcontroller.core.policies.readiness import NOT_CREATED, Obstacle
from frameworkcontroller.core.restart.epoch import Gate
from frameworkcontroller.core.status import gang_ready
from frameworkcontroller.core.status.gang_ready import EVERY, GangReport
from tests.controller.core.checks import gang_ready_of
from tests.controller.core.manual import Manual
from tests.controller.core.run import Run
from tests.controller.core.scenarios import RESTARTED, SIDECAR, STAY, TWO_ROLES, WITH_BARRIER, Scenario, all_run
from tests.controller.core.values import START, at
from tests.controller.core.world import World, framework_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frameworkcontroller.core.effects import Effect, Outcome

UNSCHEDULABLE = Obstacle(
    "Pending: Unschedulable: ...",
    "Unschedulable",
    "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {a: }. preemption: 0/3 "
    "nodes are available: 3 Preemption is not helpful for scheduling.",
)


def summary(ready: int, of_epoch: Gate | None = None) -> RolesSummary:
    return RolesSummary(roles=(), order=(), ready=ready, total=4, by_arrival=False, member_revision=0, gate=of_epoch)


def gate(epoch: int, *, is_open: bool = True) -> Gate:
    return Gate(epoch, 4 * is_open, "worker-1 exited with 7" if epoch else "")


def report_of(*missing: tuple[str, Obstacle]) -> GangReport:
    waiting = GangReport(due=at(0))
    return gang_ready.decide(waiting, complete=False, missing=lambda: missing, now=at(0))


# --- what it says ----------------------------------------------------------------------------------------------------


IMAGE = 'main: Back-off pulling image "x"'
KEPT: dict[str, tuple[Obstacle, str, str]] = {
    "scheduler": (
        UNSCHEDULABLE,
        "Unschedulable",
        "w-2 Unschedulable: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {a: }",
    ),
    "gate": (Obstacle("", "SchedulingGated", ""), "SchedulingGated", "w-2 SchedulingGated"),
    "not created": (NOT_CREATED, "NotCreated", "w-2 NotCreated"),
    "quota": (Obstacle("", "NotCreated", "exceeded quota: q"), "NotCreated", "w-2 NotCreated: exceeded quota: q"),
    "image": (Obstacle("", "ImagePullBackOff", IMAGE), "ImagePullBackOff", f"w-2 ImagePullBackOff: {IMAGE}"),
    "hostile": (Obstacle("", "not one word", "a\n\tb"), "TasksNotReady", "w-2 not one word: a b"),
    "long": (Obstacle("", "X", "y" * 999), "X", f"w-2 X: {'y' * 200}..."),
}


@pytest.mark.parametrize(("obstacle", "reason", "text"), KEPT.values(), ids=KEPT)
def test_a_missing_task_is_named_with_what_keeps_it(obstacle: Obstacle, reason: str, text: str) -> None:
    report = report_of(("w-2", obstacle))
    assert gang_ready.condition(report, summary(3)) == ("GangReady", False, reason, f"3/4: {text}")
    assert gang_ready.condition(report, summary(4)) == ("GangReady", True, "AllTasksReady", "4/4")


def test_tasks_with_the_same_obstacle_share_one_text_and_three_are_named() -> None:
    two = report_of(("w-0", NOT_CREATED), ("w-1", UNSCHEDULABLE), ("w-2", NOT_CREATED))
    assert two.missing.startswith("w-0, w-2 NotCreated; w-1 Unschedulable: ")
    assert two.missing.endswith("taint {a: }")
    many = report_of(*((f"w-{index}", NOT_CREATED) for index in range(99)))
    assert many.missing == "w-0, w-1, w-2 NotCreated; and others"


# --- when it says it -------------------------------------------------------------------------------------------------


class Gang:
    """A gang whose missing Tasks are counted when they are looked at."""

    def __init__(self, report: GangReport | None = None) -> None:
        self.report = report or GangReport()
        self.looks = 0
        self.obstacle = NOT_CREATED

    def missing(self) -> Iterable[tuple[str, Obstacle]]:
        self.looks += 1
        return [("w-2", self.obstacle)]

    def at(self, seconds: float, *, complete: bool = False) -> str | None:
        self.report = gang_ready.decide(self.report, complete=complete, missing=self.missing, now=at(seconds))
        found = gang_ready.condition(self.report, summary(4 if complete else 3))
        return None if found is None else found[3]


def test_a_gang_that_starts_within_ten_seconds_says_nothing() -> None:
    gang = Gang()
    assert [gang.at(0), gang.at(9.9), gang.at(9.99, complete=True), gang.at(99, complete=True)] == [None] * 4
    assert gang.looks == 0


def test_the_missing_tasks_are_looked_at_every_ten_seconds() -> None:
    gang = Gang()
    gang.at(0)
    assert gang.report.due == at(10)
    assert gang.at(10) == "3/4: w-2 NotCreated"
    gang.obstacle = Obstacle("", "NoAddress")
    assert gang.at(19.9) == "3/4: w-2 NotCreated"
    assert gang.at(20) == "3/4: w-2 NoAddress"
    assert gang.at(21, complete=True) == "4/4"
    assert gang.looks == 2


def test_a_gang_that_was_late_and_loses_a_task_names_it_only_after_ten_seconds() -> None:
    gang = Gang(GangReport(late=True, reason="NoAddress", missing="w-1 NoAddress", due=at(0)))
    assert gang.at(1, complete=True) == "4/4"
    assert gang.at(2) == "3/4"
    assert gang.at(12) == "3/4: w-2 NotCreated"


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("TasksNotReady", "3/4: w-2 NotCreated: exceeded quota: q"),
        ("TasksNotReady", "3/4"),
        ("AllTasksReady", "4/4"),
        # The condition went, and came again when the gang was late once more.
        ("Restarting", "3/4: w-2 Restarting: start 2"),
    ],
)
def test_another_controller_goes_on_with_what_the_status_says(reason: str, message: str) -> None:
    value = "True" if message == "4/4" else "False"
    stored = Condition("GangReady", value, reason, message, START)
    report = gang_ready.load([Condition("Running", "True", "TasksRun", "", START), stored])
    ready = 4 if value == "True" else 3
    assert gang_ready.condition(report, summary(ready)) == ("GangReady", value == "True", reason, message)
    assert gang_ready.decide(report, complete=False, missing=list, now=at(0)).due == at(0) + EVERY
    assert gang_ready.load([]) == GangReport()


# --- lives -----------------------------------------------------------------------------------------------------------


class Told(Run):
    """Remembers the statuses that were written, and when."""

    def __init__(self, spec: str, **plan: object) -> None:
        scenario = Scenario(-210, STAY, spec=spec, plan=plan)
        super().__init__(World(framework_of(scenario.spec), scenario.new_plan()), script=stop_late)
        self.written: list[tuple[timedelta, bytes]] = []
        self.told: list[tuple[str, str, str]] = []

    def send(self, effect: Effect) -> Outcome:
        outcome = super().send(effect)
        if isinstance(effect, WriteStatus):
            assert self.world.stored is not None
            self.written.append((self.world.now - START, self.world.stored))
            found = gang_ready_of(self.world.status)
            said = ("", "", "") if found is None else (found.status, found.reason, found.message)
            if said != (self.told or [("", "", "")])[-1]:
                self.told.append(said)
        return outcome


def stop_late(world: World) -> None:
    """Stop it a minute after all run."""
    if all_run(world):
        world.notes.setdefault("since", world.now)
        if world.now > world.notes["since"] + timedelta(minutes=1):
            world.stop()


@pytest.mark.parametrize("spec", [WITH_BARRIER, RESTARTED, SIDECAR], ids=["label", "init container", "sidecar"])
def test_the_statuses_of_a_gang_that_starts_at_once_are_those_without_a_barrier(spec: str) -> None:
    with_barrier, without = Told(spec), Told(TWO_ROLES)
    with_barrier.to_the_end()
    without.to_the_end()
    assert with_barrier.written == without.written


def test_a_late_gang_says_for_whom_it_waits_and_that_it_is_ready_but_not_without_a_barrier() -> None:
    run, without = (Told(spec, no_node={"worker-2": 45}) for spec in (SIDECAR, TWO_ROLES))
    run.to_the_end()
    without.to_the_end()
    assert run.told == [
        ("False", "Unschedulable", "3/4: worker-2 Unschedulable: 3 Insufficient nvidia.com/gpu"),
        ("True", "AllTasksReady", "4/4"),
    ]
    assert without.told == []
    # What it says does not change, so that it costs one write.
    assert len(run.written) == len(without.written) + 1


def test_a_quota_is_named_while_the_gang_waits_for_it() -> None:
    quota = 'pods "fw-worker-2" is forbidden: exceeded quota: compute'
    manual = Manual(SIDECAR)
    for _ in range(40):
        for effect in manual.ask():
            refused = Failed(quota) if effect.key == ("pod", "worker", 2) else None
            manual.answer(effect, refused or manual.send(effect))
        manual.second()
    found = gang_ready_of(manual.world.status)
    assert (found.reason, found.message) == ("NotCreated", f"3/4: worker-2 NotCreated: {quota}")


@pytest.mark.parametrize(
    ("of_epoch", "ready", "expected"),
    [
        (gate(0), 4, None),
        (gate(1, is_open=False), 3, (False, "Restarting", "3/4: epoch 1: worker-1 exited with 7")),
        (gate(1, is_open=False), 4, (False, "Restarting", "4/4: epoch 1: worker-1 exited with 7")),
        (gate(1), 4, (True, "AllTasksReady", "4/4")),
    ],
    ids=["first epoch", "gathers", "opens", "open"],
)
def test_a_gang_that_restarts_in_place_has_the_condition_from_its_first_restart_on(
    of_epoch: Gate, ready: int, expected: tuple[bool, str, str] | None
) -> None:
    found = gang_ready.condition(GangReport(), summary(ready, of_epoch))
    assert found == (None if expected is None else ("GangReady", *expected))
