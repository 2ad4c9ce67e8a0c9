"""Rescale, in every order."""

import itertools
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.spec import TaskSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskStatus
from frameworkcontroller.core.machines.task import conclude
from frameworkcontroller.core.policies.role import RoleState
from frameworkcontroller.core.status.rescale import rescale
from tests.controller.core.values import at, ended, known, role, spec, task


class Roles:
    """The roles of a Framework and which revision of them the API server has."""

    def __init__(self) -> None:
        self.role_states = dict[str, RoleState]()
        self.revision = 0
        self.persisted = 0
        self._uids = (f"uid-{number}" for number in itertools.count(1))

    def ask(self, timeout: int | None = None, **numbers: int) -> set[tuple[str, int]]:
        """The spec wants these numbers of Tasks; what changed."""
        what = TaskSpec(pod_graceful_deletion_timeout_sec=timeout)
        wanted = spec(*(role(name, number, task=what) for name, number in numbers.items()))
        self.revision += 1
        changed = rescale(
            *("fw", wanted, self.role_states),
            now=at(self.revision),
            new_uid=lambda: next(self._uids),
            revision=self.revision,
            persisted=self.persisted,
        )
        return set(changed)

    def persist(self) -> None:
        """The API server has everything."""
        self.persisted = self.revision

    def end(self, name: str, *indexes: int) -> None:
        """These Tasks are Completed."""
        for index in indexes:
            self.put(name, conclude(self.role_states[name].tasks[index], at(self.revision)))

    def run(self, name: str, *indexes: int) -> None:
        """These Tasks run."""
        for index in indexes:
            instance = self.role_states[name].tasks[index].instance_uid
            self.put(name, task(State.RUNNING, index=index, instance=instance))

    def put(self, name: str, new: TaskStatus) -> None:
        self.revision += 1
        self.role_states[name].put(new.index, new, self.revision)

    @property
    def tasks(self) -> dict[tuple[str, int], tuple[TaskStatus, int]]:
        """All Tasks with their revisions."""
        return {
            (name, one.index): (one, revision)
            for name, role_state in self.role_states.items()
            for one, revision in zip(role_state.tasks, role_state.revisions, strict=True)
        }

    def seen(self, name: str) -> list[str]:
        """Each Task's UID without its index, with a - if it is deletionPending."""
        tasks = self.role_states[name].tasks
        assert len({one.instance_uid for one in tasks}) == len(tasks)
        return [one.instance_uid.removesuffix(f"{one.index:012x}") + "-" * one.deletion_pending for one in tasks]


@pytest.fixture
def three() -> Roles:
    """Three Tasks uid-2 of role w (uid-1), all running."""
    roles = Roles()
    roles.ask(w=3)
    roles.run("w", 0, 1, 2)
    roles.persist()
    return roles


def test_new_tasks_are_pending_named_and_have_the_revision() -> None:
    roles = Roles()
    assert roles.ask(w=2, ps=1, none=0) == {("w", -1), ("ps", -1), ("none", -1), ("w", 0), ("w", 1), ("ps", 0)}
    made = roles.role_states["w"].tasks
    assert [(one.index, one.state, one.attempt_status.pod_name) for one in made] == [
        (0, State.CREATION_PENDING, "fw-w-0"),
        (1, State.CREATION_PENDING, "fw-w-1"),
    ]
    assert list(roles.role_states["w"].revisions) == [1, 1]
    assert len({one.instance_uid for one in made} | {roles.role_states["w"].instance_uid}) == 3
    assert roles.seen("none") == []
    assert roles.ask(w=2, ps=1, none=0) == set()


class Step(NamedTuple):
    """These Tasks end; then so many are wanted, these change (-1: one is removed), and these are there."""

    ended: tuple[int, ...]
    wanted: int
    changed: set[int]
    seen: str
    persisted: bool = True
    """Whether the API server has the ends before."""


DOWN = Step((), 1, {1, 2}, "uid-2 uid-2- uid-2-")

