"""The counts of a role are always those of a recount."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.states import COMPLETING, ENDED, State
from frameworkcontroller.core.policies.classification import text_length
from frameworkcontroller.core.policies.role import Counts, RoleState
from tests.controller.core.values import ended, task

if TYPE_CHECKING:
    from frameworkcontroller.api.status import TaskStatus


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
moves = st.one_of(
    tasks.map(lambda one: ("append", 0, one)),
    st.tuples(st.just("put"), st.integers(0, 9), tasks),
    st.just(("pop", 0, None)),
)


def recount(role_state: RoleState) -> Counts:
    """One after the other, by the words of the specification."""
    active = [one for one in role_state.tasks if not one.deletion_pending]
    done = [one for one in active if one.state is State.COMPLETED]
    failed = [one for one in done if one.completion and one.completion.type.name == TypeName.FAILED]
    return Counts(
        active=len(active),
        ready=sum(bool(one.attempt_status.pod_uid and one.attempt_status.pod_ip) for one in active),
        created=sum(one.attempt_status.pod_uid is not None for one in active),
        completed=len(done),
        failed=len(failed),
        succeeded=len(done) - len(failed),
        succeeding=sum(
            one.completion is not None and one.completion.type.name == TypeName.SUCCEEDED
            for one in active
            if one.state is not State.COMPLETED
        ),
    )


@given(st.lists(moves, max_size=40))
def test_the_counts_are_always_those_of_a_recount(order: list[tuple[str, int, TaskStatus | None]]) -> None:
    role_state = RoleState("worker", "uid", None)
    ran = False
    for revision, (kind, place, one) in enumerate(order, 1):
        if kind == "append" and one is not None:
            role_state.append(replace(one, index=len(role_state.tasks)), revision)
        elif kind == "put" and one is not None and role_state.tasks:
            role_state.put(place % len(role_state.tasks), replace(one, index=place % len(role_state.tasks)), revision)
        elif kind == "pop" and role_state.tasks:
            role_state.pop()
        ran = ran or any(now.run_time for now in role_state.tasks)
        assert role_state.counts == recount(role_state)
        assert role_state.text_bytes == sum(text_length(now.completion) for now in role_state.tasks)
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
    assert (loaded.counts, loaded.deletion_pending, loaded.ran) == (
        role_state.counts,
        role_state.deletion_pending,
        role_state.ran,
    )
    assert set(loaded.revisions) <= {0}
