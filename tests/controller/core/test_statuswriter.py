"""When the status is written, what a write contains, and which status of another writer is noticed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.spec import COMPLETE, CompletionPolicy, Dependency
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import roles_digest
from frameworkcontroller.core.effects import Done
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.writer import BURST, INTERVAL, LONGEST_INTERVAL, StatusWriter
from tests.controller.core.values import at, ended, framework, framework_end, moment, role, spec, task

if TYPE_CHECKING:
    from datetime import datetime

    from frameworkcontroller.api.framework import Framework
    from frameworkcontroller.api.spec import FrameworkSpec, TaskRoleSpec
    from frameworkcontroller.api.status import TaskCompletion
    from frameworkcontroller.core.effects import WriteStatus


STATUS = (
    '{"startTime":"2026-01-01T00:00:00Z","state":"AttemptRunning","transitionTime":"2026-01-01T00:00:00Z",'
    '"attemptStatus":{"id":0,"startTime":"2026-01-01T00:00:00Z","configMapName":"fw-attempt"}}'
)


def framework_with(version: str, status: str = STATUS) -> Framework:
    meta = f'{{"name":"fw","uid":"u","resourceVersion":"{version}"}}'
    return FRAMEWORK_DECODER.decode(f'{{"metadata":{meta},"spec":{{}},"status":{status}}}')


class Writing:
    """A Framework whose status was not written yet, with so many Tasks of role `worker` or those of a spec."""

    def __init__(self, number: int = 0, wanted: FrameworkSpec | None = None) -> None:
        self.wanted = spec(role("worker", number)) if wanted is None else wanted
        self.state, self.writer = FrameworkState("fw"), StatusWriter(framework_with("7", "null"))
        self.state.set(framework(State.PREPARING))
        list(self.state.rescale(self.wanted, at(0), lambda: "uid"))

    def write(self, seconds: float = 10) -> WriteStatus:
        """What is written then; it is not answered."""
        return self.writer.compose(self.state, self.wanted, 4, moment(seconds))

    def persist(self, effect: WriteStatus, version: str, roles: int | None = None) -> None:
        self.writer.apply_outcome(effect, Done(resource_version=version, roles=roles), self.state)

    def due(self, seconds: float = 10, *, wait: float = 0) -> datetime | None:
        """When the next write is due, seen from then, under so many seconds of backpressure."""
        return self.writer.due(self.state, self.wanted, at(seconds), backpressure=timedelta(seconds=wait))

    def waits(self, seconds: float = 10, *, wait: float = 0) -> float:
        """How many seconds it waits."""
        due = self.due(seconds, wait=wait)
        assert due is not None, "it is the first one"
        return (due - at(seconds)).total_seconds()

    def put(self, index: int, state: State, end: TaskCompletion | None = None, **more: Any) -> None:
        self.state.put(("worker", index), task(state, end, index=index, **more))


def distance(number: int, *, urgent: bool) -> float:
    """Seconds between two writes of so many Tasks."""
    one = Writing(number)
    assert one.due(0, wait=1) is None, "the first one is written at once"
    one.write()
    one.put(0, *((State.ATTEMPT_COMPLETED, ended(1)) if urgent else (State.RUNNING,)))
    return one.waits()


def test_later_writes_wait_the_longer_the_larger_and_urgent_ones_less() -> None:
    numbers = (1, 10, 100, 10_000)
    urgent, progress = ([distance(number, urgent=is_urgent) for number in numbers] for is_urgent in (True, False))
    assert urgent == sorted(set(urgent))
    assert progress == sorted(set(progress))
    assert (urgent[-1], progress[-1]) == (pytest.approx(1, abs=0.1), pytest.approx(5, abs=0.6))
    assert all(less < more / 4 for less, more in zip(urgent, progress, strict=True))


@pytest.mark.parametrize(("wait", "seconds"), [(0, 1), (0.8, 1), (2, 2), (4, 4), (8, 8), (600, 15)])
def test_the_first_end_waits_for_others_that_may_come(wait: float, seconds: float) -> None:
    one = Writing(3)
    for index in range(3):
        one.put(index, State.RUNNING)
    one.write()
    one.put(0, State.DELETION_PENDING, ended(0))
    assert one.due(20, wait=wait) == at(20 + seconds)
    one.put(1, State.DELETION_PENDING, ended(0))
    assert one.due(20.1, wait=wait) == at(20 + seconds)
    one.put(2, State.DELETION_PENDING, ended(0))
    assert one.waits(20.2, wait=wait) < 0, "no other end can come"


PS, WORKERS = role("ps", 2), role("worker", 3)


def workers(**policy: int) -> TaskRoleSpec:
    """Three of which so many have to succeed."""
    wanted = CompletionPolicy(**{f"min_succeeded_task_{name}": value for name, value in policy.items()})
    return role("worker", 3, framework_attempt_completion_policy=wanted)


def last(after: str) -> TaskRoleSpec:
    return role("last", 1, depends_on=(Dependency(after, COMPLETE),))


ENDS = {
    "nothing follows": (spec(PS, WORKERS), True),
    "a count too few": (spec(PS, workers(count=3)), True),
    "the count": (spec(PS, workers(count=2)), False),
    "a percent too few": (spec(PS, workers(percent=67)), True),
    "the percentage": (spec(PS, workers(percent=66)), False),
    "a role begins": (spec(PS, role("worker", 2), last("worker")), False),
    "a role that waits for more": (spec(PS, WORKERS, last("worker")), True),
    "a role that waits for others": (spec(PS, role("worker", 2), last("ps")), True),
}


@pytest.mark.parametrize(("wanted", "waits"), ENDS.values(), ids=ENDS)
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


def test_under_backpressure_progress_gives_way_and_urgent_writes_do_not() -> None:
    one = Writing(10)
    one.write()
    one.put(0, State.RUNNING)
    assert one.due(12, wait=40) == at(25)
    assert one.due(12, wait=2) == at(12)
    one.put(1, State.ATTEMPT_COMPLETED, ended(1))
    assert one.due(12, wait=1) < at(10.1)


def test_a_config_map_that_was_created_is_written_with_what_follows_from_it_or_the_end_that_is_ordered() -> None:
    """The write that waits for nothing says that it was seen, and has its UID."""
    one = Writing(1)
    one.state.set(framework(State.CREATION_PENDING))
    one.write()
    one.state.set(framework(State.CREATION_REQUESTED))
    assert one.due() == at(10.5005)
    assert one.due(wait=40) == at(25)
    one.state.set(framework(State.PREPARING))
    assert one.waits(10.1, wait=40) < 0
    one.write(11)
    one.state.set(framework(State.CREATION_REQUESTED, framework_end(-210)))
    assert one.waits(11.1, wait=40) < 0


SEEN = {
    "the same": (framework_with("7"), False),
    "older": (framework_with("5", "null"), False),
    "newer, of others": (framework_with("8"), False),
    "newer, without a status": (framework_with("8", "null"), True),
    "newer, of a second leader": (framework_with("10", STATUS.replace("AttemptRunning", "Completed")), True),
    "not a number": (framework_with("opaque", "null"), False),
}


@pytest.mark.parametrize(("seen", "stale"), SEEN.values(), ids=SEEN)
def test_a_status_of_another_writer_is_noticed(seen: Framework, *, stale: bool) -> None:
    assert StatusWriter(framework_with("7")).is_stale(seen) is stale


def test_a_write_whose_answer_was_lost_is_no_other_writer_s() -> None:
    one = Writing(1)
    lost = one.write()
    one.writer.apply_failure(lost)
    assert one.write(11).unanswered == lost.status
    assert not one.writer.is_stale(framework_with("9", msgspec.json.encode(lost.status).decode()))
    following = one.write(12)
    assert (following.resource_version, following.previous, following.unanswered) == ("9", lost.status, None)


def test_compressed_roles_are_known_by_a_digest_and_not_unpacked_again() -> None:
    """To compare those of 10,000 Tasks after each edit of somebody took up to 160 ms of a turn."""
    one = Writing(1)
    written = one.write()
    packed = replace(
        written.status.attempt_status, task_role_statuses=None, task_role_statuses_compressed="cannot be unpacked"
    )
    stored = replace(written.status, attempt_status=packed)
    one.persist(written, "8", roles_digest(stored))
    assert not one.writer.is_stale(framework_with("9", msgspec.json.encode(stored).decode()))
    assert one.write(11).previous_roles == roles_digest(stored)
    others = replace(stored, ready="0/7")
    assert one.writer.is_stale(framework_with("10", msgspec.json.encode(others).decode()))


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


@pytest.mark.parametrize(("stored", "generation"), [("", 0), (',"observedGeneration":3', 3)], ids=["unknown", "known"])
def test_the_observed_generation_is_read_from_the_status(stored: str, generation: int) -> None:
    assert StatusWriter(framework_with("7", STATUS[:-1] + stored + "}")).generation == generation


@pytest.mark.parametrize(("tasks", "interval"), [(10, INTERVAL), (400, INTERVAL * 2), (2000, LONGEST_INTERVAL)])
def test_a_framework_that_always_has_something_urgent_is_written_some_times_a_second(
    tasks: int, interval: timedelta
) -> None:
    """300 Tasks that are retried all the time kept an API server busy: their status was written 20 times a second."""
    one, seconds, writes = Writing(tasks), 0.0, 0
    while seconds < 60:
        due = one.due(seconds)
        seconds = seconds if due is None else max(seconds, (due - at(0)).total_seconds())
        one.persist(one.write(seconds), str(10 + writes))
        writes += 1
        one.put(0, State.ATTEMPT_COMPLETED, ended(writes))
    assert writes <= BURST + timedelta(seconds=60) / interval + 1
    assert 200 + one.waits(200) < 62, "the burst is back"
