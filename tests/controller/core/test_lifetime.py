"""How long a Framework may run, and how long it is kept: `activeDeadlineSeconds` and `ttlSecondsAfterFinished`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import pytest
from msgspec.structs import replace

from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import RetryPolicyStatus
from frameworkcontroller.core.machines.framework import Action, deadline_of, step
from tests.controller.core.addedscenarios import with_fields
from tests.controller.core.driver import Driver
from tests.controller.core.scenarios import STAY
from tests.controller.core.values import at, attempt_facts, config_map, framework, framework_end, retry_policy, spec
from tests.controller.core.world import Plan, World, framework_of

if TYPE_CHECKING:
    from datetime import datetime

    from frameworkcontroller.api.status import FrameworkStatus

S = State
UNBOUNDED = -1


def ran(state: State, *, since: float = 0, code: int | None = None, delay: int | None = None) -> FrameworkStatus:
    """A Framework whose first Task ran at 100 s; the time of these tables is 1000 s."""
    end = None if code is None else framework_end(code)
    return replace(framework(state, end, since=since, retries=RetryPolicyStatus(0, 0, delay)), run_time=at(100))


class Deadline(NamedTuple):
    """A Framework that is retried without bound, its deadline, and what its next step is."""

    was: FrameworkStatus
    seconds: int | None
    becomes: State
    code: int | None = None
    wake_at: datetime | None = None
    action: Action | None = None
    execution: str = "Start"


LATER = at(1100)
EXPIRES = at(1000) + timedelta(days=30)
WAITS = ran(S.ATTEMPT_COMPLETED, since=990, code=1, delay=500)

DEADLINES = {
    "over while it runs": Deadline(ran(S.RUNNING), 900, S.DELETION_PENDING, -240),
    "not over": Deadline(ran(S.RUNNING), 1000, S.RUNNING, wake_at=LATER),
    "none is set": Deadline(ran(S.RUNNING), None, S.RUNNING),
    "the longest one": Deadline(ran(S.RUNNING), 2**31 - 1, S.RUNNING, wake_at=at(100 + 2**31 - 1)),
    "nothing has run yet": Deadline(framework(S.PREPARING), 1, S.PREPARING),
    "over in a later attempt": Deadline(ran(S.PREPARING), 900, S.DELETION_PENDING, -240),
    "over at a start": Deadline(ran(S.CREATION_PENDING), 900, S.ATTEMPT_COMPLETED, -240),
    "over, not seen yet": Deadline(ran(S.CREATION_REQUESTED), 900, S.CREATION_REQUESTED, -240),
    "not seen yet": Deadline(ran(S.CREATION_REQUESTED, since=990), 1000, S.CREATION_REQUESTED, wake_at=LATER),
    "a retry waits longer than the deadline": Deadline(WAITS, 1000, S.ATTEMPT_COMPLETED, 1, LATER),
    "a retry waits less long": Deadline(
        ran(S.ATTEMPT_COMPLETED, since=990, code=1, delay=50), 1000, S.ATTEMPT_COMPLETED, 1, at(1040)
    ),
    "over, and does not wait for a retry": Deadline(WAITS, 900, S.CREATION_PENDING, action=Action.NEXT_ATTEMPT),
    "ended before": Deadline(ran(S.ATTEMPT_COMPLETED, code=0), 900, S.COMPLETED, 0, EXPIRES),
    "ended, and is kept beyond it": Deadline(ran(S.ATTEMPT_COMPLETED, code=0), 1000, S.COMPLETED, 0, EXPIRES),
    "over: no policy retries it": Deadline(ran(S.ATTEMPT_COMPLETED, code=-240), 900, S.COMPLETED, -240, EXPIRES),
    "stopped, too": Deadline(ran(S.RUNNING), 900, S.DELETION_PENDING, -210, execution="Stop"),
}


@pytest.mark.parametrize("row", DEADLINES.values(), ids=DEADLINES)
def test_a_framework_ends_when_its_deadline_is_over(row: Deadline) -> None:
    wanted = spec(
        active_deadline_seconds=row.seconds, execution_type=row.execution, retry_policy=retry_policy(UNBOUNDED)
    )
    there = config_map() if row.was.state in {S.PREPARING, S.RUNNING} else None
    done = step(row.was, there, attempt_facts(spec=wanted), persisted=True)
    code = None if done.status.completion is None else done.status.completion.code
    assert (done.status.state, code, done.wake_at, done.action) == (row.becomes, row.code, row.wake_at, row.action)


def test_the_deadline_stands_still_while_the_framework_is_suspended() -> None:
    asked = {suspend: spec(active_deadline_seconds=1000, suspend=suspend) for suspend in (True, False)}
    was = ran(S.CREATION_PENDING)
    for now, suspend, seconds in ((200, True, None), (5200, False, 5000), (5300, True, 5000), (5400, False, 5100)):
        done = step(was, None, attempt_facts(now=at(now), spec=asked[suspend]), persisted=True)
        was = done.status
        assert (was.suspended_since or None, was.suspended_sec or None) == (at(now) if suspend else None, seconds)
        assert done.wake_at == (None if suspend else at(100 + 1000 + (seconds or 0)))
    over = step(was, None, attempt_facts(now=at(6200), spec=asked[False]), persisted=True).status.completion
    assert over is not None
    assert over.code == -240
    # It was over before somebody suspended it.
    late = step(ran(S.RUNNING), config_map(), attempt_facts(now=at(1100), spec=asked[True]), persisted=True)
    assert late.status.completion is not None
    assert late.status.completion.code == -240


def test_the_time_before_the_first_task_runs_makes_no_deadline_longer() -> None:
    waits = replace(framework(), suspended_since=at(100))
    resumed = step(waits, None, attempt_facts(spec=spec(active_deadline_seconds=60)), persisted=True).status
    assert (bool(resumed.suspended_since), bool(resumed.suspended_sec)) == (False, False)


def test_the_end_names_the_field_and_its_value() -> None:
    context = attempt_facts(spec=spec(active_deadline_seconds=900))
    end = step(ran(S.RUNNING), config_map(), context, persisted=True).status.completion
    assert end is not None
    assert (end.phrase, end.type.name, end.type.attributes) == ("FrameworkDeadlineExceeded", "Failed", ("Permanent",))
    assert end.diagnostics == "Framework has run for longer than its activeDeadlineSeconds 900, retries included"


@pytest.mark.parametrize(
    ("ttl", "now", "deleted", "wake_at"),
    [
        pytest.param(0, 100, True, None, id="at once"),
        pytest.param(50, 120, False, at(150), id="not yet"),
        pytest.param(50, 150, True, None, id="in time"),
        pytest.param(10**6, 1200, False, at(100 + 10**6), id="longer than the controller keeps others"),
        pytest.param(None, 1099, False, at(1100), id="none is set: as long as the controller keeps others"),
        pytest.param(None, 1100, True, None, id="none is set: as short as the controller keeps others"),
    ],
)
def test_a_completed_framework_is_kept_as_long_as_it_asks_for(
    ttl: int | None, now: float, deleted: bool, wake_at: datetime | None
) -> None:
    context = attempt_facts(
        now=at(now), completed_retain=timedelta(seconds=1000), spec=spec(ttl_seconds_after_finished=ttl)
    )
    was = framework(S.COMPLETED, framework_end(0), since=100)
    done = step(was, None, context, persisted=True)
    assert (done.action, done.wake_at) == (Action.DELETE_FRAMEWORK if deleted else None, wake_at)
    assert step(was, None, context, persisted=False).action is None


# --- the clock, and controllers that are away ------------------------------------------------------------------------


def running(deadline: int) -> Driver:
    driver = Driver(
        World(framework_of(with_fields(f"activeDeadlineSeconds: {deadline}")), Plan({"ps-0": ["stay"], **STAY}))
    )
    driver.go_on(8)
    assert driver.world.status.state is S.RUNNING
    return driver


def end_of(driver: Driver) -> tuple[State, int | None]:
    status = driver.world.status
    return status.state, status.completion.code if status.completion else None


def test_a_controller_asks_to_be_called_when_the_deadline_is_over() -> None:
    driver = running(100)
    assert driver.decide().wake_at == deadline_of(driver.world.status, driver.world.framework.spec)


def test_a_deadline_that_passes_while_no_controller_runs_ends_the_framework_later() -> None:
    driver = running(60)
    driver.world.now += timedelta(hours=1)
    driver.start()
    driver.go_on(10)
    assert end_of(driver) == (S.COMPLETED, -240)


def test_a_wall_clock_that_is_set_back_puts_the_deadline_off() -> None:
    driver = running(60)
    driver.set_back = timedelta(hours=1)
    driver.world.now += timedelta(minutes=5)
    driver.go_on(10)
    assert end_of(driver) == (S.RUNNING, None)
    driver.set_back = timedelta()
    driver.go_on(10)
    assert end_of(driver) == (S.COMPLETED, -240)


def test_a_deadline_may_be_changed_while_it_runs() -> None:
    driver = running(20)
    driver.world.spec["activeDeadlineSeconds"] = 3600
    driver.world.edited()
    driver.caches.hear_of_framework()
    driver.world.now += timedelta(minutes=5)
    driver.go_on(10)
    assert end_of(driver) == (S.RUNNING, None)
