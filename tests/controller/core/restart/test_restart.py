"""Who ends an epoch of a gang that restarts in place, and what follows (docs/reference/restart.md, section 3)."""

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import GangRestart, RestartReason, TaskAttemptStatus
from frameworkcontroller.core.policies import classification
from frameworkcontroller.core.restart import epoch as restart
from frameworkcontroller.core.restart.annotations import read_limit
from frameworkcontroller.core.restart.epoch import End, Gate
from tests.controller.core.values import START, ended, framework, pod, task, terminated

CLOSED, OPEN = Gate(3, 0), Gate(3, 4)
RUNNING = {"running": {}}
CONDITION = {"conditions": [{"type": names.ALL_CONTAINERS_RESTARTING, "status": "True"}]}
EXIT, PEER_EXIT = End(RestartReason.EXITED, "worker-1", 1, "boom"), End(RestartReason.EXITED, "worker-2", 143)
REPLACED = End(RestartReason.POD_REPLACED, "worker-0")

REMOVED = {"terminated": {"exitCode": 137, "reason": names.RESTARTING_ALL_CONTAINERS}}
# A new sandbox is made: the barrier is removed and counted, the application is not yet.
RECREATED = {"waiting": {"reason": names.RESTARTING_ALL_CONTAINERS}}


def seen(count: int = 0, state: dict[str, Any] | None = None, **more: Any) -> Pod:
    """A Pod whose barrier has been restarted so often."""
    barrier = {"name": names.BARRIER_CONTAINER, "restartCount": count, "state": RUNNING if state is None else state}
    phase = more.pop("phase", "Running")
    return pod(phase, sidecars=(names.BARRIER_CONTAINER,), podIP="10.0.0.1", initContainerStatuses=[barrier], **more)


def attempt(starts: int | None = None, epoch: int | None = None, *, arrived: bool = False) -> TaskAttemptStatus:
    found = task(State.RUNNING).attempt_status
    if starts is None:
        return found
    return replace(found, starts=starts, epoch=UNSET if epoch is None else epoch, arrived=arrived)


MEMBER, RESTARTED = attempt(1, 3, arrived=True), attempt(2, None)


# --- an instance -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "shown", "gate", "after"),
    [
        pytest.param(attempt(), seen(), CLOSED, (1, 3, True), id="the first start joins the epoch"),
        pytest.param(attempt(), seen(state={}), CLOSED, (1, 3, False), id="it arrives when its barrier runs"),
        pytest.param(attempt(), seen(4), CLOSED, (5, 3, True), id="starts that nobody saw count"),
        pytest.param(MEMBER, seen(), OPEN, (1, 3, True), id="the same instance stays"),
        pytest.param(MEMBER, seen(state={}), OPEN, (1, 3, True), id="once it has arrived it has"),
        pytest.param(MEMBER, seen(1), OPEN, (2, None, False), id="a start more ends the instance"),
        pytest.param(MEMBER, seen(**CONDITION), OPEN, (2, None, False), id="so does the kubelet's notice"),
        pytest.param(RESTARTED, seen(**CONDITION), OPEN, (2, None, False), id="the notice twice is no news"),
        pytest.param(
            attempt(2, 3), seen(1, RECREATED, **CONDITION), CLOSED, (2, 3, False), id="the notice beside the next start"
        ),
        pytest.param(MEMBER, seen(1, RECREATED, **CONDITION), OPEN, (2, None, False), id="only that is seen"),
        pytest.param(RESTARTED, seen(**CONDITION), CLOSED, (2, 3, False), id="it joins before its barrier runs"),
        pytest.param(RESTARTED, seen(0), OPEN, (2, None, False), id="a late look at the instance before"),
        pytest.param(RESTARTED, seen(1), CLOSED, (2, 3, True), id="the next instance joins the next epoch"),
        pytest.param(
            attempt(2, 3, arrived=True), seen(2), CLOSED, (3, 3, True), id="one more while the gate is closed"
        ),
        pytest.param(attempt(2, 2), seen(1), CLOSED, (2, 2, False), id="one of an earlier epoch has to restart first"),
        pytest.param(attempt(2, 2), seen(2, {}), CLOSED, (3, 3, False), id="it restarts"),
        pytest.param(attempt(3, 3, arrived=True), seen(1), CLOSED, (3, 3, True), id="a late look changes nothing"),
    ],
)
def test_an_instance_is_known_by_the_starts_of_its_barrier(
    before: TaskAttemptStatus, shown: Pod, gate: Gate, after: tuple[int, int | None, bool]
) -> None:
    found = restart.observe(before, shown, gate)
    assert (found.starts, None if found.epoch is UNSET else found.epoch, found.arrived) == after


