"""What is held true, what is shown of it, and what is looked at again when."""

from __future__ import annotations

import gzip
import itertools
from base64 import b64encode
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.states import State
from frameworkcontroller.api.types import TaskRoleStatus
from frameworkcontroller.core import framework as frameworks
from frameworkcontroller.core.book import Book, roles_of
from frameworkcontroller.core.task import complete, conclude

from .values import at, ended, framework, role, spec, task

if TYPE_CHECKING:
    from frameworkcontroller.api.types import FrameworkSpec, FrameworkStatus, TaskStatus

W0, W1, W2 = ("w", 0), ("w", 1), ("w", 2)


class Scaled(Book):
    """A book that makes its own UIDs."""

    def __init__(self, *, number: int = 0, stored: FrameworkStatus | None = None) -> None:
        super().__init__("fw")
        self._uids = (f"uid-{number}" for number in itertools.count(1))
        if stored is None:
            self.set(framework(State.PREPARING))
            self.ask(w=number)
            self.show_all()
        else:
            self.load(stored)

    def ask(self, **numbers: int) -> FrameworkSpec:
        wanted = spec(*(role(name, number) for name, number in numbers.items()))
        self.rescale(wanted, at(0), lambda: next(self._uids))
        return wanted

    def show_all(self) -> None:
        self.acknowledge(self.revision)
        self.take_dirty(at(0))


@pytest.fixture
def book() -> Scaled:
    """Three Tasks, all shown and clean."""
    return Scaled(number=3)


def test_a_change_of_a_task_is_shown_when_its_write_is_acknowledged(book: Scaled) -> None:
    before = book.revision
    book.put(W1, task(State.RUNNING, index=1))
    assert book.revision == before + 1
    assert [book.is_shown(slot) for slot in (W0, W1, W2)] == [True, False, True]
    book.acknowledge(before)
    assert not book.is_shown(W1)
    assert book.take_dirty(at(0)) == []
    book.acknowledge(before + 1)
    assert book.is_shown(W1)
    assert book.take_dirty(at(0)) == [W1]
    assert book.take_dirty(at(0)) == []


def test_a_write_shows_nothing_of_what_came_after_it(book: Scaled) -> None:
    book.put(W0, task(State.RUNNING))
    sent = book.revision
    book.put(W0, complete(task(State.RUNNING), ended(1)))
    book.acknowledge(sent)
    assert not book.is_shown(W0)
    assert book.take_dirty(at(0)) == []
    book.acknowledge(book.revision)
    assert book.take_dirty(at(0)) == [W0]


def test_the_framework_is_shown_apart_from_its_tasks(book: Scaled) -> None:
    book.put(W0, task(State.RUNNING))
    assert book.shown
    book.set(frameworks.move(book.known, State.RUNNING, at(1)))
    shown = [book.shown]
    book.acknowledge(book.revision)
    shown.append(book.shown)
    assert shown == [False, True]


def test_a_rescale_belongs_to_the_framework_and_to_its_tasks(book: Scaled) -> None:
    book.ask(w=2)
    assert not book.shown
    assert [book.is_shown(slot) for slot in (W0, W1, W2)] == [True, True, False]
    assert book.take_dirty(at(0)) == [W2]
    book.acknowledge(book.revision)
    assert book.take_dirty(at(0)) == [W2]


def test_a_rescale_that_changes_nothing_is_no_change(book: Scaled) -> None:
    before = book.revision
    book.ask(w=3)
    assert book.revision == before


def test_a_changed_timeout_is_used_only_when_it_is_shown(book: Scaled) -> None:
    book.set_graceful_timeout("w", 30)
    assert book.roles["w"].graceful_timeout_sec == 30
    assert not any(book.is_shown(slot) for slot in book.slots())
    book.acknowledge(book.revision)
    assert sorted(book.take_dirty(at(0))) == [W0, W1, W2]
    before = book.revision
    book.set_graceful_timeout("w", 30)
    book.set_graceful_timeout("not there", 30)
    assert book.revision == before


def test_a_task_is_looked_at_when_its_time_has_come(book: Scaled) -> None:
    book.touch_at(W1, at(20))
    book.touch_at(W0, at(10))
    book.touch_at(W1, at(10))
    assert book.next_alarm == at(10)
    assert book.take_dirty(at(9.9)) == []
    assert sorted(book.take_dirty(at(10))) == [W0, W1]
    assert book.next_alarm == at(20)
    assert book.take_dirty(at(30)) == [W1]
    assert book.next_alarm is None