ORDERS = {
    "the same number": [Step((), 3, set(), "uid-2 uid-2 uid-2")],
    "up: those that are there are left alone": [Step((), 5, {3, 4}, "uid-2 uid-2 uid-2 uid-3 uid-3")],
    "down: a hole stays until the tail has gone": [
        DOWN,
        Step((), 1, set(), "uid-2 uid-2- uid-2-"),
        Step((1,), 1, set(), "uid-2 uid-2- uid-2-"),
        Step((2,), 1, {-1}, "uid-2"),
    ],
    "down: one that has ended goes when that is persisted": [
        DOWN,
        Step((2,), 1, set(), "uid-2 uid-2- uid-2-", persisted=False),
        Step((), 1, {-1}, "uid-2 uid-2-"),
    ],
    "up before they are gone: what runs still goes, and is replaced later": [
        DOWN,
        Step((), 3, set(), "uid-2 uid-2- uid-2-"),
        Step((1, 2), 3, {1, 2}, "uid-2 uid-3 uid-3"),
    ],
    "up before they are gone: what has ended is replaced at once": [DOWN, Step((1,), 3, {1}, "uid-2 uid-3 uid-2-")],
    "up beyond what was there": [DOWN, Step((), 5, {3, 4}, "uid-2 uid-2- uid-2- uid-3 uid-3")],
    "up halfway: the rest goes": [
        Step((), 0, {0, 1, 2}, "uid-2- uid-2- uid-2-"),
        Step((), 2, set(), "uid-2- uid-2- uid-2-"),
        Step((0, 1, 2), 2, {0, 1, -1}, "uid-3 uid-3"),
    ],
    "a replacement that is not wanted any more goes like any Task": [
        DOWN,
        Step((1, 2), 2, {1, -1}, "uid-2 uid-3"),
        Step((), 1, {1}, "uid-2 uid-3-"),
    ],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_a_running_task_goes_only_when_it_has_ended_and_its_index_is_taken_by_another(
    three: Roles, order: list[Step]
) -> None:
    for step in order:
        three.end("w", *step.ended)
        if step.persisted:
            three.persist()
        assert three.ask(w=step.wanted) == {("w", index) for index in step.changed}
        assert " ".join(three.seen("w")) == step.seen


def test_a_task_that_is_scaled_down_runs_on_and_has_its_reason_unless_it_has_another(three: Roles) -> None:
    for index, state in ((1, State.DELETION_PENDING), (2, State.COMPLETED)):
        three.put("w", task(state, ended(5), index=index))
    three.ask(w=0)
    going = three.role_states["w"].tasks
    assert all(one.deletion_pending for one in going)
    assert going[0].state is State.RUNNING
    reason = known(going[0].completion)
    assert (reason.code, reason.diagnostics) == (-230, "User has requested to delete the Task by Framework ScaleDown")
    assert [one.completion for one in going[1:]] == [ended(5)] * 2


def test_a_role_goes_when_all_its_tasks_have_gone_and_comes_back_as_another(three: Roles) -> None:
    three.ask(w=3, ps=1)
    assert three.ask(ps=1) == {("w", 0), ("w", 1), ("w", 2)}
    three.end("w", 2)
    three.persist()
    assert three.ask(ps=1) == {("w", -1)}
    assert "w" in three.role_states
    three.end("w", 0, 1)
    three.persist()
    three.ask(ps=1)
    assert set(three.role_states) == {"ps"}
    three.ask(w=1)
    assert (three.role_states["w"].instance_uid, three.seen("w")) == ("uid-5", ["uid-6"])


def test_a_deleted_role_keeps_the_timeout_that_it_had() -> None:
    roles = Roles()
    roles.ask(timeout=30, w=1)
    roles.ask()
    assert roles.role_states["w"].graceful_timeout_sec == 30


def test_no_roles_at_all_are_no_error() -> None:
    roles = Roles()
    assert roles.ask() == set()
    no_roles = replace(spec(), task_roles=None)
    assert list(rescale("fw", no_roles, {}, now=at(0), new_uid=str, revision=1, persisted=0)) == []


wanted_numbers = st.dictionaries(st.sampled_from("ab"), st.integers(0, 4))
task_keys = st.tuples(st.sampled_from("ab"), st.integers(0, 3))
# A wish, what persists all, or the end or the run of a Task.
moves = wanted_numbers | st.none() | st.tuples(st.just("end"), task_keys) | st.tuples(st.just("run"), task_keys)


@given(st.lists(moves, max_size=30), wanted_numbers)
def test_any_order_of_wishes_ends_with_what_is_wanted_and_loses_no_running_task(
    order: list[dict[str, int] | tuple[str, tuple[str, int]] | None], last: dict[str, int]
) -> None:
    roles = Roles()
    wish: dict[str, int] = {}

    def ask() -> None:
        before = roles.tasks
        roles.ask(**wish)
        after = roles.tasks
        for task_key, (old, revision) in before.items():
            new, _ = after.get(task_key, (None, 0))
            if new is None or new.instance_uid != old.instance_uid:
                assert (old.deletion_pending, old.state) == (True, State.COMPLETED)
                assert revision <= roles.persisted
            else:
                assert new.state is old.state
                assert new.deletion_pending >= old.deletion_pending
        for name, role_state in roles.role_states.items():
            assert [one.index for one in role_state.tasks] == list(range(len(role_state.tasks)))
            assert len(role_state.tasks) >= wish.get(name, 0)
            assert all(one.deletion_pending for one in role_state.tasks[wish.get(name, 0) :])

    for move in order:
        match move:
            case dict():
                wish = move
                ask()
            case None:
                roles.persist()
            case kind, task_key if task_key in roles.tasks:
                if roles.tasks[task_key][0].state is State.CREATION_PENDING:
                    getattr(roles, kind)(*task_key)
    wish = last
    ask()
    for name, role_state in roles.role_states.items():
        roles.end(name, *sorted(role_state.deletion_pending))
    roles.persist()
    ask()
    assert {name: len(role_state.tasks) for name, role_state in roles.role_states.items()} == wish
    assert not any(role_state.deletion_pending for role_state in roles.role_states.values())
