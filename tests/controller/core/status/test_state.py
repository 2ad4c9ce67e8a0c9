"""What is decided, what of it is persisted, and which Tasks are dirty when."""

import itertools
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import COMPLETING, ENDED, State
from frameworkcontroller.api.status import ContainerEnd, FrameworkStatus, PodEnd, TaskRoleStatus, TaskStatus
from frameworkcontroller.api.stored_roles import roles_of
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.machines.attempt import complete, move
from frameworkcontroller.core.machines.task import conclude
from frameworkcontroller.core.pods.facts import SpecFacts
from frameworkcontroller.core.policies import classification
from frameworkcontroller.core.policies.role import Counts, RoleState
from frameworkcontroller.core.policies.shares import MOST_IDLE, IdleTasks
from frameworkcontroller.core.status.reports import MOST_EVENTS, Transition
from frameworkcontroller.core.status.revisions import Mark
from frameworkcontroller.core.status.state import MAX_TEXTS, SHORT_TEXT, FrameworkState, Urgency
from frameworkcontroller.core.status.summary import summarize
from tests.controller.core.values import at, ended, events_in, framework, framework_end, known, packed, role, spec, task
from tests.support.memory import memory

W0, W1, W2 = ("w", 0), ("w", 1), ("w", 2)


class Scaled(FrameworkState):
    """A state that makes its own UIDs."""

    def __init__(self, number: int = 0, stored: FrameworkStatus | None = None, idle: IdleTasks | None = None) -> None:
        super().__init__("fw", idle)
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

    def said(self) -> list[str]:
        """The Events that are due."""
        return [f"{one.reason}: {one.message}" for one in events_in(self.reports.take(self.revisions.persisted))]


@pytest.fixture
def state() -> Scaled:
    """Three Tasks, all persisted and clean."""
    return Scaled(3)


def test_the_framework_is_persisted_apart_from_its_tasks_and_its_attempt_apart_from_that_it_runs(state: Scaled) -> None:
    def persisted() -> list[bool]:
        return [state.revisions.is_persisted(mark) for mark in (Mark.FRAMEWORK, Mark.ATTEMPT)]

    state.put(W0, task(State.RUNNING))
    assert persisted() == [True, True]
    state.set(move(state.status, State.RUNNING, at(1)))
    assert persisted() == [False, True], "no Pod waits for that"
    state.set(replace(state.status, attempt_status=replace(state.status.attempt_status, gang_epoch=2)))
    assert persisted() == [False, False]
    state.mark_persisted(state.revisions.now)
    assert persisted() == [True, True]


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
    assert [bool(state.task(task_key)) for task_key in (W0, ("w", 3), ("w", -1), ("x", 0))] == [True] + [False] * 3


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
    state.put(W0, task(State.ATTEMPT_COMPLETED, ended(1)))
    state.persist_all()
    state.ask(w=1)
    sent = state.revisions.now
    state.put(W0, task(State.COMPLETED, ended(1)))
    assert state.said() == []
    state.mark_persisted(sent)
    assert state.said() == ["Rescaled: TaskRole w: from 3 to 1 Tasks"]
    state.persist_all()
    assert state.said() == ["TaskFailed: w-0: Phrase1 (1): ended with 1"]
    assert state.said() == []


def test_each_rescale_has_an_event_but_not_the_first_scale(state: Scaled) -> None:
    assert state.said() == []
    state.ask(w=5, x=1)
    state.ask(x=1)
    assert state.urgency is Urgency.URGENT
    state.persist_all()
    assert state.said() == [
        "Rescaled: TaskRole w: from 3 to 5 Tasks",
        "Rescaled: TaskRole x: from 0 to 1 Tasks",
        "Rescaled: TaskRole w: from 5 to 0 Tasks",
    ]


def test_edits_bring_no_more_events_than_may_wait_for_a_write(state: Scaled) -> None:
    """A write may wait for minutes for its turn, and the Events of the edits until then took hundreds of MiB."""
    roles = {f"r{number}": 1 for number in range(MOST_EVENTS)}
    state.ask(w=3, **roles)
    state.persist_all()
    assert len(state.said()) == MOST_EVENTS
    state.ask(w=3)
    for number in range(10):
        # The Tasks that are to go keep their places until that is written, so each edit asks for all of them again.
        state.ask(w=3, **roles, **{f"new{number}": 0})
    assert state.said() == []
    state.reports.add(KubeEvent("FailedStatusWrite", "at once"))
    assert state.said() == ["FailedStatusWrite: at once"]
    state.persist_all()
    assert state.said() == [f"Rescaled: TaskRole {name}: from 1 to 0 Tasks" for name in roles]
    state.add_event(KubeEvent("News", "there is place again"))
    assert state.said() == ["News: there is place again"]


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


