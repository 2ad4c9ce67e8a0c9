"""What the time of a Framework is spent on, and what is charged as that changes (docs/ledger.md)."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api.meta import Meta
from frameworkcontroller.api.pod import Pod, Times
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import LedgerState, State
from frameworkcontroller.api.status import Ledger, RetryPolicyStatus, Spent, TaskStatus
from frameworkcontroller.core.machines.framework import new_status
from frameworkcontroller.core.pods.facts import SpecFacts
from frameworkcontroller.core.policies.crash_loop import ATTEMPT
from frameworkcontroller.core.status import ledger
from frameworkcontroller.core.status.state import FrameworkState
from tests.controller.core.manual import Manual, bad_and_good
from tests.controller.core.values import START, at, ended, known, role_of, task
from tests.support.rows import each


def one(state: State, *, ip: str | None = None, node: str | None = None, code: int | None = None) -> TaskStatus:
    found = task(state, None if code is None else ended(code), ip=ip, pod_uid="pod-uid")
    return replace(found, attempt_status=replace(found.attempt_status, pod_node_name=node))


NO_NODE = one(State.PREPARING)
PLACED = one(State.PREPARING, node="node-1")
THERE = one(State.PREPARING, node="node-1", ip="10.0.0.1")
RUNS = one(State.RUNNING, node="node-1", ip="10.0.0.1")
FAILING = one(State.DELETING, node="node-1", ip="10.0.0.1", code=1)
RETRIED = one(State.ATTEMPT_COMPLETED, code=1)
ENDS, AGAIN = (one(state, ip="10.0.0.1", code=0) for state in (State.DELETING, State.ATTEMPT_COMPLETED))
DONE = one(State.COMPLETED, node="node-1", ip="10.0.0.1", code=0)
GONE = replace(NO_NODE, deletion_pending=True)


def state_of(*tasks: TaskStatus, barriers: bool = True, **more: Any) -> FrameworkState:
    """An attempt with these Tasks; `waits`: and a role that waits for theirs."""
    state = FrameworkState("fw")
    retries = RetryPolicyStatus(retry_delay_sec=more.get("delay"))
    state.set(replace(new_status("fw", START), state=more.get("state", State.RUNNING), retry_policy_status=retries))
    state.roles = {"worker": role_of("worker", tasks)} | more.get("roles", {})
    state.facts = SpecFacts(members=frozenset({"worker"} if barriers else ()))
    return state


LATER = {"later": role_of("later", [task()])}
LATER["later"].dependencies_met = False

SLOWEST = {
    "a Pod without a node": (state_of(RUNS, NO_NODE), LedgerState.SCHEDULING),
    "the slowest decides": (state_of(RUNS, THERE, PLACED), LedgerState.STARTING),
    "all are at the gate": (state_of(THERE, THERE), LedgerState.GATE),
    "the last is at the gate": (state_of(RUNS, THERE), LedgerState.GATE),
    "all run": (state_of(RUNS, RUNS), LedgerState.RUNNING),
    "what is over, or is to go, does not count": (state_of(RUNS, DONE, GONE), LedgerState.RUNNING),
    "one is retried": (state_of(RUNS, RETRIED), LedgerState.BACKOFF),
    "one has failed, and its Pod ends": (state_of(RUNS, FAILING), LedgerState.ENDING),
    "the last has succeeded, and its Pod ends": (state_of(ENDS, DONE), LedgerState.ENDING),
    "the last has succeeded, and is retried": (state_of(AGAIN, DONE), LedgerState.BACKOFF),
    "there are no Tasks": (state_of(), LedgerState.WAITING),
    "without barriers one that runs is enough": (state_of(RUNS, NO_NODE, barriers=False), LedgerState.RUNNING),
    "without barriers nobody is at a gate": (state_of(THERE, barriers=False), LedgerState.STARTING),
    "without barriers one is retried": (state_of(NO_NODE, RETRIED, barriers=False), LedgerState.BACKOFF),
    "roles wait": (state_of(DONE, roles=LATER), LedgerState.WAITING),
    "roles wait while something goes on": (state_of(PLACED, roles=LATER), LedgerState.STARTING),
    "no attempt has begun": (state_of(state=State.CREATION_PENDING), LedgerState.SCHEDULING),
    "it is not decided whether the attempt is retried": (state_of(state=State.ATTEMPT_COMPLETED), LedgerState.ENDING),
    "between two attempts": (state_of(state=State.ATTEMPT_COMPLETED, delay=5), LedgerState.BACKOFF),
    "the attempt ends": (state_of(RUNS, state=State.DELETING), LedgerState.ENDING),
    "it is over": (state_of(DONE, state=State.COMPLETED), ""),
}


def spent_on(state: FrameworkState, *, is_open: bool = False, **spec: Any) -> str:
    return ledger.state_of(state, FrameworkSpec(**spec), is_open=is_open)


@each("state, found", SLOWEST.values(), ids=SLOWEST)
def test_the_time_is_spent_on_what_the_slowest_task_is_at(state: FrameworkState, found: str) -> None:
    assert spent_on(state) == found


def test_what_waits_for_somebody_is_queued_and_what_pauses_is_not() -> None:
    state = state_of(state=State.CREATION_PENDING)
    assert spent_on(state, execution_type="Create") == spent_on(state, suspend=True) == LedgerState.QUEUED
    state.crash_loops.held.add(ATTEMPT)
    assert spent_on(state) == LedgerState.BACKOFF
    state.held_back = ("TooManyIdleTasks", "it waits")
    assert spent_on(state) == LedgerState.QUEUED


def test_a_gang_that_was_released_is_not_at_its_gate() -> None:
    assert spent_on(state_of(RUNS, THERE), is_open=True) == LedgerState.STARTING


def test_from_the_end_of_an_epoch_until_its_gate_is_open_it_restarts() -> None:
    state = state_of(RUNS)
    attempt = replace(state.status.attempt_status, gang_epoch=1, gang_released=0)
    state.set(replace(state.status, attempt_status=attempt))
    assert spent_on(state, is_open=True) == LedgerState.RESTARTING
    state.set(replace(state.status, attempt_status=replace(attempt, gang_released=1)))
    assert spent_on(state, is_open=True) == LedgerState.RUNNING


# --- over time -------------------------------------------------------------------------------------------------------


def test_each_second_of_a_life_is_charged_once() -> None:
    manual = Manual()
    manual.edit(suspend=True)
    manual.see()
    manual.live(4)
    manual.edit(suspend=False)
    manual.live(10)
    found = known(manual.world.status).ledger
    assert isinstance(found, Ledger)
    assert found.total == Spent(queued=5, scheduling=found.total.scheduling)
    assert (found.state, found.since) == (LedgerState.RUNNING, at(5 + found.total.scheduling))
    manual.edit(executionType="Stop")
    manual.live(10)
    status = known(manual.world.status)
    assert isinstance(status.ledger, Ledger)
    assert (status.state, status.ledger.state, status.ledger.since) == (State.COMPLETED, "", status.completion_time)
    spent = status.ledger.total
    assert spent.lost is None
    life = sum(getattr(spent, name) for name in LedgerState)
    assert life == (status.ledger.since - status.start_time).total_seconds()


def test_an_attempt_has_its_own_account_and_a_success_has_lost_nothing() -> None:
    manual = Manual(bad_and_good(framework=1))
    manual.world.plan.ends.update({"bad-0": [1, "stay"], "good-0": ["stay", "stay"], "good-1": ["stay", "stay"]})
    manual.live(30)
    status = known(manual.world.status)
    assert status.attempt_status.id == 1
    assert isinstance(status.ledger, Ledger)
    total, attempt = status.ledger.total, status.ledger.attempt
    assert (total.lost, attempt.lost) == (None, 0)
    assert total.running > attempt.running == 0
    assert total.backoff + total.ending > attempt.backoff + attempt.ending == 0


def take_up(state: FrameworkState, now: float, *times: Times | None, created: float = 0, uid: str = "pod-uid") -> None:
    """A controller begins, and sees Pods of these times, one after the other."""
    pods = (Pod(Meta(name="fw-worker-0", uid=uid, resource_version="1"), times=one or UNSET) for one in times)
    list(ledger.take_up(state, at(created), lambda _name: next(pods), at(now)))


def follow(state: FrameworkState, now: float, *, is_open: bool = True, **spec: Any) -> None:
    ledger.follow(state, FrameworkSpec(**spec), at(now), is_open=is_open)


def test_the_life_begins_with_the_creation() -> None:
    state = FrameworkState("fw")
    take_up(state, 1, created=-3)
    state.set(new_status("fw", at(1)))
    follow(state, 1, is_open=False, execution_type="Create")
    assert state.ledger == Ledger(at(1), LedgerState.QUEUED, Spent(queued=4), Spent(queued=4))


STRANGE = Spent(lost=None, running=1.7e308, gate=-5)
BEFORE = {
    "there is none: it begins now": (None, Spent()),
    "only a later version knows the state": (Ledger(at(0), "asleep", Spent(running=5)), Spent(running=5)),
    **{
        f"somebody writes {state[:5]!r}": (Ledger(at(-1e9), state, STRANGE), STRANGE)
        for state in ("lost", "since", "\x1b[2J" * 100)
    },
}


@each("before, total", BEFORE.values(), ids=BEFORE)
def test_of_what_no_version_before_has_written_nothing_is_charged(before: Ledger | None, total: Spent) -> None:
    state = state_of(RUNS)
    if before:
        state.ledger = before
    take_up(state, 10, created=-500)
    follow(state, 10)
    assert state.ledger == Ledger(at(10), LedgerState.RUNNING, total)
    assert msgspec.json.decode(msgspec.json.encode(state.ledger), type=Ledger) == state.ledger


@pytest.mark.parametrize("failing", [True, False])
def test_what_ran_before_a_failure_is_lost_although_others_run_on(failing: bool) -> None:
    state = state_of(RUNS, FAILING if failing else RUNS, barriers=False)
    state.ledger = Ledger(at(0), LedgerState.RUNNING)
    follow(state, 50, is_open=False)
    lost = None if failing else 0
    assert state.ledger == Ledger(at(0), LedgerState.RUNNING, Spent(lost=lost), Spent(lost=lost))


def test_what_is_written_of_a_gate_is_what_follows_without_another_write() -> None:
    kept = Ledger(at(0), LedgerState.GATE)
    assert ledger.stored(kept, complete=True) == Ledger(at(0), LedgerState.STARTING)
    assert (ledger.stored(kept, complete=False), ledger.stored(None, complete=True)) == (kept, UNSET)


def test_a_clock_that_is_set_back_takes_nothing_back() -> None:
    state = state_of(RUNS)
    state.ledger = Ledger(at(100), LedgerState.GATE, Spent(gate=3))
    follow(state, 50)
    assert state.ledger == Ledger(at(100), LedgerState.RUNNING, Spent(gate=3))


# --- while there was no controller -----------------------------------------------------------------------------------


def seconds(*moments: float) -> Times:
    """When it was placed, ran and was over, as far as it has come."""
    placed, ran, over = (*map(at, moments), None, None, None)[:3]
    return placed, ran, over


AWAY: dict[str, tuple[str, list[Times | None], dict[str, float]]] = {
    "it came to run": (
        "scheduling",
        [seconds(10, 20), seconds(15, 40)],
        {"scheduling": 15, "starting": 25},
    ),
    "it ran and ended": ("starting", [seconds(1, 20, 50), seconds(1, 30, 60)], {"starting": 30, "running": 30}),
    "one still runs": ("running", [seconds(1, 2, 50), seconds(1, 2)], {}),
    "one is not placed": ("scheduling", [seconds(10, 20), seconds()], {}),
    "of one nothing is known": ("starting", [seconds(10, 20), None], {}),
    "before the last that was written": ("starting", [seconds(-9, -5), seconds(-9, -5)], {"running": 0}),
    "the clocks of nodes are ahead": ("starting", [seconds(1, 500), seconds(1, 900)], {"starting": 100}),
    "Pods say nothing of a suspension": ("queued", [seconds(1, 2), seconds(1, 2)], {}),
}


@each("before, times, charged", AWAY.values(), ids=AWAY)
def test_what_passed_without_a_controller_is_charged_by_the_times_of_the_pods(
    before: str, times: list[Times | None], charged: dict[str, float]
) -> None:
    state = state_of(THERE, replace(THERE, index=1))
    state.ledger = Ledger(at(0), before)
    take_up(state, 100, *times)
    assert state.ledger.total == Spent(**charged)
    assert state.ledger.since == at(sum(charged.values()))


@pytest.mark.parametrize("placed", [seconds(), seconds(500)])
def test_without_barriers_it_ran_from_the_first_pod_on(placed: Times) -> None:
    state = state_of(THERE, NO_NODE, barriers=False)
    state.ledger = Ledger(at(0), LedgerState.SCHEDULING)
    take_up(state, 900, seconds(10, 20), placed)
    assert (state.ledger.state, state.ledger.total) == (LedgerState.RUNNING, Spent(scheduling=20))


@pytest.mark.parametrize(("uid", "charged"), [("another", 0), ("pod-uid", 30)])
def test_another_pod_of_the_name_says_nothing(uid: str, charged: float) -> None:
    state = state_of(THERE)
    state.ledger = Ledger(at(0), LedgerState.STARTING)
    take_up(state, 100, seconds(1, 30), uid=uid)
    assert state.ledger.since == at(charged)
