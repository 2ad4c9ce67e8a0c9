"""When the status is written, what a write contains, and what follows from what others have written meanwhile."""

from dataclasses import replace as replace_fields
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkcontroller.api.spec import COMPLETE, CompletionPolicy, Dependency, FrameworkSpec, TaskRoleSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkStatus, TaskCompletion, TaskRoleStatus, TaskStatus
from frameworkcontroller.api.stored_roles import roles_digest
from frameworkcontroller.core.effects import (
    Done,
    Failed,
    Missing,
    Outcome,
    Refused,
    RolesSummary,
    StaleStatus,
    WriteStatus,
)
from frameworkcontroller.core.status.conflict import resolve_conflict
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.writer import BURST, INTERVAL, LONGEST_INTERVAL, StatusWriter
from tests.controller.core.values import at, ended, framework, framework_end, known, moment, packed, role, spec, task

RUNS, LOST = framework(State.RUNNING), Failed("the answer is lost")


def framework_with(version: str, status: FrameworkStatus | None = RUNS) -> Framework:
    meta = {"name": "fw", "uid": "u", "resourceVersion": version}
    return FRAMEWORK_DECODER.decode(msgspec.json.encode({"metadata": meta, "spec": {}, "status": status}))


class Writing:
    """A Framework whose status was not written yet, with so many Tasks of role `worker` or those of a spec."""

    def __init__(self, number: int = 0, wanted: FrameworkSpec | None = None) -> None:
        self.wanted = spec(role("worker", number)) if wanted is None else wanted
        self.state, self.writer = FrameworkState("fw"), StatusWriter(framework_with("7", None))
        self.state.set(framework(State.PREPARING))
        list(self.state.rescale(self.wanted, at(0), lambda: "uid"))

    def write(self, seconds: float = 10) -> WriteStatus:
        """What is written then; it is not answered."""
        return self.writer.compose(self.state, self.wanted, 4, moment(seconds))

    def persist(self, effect: WriteStatus, version: str, roles: int | None = None, conflicts: int = 0) -> None:
        done = Done(resource_version=version, roles=roles, conflicts=conflicts)
        self.writer.apply_outcome(effect, done, self.state)

    def due(self, seconds: float = 10, *, wait: float = 0) -> datetime | None:
        """When the next write is due, seen from then, under so many seconds of backpressure."""
        return self.writer.due(self.state, self.wanted, at(seconds), backpressure=timedelta(seconds=wait))

    def waits(self, seconds: float = 10, *, wait: float = 0) -> float:
        """How many seconds it waits; it is not the first one."""
        return (known(self.due(seconds, wait=wait)) - at(seconds)).total_seconds()

    def put(self, index: int, state: State, end: TaskCompletion | None = None, **more: Any) -> None:
        self.state.put(("worker", index), task(state, end, index=index, **more))


FAILS, ENDS = task(State.ATTEMPT_COMPLETED, ended(1)), task(State.DELETION_PENDING, ended(0))
RUN, ENDS_TOO = task(State.RUNNING, index=1), replace(ENDS, index=1)
ASKED, ENDING = framework(State.CREATION_REQUESTED), framework(State.CREATION_REQUESTED, framework_end(-210))
DUE: dict[str, tuple[int, list[TaskStatus | FrameworkStatus], dict[float, float]]] = {
    "it reports": (2, [RUN], {0: 0.501, 2: 2, 40: 15}),
    "something is to go on": (2, [RUN, FAILS], {0: 0.0202, 40: 0.0202}),
    "something is to go on, and another Task has ended": (2, [FAILS, ENDS_TOO], {0: 0.0202, 40: 0.0202}),
    "a large one reports": (10_000, [RUN], {0: 5.5, 2: 5.5, 40: 15}),
    "of a large one something is to go on": (10_000, [FAILS], {0: 1.02, 40: 1.02}),
    "the first end waits for others that may come": (2, [RUN, ENDS], {0: 1, 0.8: 1, 2: 2, 8: 8, 600: 15}),
    "no other end can come": (2, [ENDS, ENDS_TOO], {0: 0.0202, 40: 0.0202}),
    "the creation of a ConfigMap reports": (2, [ASKED], {0: 0.501, 40: 15}),
    "a ConfigMap that is seen has a UID": (2, [ASKED, framework(State.PREPARING)], {0: 0.0202, 40: 0.0202}),
    "the first Task runs": (2, [framework(State.RUNNING)], {0: 0.501, 40: 15}),
    "the end that is ordered": (2, [ENDING], {0: 0.0202, 40: 0.0202}),
}


@pytest.mark.parametrize(("number", "changes", "due"), DUE.values(), ids=DUE)
def test_a_write_waits_after_the_last_one_under_backpressure_longer_if_nothing_waits_for_it(
    number: int, changes: list[TaskStatus | FrameworkStatus], due: dict[float, float]
) -> None:
    """Seconds from one write to the next, by seconds of backpressure."""
    one = Writing(number)
    assert one.due(0, wait=1) is None, "the first one is written at once"
    one.write()
    for change in changes:
        if isinstance(change, FrameworkStatus):
            one.state.set(change)
        else:
            one.state.put(("worker", change.index), change)
    assert {wait: pytest.approx(one.waits(wait=wait)) for wait in due} == due