@pytest.mark.parametrize("task_state", list(State))
def test_a_task_has_a_pod_until_that_is_gone_and_brings_more_while_the_pod_does(
    state: Scaled, task_state: State
) -> None:
    state.put(W0, task(task_state, ended(0)))
    assert state.has_pods == (task_state not in {State.CREATION_PENDING, State.ATTEMPT_COMPLETED, State.COMPLETED})
    assert state.brings_more == (state.has_pods and task_state is not State.DELETION_PENDING)


def test_a_gang_without_tasks_is_never_complete() -> None:
    assert not summarize(Scaled(), spec(role("w", 0))).complete


def test_only_what_peers_need_to_know_is_a_change_of_membership(state: Scaled) -> None:
    was = task(State.PREPARING, ip="10.0.0.1")
    attempts = [replace(was.attempt_status, **one) for one in ({"pod_ip": "10.0.0.2"}, {"pod_uid": "x"}, {"id": 1})]
    others = [replace(was, attempt_status=attempt) for attempt in attempts]
    others += [replace(was, instance_uid="x"), replace(was, deletion_pending=True)]
    same = replace(was, state=State.RUNNING, retry_policy_status=replace(was.retry_policy_status))
    for after in (same, *others):
        state.put(W0, was)
        before = state.revisions.now
        state.put(W0, after)
        assert (state.revisions.of(Mark.MEMBERS) == before + 1) is (after is not same)


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


def stored(plain: tuple[TaskRoleStatus, ...] | None, compressed: str | UnsetType = UNSET) -> FrameworkStatus:
    status = framework(State.RUNNING)
    attempt = replace(status.attempt_status, task_role_statuses=plain, task_role_statuses_compressed=compressed)
    return replace(status, attempt_status=attempt)


STORED = {
    "plain": (stored(ROLES), ROLES),
    "compressed": (stored(None, packed(ROLES)), ROLES),
    "plain and empty": (stored(ROLES, ""), ROLES),
    "the plain one outranks": (stored((), packed(ROLES)), ()),
    "null and empty": (stored(None, ""), ()),
    "neither": (stored(None), ()),
}


@pytest.mark.parametrize(("status", "roles"), STORED.values(), ids=STORED)
def test_roles_are_read_from_whichever_field_holds_them(
    status: FrameworkStatus, roles: tuple[TaskRoleStatus, ...]
) -> None:
    assert roles_of(status) == roles


def test_a_stored_status_is_persisted_and_all_its_tasks_are_dirty() -> None:
    state = Scaled(stored=stored(None, packed(ROLES)))
    assert state.revisions.is_persisted(Mark.FRAMEWORK)
    assert state.status == framework(State.RUNNING)
    assert state.dirty.take_dirty(at(0)) == [W0, W1]
    assert all(state.is_persisted(task_key) for task_key in state.task_keys())
    assert state.roles["w"].graceful_timeout_sec == 30


# --- any order -------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(["put", "send", "answer", "ask"]), st.integers(0, 4)), max_size=40))
def test_every_change_is_dirty_again_once_it_is_persisted(moves: list[tuple[str, int]]) -> None:
    """A change is not persisted before its write, and its Task is dirty again after it."""
    state = Scaled(3)
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
            newly = {one for one in state.task_keys() if state.is_persisted(one) and not before[one]}
            assert {one for one in state.dirty.take_dirty(at(0)) if state.task(one)} == newly
        for task_key in state.task_keys():
            current = state.roles["w"].tasks[task_key[1]]
            assert state.is_persisted(task_key) == (persisted.get(current.instance_uid) == current)


