"""When Tasks' ends complete the Framework attempt."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.codes import SUCCEEDED
from frameworkcontroller.api.spec import CompletionPolicy, FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkCompletion, TaskStatus, Trigger
from frameworkcontroller.core.effects import Effect
from frameworkcontroller.core.policies.completion import decide_completion, number_of
from frameworkcontroller.core.policies.role import RoleState
from tests.controller.core.manual import Manual, of_roles
from tests.controller.core.values import ended, framework_end, known, role, role_of, spec, task


@dataclass(frozen=True)
class Role:
    """A role's policy and Tasks. A Task is (code, completionTime), or None while it runs."""

    tasks: tuple[tuple[int, int] | None, ...]
    failed: int = 1
    succeeded: int = -1
    failed_percent: int | None = None
    succeeded_percent: int | None = None
    going: int = 0
    """So many of the Tasks, the last ones, are deletionPending."""

    @property
    def wanted(self) -> int:
        return max(0, len(self.tasks) - self.going)

    def statuses(self) -> Iterator[TaskStatus]:
        for index, end in enumerate(self.tasks):
            code, when = end or (0, 0)
            made = task(State.RUNNING) if end is None else task(State.COMPLETED, ended(code), since=when)
            yield replace(made, index=index, deletion_pending=index >= self.wanted)


def situation(roles: dict[str, Role]) -> tuple[FrameworkSpec, dict[str, RoleState]]:
    wanted, role_states = [], {}
    for name, one in roles.items():
        policy = CompletionPolicy(one.failed, one.succeeded, one.failed_percent, one.succeeded_percent)
        wanted.append(role(name, one.wanted, framework_attempt_completion_policy=policy))
        role_states[name] = role_of(name, one.statuses())
    return spec(*wanted), role_states


def replayed(roles: dict[str, Role]) -> FrameworkCompletion | None:
    """The end of the attempt if its Tasks end one after the other, and the policies are asked after each."""
    ends = [
        (end, index, name)
        for name, one in roles.items()
        for index, end in enumerate(one.tasks[: one.wanted])
        if end is not None
    ]
    kinds = [(name, "Failed" if code else "Succeeded") for (code, _), _, name in ends]
    seen: Counter[tuple[str, str]] = Counter()
    for (code, _), index, name in sorted(ends, key=lambda end: (end[0][1], end[1])):
        one, kind = roles[name], "Failed" if code else "Succeeded"
        seen[name, kind] += 1
        minimum, percent = (one.failed, one.failed_percent) if code else (one.succeeded, one.succeeded_percent)
        bound = f"TaskCount {minimum}"
        if percent is not None:
            minimum = ceil(percent * one.wanted / 100)
            bound = f"TaskPercent {percent} ({minimum} of {one.wanted})"
        if seen[name, kind] == minimum:
            message = f"{kind}TaskCount {kinds.count((name, kind))} has reached Min{kind}{bound} in the TaskRole"
            return replace(framework_end(code), trigger=Trigger(message, name, index))
    if not ends or len(ends) < sum(one.wanted for one in roles.values()):
        return None
    # The Task of the trigger is the last one to end.
    _, index, name = max(ends, key=lambda end: (end[0][1], end[1]))
    message = (
        f"CompletedTaskCount {len(ends)} has reached TotalTaskCount {len(ends)} and "
        "no user specified conditions in FrameworkAttemptCompletionPolicy have ever been triggered"
    )
    return FrameworkCompletion(0, "Succeeded", SUCCEEDED, message, Trigger(message, name, index))


BOUNDS, PERCENT = st.sampled_from([-1, 0, 1, 2, 3]), st.none() | st.sampled_from([1, 34, 50, 100])


@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.builds(
            Role,
            st.lists(st.none() | st.tuples(st.sampled_from([0, 1, 2]), st.integers(1, 5)), max_size=5).map(tuple),
            *(BOUNDS, BOUNDS, PERCENT, PERCENT, st.sampled_from([0, 0, 1, 2])),
        ),
    )
)
def test_the_trigger_is_the_earliest_of_an_exhaustive_search(roles: dict[str, Role]) -> None:
    assert decide_completion(*situation(roles)) == replayed(roles)


DONE, FAILED = situation({"a": Role(((0, 1),))})[1], situation({"a": Role((None,)), "b": Role(((11, 1),))})[1]
WAITS = situation({"a": Role((None,))})[1]
WAITS["a"].put(0, task(State.ATTEMPT_COMPLETED, ended(1)), 1)


@pytest.mark.parametrize(
    ("wanted", "roles"),
    [
        (spec(role("a", 1)), WAITS),
        (FrameworkSpec(task_roles=None), {}),
        (spec(role("a", 1), role("new", 1)), DONE),
        (spec(role("a", 1)), FAILED),
    ],
    ids=["a Task waits for its retry", "no roles", "a role has no Tasks yet", "the role is deleted from the spec"],
)
def test_nothing_else_ends_it(wanted: FrameworkSpec, roles: dict[str, RoleState]) -> None:
    assert decide_completion(wanted, roles) is None


@pytest.mark.parametrize(
    ("percent", "tasks", "number"),
    [(100, 7, 7), (1, 1, 1), (1, 10_000, 100), (50, 3, 2), (33, 3, 1), (34, 3, 2), (50, 0, 0)],
)
def test_a_percentage_is_a_number_of_tasks_rounded_up(percent: int, tasks: int, number: int) -> None:
    assert number_of(percent, tasks) == number


@pytest.mark.parametrize(
    ("code", "order"),
    [(0, ("a-0", "a-1", "b-0")), (1, ("b-0", "a-1", "a-0"))],
    ids=["the last success", "the first failure"],
)
def test_of_tasks_that_are_completed_in_one_second_the_order_of_their_ends_decides(
    code: int, order: tuple[str, ...]
) -> None:
    """Ends of Tasks are written together, up to some seconds later."""
    manual = Manual(of_roles(a=2, b=1))
    manual.world.plan.ends = {name: ["stay"] for name in order}
    manual.at_rest()
    waiting = list[Effect]()
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
    trigger = known(known(manual.world.status.completion).trigger)
    assert (trigger.task_role_name, trigger.task_index) == ("b", 0)
