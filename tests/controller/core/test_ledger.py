"""The counts of a role are always those of a recount."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.states import State
from frameworkcontroller.core.ledger import Counts, RoleLedger, is_ready

from .values import ended, task

if TYPE_CHECKING:
    from frameworkcontroller.api.types import TaskStatus

MUST_HAVE_ENDED = {
    State.DELETION_PENDING,
    State.DELETION_REQUESTED,
    State.DELETING,
    State.ATTEMPT_COMPLETED,
    State.COMPLETED,
}


def some_task(state: State, code: int | None, ip: str | None, going: bool, instance: str) -> TaskStatus:
    if code is None and state in MUST_HAVE_ENDED:
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


def recount(ledger: RoleLedger) -> Counts:
    """One after the other, by the words of the specification."""
    active = [one for one in ledger.tasks if not one.deletion_pending]
    done = [one for one in active if one.state is State.COMPLETED]
    failed = [one for one in done if one.completion and one.completion.type.name == TypeName.FAILED]
    return Counts(
        active=len(active),
        ready=sum(bool(one.attempt_status.pod_uid and one.attempt_status.pod_ip) for one in active),
        running=sum(one.state is State.RUNNING for one in active),
        created=sum(one.attempt_status.pod_uid is not None for one in active),
        completed=len(done),
        failed=len(failed),
        succeeded=len(done) - len(failed),
    )


@given(st.lists(moves, max_size=40))
def test_the_counts_are_always_those_of_a_recount(order: list[tuple[str, int, TaskStatus | None]]) -> None:
    ledger = RoleLedger("worker", "uid", None)
    ran = False
    for revision, (kind, place, one) in enumerate(order, 1):
        if kind == "append" and one is not None:
            ledger.append(replace(one, index=len(ledger.tasks)), revision)
        elif kind == "put" and one is not None and ledger.tasks:
            ledger.put(place % len(ledger.tasks), replace(one, index=place % len(ledger.tasks)), revision)
        elif kind == "pop" and ledger.tasks:
            ledger.pop()
        ran = ran or any(now.run_time for now in ledger.tasks)
        assert ledger.counts == recount(ledger)
        assert +ledger.by_state == Counter(now.state for now in ledger.tasks)
        assert ledger.going == {now.index for now in ledger.tasks if now.deletion_pending}
        assert len(ledger.revisions) == len(ledger.tasks)
        assert ledger.ran == ran
        assert list(ledger.active()) == [now for now in ledger.tasks if not now.deletion_pending]


@given(st.lists(tasks, max_size=10))
def test_a_stored_role_is_loaded_and_written_as_it_was(several: list[TaskStatus]) -> None:
    ledger = RoleLedger("worker", "uid", 30)
    for index, one in enumerate(several):
        ledger.append(replace(one, index=index), 5)
    stored = ledger.snapshot()
    loaded = RoleLedger.load(stored)
    assert loaded.snapshot() == stored
    assert (loaded.counts, loaded.going, loaded.ran) == (ledger.counts, ledger.going, ledger.ran)
    assert set(loaded.revisions) <= {0}


def test_a_snapshot_does_not_change_with_its_ledger() -> None:
    ledger = RoleLedger("worker", "uid", None)
    ledger.append(task(), 1)
    before = ledger.snapshot()
    ledger.put(0, task(State.RUNNING), 2)
    ledger.append(task(index=1), 2)
    assert [one.state for one in before.task_statuses] == [State.CREATION_PENDING]


def test_only_what_peers_need_to_know_is_a_change_of_membership() -> None:
    ledger = RoleLedger("worker", "uid", None)
    was = task(State.PREPARING, ip="10.0.0.1")
    ledger.append(was, 1)
    unimportant = replace(was, state=State.RUNNING, retry_policy_status=replace(was.retry_policy_status))
    ledger.put(0, unimportant, 2)
    assert ledger.member_revision == 1
    for revision, changed in enumerate(
        (
            replace(was, attempt_status=replace(was.attempt_status, pod_ip="10.0.0.2")),
            replace(was, attempt_status=replace(was.attempt_status, pod_uid="another")),
            replace(was, attempt_status=replace(was.attempt_status, id=1)),
            replace(was, instance_uid="another"),
            replace(was, deletion_pending=True),
        ),
        10,
    ):
        ledger.put(0, was, 3)
        ledger.put(0, changed, revision)
        assert ledger.member_revision == revision


def test_a_task_is_ready_when_its_pod_is_recorded_stays_and_has_an_address() -> None:
    assert is_ready(task(State.PREPARING, ip="10.0.0.1"))
    assert is_ready(task(State.COMPLETED, ended(0), ip="10.0.0.1"))
    assert not is_ready(task(State.PREPARING, ip=""))
    assert not is_ready(task(State.CREATION_REQUESTED))
    assert not is_ready(task())
    assert not is_ready(task(State.PREPARING, ip="10.0.0.1", deletion_pending=True))