def test_a_task_can_wait_for_what_is_not_its_own(book: Scaled) -> None:
    book.set(frameworks.move(book.known, State.RUNNING, at(1)))
    book.touch_when_shown(W2)
    book.acknowledge(book.revision)
    assert book.take_dirty(at(0)) == [W2]


def test_a_task_that_was_removed_is_none(book: Scaled) -> None:
    assert book.task(W0) is not None
    assert [book.task(slot) for slot in (("w", 3), ("w", -1), ("x", 0))] == [None] * 3


def test_the_tasks_hear_of_the_end_once_and_of_its_being_over_once(book: Scaled) -> None:
    heard = [book.tell_tasks_once(over=over) for over in (False, False, True, True)]
    assert heard == [True, False, True, False]


def test_a_new_attempt_forgets_every_task_and_tells_them_anew(book: Scaled) -> None:
    book.put(W0, task(State.RUNNING))
    book.touch(W1)
    book.touch_at(W2, at(0))
    book.tell_tasks_once(over=True)
    book.renew()
    book.acknowledge(book.revision)
    assert book.take_dirty(at(9)) == []
    assert list(book.slots()) == []
    assert book.tell_tasks_once(over=True)


def test_transitions_are_told_once_with_their_reason(book: Scaled) -> None:
    book.take_transitions()
    book.put(W0, conclude(task(index=0), at(1)))
    book.set(frameworks.move(book.known, State.RUNNING, at(1)))
    assert [(one.subject, one.before, one.after, one.reason) for one in book.take_transitions()] == [
        ("fw-worker-0", State.CREATION_PENDING, State.COMPLETED, "FrameworkAttemptCompletion"),
        ("fw", State.PREPARING, State.RUNNING, ""),
    ]
    assert book.take_transitions() == []


def test_people_hear_only_of_what_is_shown(book: Scaled) -> None:
    book.put(W0, task(State.ATTEMPT_COMPLETED, ended(5)))
    book.show_all()
    book.take_announcements()
    book.ask(w=1)
    sent = book.revision
    book.put(W0, task(State.COMPLETED, ended(5)))
    assert book.take_announcements() == []
    book.acknowledge(sent)
    assert [one.reason for one in book.take_announcements()] == ["Rescaled"]
    book.acknowledge(book.revision)
    assert [one.reason for one in book.take_announcements()] == ["TaskFailed"]
    assert book.take_announcements() == []


@pytest.mark.parametrize("state", list(State))
def test_a_task_presses_in_the_states_that_wait_to_be_shown(book: Scaled, state: State) -> None:
    book.pressing = False
    book.put(W0, task(state, ended(0)))
    presses = book.pressing
    assert presses == (state in {State.CREATION_PENDING, State.DELETION_PENDING, State.ATTEMPT_COMPLETED})


def test_whatever_has_pressed_presses_on(book: Scaled) -> None:
    book.pressing = False
    book.put(W0, task(State.ATTEMPT_COMPLETED, ended(0)))
    book.put(W1, task(State.RUNNING, index=1))
    assert book.pressing


def test_the_framework_and_a_rescale_press(book: Scaled) -> None:
    pressed = []
    for change in (lambda: book.set(frameworks.move(book.known, State.RUNNING, at(1))), lambda: book.ask(w=2)):
        book.pressing = False
        change()
        pressed.append(book.pressing)
    assert pressed == [True, True]


def test_people_hear_of_each_rescale_but_not_of_the_first_scale(book: Scaled) -> None:
    assert book.take_announcements() == []
    book.ask(w=5, x=1)
    book.ask(x=1)
    book.set(frameworks.move(book.known, State.RUNNING, at(1)))
    book.acknowledge(book.revision)
    assert [one.message for one in book.take_announcements()] == [
        "TaskRole w: from 3 to 5 Tasks",
        "TaskRole x: from 0 to 1 Tasks",
        "TaskRole w: from 5 to 0 Tasks",
        "Attempt 0: the first Task runs",
    ]


def test_pods_are_those_that_are_recorded_and_not_seen_to_be_gone(book: Scaled) -> None:
    found = [book.has_pods]
    for state in (State.CREATION_REQUESTED, State.DELETING, State.ATTEMPT_COMPLETED, State.COMPLETED):
        book.put(W0, task(state, ended(0)))
        found.append(book.has_pods)
    assert found == [False, True, True, False, False]


