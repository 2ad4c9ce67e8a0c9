"""What is decided, what of it is persisted, and which Tasks are dirty when."""

from __future__ import annotations

import gzip
import itertools
import tracemalloc
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import ContainerEnd, PodEnd, TaskRoleStatus, roles_of
from frameworkcontroller.core.machines.attempt import complete, move
from frameworkcontroller.core.machines.task import conclude
from frameworkcontroller.core.pods.facts import SpecFacts
from frameworkcontroller.core.policies import classification
from frameworkcontroller.core.status.reports import Transition
from frameworkcontroller.core.status.revisions import Mark
from frameworkcontroller.core.status.state import MAX_TEXTS, SHORT_TEXT, FrameworkState, Urgency
from frameworkcontroller.core.status.summary import summarize
from tests.controller.core.values import at, ended, events_in, framework, framework_end, role, spec, task

if TYPE_CHECKING:
    from frameworkcontroller.api.spec import FrameworkSpec
    from frameworkcontroller.api.status import FrameworkStatus, TaskStatus

W0, W1, W2 = ("w", 0), ("w", 1), ("w", 2)


class Scaled(FrameworkState):
    """A state that makes its own UIDs."""

    def __init__(self, *, number: int = 0, stored: FrameworkStatus | None = None) -> None:
        super().__init__("fw")
        self._uids = (f"uid-{number}" for number in itertools.count(1))
        if stored is None:
            self.set(framework(State.PREPARING))
            self.ask(w=number)
            self.persist_all()
        else:
            self.turns = len(list(self.load(stored)))

    def ask(self, **numbers: int) -> FrameworkSpec:
        wanted = spec(*(role(name, number) for name, number in numbers.items()))
        list(self.rescale(wanted, at(0), lambda: next(self._uids)))
        return wanted

    def persist_all(self) -> None:
        self.mark_persisted(self.revisions.now)
        self.dirty.take_dirty(at(0))


@pytest.fixture
def state() -> Scaled:
    """Three Tasks, all persisted and clean."""
    return Scaled(number=3)


def test_a_change_of_a_task_is_persisted_by_its_write(state: Scaled) -> None:
    before = state.revisions.now
    state.put(W1, task(State.RUNNING, index=1))
    assert state.revisions.now == before + 1
    assert [state.is_persisted(task_key) for task_key in (W0, W1, W2)] == [True, False, True]
    state.mark_persisted(before)
    assert not state.is_persisted(W1)
    assert state.dirty.take_dirty(at(0)) == []
    state.mark_persisted(before + 1)
    assert state.is_persisted(W1)
    assert state.dirty.take_dirty(at(0)) == [W1]
    assert state.dirty.take_dirty(at(0)) == []


def test_the_framework_is_persisted_apart_from_its_tasks_and_its_attempt_apart_from_that_it_runs(state: Scaled) -> None:
    def persisted() -> tuple[bool, bool]:
        return state.revisions.is_persisted(Mark.FRAMEWORK), state.revisions.is_persisted(Mark.ATTEMPT)

    state.put(W0, task(State.RUNNING))
    assert persisted() == (True, True)
    state.set(move(state.status, State.RUNNING, at(1)))
    assert persisted() == (False, True), "no Pod waits for that"
    state.set(replace(state.status, attempt_status=replace(state.status.attempt_status, gang_epoch=2)))
    assert persisted() == (False, False)
    state.mark_persisted(state.revisions.now)
    assert persisted() == (True, True)


def test_a_rescale_that_changes_something_belongs_to_the_framework_and_to_its_tasks(state: Scaled) -> None:
    before = state.revisions.now
    state.ask(w=3)
    assert state.revisions.now == before
    state.ask(w=2)
    assert not state.revisions.is_persisted(Mark.FRAMEWORK)
    assert [state.is_persisted(task_key) for task_key in (W0, W1, W2)] == [True, True, False]
    assert state.dirty.take_dirty(at(0)) == [W2]
    state.mark_persisted(state.revisions.now)
    assert state.dirty.take_dirty(at(0)) == [W2]


