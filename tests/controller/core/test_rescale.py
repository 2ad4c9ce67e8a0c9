"""Rescale, in every order."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.states import State
from frameworkcontroller.api.types import TaskSpec
from frameworkcontroller.core.rescale import rescale
from frameworkcontroller.core.task import conclude

from .values import at, ended, role, spec, task

if TYPE_CHECKING:
    from frameworkcontroller.core.ledger import RoleLedger


class Roles:
    """The roles of a Framework and which revision of them the API server shows."""

    def __init__(self) -> None:
        self.ledgers: dict[str, RoleLedger] = {}
        self.revision = 0
        self.shown = 0
        self._uids = (f"uid-{number}" for number in itertools.count(1))

    def ask(self, timeout: int | None = None, **numbers: int) -> set[tuple[str, int]]:
        """The spec wants these numbers of Tasks; what changed."""
        wanted = spec(
            *(role(name, n, task=TaskSpec(pod_graceful_deletion_timeout_sec=timeout)) for name, n in numbers.items())
        )
        self.revision += 1
        return set(
            rescale(
                "fw",
                wanted,
                self.ledgers,
                now=at(self.revision),
                new_uid=lambda: next(self._uids),
                revision=self.revision,
                persisted=self.shown,
            )
        )

    def show(self) -> None:
        """The API server shows everything."""
        self.shown = self.revision

    def end(self, name: str, *indexes: int) -> None:
        """These Tasks are Completed, which is shown."""
        for index in indexes:
            self.revision += 1
            ledger = self.ledgers[name]
            ledger.put(index, conclude(ledger.tasks[index], at(self.revision)), self.revision)
        self.show()

    def run(self, name: str, *indexes: int) -> None:
        """These Tasks run, which is shown."""
        for index in indexes:
            self.revision += 1
            ledger = self.ledgers[name]
            current = ledger.tasks[index]
            ledger.put(
                index, replace(task(State.RUNNING, index=index), instance_uid=current.instance_uid), self.revision
            )
        self.show()

    def seen(self, name: str) -> list[str]:
        """Each Task's instance, with a mark if it is going."""
        return [f"{one.instance_uid}{'-' * one.deletion_pending}" for one in self.ledgers[name].tasks]


@pytest.fixture
def three() -> Roles:
    """Three Tasks uid-2 to uid-4 of role w (uid-1), all running."""
    roles = Roles()
    roles.ask(w=3)
    roles.run("w", 0, 1, 2)
    return roles


def test_new_tasks_are_pending_named_and_recorded() -> None:
    roles = Roles()
    assert roles.ask(w=2, ps=1) == {("w", -1), ("ps", -1), ("w", 0), ("w", 1), ("ps", 0)}
    made = roles.ledgers["w"].tasks
    assert [(one.index, one.state, one.attempt_status.pod_name) for one in made] == [
        (0, State.CREATION_PENDING, "fw-w-0"),
        (1, State.CREATION_PENDING, "fw-w-1"),
    ]
    assert roles.ledgers["w"].revisions == [1, 1]
    assert len({one.instance_uid for one in made} | {roles.ledgers["w"].instance_uid}) == 3


def test_the_same_wish_changes_nothing(three: Roles) -> None:
    assert three.ask(w=3) == set()


def test_a_role_of_zero_exists_without_tasks() -> None:
    roles = Roles()
    roles.ask(w=0)
    assert roles.seen("w") == []
    assert roles.ask(w=0) == set()


def test_scaling_up_leaves_those_that_are_there_alone(three: Roles) -> None:
    assert three.ask(w=5) == {("w", 3), ("w", 4)}
    assert three.seen("w") == ["uid-2", "uid-3", "uid-4", "uid-5", "uid-6"]


def test_scaling_down_marks_the_last_ones_with_their_reason(three: Roles) -> None:
    assert three.ask(w=1) == {("w", 1), ("w", 2)}
    assert three.seen("w") == ["uid-2", "uid-3-", "uid-4-"]
    for going in three.ledgers["w"].tasks[1:]:
        assert going.state is State.RUNNING
        assert going.completion is not None
        assert (going.completion.code, going.completion.diagnostics) == (
            -230,
            "User has requested to delete the Task by Framework ScaleDown",
        )


