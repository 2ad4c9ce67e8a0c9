"""When Tasks' ends complete the Framework attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.codes import SUCCEEDED
from frameworkcontroller.api.spec import CompletionPolicy, FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskStatus, Trigger
from frameworkcontroller.core.policies.completion import decide_completion, number_of
from frameworkcontroller.core.policies.role import RoleState
from tests.controller.core.manual import Manual
from tests.controller.core.values import ended, role, spec, task

if TYPE_CHECKING:
    from frameworkcontroller.core.effects import Effect

THREE = """
taskRoles:
- {name: a, taskNumber: 2, task: {pod: {spec: {containers: [{name: main}]}}}}
- {name: b, taskNumber: 1, task: {pod: {spec: {containers: [{name: main}]}}}}
"""


@dataclass(frozen=True)
class Role:
    """A role's policy and Tasks. A Task is (code, completionTime), or None while it runs."""

    tasks: tuple[tuple[int, int] | None, ...]
    failed: int = 1
    succeeded: int = -1
    failed_percent: int | None = None
    succeeded_percent: int | None = None
    going: tuple[int, ...] = ()
    """Indexes that are deletionPending; they are beyond the spec's number."""

    def statuses(self) -> list[TaskStatus]:
        made = []
        for index, end in enumerate(self.tasks):
            if end is None:
                made.append(task(State.RUNNING, index=index))
            else:
                code, when = end
                made.append(task(State.COMPLETED, ended(code), index=index, since=when, completed=when))
        return [replace(one, deletion_pending=index in self.going) for index, one in enumerate(made)]


def situation(roles: dict[str, Role]) -> tuple[FrameworkSpec, dict[str, RoleState]]:
    wanted, role_states = [], {}
    for name, one in roles.items():
        policy = CompletionPolicy(one.failed, one.succeeded, one.failed_percent, one.succeeded_percent)
        wanted.append(role(name, len(one.tasks) - len(one.going), framework_attempt_completion_policy=policy))
        role_states[name] = RoleState(name, f"{name}-uid", None)
        for status in one.statuses():
            role_states[name].append(status, 0)
    return spec(*wanted), role_states


def failed(minimum: int, name: str, index: int, count: int | None = None) -> Trigger:
    """The trigger by failures; `count` is how many there are, if it is not the minimum."""
    reached = f"FailedTaskCount {minimum if count is None else count}"
    return Trigger(f"{reached} has reached MinFailedTaskCount {minimum} in the TaskRole", name, index)


def succeeded(minimum: int, name: str, index: int, count: int | None = None) -> Trigger:
    """The same by successes."""
    reached = f"SucceededTaskCount {minimum if count is None else count}"
    return Trigger(f"{reached} has reached MinSucceededTaskCount {minimum} in the TaskRole", name, index)


def all_complete(count: int, name: str, index: int) -> Trigger:
    """The trigger without a policy; the Task is the last one to end."""
    reached = f"CompletedTaskCount {count} has reached TotalTaskCount {count}"
    no_policy = "no user specified conditions in FrameworkAttemptCompletionPolicy have ever been triggered"
    return Trigger(f"{reached} and {no_policy}", name, index)


OK1, OK2, OK3 = (0, 1), (0, 2), (0, 3)
BAD1, BAD2, BAD3 = (11, 1), (12, 2), (13, 3)
RUNS = Role((None,))