def test_ends_that_come_later_do_not_put_the_write_off() -> None:
    one = Writing(3)
    for index in range(3):
        one.put(index, State.RUNNING)
    one.write()
    for index, seconds in enumerate((20, 20.1)):
        one.put(index, State.DELETION_PENDING, ended(0))
        assert one.due(seconds, wait=4) == at(24)


PS, WORKERS = role("ps", 2), role("worker", 3)


def workers(**policy: int) -> TaskRoleSpec:
    """Three of which so many have to succeed."""
    wanted = CompletionPolicy(**{f"min_succeeded_task_{name}": value for name, value in policy.items()})
    return role("worker", 3, framework_attempt_completion_policy=wanted)


def last(after: str) -> TaskRoleSpec:
    return role("last", 1, depends_on=(Dependency(after, COMPLETE),))


FOLLOWS = {
    "nothing follows": (spec(PS, WORKERS), True),
    "a count too few": (spec(PS, workers(count=3)), True),
    "the count": (spec(PS, workers(count=2)), False),
    "a percent too few": (spec(PS, workers(percent=67)), True),
    "the percentage": (spec(PS, workers(percent=66)), False),
    "a role begins": (spec(PS, role("worker", 2), last("worker")), False),
    "a role that waits for more": (spec(PS, WORKERS, last("worker")), True),
    "a role that waits for others": (spec(PS, role("worker", 2), last("ps")), True),
}


@pytest.mark.parametrize(("wanted", "waits"), FOLLOWS.values(), ids=FOLLOWS)
def test_ends_from_which_something_follows_wait_for_nothing(wanted: FrameworkSpec, *, waits: bool) -> None:
    """Two workers succeed, one is Completed already; the others run."""
    one = Writing(wanted=wanted)
    one.state.hold_roles(wanted)
    for name, index in list(one.state.task_keys()):
        if name != "last":
            one.state.put((name, index), task(State.RUNNING, index=index))
    one.put(0, State.COMPLETED, ended(0))
    one.write()
    one.put(1, State.DELETION_PENDING, ended(0))
    assert (one.due(20, wait=4) == at(24), one.waits(20, wait=4) < 0) == (waits, not waits)


def test_a_gang_that_has_become_complete_waits_for_nothing() -> None:
    one = Writing(2)
    one.persist(one.write(), "8")
    for index in range(2):
        assert one.due() is not None
        one.put(index, State.RUNNING, ip="10.0.0.1")
    assert one.due(wait=1) is None
    one.persist(one.write(10.001), "9")
    assert one.due() is not None


SEEN = {
    "the same": (framework_with("7"), False),
    "older": (framework_with("5", None), False),
    "newer, of others": (framework_with("8"), False),
    "newer, without a status": (framework_with("8", None), True),
    "newer, of a second leader": (framework_with("10", framework(State.COMPLETED)), True),
    "not a number": (framework_with("opaque", None), False),
}


@pytest.mark.parametrize(("seen", "stale"), SEEN.values(), ids=SEEN)
def test_a_status_of_another_writer_is_noticed(seen: Framework, *, stale: bool) -> None:
    assert StatusWriter(framework_with("7")).is_stale(seen) is stale


def test_a_write_whose_answer_was_lost_is_no_other_writer_s() -> None:
    one = Writing(1)
    lost = one.write()
    one.writer.apply_failure(lost, LOST)
    one.put(0, State.RUNNING)
    # The next one fails, too, and certainly did nothing: it is the first of which nobody knows.
    assert one.write(11) == lost
    one.writer.apply_failure(lost, LOST)
    assert not one.writer.is_stale(framework_with("9", lost.status))
    following = one.write(12)
    assert (following.resource_version, following.previous, following.status == lost.status) == (
        "9",
        lost.status,
        False,
    )


@pytest.mark.parametrize(
    "outcome", [Refused(403, "rights are not read yet"), Failed("a pause", nothing_happened=True)], ids=["403", "429"]
)
def test_a_later_try_that_had_no_effect_says_nothing_of_the_one_before(outcome: Failed | Refused) -> None:
    one = Writing(1)
    lost = one.write()
    one.writer.apply_failure(lost, LOST)
    one.writer.apply_failure(lost, outcome)
    assert not one.writer.is_stale(framework_with("9", lost.status))


def test_a_write_that_was_not_sent_is_not_repeated() -> None:
    one = Writing(1)
    one.writer.apply_failure(one.write(), Failed("a pause", nothing_happened=True))
    one.put(0, State.RUNNING)
    assert one.write(11).status.attempt_status.task_role_statuses[0].task_statuses[0].state is State.RUNNING


