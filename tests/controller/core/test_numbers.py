"""Every number of the CRD at its ends and beyond: a Framework that is stored with it goes on, and so does its loop."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.spec import (
    MAX_SECONDS,
    MAX_TASK_NUMBER,
    CompletionPolicy,
    FrameworkSpec,
    TaskRoleSpec,
    bounded,
)
from frameworkcontroller.api.states import State
from frameworkcontroller.core.clock import after, duration
from tests.controller.core.driver import Driver
from tests.controller.core.values import core_config
from tests.controller.core.world import Plan, World, framework_of

ENDS = (-(2**63), -(2**31) - 1, -(2**31), -3, -2, -1, 0, 1, 2, 2**31 - 1, 2**31, 2**63 - 1)
NUMBERS = st.sampled_from(ENDS) | st.integers(-(2**63), 2**63 - 1)
SMALL = st.sampled_from((-(2**63), -1, 0, 1, 2))
SETTINGS = st.sampled_from((0, 1, 2**31, 2**63 - 1))
OPTIONAL = st.none() | NUMBERS


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields)


POLICY = objects(fancyRetryPolicy=st.booleans(), maxRetryCount=NUMBERS)
COMPLETION = objects(
    **dict.fromkeys(("minFailedTaskCount", "minSucceededTaskCount"), NUMBERS),
    **dict.fromkeys(("minFailedTaskPercent", "minSucceededTaskPercent"), OPTIONAL),
)
POD = st.just({"spec": {"containers": [{"name": "main", "image": "x"}]}})
TASK = objects(retryPolicy=POLICY, podGracefulDeletionTimeoutSec=OPTIONAL, pod=POD)
NAME = st.sampled_from(("a", "b"))
ROLE = objects(name=NAME, taskNumber=SMALL, frameworkAttemptCompletionPolicy=COMPLETION, task=TASK)
SPEC = objects(
    retryPolicy=POLICY,
    activeDeadlineSeconds=OPTIONAL,
    ttlSecondsAfterFinished=OPTIONAL,
    taskRoles=st.lists(ROLE, max_size=2, unique_by=lambda role: str(role["name"])),
)


def live(driver: Driver, seconds: int) -> None:
    """Let the controller and the world go on."""
    for _ in range(seconds):
        driver.turn()
        if driver.wake_at is not None:
            # A deletion that is due in 30 s, the longest grace period before it, and the longest timeout after that.
            assert (driver.wake_at - driver.world.now).total_seconds() <= 2 * MAX_SECONDS + 30
        driver.second()


@settings(max_examples=60)
@given(spec=SPEC, delay=SETTINGS, retain=SETTINGS, status=NUMBERS, grace=NUMBERS, end=st.sampled_from([0, 1, "stay"]))
def test_a_framework_with_any_numbers_goes_on(
    spec: dict[str, Any], delay: int, retain: int, status: int, grace: int, end: int | str
) -> None:
    manifest = framework_of("{}")
    manifest["spec"] = spec
    config = core_config(
        object_local_cache_creation_timeout_sec=delay,
        framework_completed_retain_sec=retain,
        framework_min_retry_delay_sec=min(delay, 60),
        framework_max_retry_delay_sec=delay,
    )
    world = World(manifest, Plan({"a-0": [end], "b-1": [201]}), config)
    driver = Driver(world)
    live(driver, 8)
    if world.stored is not None:
        _store(world, status)
        driver.start()
    for name in list(world.pods):
        _delete(world, name, grace)
    driver.touch_pods(*driver.caches.refresh())
    live(driver, 4)
    world.stop()
    live(driver, 12)


def _store(world: World, number: int) -> None:
    """Put the number where a status has one."""
    assert world.stored is not None
    document = msgspec.json.decode(world.stored)
    if document["state"] == State.ATTEMPT_COMPLETED:
        document["retryPolicyStatus"]["retryDelaySec"] = number
    for role in document["attemptStatus"]["taskRoleStatuses"]:
        role["podGracefulDeletionTimeoutSec"] = number
    world.stored = msgspec.json.encode(document)


def _delete(world: World, name: str, grace: int) -> None:
    """Put the Pod under deletion with this grace period."""
    pod, due = world.pods[name], world.stamp + timedelta(seconds=30)
    meta = replace(pod.metadata, deletion_timestamp=due, deletion_grace_period_seconds=grace)
    world.pods[name] = replace(pod, metadata=meta)


@pytest.mark.parametrize(
    ("number", "tasks", "deadline", "ttl", "percent"),
    [
        (-(2**63), 0, 1, 0, 1),
        (-1, 0, 1, 0, 1),
        (0, 0, 1, 0, 1),
        (1, 1, 1, 1, 1),
        (100, 100, 100, 100, 100),
        (101, 101, 101, 101, 100),
        (10_001, MAX_TASK_NUMBER, 10_001, 10_001, 100),
        (2**31, MAX_TASK_NUMBER, MAX_SECONDS, MAX_SECONDS, 100),
        (2**63 - 1, MAX_TASK_NUMBER, MAX_SECONDS, MAX_SECONDS, 100),
    ],
)
def test_a_number_is_bounded_however_it_is_stored(
    number: int, tasks: int, deadline: int, ttl: int, percent: int
) -> None:
    policy = CompletionPolicy(min_failed_task_percent=number, min_succeeded_task_percent=number)
    roles = (TaskRoleSpec("a", number, policy), TaskRoleSpec("b", 3))
    found = bounded(FrameworkSpec(task_roles=roles, active_deadline_seconds=number, ttl_seconds_after_finished=number))
    inside = replace(policy, min_failed_task_percent=percent, min_succeeded_task_percent=percent)
    assert found.task_roles == (TaskRoleSpec("a", tasks, inside), TaskRoleSpec("b", 3))
    assert (found.active_deadline_seconds, found.ttl_seconds_after_finished) == (deadline, ttl)


def test_a_spec_within_its_bounds_is_taken_as_it_is() -> None:
    roles = (TaskRoleSpec("a", MAX_TASK_NUMBER), TaskRoleSpec("b"))
    spec = FrameworkSpec(task_roles=roles, active_deadline_seconds=1, ttl_seconds_after_finished=0)
    assert bounded(spec) is spec


@pytest.mark.parametrize("moment", [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)])
@pytest.mark.parametrize("seconds", [-(2**63), 2**63])
def test_no_time_overflows(moment: datetime, seconds: int) -> None:
    assert isinstance(after(moment, duration(seconds)), datetime)