def test_what_containers_say_of_their_ends_is_bounded_for_all_tasks_together() -> None:
    """2,000 Tasks whose three containers leave 4 KiB of control characters each were 774 MiB in a controller."""
    state, number = Scaled(2000), 2000
    says = PodEnd(containers=tuple(ContainerEnd(name=name, message="\x01" * 4096, code=1) for name in "abc"))
    with memory() as used:
        for index in range(number):
            end = replace(ended(1), diagnostics="Pod failed: " + "\\u0001" * 12_288, pod=says)
            state.put(("w", index), task(State.DELETION_PENDING, end, index=index))
        assert used() < 12 * 1024 * 1024
    first, last = (known(state.roles["w"].tasks[index].completion) for index in (0, -1))
    assert (first, len(last.diagnostics)) == (end, SHORT_TEXT)
    assert len(msgspec.json.encode(summarize(state, spec(role("w", number))).roles)) < 8 * 1024 * 1024


def test_what_is_said_of_ends_is_short_where_the_namespace_has_no_room() -> None:
    """225 Frameworks of 27 Tasks each, and one that went on, had a gibibyte."""
    idle = IdleTasks()
    idle.note("others", MOST_IDLE)
    state = Scaled(1, idle=idle)
    state.put(W0, task(State.DELETION_PENDING, replace(ended(1), diagnostics="x" * 4096)))
    assert len(known(state.roles["w"].tasks[0].completion).diagnostics) == SHORT_TEXT


@pytest.mark.parametrize("back", [1, 2])
def test_what_was_said_of_tasks_that_are_scaled_down_does_not_count_any_more(state: Scaled, back: int) -> None:
    """490 of them in turn, of a Framework of two Tasks, and the ends of all later ones were cut."""
    for _ in range(3):
        end = replace(ended(1), diagnostics="no memory" * 100)
        state.put(W2, conclude(complete(state.roles["w"].tasks[2], end), at(1)))
        for number in (back, 3):  # it is marked, and replaced or removed once that is persisted
            state.persist_all()
            state.ask(w=number)
        state.persist_all()
        said = sum(classification.text_length(task.completion) for task in state.roles["w"].tasks)
        assert state.text_bytes == said < 100


def test_a_text_with_an_emoji_counts_as_wide_as_it_is() -> None:
    """One in a message of 4 KiB makes each of its characters four bytes, and UTF-8 a fifth."""
    narrow, wide = (replace(ended(1), diagnostics="x" * 1000 + more) for more in ("", "\U0001f600"))
    assert classification.text_length(wide) - classification.text_length(narrow) > 4000 - 10


@pytest.mark.parametrize(
    "field", ["reason", "message", "name of a container", "reason of a container", "message of a container"]
)
def test_each_text_about_the_end_of_a_pod_counts_and_is_shortened(field: str) -> None:
    name, of, _ = field.partition(" of a")
    texts: dict[str, Any] = {"name": "c", "code": 1, name: "x" * 10_000} if of else {name: "x" * 10_000}
    long = replace(ended(1), pod=PodEnd(containers=(ContainerEnd(**texts),)) if of else PodEnd(**texts))
    assert classification.text_length(long) > 10_000
    short = classification.shortened(long, SHORT_TEXT)
    assert SHORT_TEXT < classification.text_length(short) < 2 * SHORT_TEXT


def test_what_was_noted_of_a_pod_is_forgotten_with_its_attempt() -> None:
    state = Scaled(1)
    first = task(State.RUNNING)
    state.put(W0, first)
    uid = known(first.attempt_status.pod_uid)
    state.sightings.gone, state.sightings.not_retained = {uid, "other"}, {uid}
    state.put(W0, replace(first, attempt_status=replace(first.attempt_status, id=1, pod_uid=None)))
    assert (state.sightings.gone, state.sightings.not_retained) == ({"other"}, set())


def test_what_is_stored_of_many_ends_is_read_in_turns_and_bounded_too() -> None:
    """Four stored statuses of others were 609 MiB, and each of them a turn of 0.8 s."""
    number = 1500
    end = replace(ended(1), pod=PodEnd(containers=(ContainerEnd(name="a", message="x" * 4096, code=1),)))
    several = tuple(task(State.COMPLETED, end, index=index) for index in range(number))
    state = Scaled(stored=stored(None, packed((TaskRoleStatus("w", "uid", task_statuses=several),))))
    assert state.turns == number + 1
    assert 0.9 * MAX_TEXTS < state.text_bytes < 1.2 * MAX_TEXTS