# What an exhaustive search finds, below, needs no row here.
CASES: dict[str, tuple[dict[str, Role], int | None, Trigger | None]] = {
    "one failure is enough": ({"w": Role((None, BAD1))}, 11, failed(1, "w", 1)),
    "too few failures": ({"w": Role((BAD1, None), failed=2)}, None, None),
    "the second failure by time, not by index": ({"w": Role((BAD2, BAD1, None), failed=2)}, 12, failed(2, "w", 0)),
    "more failures than the bound": ({"w": Role((BAD3, BAD1, BAD2, None), failed=2)}, 12, failed(2, "w", 2, count=3)),
    "failures at the same second, by index": ({"w": Role(((8, 1), (7, 1)))}, 8, failed(1, "w", 0, count=2)),
    "failures and successes do not count with 0, as in stored Frameworks": (
        {"w": Role((BAD1, OK2, None), failed=0, succeeded=0)},
        None,
        None,
    ),
    "the second success by time": ({"w": Role((OK2, OK1, None), succeeded=2)}, 0, succeeded(2, "w", 0)),
    "the earlier of failure and success": ({"w": Role((OK1, BAD2), succeeded=1)}, 0, succeeded(1, "w", 0)),
    "the earlier role": ({"a": Role((BAD2, None)), "b": Role((BAD1, None))}, 11, failed(1, "b", 0)),
    "a trigger of one role, not all complete": (
        {"ps": RUNS, "w": Role((OK1, OK2), succeeded=2)},
        0,
        succeeded(2, "w", 1),
    ),
    "a failing Task of a role that does not care, all complete": (
        {"w": Role((BAD1, OK2), failed=-1)},
        0,
        all_complete(2, "w", 1),
    ),
    "all complete over roles": ({"a": Role((OK2,)), "b": Role((OK1,))}, 0, all_complete(2, "a", 0)),
    "all complete, the last in the last role": ({"a": Role((OK1, OK2)), "b": Role((OK3,))}, 0, all_complete(3, "b", 0)),
    "all complete but a role of zero": ({"none": Role(()), "w": Role((OK1,))}, 0, all_complete(1, "w", 0)),
    "deletionPending failures do not count": ({"w": Role((BAD2, None, BAD1), going=(2,))}, 12, failed(1, "w", 0)),
    "a deletionPending failure does not push another over the bound": (
        {"w": Role((BAD2, None, BAD1), failed=2, going=(2,))},
        None,
        None,
    ),
    "a deletionPending success does not count": ({"w": Role((None, OK1), succeeded=1, going=(1,))}, None, None),
    "only deletionPending Tasks never complete": ({"w": Role((OK1, OK2), going=(0, 1))}, None, None),
    "all but a deletionPending one complete": ({"w": Role((OK1, None), going=(1,))}, 0, all_complete(1, "w", 0)),
    "all of the Tasks, however many there are": (
        {"ps": RUNS, "w": Role((OK1, OK2, OK3), succeeded_percent=100)},
        0,
        Trigger("SucceededTaskCount 3 has reached MinSucceededTaskPercent 100 (3 of 3) in the TaskRole", "w", 2),
    ),
    "not yet all": ({"w": Role((OK1, OK2, None), succeeded_percent=100)}, None, None),
    "a percentage is rounded up": (
        {"w": Role((BAD1, BAD2, None), failed_percent=34)},
        12,
        Trigger("FailedTaskCount 2 has reached MinFailedTaskPercent 34 (2 of 3) in the TaskRole", "w", 1),
    ),
    "a percentage takes the place of its count": (
        {"w": Role((BAD1, None, None), failed=1, failed_percent=34)},
        None,
        None,
    ),
    "a percentage of the Tasks that stay": (
        {"ps": RUNS, "w": Role((OK1, OK2, None), succeeded_percent=100, going=(2,))},
        0,
        Trigger("SucceededTaskCount 2 has reached MinSucceededTaskPercent 100 (2 of 2) in the TaskRole", "w", 1),
    ),
    "a percentage of no Tasks": ({"ps": RUNS, "w": Role((), succeeded_percent=100)}, None, None),
}


@pytest.mark.parametrize(("roles", "code", "trigger"), CASES.values(), ids=CASES)
def test_the_earliest_trigger_ends_the_attempt(
    roles: dict[str, Role], code: int | None, trigger: Trigger | None
) -> None:
    completion = decide_completion(*situation(roles))
    if code is None:
        assert completion is None
        return
    assert completion is not None
    assert (completion.code, completion.trigger) == (code, trigger)


def test_a_triggered_end_is_that_of_its_task() -> None:
    cause, completion = ended(11), decide_completion(*situation({"w": Role((BAD1,))}))
    assert completion is not None
    assert (completion.phrase, completion.type, completion.diagnostics) == (cause.phrase, cause.type, cause.diagnostics)


def test_the_end_of_all_tasks_is_a_success_that_says_why() -> None:
    completion = decide_completion(*situation({"w": Role((BAD1,), failed=-1)}))
    assert completion is not None
    assert completion.trigger is not None
    assert (completion.phrase, completion.type) == ("Succeeded", SUCCEEDED)
    assert completion.diagnostics == completion.trigger.message