# --- what is shown to peers ------------------------------------------------------------------------------------------


def test_what_is_shown_counts_the_tasks_that_the_spec_asks_for(book: Scaled) -> None:
    wanted = book.ask(w=3, x=1)
    book.put(W0, task(State.RUNNING, ip="10.0.0.1"))
    shown = book.show(wanted)
    assert (shown.order, shown.ready, shown.total, shown.complete) == (("w", "x"), 1, 4, False)


def test_a_role_that_is_deleted_changes_the_membership_though_no_other_does(book: Scaled) -> None:
    book.ask(w=3, x=1)
    before = book.show(spec(role("w", 3), role("x", 1))).member_revision
    wanted = book.ask(w=3)
    marked = book.show(wanted)
    assert marked.member_revision > before
    book.put(("x", 0), conclude(book.roles["x"].tasks[0], at(1)))
    book.show_all()
    book.ask(w=3)
    assert "x" not in book.roles
    assert book.show(wanted).member_revision > before


def test_nothing_at_all_is_never_complete() -> None:
    assert not Scaled(number=0).show(spec(role("w", 0))).complete


# --- stored statuses -------------------------------------------------------------------------------------------------

ROLES = (
    TaskRoleStatus("w", "w-uid", 30, (task(State.RUNNING), task(State.COMPLETED, ended(0), index=1))),
    TaskRoleStatus("x", "x-uid"),
)


def packed() -> str:
    return b64encode(gzip.compress(msgspec.json.encode(ROLES))).decode()


@pytest.mark.parametrize(
    ("plain", "compressed", "expected"),
    [
        (ROLES, msgspec.UNSET, ROLES),
        (None, packed(), ROLES),
        (ROLES, "", ROLES),
        ((), packed(), ()),
        (None, "", ()),
        (None, msgspec.UNSET, ()),
    ],
    ids=["plain", "compressed", "plain and empty", "the plain one outranks", "null and empty", "neither"],
)
def test_roles_are_read_from_whichever_field_holds_them(
    plain: tuple[TaskRoleStatus, ...] | None,
    compressed: str | msgspec.UnsetType,
    expected: tuple[TaskRoleStatus, ...],
) -> None:
    status = framework(State.RUNNING)
    attempt = replace(status.attempt_status, task_role_statuses=plain, task_role_statuses_compressed=compressed)
    assert roles_of(replace(status, attempt_status=attempt)) == expected


def test_a_stored_status_is_all_shown_and_all_to_be_looked_at() -> None:
    status = framework(State.RUNNING)
    attempt = replace(status.attempt_status, task_role_statuses_compressed=packed())
    book = Scaled(stored=replace(status, attempt_status=attempt))
    assert book.shown
    assert book.known == status
    assert book.take_dirty(at(0)) == [W0, W1]
    assert all(book.is_shown(slot) for slot in book.slots())
    assert book.roles["w"].graceful_timeout_sec == 30


# --- any order -------------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 3)),
            st.tuples(st.just("send"), st.just(0)),
            st.tuples(st.just("answer"), st.just(0)),
            st.tuples(st.just("ask"), st.integers(0, 4)),
        ),
        max_size=40,
    )
)
def test_nothing_is_forgotten_until_it_is_shown(moves: list[tuple[str, int]]) -> None:
    """Whatever changed since the last acknowledged write is unshown, and looked at again once it is shown."""
    book = Scaled(number=3)
    shown = {one.instance_uid: one for one in book.roles["w"].tasks}
    sent: tuple[int, dict[str, TaskStatus]] | None = None
    for kind, number in moves:
        if kind == "put" and book.task(("w", number)) is not None:
            current = book.roles["w"].tasks[number]
            book.put(("w", number), replace(current, start_time=at(book.revision + 1)))
        elif kind == "ask":
            book.ask(w=number)
        elif kind == "send":
            sent = (book.revision, {one.instance_uid: one for one in book.roles["w"].tasks})
        elif kind == "answer" and sent is not None:
            before = {slot: book.is_shown(slot) for slot in book.slots()}
            book.take_dirty(at(0))
            book.acknowledge(sent[0])
            shown, sent = sent[1], None
            newly = {slot for slot in book.slots() if book.is_shown(slot) and not before[slot]}
            assert newly <= set(book.take_dirty(at(0)))
        for slot in book.slots():
            current = book.roles["w"].tasks[slot[1]]
            if book.is_shown(slot):
                assert shown.get(current.instance_uid) == current