def test_a_changed_timeout_is_used_only_when_it_is_persisted(state: Scaled) -> None:
    asked = SpecFacts(graceful_timeouts={"w": 30, "not there": 30})
    state.take_over(asked)
    assert state.roles["w"].graceful_timeout_sec == 30
    assert not any(state.is_persisted(task_key) for task_key in state.task_keys())
    state.mark_persisted(state.revisions.now)
    assert sorted(state.dirty.take_dirty(at(0))) == [W0, W1, W2]
    before = state.revisions.now
    state.take_over(asked)
    assert state.revisions.now == before


def test_a_task_is_looked_at_when_its_time_has_come(state: Scaled) -> None:
    state.dirty.touch_at(W1, at(20))
    state.dirty.touch_at(W0, at(10))
    state.dirty.touch_at(W1, at(10))
    assert state.dirty.next_alarm == at(10)
    assert state.dirty.take_dirty(at(9.9)) == []
    assert sorted(state.dirty.take_dirty(at(10))) == [W0, W1]
    assert state.dirty.next_alarm is None, "who was looked at asks again"


def test_a_far_alarm_that_is_asked_for_again_and_again_is_kept_once(state: Scaled) -> None:
    """9,999 Tasks whose Pods may take 68 years to end, and an edit of their Framework each second, had no bound."""
    for second in range(1000):
        state.dirty.touch_at(W0, at(10**9))
        state.dirty.touch_at(W1, at(second + 1))
        assert state.dirty.take_dirty(at(second + 1)) == [W1]
        state.dirty.touch_at(W1, at(10**9))
    assert len(state.dirty._alarms) < 100
    assert sorted(state.dirty.take_dirty(at(10**9))) == [W0, W1]
    assert state.dirty.next_alarm is None


def test_a_task_that_was_removed_is_none(state: Scaled) -> None:
    assert state.task(W0) is not None
    assert [state.task(task_key) for task_key in (("w", 3), ("w", -1), ("x", 0))] == [None] * 3


def test_a_new_attempt_drops_every_task(state: Scaled) -> None:
    state.put(W0, task(State.RUNNING))
    state.dirty.touch(W1)
    state.dirty.touch_at(W2, at(0))
    state.discard_tasks()
    state.mark_persisted(state.revisions.now)
    assert state.dirty.take_dirty(at(9)) == []
    assert list(state.task_keys()) == []


def test_transitions_are_taken_once_with_their_reason(state: Scaled) -> None:
    state.reports.take(0)
    state.put(W0, conclude(task(index=0), at(1)))
    state.set(move(state.status, State.RUNNING, at(1)))
    found = [one for one in state.reports.take(0) if isinstance(one, Transition)]
    assert [(one.subject, one.before, one.after, one.reason) for one in found] == [
        ("fw-worker-0", State.CREATION_PENDING, State.COMPLETED, "FrameworkAttemptCompletion"),
        ("fw", State.PREPARING, State.RUNNING, ""),
    ]
    assert state.reports.take(0) == []


def test_events_speak_only_of_what_is_persisted(state: Scaled) -> None:
    state.put(W0, task(State.ATTEMPT_COMPLETED, ended(5)))
    state.persist_all()
    state.reports.take(state.revisions.persisted)
    state.ask(w=1)
    sent = state.revisions.now
    state.put(W0, task(State.COMPLETED, ended(5)))
    assert events_in(state.reports.take(state.revisions.persisted)) == []
    state.mark_persisted(sent)
    assert [one.reason for one in events_in(state.reports.take(state.revisions.persisted))] == ["Rescaled"]
    state.mark_persisted(state.revisions.now)
    assert [one.reason for one in events_in(state.reports.take(state.revisions.persisted))] == ["TaskFailed"]
    assert events_in(state.reports.take(state.revisions.persisted)) == []