def test_a_task_that_had_ended_is_marked_and_keeps_its_end(three: Roles) -> None:
    three.ledgers["w"].put(2, task(State.COMPLETED, ended(5), index=2), three.revision)
    three.ask(w=2)
    going = three.ledgers["w"].tasks[2]
    assert going.deletion_pending
    assert going.completion == ended(5)


def test_a_task_whose_end_is_decided_keeps_it(three: Roles) -> None:
    three.ledgers["w"].put(2, task(State.DELETION_PENDING, ended(5), index=2), three.revision)
    three.ask(w=2)
    assert three.ledgers["w"].tasks[2].completion == ended(5)


def test_what_goes_is_removed_only_when_completed_and_shown(three: Roles) -> None:
    three.ask(w=1)
    three.show()
    assert three.ask(w=1) == set()
    ledger = three.ledgers["w"]
    three.revision += 1
    ledger.put(2, conclude(ledger.tasks[2], at(9)), three.revision)
    assert three.ask(w=1) == set()
    assert three.seen("w") == ["uid-2", "uid-3-", "uid-4-"]
    three.show()
    assert three.ask(w=1) == {("w", -1)}
    assert three.seen("w") == ["uid-2", "uid-3-"]


def test_a_hole_stays_until_the_tail_has_gone(three: Roles) -> None:
    three.ask(w=1)
    three.end("w", 1)
    assert three.ask(w=1) == set()
    assert three.seen("w") == ["uid-2", "uid-3-", "uid-4-"]
    three.end("w", 2)
    three.ask(w=1)
    assert three.seen("w") == ["uid-2"]


def test_scaled_up_before_it_was_gone_a_running_task_still_goes(three: Roles) -> None:
    three.ask(w=1)
    three.show()
    assert three.ask(w=3) == set()
    assert three.seen("w") == ["uid-2", "uid-3-", "uid-4-"]


def test_scaled_up_before_it_was_gone_a_completed_task_is_replaced_at_once(three: Roles) -> None:
    three.ask(w=1)
    three.end("w", 1)
    assert three.ask(w=3) == {("w", 1)}
    assert three.seen("w") == ["uid-2", "uid-5", "uid-4-"]
    assert three.ledgers["w"].tasks[1].state is State.CREATION_PENDING
    assert three.ledgers["w"].tasks[1].completion is None


def test_scaled_up_before_it_was_gone_the_rest_is_replaced_later(three: Roles) -> None:
    three.ask(w=1)
    three.show()
    three.ask(w=3)
    three.end("w", 1, 2)
    assert three.ask(w=3) == {("w", 1), ("w", 2)}
    assert three.seen("w") == ["uid-2", "uid-5", "uid-6"]


def test_scaled_up_before_it_was_shown_a_mark_stays_a_mark(three: Roles) -> None:
    three.ask(w=1)
    assert three.ask(w=3) == set()
    assert three.seen("w") == ["uid-2", "uid-3-", "uid-4-"]


def test_scaled_up_beyond_what_was_there(three: Roles) -> None:
    three.ask(w=1)
    assert three.ask(w=5) == {("w", 3), ("w", 4)}
    assert three.seen("w") == ["uid-2", "uid-3-", "uid-4-", "uid-5", "uid-6"]


def test_scaled_up_halfway_the_rest_goes(three: Roles) -> None:
    three.ask(w=0)
    three.ask(w=2)
    three.end("w", 0, 1, 2)
    assert three.ask(w=2) == {("w", 0), ("w", 1), ("w", -1)}
    assert three.seen("w") == ["uid-5", "uid-6"]


def test_a_replacement_that_is_not_wanted_any_more_goes_like_any_task(three: Roles) -> None:
    three.ask(w=1)
    three.end("w", 1, 2)
    three.ask(w=2)
    assert three.ask(w=1) == {("w", 1)}
    assert three.seen("w") == ["uid-2", "uid-5-"]