def test_a_task_that_waits_for_its_retry_has_not_failed() -> None:
    _, role_states = situation({"w": Role((None,))})
    role_states["w"].put(0, task(State.ATTEMPT_COMPLETED, ended(1)), 1)
    assert decide_completion(spec(role("w", 1)), role_states) is None


def test_a_spec_without_roles_completes_nothing() -> None:
    assert decide_completion(FrameworkSpec(task_roles=None), {}) is None


def test_a_role_that_has_no_tasks_yet_holds_up_the_end_of_all() -> None:
    _, role_states = situation({"a": Role((OK1,))})
    assert decide_completion(spec(role("a", 1), role("new", 1)), role_states) is None


def test_a_role_that_is_deleted_from_the_spec_triggers_nothing() -> None:
    _, role_states = situation({"a": Role((None,)), "b": Role((BAD1,))})
    assert decide_completion(spec(role("a", 1)), role_states) is None


@pytest.mark.parametrize(
    ("percent", "tasks", "number"),
    [(100, 7, 7), (1, 1, 1), (1, 10_000, 100), (50, 3, 2), (33, 3, 1), (34, 3, 2), (50, 0, 0)],
)
def test_a_percentage_is_a_number_of_tasks_rounded_up(percent: int, tasks: int, number: int) -> None:
    assert number_of(percent, tasks) == number


@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.builds(
            Role,
            st.lists(st.none() | st.tuples(st.sampled_from([0, 1, 2]), st.integers(1, 5)), max_size=5).map(tuple),
            failed=st.sampled_from([-1, 1, 2, 3]),
            succeeded=st.sampled_from([-1, 1, 2, 3]),
        ),
    )
)
def test_the_trigger_is_the_earliest_of_an_exhaustive_search(roles: dict[str, Role]) -> None:
    """Replay the ends one second after the other: the first second at which a bound is reached has the trigger."""
    ends = {(name, i): end for name, one in roles.items() for i, end in enumerate(one.tasks) if end is not None}
    reached: set[tuple[str, str]] = set()
    for second in range(1, 6):
        for name, one in roles.items():
            codes = [end[0] for (owner, _), end in ends.items() if owner == name and end[1] <= second]
            if one.failed > 0 and sum(code != 0 for code in codes) >= one.failed:
                reached.add((name, "Failed"))
            if one.succeeded > 0 and sum(code == 0 for code in codes) >= one.succeeded:
                reached.add((name, "Succeeded"))
        if reached:
            break
    completion = decide_completion(*situation(roles))
    total = sum(len(one.tasks) for one in roles.values())
    if reached:
        assert completion is not None
        assert completion.trigger is not None
        kind = completion.trigger.message.split("TaskCount", 1)[0]
        codes = [end[0] for end in roles[completion.trigger.task_role_name].tasks if end is not None]
        count = sum((code != 0) == (kind == "Failed") for code in codes)
        assert completion.trigger.message.startswith(f"{kind}TaskCount {count} has reached Min")
        assert (completion.trigger.task_role_name, kind) in reached
        assert ends[completion.trigger.task_role_name, completion.trigger.task_index or 0][1] == second
    elif total and len(ends) == total:
        assert completion is not None
        assert completion.diagnostics.startswith(f"CompletedTaskCount {total} ")
    else:
        assert completion is None


@pytest.mark.parametrize(
    ("code", "order"),
    [(0, ("a-0", "a-1", "b-0")), (1, ("b-0", "a-1", "a-0"))],
    ids=["the last success", "the first failure"],
)
def test_of_tasks_that_are_completed_in_one_second_the_order_of_their_ends_decides(
    code: int, order: tuple[str, ...]
) -> None:
    """Ends of Tasks are written together, up to some seconds later."""
    manual = Manual(THREE)
    manual.world.plan.ends = {name: ["stay"] for name in order}
    manual.at_rest()
    waiting: list[Effect] = []
    for name in order:
        manual.world.plan.ends[name] = [code]
        manual.second(1.1)
        waiting += manual.ask()
    for _ in range(30):
        for effect in waiting:
            manual.answer(*manual.perform(effect))
        manual.see()
        waiting = manual.ask()
    manual.at_rest()
    end = manual.world.status.completion
    assert end is not None
    assert end.trigger is not None
    assert (end.trigger.task_role_name, end.trigger.task_index) == ("b", 0)