@pytest.mark.parametrize("task_state", list(State))
def test_an_end_is_urgent_in_the_states_that_wait_for_a_write_unless_it_is_the_last_of_its_task(
    state: Scaled, task_state: State
) -> None:
    def urgency(one: TaskStatus) -> Urgency:
        state.urgency = Urgency.REPORT
        state.put(W0, one)
        return state.urgency

    waits = task_state in {State.CREATION_PENDING, State.DELETION_PENDING, State.ATTEMPT_COMPLETED}
    last = Urgency.ENDING if waits else Urgency.REPORT
    assert urgency(task(task_state, ended(1))) is (Urgency.URGENT if waits else Urgency.REPORT)
    assert urgency(task(task_state, ended(0))) is last
    assert urgency(task(task_state, ended(1), deletion_pending=True)) is last
    state.set(complete(state.status, framework_end(0)))
    assert urgency(task(task_state, ended(1))) is last


def test_a_change_stays_urgent_until_it_is_written(state: Scaled) -> None:
    state.urgency = Urgency.REPORT
    state.put(W0, task(State.ATTEMPT_COMPLETED, ended(1)))
    state.put(W1, task(State.ATTEMPT_COMPLETED, ended(0), index=1))
    state.put(W1, task(State.RUNNING, index=1))
    assert state.urgency is Urgency.URGENT


def test_the_framework_and_a_rescale_are_urgent_but_not_that_it_runs(state: Scaled) -> None:
    found = []
    for change in (
        lambda: state.ask(w=2),
        lambda: state.set(move(state.status, State.RUNNING, at(1))),
        lambda: state.set(complete(state.status, framework_end(0))),
    ):
        state.urgency = Urgency.REPORT
        change()
        found.append(state.urgency)
    assert found == [Urgency.URGENT, Urgency.REPORT, Urgency.URGENT]


@pytest.mark.parametrize("task_state", list(State))
def test_a_task_has_a_pod_until_that_is_gone_and_brings_more_while_the_pod_does(
    state: Scaled, task_state: State
) -> None:
    state.put(W0, task(task_state, ended(0)))
    assert state.has_pods == (task_state not in {State.CREATION_PENDING, State.ATTEMPT_COMPLETED, State.COMPLETED})
    assert state.brings_more == (state.has_pods and task_state is not State.DELETION_PENDING)


def test_each_rescale_has_an_event_but_not_the_first_scale(state: Scaled) -> None:
    assert events_in(state.reports.take(state.revisions.persisted)) == []
    state.ask(w=5, x=1)
    state.ask(x=1)
    state.set(move(state.status, State.RUNNING, at(1)))
    state.mark_persisted(state.revisions.now)
    assert [one.message for one in events_in(state.reports.take(state.revisions.persisted))] == [
        "TaskRole w: from 3 to 5 Tasks",
        "TaskRole x: from 0 to 1 Tasks",
        "TaskRole w: from 5 to 0 Tasks",
        "Attempt 0: the first Task runs",
    ]


# --- the summary -----------------------------------------------------------------------------------------------------


def test_a_summary_counts_the_tasks_that_the_spec_asks_for(state: Scaled) -> None:
    wanted = state.ask(w=3, x=1)
    state.put(W0, task(State.RUNNING, ip="10.0.0.1"))
    persisted = summarize(state, wanted)
    assert (persisted.order, persisted.ready, persisted.total, persisted.complete) == (("w", "x"), 1, 4, False)
    assert not summarize(Scaled(number=0), spec(role("w", 0))).complete, "nothing at all is never complete"


def test_only_what_peers_need_to_know_is_a_change_of_membership(state: Scaled) -> None:
    was = task(State.PREPARING, ip="10.0.0.1")
    state.put(W0, was)
    before = state.revisions.now
    state.put(W0, replace(was, state=State.RUNNING, retry_policy_status=replace(was.retry_policy_status)))
    assert state.revisions.of(Mark.MEMBERS) == before
    for changed in (
        replace(was, attempt_status=replace(was.attempt_status, pod_ip="10.0.0.2")),
        replace(was, attempt_status=replace(was.attempt_status, pod_uid="another")),
        replace(was, attempt_status=replace(was.attempt_status, id=1)),
        replace(was, instance_uid="another"),
        replace(was, deletion_pending=True),
    ):
        state.put(W0, was)
        before = state.revisions.now
        state.put(W0, changed)
        assert state.revisions.of(Mark.MEMBERS) == before + 1