def test_a_write_whose_content_is_refused_is_not_repeated() -> None:
    one = Writing(1)
    lost = one.write()
    one.writer.apply_failure(lost, LOST)
    one.writer.apply_failure(lost, Refused(413, "too large"))
    one.put(0, State.RUNNING)
    assert one.write(11).status.attempt_status.task_role_statuses[0].task_statuses[0].state is State.RUNNING


def test_compressed_roles_are_known_by_a_digest_and_not_unpacked_again() -> None:
    """To compare those of 10,000 Tasks after each edit of somebody took up to 160 ms of a turn."""
    one = Writing(1)
    written = one.write()
    roles = {"task_role_statuses": None, "task_role_statuses_compressed": "cannot be unpacked"}
    stored = replace(written.status, attempt_status=replace(written.status.attempt_status, **roles))
    one.persist(written, "8", roles_digest(stored))
    one.writer.apply_failure(written, LOST)
    assert not one.writer.is_stale(framework_with("9", stored))
    assert one.write(11).previous_roles == roles_digest(stored)
    assert one.writer.is_stale(framework_with("10", replace(stored, ready="0/7")))


def test_a_write_contains_everything_and_what_it_builds_upon() -> None:
    one = Writing(2)
    one.put(1, State.RUNNING, ip="10.0.0.1")
    effect = one.write(10.5)
    status, revisions = effect.status, one.state.revisions
    assert (status.ready, status.attempts, status.observed_generation) == ("1/2", 1, 4)
    assert status.attempt_status.task_role_statuses == effect.summary.roles
    assert (effect.revision, effect.resource_version, effect.previous) == (revisions.now, "7", None)
    one.persist(effect, "8")
    assert revisions.persisted == revisions.now
    following = one.write(11)
    assert (following.resource_version, following.previous) == ("8", status)


@pytest.mark.parametrize(("status", "generation"), [(RUNS, 0), (replace(RUNS, observed_generation=3), 3)])
def test_the_observed_generation_is_read_from_the_status(status: FrameworkStatus, generation: int) -> None:
    assert StatusWriter(framework_with("7", status)).generation == generation


@pytest.mark.parametrize(
    ("tasks", "conflicts", "interval"),
    [(10, 0, INTERVAL), (400, 0, INTERVAL * 2), (2000, 0, LONGEST_INTERVAL), (10, 2, INTERVAL * 3)],
)
def test_a_framework_that_always_has_something_urgent_is_written_some_times_a_second(
    tasks: int, conflicts: int, interval: timedelta
) -> None:
    """300 Tasks that are retried all the time kept an API server busy: their status was written 20 times a second."""
    one, seconds, writes = Writing(tasks), 0.0, 0
    while seconds < 60:
        due = one.due(seconds)
        seconds = seconds if due is None else max(seconds, (due - at(0)).total_seconds())
        one.persist(one.write(seconds), str(10 + writes), conflicts=conflicts)
        writes += 1
        one.put(0, State.ATTEMPT_COMPLETED, ended(writes))
    assert writes <= BURST + timedelta(seconds=60) / interval + 1
    assert 200 + one.waits(200) < 62, "the burst is back"


# --- a conflict ------------------------------------------------------------------------------------------------------

ROLES = (TaskRoleStatus("worker", "role-uid", task_statuses=(task(State.RUNNING),)),)


def status(state: State, *, compressed: bool = False) -> FrameworkStatus:
    plain = framework(state)
    roles = {"task_role_statuses_compressed": packed(ROLES)} if compressed else {"task_role_statuses": ROLES}
    return replace(plain, attempt_status=replace(plain.attempt_status, **roles))


WRITTEN, BEFORE, OTHER = status(State.RUNNING), status(State.PREPARING), status(State.DELETING)
SUMMARY = RolesSummary(roles=ROLES, order=("worker",), ready=0, total=1, by_arrival=False, member_revision=1)
WRITE = WriteStatus(WRITTEN, SUMMARY, 7, "41", BEFORE)
FIRST = replace_fields(WRITE, previous=None)
DONE, AGAIN = Done(resource_version="43"), "43"
CONFLICTS: dict[str, tuple[WriteStatus, FrameworkStatus | None, Outcome | str]] = {
    "our own write": (WRITE, WRITTEN, DONE),
    "our own write, compressed": (WRITE, status(State.RUNNING, compressed=True), DONE),
    "what we wrote upon": (WRITE, BEFORE, AGAIN),
    "what we wrote upon, compressed": (WRITE, status(State.PREPARING, compressed=True), AGAIN),
    "another writer's status": (WRITE, OTHER, StaleStatus()),
    "no status where there was one": (WRITE, None, StaleStatus()),
    "no status before the first write": (FIRST, None, AGAIN),
    "a status before the first write": (FIRST, BEFORE, StaleStatus()),
}


@pytest.mark.parametrize(("effect", "found", "outcome"), CONFLICTS.values(), ids=CONFLICTS)
def test_a_write_conflicts_with(effect: WriteStatus, found: FrameworkStatus | None, outcome: Outcome | str) -> None:
    live = framework_with("43", found)
    assert resolve_conflict(effect, "u", live) == outcome
    assert resolve_conflict(effect, "another instance", live) == Missing()