def test_a_pod_without_a_barrier_takes_no_part() -> None:
    found = restart.observe(attempt(), pod("Running"), OPEN)
    assert (found.starts, found.epoch, found.arrived) == (UNSET, UNSET, True)
    assert restart.ending("tool-0", attempt(), found, pod("Running")) is None


@pytest.mark.parametrize(
    ("before", "after", "end"),
    [
        pytest.param(attempt(1, 3), RESTARTED, End(RestartReason.EXITED, "w-0", 7, "no more"), id="an exit"),
        pytest.param(attempt(1, 3), replace(attempt(), id=1), End(RestartReason.POD_REPLACED, "w-0"), id="a retry"),
        pytest.param(
            attempt(), attempt(1, None), End(RestartReason.POD_REPLACED, "w-0"), id="a Pod that nobody expected"
        ),
        pytest.param(attempt(1, 3), attempt(1, 3), None, id="nothing"),
        pytest.param(attempt(), replace(attempt(), id=1), None, id="a retry of a Pod without a barrier"),
        pytest.param(attempt(1, 3), replace(RESTARTED, completion_status=ended(1)), None, id="a Task that ends anyway"),
    ],
)
def test_what_ends_an_epoch(before: TaskAttemptStatus, after: TaskAttemptStatus, end: End | None) -> None:
    shown = seen(containerStatuses=[terminated("main", 7, message="no\n more ")])
    assert restart.ending("w-0", before, after, shown) == end


# --- which container it was ------------------------------------------------------------------------------------------


def after(*containers: dict[str, Any], barrier: int | None = None) -> Pod:
    """A Pod whose containers are like that, and whose barrier has perhaps exited."""
    state = None if barrier is None else {"terminated": {"exitCode": barrier}}
    return seen(state=state, containerStatuses=list(containers))


CAUSES = {
    "of several the first: the kubelet ends the others": (
        after(terminated("b", 143, finished=9), terminated("a", 5, finished=7)),
        ("a", 5),
    ),
    "the application before the barrier": (after(terminated("a", 5), barrier=143), ("a", 5)),
    "the barrier alone": (after({"name": "a", "state": RUNNING}, barrier=137), (names.BARRIER_CONTAINER, 137)),
    "the run before": (after({"name": "a", "state": RUNNING, "lastState": terminated("a", 4)["state"]}), ("a", 4)),
    "not an earlier run of another container, which was started again alone": (
        after(
            {"name": "a", "state": RUNNING, "lastState": terminated("a", 137, finished=1)["state"]},
            terminated("b", 5, finished=9),
        ),
        ("b", 5),
    ),
    "none: what was removed is no exit": (after({"name": "a", "lastState": REMOVED}), (None, None)),
    "none: a success is no failure": (after(terminated("a", 0)), (None, None)),
}


@pytest.mark.parametrize(("shown", "cause"), CAUSES.values(), ids=CAUSES)
def test_the_container_that_failed_first_is_the_cause(shown: Pod, cause: tuple[str | None, int | None]) -> None:
    found = restart.culprit(shown)
    end = None if found is None else found.state.terminated
    assert (found and found.name, end and end.exit_code) == cause


@pytest.mark.parametrize(("state", "code"), [(terminated("a", 210), 210), ({"name": "a", "lastState": REMOVED}, -300)])
def test_an_exit_that_restarts_nobody_ends_the_task_as_a_failed_pod_would(state: dict[str, Any], code: int) -> None:
    shown = after(state)
    assert classification.failed(restart.as_failed(shown), classification.CONTAINER_CONTRACT).code == code


# --- the gang --------------------------------------------------------------------------------------------------------


RESCALED = End(RestartReason.RESCALED, message="from 4 to 5 Tasks")


