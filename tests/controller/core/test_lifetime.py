"""How long a Framework may run, and how long it is kept: `activeDeadlineSeconds` and `ttlSecondsAfterFinished`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

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
THERE = config_map()


def ran(state: State, *, since: float = 0, code: int | None = None, delay: int | None = None) -> FrameworkStatus:
    """A Framework whose first Task ran at 100 s; the time of these tables is 1000 s."""
    end = None if code is None else framework_end(code)
    return replace(framework(state, end, since=since, retries=RetryPolicyStatus(0, 0, delay)), run_time=at(100))


def context(deadline: int | None, **more: Any) -> dict[str, Any]:
    return {"spec": spec(active_deadline_seconds=deadline, **more)}


LATER = at(1100)
ALWAYS = retry_policy(-1)


@pytest.mark.parametrize(
    ("was", "there", "settings", "becomes", "code", "wake_at"),
    [
        pytest.param(ran(S.RUNNING), True, context(900), S.DELETION_PENDING, -240, None, id="over while it runs"),
        pytest.param(ran(S.RUNNING), True, context(1000), S.RUNNING, None, LATER, id="not over"),
        pytest.param(ran(S.RUNNING), True, context(None), S.RUNNING, None, None, id="none is set"),
        pytest.param(framework(S.PREPARING), True, context(1), S.PREPARING, None, None, id="nothing has run yet"),
        pytest.param(
            ran(S.PREPARING), True, context(900), S.DELETION_PENDING, -240, None, id="over in a later attempt"
        ),
        pytest.param(
            ran(S.CREATION_PENDING), False, context(900), S.ATTEMPT_COMPLETED, -240, None, id="over at a start"
        ),
        pytest.param(
            ran(S.CREATION_REQUESTED), False, context(900), S.CREATION_REQUESTED, -240, None, id="over, not seen yet"
        ),
        pytest.param(
            ran(S.CREATION_REQUESTED, since=990),
            False,
            context(1000),
            S.CREATION_REQUESTED,
            None,
            LATER,
            id="not seen yet",
        ),
        pytest.param(
            ran(S.ATTEMPT_COMPLETED, since=990, code=1, delay=500),
            False,
            context(1000, retry_policy=ALWAYS),
            S.ATTEMPT_COMPLETED,
            1,
            LATER,
            id="a retry waits longer than the deadline",
        ),
        pytest.param(
            ran(S.ATTEMPT_COMPLETED, since=990, code=1, delay=50),
            False,
            context(1000, retry_policy=ALWAYS),
            S.ATTEMPT_COMPLETED,
            1,
            at(1040),
            id="a retry waits less long",
        ),
        pytest.param(ran(S.ATTEMPT_COMPLETED, code=0), False, context(900), S.COMPLETED, 0, None, id="ended before"),
        pytest.param(
            ran(S.ATTEMPT_COMPLETED, code=-240),
            False,
            context(900, retry_policy=retry_policy(-2)),
            S.COMPLETED,
            -240,
            None,
            id="over: no policy retries it",
        ),
        pytest.param(
            ran(S.RUNNING), True, context(900, execution_type="Stop"), S.DELETION_PENDING, -210, None, id="stopped, too"
        ),
    ],
)
def test_a_framework_ends_when_its_deadline_is_over(
    was: FrameworkStatus,
    there: bool,
    settings: dict[str, Any],
    becomes: State,
    code: int | None,
    wake_at: datetime | None,
) -> None:
    done = step(was, THERE if there else None, attempt_facts(**settings), persisted=True)
    assert (done.status.state, done.status.completion and done.status.completion.code) == (becomes, code)
    if becomes is not S.COMPLETED:
        assert done.wake_at == wake_at


def test_a_deadline_does_not_wait_for_a_retry() -> None:
    was = ran(S.ATTEMPT_COMPLETED, since=990, code=1, delay=500)
    done = step(was, None, attempt_facts(**context(900, retry_policy=ALWAYS)), persisted=True)
    assert (done.status.state, done.action) == (S.CREATION_PENDING, Action.NEXT_ATTEMPT)


def test_the_end_names_the_field_and_its_value() -> None:
    end = step(ran(S.RUNNING), THERE, attempt_facts(**context(900)), persisted=True).status.completion
    assert end is not None
    assert (end.phrase, end.type.name, end.type.attributes) == ("FrameworkDeadlineExceeded", "Failed", ("Permanent",))
    assert end.diagnostics == "Framework has run for longer than its activeDeadlineSeconds 900, retries included"


def test_the_longest_deadline_is_a_time() -> None:
    assert deadline_of(ran(S.RUNNING), spec(active_deadline_seconds=2**31 - 1)) == at(100 + 2**31 - 1)


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


def settle(driver: Driver, seconds: int) -> None:
    """Let the controller and the world go on for so long."""
    for _ in range(seconds):
        for _ in range(4):
            for effect in driver.decide().effects:
                driver.answer(*driver.perform(effect))
        driver.world.tick()
        driver.touch_pods(*driver.caches.refresh())
        driver.touch_config_map()


def running(deadline: int) -> Driver:
    driver = Driver(
        World(framework_of(with_fields(f"activeDeadlineSeconds: {deadline}")), Plan({"ps-0": ["stay"], **STAY}))
    )
    settle(driver, 8)
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
    settle(driver, 10)
    assert end_of(driver) == (S.COMPLETED, -240)


def test_a_wall_clock_that_is_set_back_puts_the_deadline_off() -> None:
    driver = running(60)
    driver.set_back = timedelta(hours=1)
    driver.world.now += timedelta(minutes=5)
    settle(driver, 10)
    assert end_of(driver) == (S.RUNNING, None)
    driver.set_back = timedelta()
    settle(driver, 10)
    assert end_of(driver) == (S.COMPLETED, -240)


def test_a_deadline_may_be_changed_while_it_runs() -> None:
    driver = running(20)
    driver.world.spec["activeDeadlineSeconds"] = 3600
    driver.world.edited()
    driver.caches.hear_of_framework()
    driver.world.now += timedelta(minutes=5)
    settle(driver, 10)
    assert end_of(driver) == (S.RUNNING, None)


def test_a_framework_that_is_not_started_has_no_deadline() -> None:
    manifest = framework_of(
        with_fields("activeDeadlineSeconds: 1").replace("executionType: Start", "executionType: Create")
    )
    driver = Driver(World(manifest))
    settle(driver, 10)
    driver.world.now += timedelta(days=1)
    settle(driver, 10)
    assert end_of(driver) == (S.CREATION_PENDING, None)