def test_a_role_goes_when_all_its_tasks_have_gone(three: Roles) -> None:
    three.ask(w=3, ps=1)
    assert three.ask(ps=1) == {("w", 0), ("w", 1), ("w", 2)}
    three.end("w", 2)
    assert three.ask(ps=1) == {("w", -1)}
    assert "w" in three.ledgers
    three.end("w", 0, 1)
    three.ask(ps=1)
    assert set(three.ledgers) == {"ps"}


def test_a_role_that_is_gone_comes_back_as_another(three: Roles) -> None:
    three.ask()
    three.end("w", 0, 1, 2)
    three.ask()
    assert three.ledgers == {}
    three.ask(w=1)
    assert three.ledgers["w"].instance_uid != "uid-1"
    assert three.seen("w") == ["uid-6"]


def test_a_role_that_is_wanted_again_while_it_goes_replaces_its_tasks(three: Roles) -> None:
    three.ask()
    three.show()
    assert three.ask(w=2) == set()
    three.end("w", 0, 1, 2)
    three.ask(w=2)
    assert three.seen("w") == ["uid-5", "uid-6"]


def test_a_deleted_role_keeps_the_timeout_that_it_had(three: Roles) -> None:
    roles = Roles()
    roles.ask(timeout=30, w=1)
    roles.ask()
    assert roles.ledgers["w"].graceful_timeout_sec == 30


def test_no_roles_at_all_are_no_error() -> None:
    roles = Roles()
    assert roles.ask() == set()
    roles.ledgers.clear()
    assert (
        list(rescale("fw", replace(spec(), task_roles=None), {}, now=at(0), new_uid=str, revision=1, persisted=0)) == []
    )


wishes = st.dictionaries(st.sampled_from("ab"), st.integers(0, 4))
moves = st.one_of(
    wishes.map(lambda wish: ("ask", wish)),
    st.just(("show", None)),
    st.tuples(st.sampled_from("ab"), st.integers(0, 3)).map(lambda slot: ("end", slot)),
    st.tuples(st.sampled_from("ab"), st.integers(0, 3)).map(lambda slot: ("run", slot)),
)


@given(st.lists(moves, max_size=30), wishes)
def test_any_order_of_wishes_ends_with_what_is_wanted_and_loses_no_running_task(
    order: list[tuple[str, object]], last: dict[str, int]
) -> None:
    roles = Roles()
    wish: dict[str, int] = {}

    def ask() -> None:
        before = {(name, one.index): one for name, ledger in roles.ledgers.items() for one in ledger.tasks}
        known = {name: list(ledger.revisions) for name, ledger in roles.ledgers.items()}
        roles.ask(**wish)
        after = {(name, one.index): one for name, ledger in roles.ledgers.items() for one in ledger.tasks}
        for slot, old in before.items():
            new = after.get(slot)
            if new is None or new.instance_uid != old.instance_uid:
                assert old.deletion_pending
                assert old.state is State.COMPLETED
                assert known[slot[0]][slot[1]] <= roles.shown
            else:
                assert new.state is old.state
                assert new.deletion_pending >= old.deletion_pending
        for name, ledger in roles.ledgers.items():
            assert [one.index for one in ledger.tasks] == list(range(len(ledger.tasks)))
            assert len(ledger.tasks) >= wish.get(name, 0)
            assert all(one.deletion_pending for one in ledger.tasks[wish.get(name, 0) :])

    for kind, what in order:
        match kind, what:
            case "ask", dict():
                wish = what
                ask()
            case "show", _:
                roles.show()
            case "end" | "run", (str(name), int(index)):
                ledger = roles.ledgers.get(name)
                if ledger and index < len(ledger.tasks) and ledger.tasks[index].state is State.CREATION_PENDING:
                    getattr(roles, kind)(name, index)
    wish = last
    ask()
    for name, ledger in roles.ledgers.items():
        roles.end(name, *sorted(ledger.going))
    ask()
    assert {name: len(ledger.tasks) for name, ledger in roles.ledgers.items()} == wish
    assert not any(ledger.going for ledger in roles.ledgers.values())
