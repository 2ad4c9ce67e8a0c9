"""What the roster of a gang says that restarts in place, and when; its times, and its condition."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskRoleStatus, TaskStatus
from frameworkcontroller.core.effects import RolesSummary
from frameworkcontroller.core.gang.gang import RestartTimes
from frameworkcontroller.core.gang.publisher import Phase
from frameworkcontroller.core.gang.roster import behind
from frameworkcontroller.core.restart.epoch import Gate
from frameworkcontroller.core.status.state import FrameworkState
from tests.controller.core.test_publisher import Keeper
from tests.controller.core.values import at, ended, events_in, task

WHY = "worker-1 exited with 1"


def changed(one: TaskStatus, **changes: Any) -> TaskStatus:
    """The Task with another attempt."""
    return replace(one, attempt_status=replace(one.attempt_status, **changes))


def member(index: int, starts: int, epoch: int, *, arrived: bool = True) -> TaskStatus:
    found = task(State.RUNNING, index=index, ip=f"10.0.0.{index}", pod_uid=f"{index}2345678-pod")
    return changed(found, starts=starts, epoch=epoch, arrived=arrived)


def gang(epoch: int, *members: TaskStatus, revision: int) -> RolesSummary:
    """A status of a gang in this epoch; its gate is open if everybody is there."""
    ready = sum(one.attempt_status.arrived is True for one in members)
    gate = Gate(epoch, len(members) if ready == len(members) else 0, WHY if epoch else "", at(0) if epoch else None)
    roles = (TaskRoleStatus("worker", "role-uid", task_statuses=members),)
    return RolesSummary(
        roles=roles,
        order=("worker",),
        ready=ready,
        total=len(members),
        by_arrival=True,
        member_revision=revision,
        gate=gate,
    )


LAGGARD = member(0, 1, 0, arrived=False)
OPEN = gang(0, member(0, 1, 0), member(1, 1, 0), revision=1)
ENDED = gang(1, LAGGARD, member(1, 2, 1, arrived=False), revision=2)
LATE = gang(1, LAGGARD, member(1, 2, 1), revision=3)
AGAIN = gang(1, member(0, 2, 1), member(1, 2, 1), revision=4)


def test_the_end_of_an_epoch_is_told_at_once_and_who_is_behind_some_seconds_later() -> None:
    keeper = Keeper()
    first = keeper.told(OPEN, 1)
    assert (first["epoch"], first["complete"], first["why"]) == (0, True, "")
    assert [row[6] for row in first["taskRoles"][0]["tasks"]] == [1, 1]
    closed, wake_at = keeper.decide(ENDED, 1.1)
    assert (closed["epoch"], closed["complete"], closed["why"]) == (1, False, WHY)
    assert "behind" not in closed
    assert wake_at == at(6.1)
    assert keeper.decide(LATE, 3) == (None, at(6.1))
    late = keeper.told(LATE, 6.1)
    assert late["behind"] == [["worker", 0, "02345678", 1]]
    again = keeper.told(AGAIN, 7)
    assert (again["epoch"], again["complete"], again["generation"]) == (1, True, 2)
    assert "behind" not in again


def test_a_leader_that_takes_over_goes_on_with_the_epoch_that_was_told() -> None:
    keeper = Keeper()
    keeper.decide(OPEN, 1)
    was_open = json.loads(keeper.last.annotation)
    assert (was_open["generation"], was_open["complete"], was_open["epoch"]) == (1, True, 0)
    keeper.decide(ENDED, 2)
    assert json.loads(keeper.last.annotation) == was_open | {"complete": False, "epoch": 1}
    next_leader = Keeper(keeper.last.annotation)
    assert next_leader.decide(ENDED, 3) == (None, at(5))
    behind_the_times = Keeper('{"generation":1,"complete":true,"digest":"x","epoch":0}')
    assert behind_the_times.publisher.phase is Phase.COMPLETE
    told = behind_the_times.told(ENDED, 3)
    assert told["epoch"] == 1


@pytest.mark.parametrize(
    "one",
    [
        changed(LAGGARD, completion_status=ended(1)),
        replace(LAGGARD, deletion_pending=True),
        changed(LAGGARD, epoch=UNSET),
        changed(LAGGARD, arrived=UNSET),
    ],
    ids=["it ends", "it is scaled down", "it has restarted", "it has no barrier"],
)
def test_nobody_else_is_behind(one: TaskStatus) -> None:
    assert behind(gang(1, one, member(1, 2, 1), revision=1)) == ()


# --- times and condition ---------------------------------------------------------------------------------------------


def test_the_seconds_of_a_restart_begin_with_the_end_of_the_epoch() -> None:
    state, times = FrameworkState("fw"), RestartTimes()
    times.note(Gate(0, 0))
    times.is_released = True
    assert list(times.milestones(state, 2, at(1))) == []
    times.note(Gate(1, 0, WHY, at(10)))
    assert list(times.milestones(state, 2, at(11))) == []
    times.is_released = True
    assert [(one.phase, one.seconds) for one in times.milestones(state, 2, at(12))] == [("restart-open", 2)]
    assert list(times.milestones(state, 2, at(13))) == []
    state.applications |= {("worker", 0), ("worker", 1)}
    assert [(one.phase, one.seconds) for one in times.milestones(state, 2, at(14))] == [("restart-running", 4)]
    assert list(times.milestones(state, 2, at(15))) == []
    (event,) = events_in(state.reports.take(0))
    assert (event.reason, event.message) == ("GangRestarted", "Epoch 1: all 2 Tasks are ready again after 2.0 s")