def test_a_role_that_is_deleted_changes_the_membership_though_no_other_does(state: Scaled) -> None:
    state.ask(w=3, x=1)
    before = summarize(state, spec(role("w", 3), role("x", 1))).member_revision
    wanted = state.ask(w=3)
    marked = summarize(state, wanted)
    assert marked.member_revision > before
    state.put(("x", 0), conclude(state.roles["x"].tasks[0], at(1)))
    state.persist_all()
    state.ask(w=3)
    assert "x" not in state.roles
    assert summarize(state, wanted).member_revision > before


# --- stored statuses -------------------------------------------------------------------------------------------------

ROLES = (
    TaskRoleStatus("w", "w-uid", 30, (task(State.RUNNING), task(State.COMPLETED, ended(0), index=1))),
    TaskRoleStatus("x", "x-uid"),
)


def packed(roles: tuple[TaskRoleStatus, ...] = ROLES) -> str:
    return b64encode(gzip.compress(msgspec.json.encode(roles))).decode()


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


def test_a_stored_status_is_persisted_and_all_its_tasks_are_dirty() -> None:
    status = framework(State.RUNNING)
    attempt = replace(status.attempt_status, task_role_statuses_compressed=packed())
    state = Scaled(stored=replace(status, attempt_status=attempt))
    assert state.revisions.is_persisted(Mark.FRAMEWORK)
    assert state.status == status
    assert state.dirty.take_dirty(at(0)) == [W0, W1]
    assert all(state.is_persisted(task_key) for task_key in state.task_keys())
    assert state.roles["w"].graceful_timeout_sec == 30


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
def test_every_change_is_dirty_again_once_it_is_persisted(moves: list[tuple[str, int]]) -> None:
    """A change is not persisted before its write, and its Task is dirty again after it."""
    state = Scaled(number=3)
    persisted = {one.instance_uid: one for one in state.roles["w"].tasks}
    sent: tuple[int, dict[str, TaskStatus]] | None = None
    for kind, number in moves:
        if kind == "put" and state.task(("w", number)) is not None:
            current = state.roles["w"].tasks[number]
            state.put(("w", number), replace(current, start_time=at(state.revisions.now + 1)))
        elif kind == "ask":
            state.ask(w=number)
        elif kind == "send":
            sent = (state.revisions.now, {one.instance_uid: one for one in state.roles["w"].tasks})
        elif kind == "answer" and sent is not None:
            before = {task_key: state.is_persisted(task_key) for task_key in state.task_keys()}
            state.dirty.take_dirty(at(0))
            state.mark_persisted(sent[0])
            persisted, sent = sent[1], None
            newly = {
                task_key for task_key in state.task_keys() if state.is_persisted(task_key) and not before[task_key]
            }
            assert newly <= set(state.dirty.take_dirty(at(0)))
        for task_key in state.task_keys():
            current = state.roles["w"].tasks[task_key[1]]
            if state.is_persisted(task_key):
                assert persisted.get(current.instance_uid) == current


def test_what_containers_say_of_their_ends_is_bounded_for_all_tasks_together() -> None:
    """2,000 Tasks whose three containers leave 4 KiB of control characters each were 774 MiB in a controller."""
    state, number = FrameworkState("fw"), 2000
    state.set(framework(State.RUNNING))
    list(state.rescale(spec(role("worker", number)), at(0), lambda: "uid"))
    says = PodEnd(containers=tuple(ContainerEnd(name=name, message="\x01" * 4096, code=1) for name in "abc"))
    tracemalloc.start()
    try:
        for index in range(number):
            end = replace(ended(1), diagnostics="Pod failed: " + "\\u0001" * 12_288, pod=says)
            state.put(("worker", index), task(State.DELETION_PENDING, end, index=index))
        assert tracemalloc.get_traced_memory()[0] < 12 * 1024 * 1024
    finally:
        tracemalloc.stop()
    first, last = (state.roles["worker"].tasks[index].completion for index in (0, -1))
    assert (first, len(last.diagnostics)) == (end, SHORT_TEXT)
    assert len(msgspec.json.encode(summarize(state, spec(role("worker", number))).roles)) < 8 * 1024 * 1024