LIMIT, SUCCEEDED = "exits have restarted the gang 2 times", "worker-3 has succeeded and cannot start again"
SEEN: dict[str, Any] = {"gate": OPEN, "restarts": 0, "limit": 2, "ends": [], "members": 4}
# What is seen else; what begins the next epoch, and why the exits restart nobody.
DECIDED: dict[str, tuple[dict[str, Any], End | None, str]] = {
    "nothing": ({}, None, ""),
    "an exit": ({"ends": [EXIT]}, EXIT, ""),
    "two exits make one epoch": ({"restarts": 1, "ends": [EXIT, PEER_EXIT]}, EXIT, ""),
    "an exit counts, whatever else": ({"ends": [REPLACED, EXIT]}, EXIT, ""),
    "an exit without a limit": ({"restarts": 99, "limit": 0, "ends": [EXIT]}, EXIT, ""),
    "an exit beyond the limit": ({"restarts": 2, "ends": [EXIT]}, None, LIMIT),
    "an exit beyond the limit, and a new Pod": ({"restarts": 2, "ends": [EXIT, REPLACED]}, REPLACED, LIMIT),
    "exits after a success": ({"ends": [EXIT, PEER_EXIT], "succeeded": "worker-3"}, None, SUCCEEDED),
    "a new Pod does not count": ({"restarts": 9, "ends": [REPLACED]}, REPLACED, ""),
    "a rescale": ({"restarts": 9, "members": 5}, RESCALED, ""),
    "an exit while the gate is closed": ({"gate": CLOSED, "ends": [EXIT]}, None, ""),
    "a rescale while the gate is closed": ({"gate": CLOSED, "members": 5}, None, ""),
}


@pytest.mark.parametrize(("more", "begins", "why"), DECIDED.values(), ids=DECIDED)
def test_what_begins_the_next_epoch(more: dict[str, Any], begins: End | None, why: str) -> None:
    found, told = restart.decide(**(SEEN | more))
    assert (found, told.partition(", and ")[0]) == (begins, why)


def test_an_epoch_closes_the_gate_and_keeps_ten_reasons() -> None:
    found = restart.first_epoch(framework().attempt_status, restarts=True)
    for _ in range(12):
        found = restart.next_epoch(replace(found, gang_released=4), EXIT, START)
    assert (found.gang_epoch, found.gang_released, found.gang_restarts) == (12, 0, 12)
    assert restart.next_epoch(found, REPLACED, START).gang_restarts == 12, "only exits count"
    kept = found.last_gang_restarts
    assert isinstance(kept, tuple)
    assert [one.epoch for one in kept] == list(range(3, 13))
    assert restart.first_epoch(found, restarts=True) is found
    assert restart.first_epoch(found, restarts=False) == framework().attempt_status


def test_members_wait_for_their_next_instance_when_an_epoch_begins() -> None:
    found = [restart.leave_epoch(one, 4) for one in (MEMBER, RESTARTED, attempt())]
    assert [(one.epoch, one.arrived) for one in found] == [(3, False), (4, False), (UNSET, UNSET)]


@pytest.mark.parametrize(
    ("one", "text"),
    [
        ({"reason": "Exited", "task": "w-0", "code": 1, "message": "boom"}, "w-0 exited with 1: boom"),
        ({"reason": "Exited", "task": "w-0", "code": 1}, "w-0 exited with 1"),
        ({"reason": "Exited", "task": "w-0"}, "w-0 has ended; its exit code was not seen"),
        ({"reason": "PodReplaced", "task": "w-0"}, "w-0 gets a new Pod"),
        ({"reason": "Rescaled", "message": "from 3 to 4 Tasks"}, "the gang was rescaled from 3 to 4 Tasks"),
    ],
)
def test_a_restart_is_told_in_one_line(one: dict[str, Any], text: str) -> None:
    assert GangRestart(epoch=1, time=START, **one).why == text


# --- who asks --------------------------------------------------------------------------------------------------------

ASKS = {names.RESTART_ANNOTATION: names.IN_PLACE}


def limited(limit: str) -> dict[str, str]:
    return ASKS | {names.RESTART_LIMIT_ANNOTATION: limit}


@pytest.mark.parametrize(
    ("roles", "policy", "problem"),
    [
        ([], None, ""),
        ([("a", {}), ("b", {})], None, ""),
        ([("a", ASKS), ("b", ASKS)], 10, ""),
        ([("a", limited("0"))], 0, ""),
        ([("a", ASKS), ("b", {})], None, "(a: in-place, limit 10; b: none)"),
        ([("a", limited("1")), ("b", limited("2"))], None, "(a: in-place, limit 1; b: in-place, limit 2)"),
        ([("a", limited("-1"))], None, "must be a whole number from 0 to 2147483647"),
        ([("a", limited("9" * 5000))], None, "must be a whole number"),
        ([("a", {names.RESTART_ANNOTATION: "never"})], None, "must be in-place"),
    ],
)
def test_all_roles_with_a_barrier_ask_for_the_same(
    roles: list[tuple[str, dict[str, str]]], policy: int | None, problem: str
) -> None:
    found, why = read_limit(roles)
    assert found == policy
    assert problem in why
    assert bool(why) is bool(problem)