def test_of_many_containers_few_stay_failed_ones_first_and_share_what_stays_of_their_texts() -> None:
    ends = (ContainerEnd(name=f"c{place}", message="no memory " * 26, code=place % 2) for place in range(48))
    many = PodEnd(containers=tuple(ends))
    end = classification.shortened(replace(ended(1), pod=many), SHORT_TEXT)
    assert [(one.name, len(one.message)) for one in end.pod.containers] == [(f"c{place}", 64) for place in (1, 3, 5, 7)]


# --- a role ----------------------------------------------------------------------------------------------------------


def some_task(state: State, code: int | None, ip: str | None, going: bool, instance: str) -> TaskStatus:
    if code is None and state in COMPLETING | ENDED:
        code = 0
    if state is State.CREATION_PENDING:
        ip = None
    end = None if code is None else ended(code)
    return task(state, end, ip=ip, deletion_pending=going, instance=instance)


tasks = st.builds(
    some_task,
    st.sampled_from(list(State)),
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, "", "10.0.0.1", "10.0.0.2"]),
    st.booleans(),
    st.sampled_from(["a", "b"]),
)
# A Task is appended or takes a place, or the last one is removed.
moves = tasks.map(lambda one: (None, one)) | st.tuples(st.integers(0, 9), tasks) | st.just((None, None))


def recount(role_state: RoleState) -> Counts:
    """One after the other, by the words of the specification."""
    active = [one for one in role_state.tasks if not one.deletion_pending]
    done = [one for one in active if one.state is State.COMPLETED]
    failed = [one for one in done if one.completion and one.completion.type.name == TypeName.FAILED]
    ended = Counter(one.completion.type.name for one in active if one.completion and one not in done)
    under_way = [one for one in active if one.completion is None]
    running = [one for one in under_way if one.state is State.RUNNING]
    there = [one for one in under_way if one in running or (one.attempt_status.pod_uid and one.attempt_status.pod_ip)]
    return Counts(
        active=len(active),
        ready=sum(bool(one.attempt_status.pod_uid and one.attempt_status.pod_ip) for one in active),
        created=sum(one.attempt_status.pod_uid is not None for one in active),
        completed=len(done),
        failed=len(failed),
        succeeded=len(done) - len(failed),
        succeeding=ended[TypeName.SUCCEEDED],
        failing=ended[TypeName.FAILED],
        placed=sum(one in there or bool(one.attempt_status.pod_node_name) for one in under_way),
        there=len(there),
        running=len(running),
    )


@given(st.lists(moves, max_size=40))
def test_the_counts_are_always_those_of_a_recount(order: list[tuple[int | None, TaskStatus | None]]) -> None:
    role_state, ran = RoleState("worker", "uid", None), False
    for revision, (place, one) in enumerate(order, 1):
        number = len(role_state.tasks)
        if place is None and one is not None:
            role_state.append(replace(one, index=number), revision)
        elif place is not None and one is not None and number:
            role_state.put(place % number, replace(one, index=place % number), revision)
        elif one is None and number:
            role_state.pop()
        ran = ran or any(now.run_time for now in role_state.tasks)
        counts = role_state.counts
        assert counts == recount(role_state)
        # As the ledger counts those that are under way.
        ended = counts.completed + counts.succeeding + counts.failing
        assert counts.active - ended == sum(now.completion is None for now in role_state.active())
        assert role_state.text_bytes == sum(classification.text_length(now.completion) for now in role_state.tasks)
        assert +role_state.by_state == Counter(now.state for now in role_state.tasks)
        assert role_state.deletion_pending == {now.index for now in role_state.tasks if now.deletion_pending}
        assert len(role_state.revisions) == len(role_state.tasks)
        assert role_state.ran == ran
        assert list(role_state.active()) == [now for now in role_state.tasks if not now.deletion_pending]


@given(st.lists(tasks, max_size=10))
def test_a_stored_role_is_loaded_and_written_as_it_was(several: list[TaskStatus]) -> None:
    role_state = RoleState("worker", "uid", 30)
    for index, one in enumerate(several):
        role_state.append(replace(one, index=index), 5)
    stored = role_state.snapshot()
    loaded = RoleState.load(stored)
    for one in stored.task_statuses:
        loaded.append(one, 0)
    assert loaded.snapshot() == stored
    assert (loaded.counts, loaded.ran) == (role_state.counts, role_state.ran)
    assert loaded.deletion_pending == role_state.deletion_pending
    assert set(loaded.revisions) <= {0}