@pytest.mark.parametrize("back", [1, 2])
def test_what_was_said_of_tasks_that_are_scaled_down_does_not_count_any_more(state: Scaled, back: int) -> None:
    """490 of them in turn, of a Framework of two Tasks, and the ends of all later ones were cut."""
    for _ in range(3):
        failed = state.task(W2)
        assert failed is not None
        state.put(W2, conclude(complete(failed, replace(ended(1), diagnostics="no memory" * 100)), at(1)))
        state.persist_all()
        state.ask(w=back)  # it is marked, and replaced or removed once that is persisted
        state.persist_all()
        state.ask(w=3)
        state.persist_all()
        said = sum(classification.text_length(task.completion) for task in state.roles["w"].tasks)
        assert state.text_bytes == said < 100


def test_a_text_with_an_emoji_counts_as_wide_as_it_is() -> None:
    """One in a message of 4 KiB makes each of its characters four bytes, and UTF-8 a fifth."""
    narrow, wide = (
        classification.text_length(replace(ended(1), diagnostics="x" * 1000 + more)) for more in ("", "\U0001f600")
    )
    assert wide - narrow > 4000 - 10


@pytest.mark.parametrize(
    "texts",
    [{"reason": "x" * 10_000}, {"message": "x" * 10_000}]
    + [
        {"containers": (ContainerEnd(**{"name": "c", "code": 1, text: "x" * 10_000}),)}
        for text in ("name", "reason", "message")
    ],
)
def test_each_text_about_the_end_of_a_pod_counts_and_is_shortened(texts: dict[str, Any]) -> None:
    long = replace(ended(1), pod=PodEnd(**texts))
    assert classification.text_length(long) > 10_000
    short = classification.shortened(long, SHORT_TEXT)
    assert SHORT_TEXT < classification.text_length(short) < 2 * SHORT_TEXT


def test_what_was_noted_of_a_pod_is_forgotten_with_its_attempt() -> None:
    state = Scaled(number=1)
    first = task(State.RUNNING)
    state.put(W0, first)
    uid = first.attempt_status.pod_uid
    assert uid is not None
    state.sightings.gone, state.sightings.not_retained = {uid, "other"}, {uid}
    state.put(W0, replace(first, attempt_status=replace(first.attempt_status, id=1, pod_uid=None)))
    assert (state.sightings.gone, state.sightings.not_retained) == ({"other"}, set())


def test_what_is_stored_of_many_ends_is_read_in_turns_and_bounded_too() -> None:
    """Four stored statuses of others were 609 MiB, and each of them a turn of 0.8 s."""
    number = 1500
    end = replace(ended(1), pod=PodEnd(containers=(ContainerEnd(name="a", message="x" * 4096, code=1),)))
    several = [task(State.COMPLETED, end, index=index) for index in range(number)]
    status = framework(State.RUNNING)
    roles = (TaskRoleStatus("w", "uid", task_statuses=tuple(several)),)
    attempt = replace(status.attempt_status, task_role_statuses_compressed=packed(roles))
    state = Scaled(stored=replace(status, attempt_status=attempt))
    assert state.turns == number + 1
    assert 0.9 * MAX_TEXTS < state.text_bytes < 1.2 * MAX_TEXTS


def test_of_many_containers_few_stay_failed_ones_first_and_share_what_stays_of_their_texts() -> None:
    ends = (ContainerEnd(name=f"c{place}", message="no memory " * 26, code=place % 2) for place in range(48))
    many = PodEnd(containers=tuple(ends))
    end = classification.shortened(replace(ended(1), pod=many), SHORT_TEXT)
    assert [(one.name, len(one.message)) for one in end.pod.containers] == [(f"c{place}", 64) for place in (1, 3, 5, 7)]
