"""How long a Framework may run, and how long it is kept: `activeDeadlineSeconds` and `ttlSecondsAfterFinished`."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkStatus, RetryPolicyStatus
from frameworkcontroller.core.machines.framework import Action, deadline_of, step
from tests.controller.core.driver import Driver
from tests.controller.core.machines.test_framework import FrameworkRow, next_step
from tests.controller.core.scenarios.added import with_fields
from tests.controller.core.scenarios.lives import STAY
from tests.controller.core.values import (
    at,
    attempt_facts,
    config_map,
    framework,
    framework_end,
    known,
    retry_policy,
    row,
    shown,
    spec,
)
from tests.controller.core.world import Plan, World, framework_of

S = State
UNBOUNDED = -1


def ran(state: State, *, since: float = 0, code: int | None = None, delay: int | None = None) -> FrameworkStatus:
    """A Framework whose first Task ran at 100 s; the time of these tables is 1000 s."""
    end = None if code is None else framework_end(code)
    return replace(framework(state, end, since=since, retries=RetryPolicyStatus(0, 0, delay)), run_time=at(100))


def within(seconds: int | None, **more: Any) -> dict[str, Any]:
    """The spec of a Framework with this deadline, which is retried without bound."""
    return {"spec": spec(active_deadline_seconds=seconds, retry_policy=retry_policy(UNBOUNDED), **more)}


def kept(seconds: int | None, now: float) -> dict[str, Any]:
    """The spec of a Framework that is kept for so long; others are for 1000 s."""
    own = spec(ttl_seconds_after_finished=seconds)
    return {"spec": own, "now": at(now), "completed_retain": timedelta(seconds=1000)}


THERE = config_map()
LATER = at(1100)
EXPIRES = at(1000) + timedelta(days=30)
WAITS = ran(S.ATTEMPT_COMPLETED, since=990, code=1, delay=500)
SOON = ran(S.ATTEMPT_COMPLETED, since=990, code=1, delay=50)
ENDED = ran(S.ATTEMPT_COMPLETED, code=0)
DONE = framework(S.COMPLETED, framework_end(0), since=100)

ROWS: dict[str, FrameworkRow] = {
    # activeDeadlineSeconds
    "over while it runs": row(ran(S.RUNNING), THERE, S.DELETION_PENDING, code=-240, **within(900)),
    "not over": row(ran(S.RUNNING), THERE, wake_at=LATER, **within(1000)),
    "none is set": row(ran(S.RUNNING), THERE, **within(None)),
    "the longest one": row(ran(S.RUNNING), THERE, wake_at=at(100 + 2**31 - 1), **within(2**31 - 1)),
    "nothing has run yet": row(framework(S.PREPARING), THERE, **within(1)),
    "over in a later attempt": row(ran(S.PREPARING), THERE, S.DELETION_PENDING, code=-240, **within(900)),
    "over at a start": row(ran(S.CREATION_PENDING), None, S.ATTEMPT_COMPLETED, code=-240, **within(900)),
    "over, not seen yet": row(ran(S.CREATION_REQUESTED), None, code=-240, **within(900)),
    "not seen yet": row(ran(S.CREATION_REQUESTED, since=990), None, wake_at=LATER, **within(1000)),
    "a retry waits longer than the deadline": row(WAITS, None, wake_at=LATER, **within(1000)),
    "a retry waits less long": row(SOON, None, wake_at=at(1040), **within(1000)),
    "over, and does not wait for a retry": row(WAITS, None, Action.NEXT_ATTEMPT, **within(900)),
    "ended before": row(ENDED, None, S.COMPLETED, wake_at=EXPIRES, **within(900)),
    "ended, and is kept beyond it": row(ENDED, None, S.COMPLETED, wake_at=EXPIRES, **within(1000)),
    "over: no policy retries it": row(
        ran(S.ATTEMPT_COMPLETED, code=-240), None, S.COMPLETED, wake_at=EXPIRES, **within(900)
    ),
    "stopped, too": row(ran(S.RUNNING), THERE, S.DELETION_PENDING, code=-210, **within(900, execution_type="Stop")),
    # ttlSecondsAfterFinished
    "deleted at once": row(DONE, None, Action.DELETE_FRAMEWORK, **kept(0, 100)),
    "not to be deleted yet": row(DONE, None, wake_at=at(150), **kept(50, 120)),
    "deleted in time": row(DONE, None, Action.DELETE_FRAMEWORK, **kept(50, 150)),
    "kept longer than the controller keeps others": row(DONE, None, wake_at=at(100 + 10**6), **kept(10**6, 1200)),
    "kept as long as others": row(DONE, None, wake_at=LATER, **kept(None, 1099)),
    "kept no longer than others": row(DONE, None, Action.DELETE_FRAMEWORK, **kept(None, 1100)),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_framework_runs_until_its_deadline_and_is_kept_as_long_as_it_asks_for(row: FrameworkRow) -> None:
    assert shown(next_step(row)) == row.expected
    assert next_step(row, persisted=False).action is None


def test_the_deadline_stands_still_while_the_framework_is_suspended() -> None:
    asked = {suspend: spec(active_deadline_seconds=1000, suspend=suspend) for suspend in (True, False)}
    was = ran(S.CREATION_PENDING)
    for now, suspend, seconds in ((200, True, None), (5200, False, 5000), (5300, True, 5000), (5400, False, 5100)):
        done = step(was, None, attempt_facts(now=at(now), spec=asked[suspend]), persisted=True)
        was = done.status
        assert (was.suspended_since or None, was.suspended_sec or None) == (at(now) if suspend else None, seconds)
        assert done.wake_at == (None if suspend else at(100 + 1000 + (seconds or 0)))
    over = step(was, None, attempt_facts(now=at(6200), spec=asked[False]), persisted=True)
    late = step(ran(S.RUNNING), THERE, attempt_facts(now=at(1100), spec=asked[True]), persisted=True)
    for done in (over, late):  # the second one was over before somebody suspended it
        assert known(done.status.completion).code == -240


def test_the_time_before_the_first_task_runs_makes_no_deadline_longer() -> None:
    waits = replace(framework(), suspended_since=at(100))
    resumed = step(waits, None, attempt_facts(spec=spec(active_deadline_seconds=60)), persisted=True).status
    assert (bool(resumed.suspended_since), bool(resumed.suspended_sec)) == (False, False)


def test_the_end_names_the_field_and_its_value() -> None:
    context = attempt_facts(spec=spec(active_deadline_seconds=900))
    end = known(step(ran(S.RUNNING), THERE, context, persisted=True).status.completion)
    assert (end.phrase, end.type.name, end.type.attributes) == ("FrameworkDeadlineExceeded", "Failed", ("Permanent",))
    assert end.diagnostics == "Framework has run for longer than its activeDeadlineSeconds 900, retries included"


def test_the_deadline_is_by_the_wall_clock_and_a_controller_asks_to_be_called_then() -> None:
    driver = Driver(World(framework_of(with_fields("activeDeadlineSeconds: 60")), Plan({"ps-0": ["stay"], **STAY})))
    driver.go_on(8)
    assert driver.decide().wake_at == known(deadline_of(driver.world.status, driver.world.framework.spec))
    driver.set_back = timedelta(hours=1)
    driver.world.now += timedelta(minutes=5)
    driver.go_on(10)
    assert driver.world.status.state is S.RUNNING
    driver.set_back = timedelta()
    driver.go_on(10)
    assert driver.world.status.completion.code == -240
