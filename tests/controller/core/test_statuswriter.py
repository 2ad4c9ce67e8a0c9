"""When the status is written, what a write contains, and which status of another writer is noticed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec.structs import replace

from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.spec import COMPLETE, CompletionPolicy, Dependency
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import roles_digest
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import Done
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.writer import BURST, INTERVAL, LONGEST_INTERVAL, StatusWriter
from tests.controller.core.values import at, ended, framework, framework_end, moment, role, spec, task

if TYPE_CHECKING:
    from frameworkcontroller.api.framework import Framework
    from frameworkcontroller.api.spec import FrameworkSpec

SECOND = timedelta(seconds=1)


def writer() -> StatusWriter:
    document = b'{"metadata":{"name":"fw","uid":"u","resourceVersion":"7","generation":4},"spec":{}}'
    return StatusWriter(FRAMEWORK_DECODER.decode(document))


def large(number: int) -> FrameworkState:
    state = FrameworkState("fw")
    state.set(framework(State.PREPARING))
    state.rescale(spec(role("worker", number)), at(0), lambda: "uid")
    return state


def distance(number: int, *, urgent: bool) -> float:
    """Seconds between two writes of so many Tasks."""
    state, wanted, one = large(number), spec(role("worker", number)), writer()
    assert one.due(state, wanted, at(0), backpressure=SECOND) is None
    one.compose(state, wanted, 4, moment(10))
    state.put(("worker", 0), task(State.ATTEMPT_COMPLETED, ended(1)) if urgent else task(State.RUNNING))
    due = one.due(state, wanted, at(10))
    assert due is not None
    return (due - at(10)).total_seconds()


def test_the_first_write_is_at_once_and_later_ones_wait_the_longer_the_larger() -> None:
    assert distance(10, urgent=True) < distance(10_000, urgent=True) == pytest.approx(1, abs=0.1)
    assert distance(10, urgent=False) < distance(10_000, urgent=False) == pytest.approx(5, abs=0.6)


@pytest.mark.parametrize("number", [1, 100, 10_000])
def test_urgent_writes_wait_less_than_progress(number: int) -> None:
    assert distance(number, urgent=True) < distance(number, urgent=False) / 4


def ending(number: int) -> tuple[FrameworkState, StatusWriter]:
    """Tasks that run, of which the first succeeds at 20 s."""
    state, wanted, one = large(number), spec(role("worker", number)), writer()
    for index in range(number):
        state.put(("worker", index), task(State.RUNNING, index=index))
    one.compose(state, wanted, 4, moment(10))
    state.put(("worker", 0), task(State.DELETION_PENDING, ended(0)))
    return state, one


@pytest.mark.parametrize(("wait", "seconds"), [(0, 1), (0.8, 1), (2, 2), (4, 4), (8, 8), (600, 15)])
def test_the_first_end_waits_for_others_that_may_come(wait: float, seconds: float) -> None:
    backpressure = timedelta(seconds=wait)
    state, one = ending(3)
    wanted = spec(role("worker", 3))
    assert one.due(state, wanted, at(20), backpressure=backpressure) == at(20 + seconds)
    state.put(("worker", 1), task(State.DELETION_PENDING, ended(0), index=1))
    assert one.due(state, wanted, at(20.1), backpressure=backpressure) == at(20 + seconds)
    state.put(("worker", 2), task(State.DELETION_PENDING, ended(0), index=2))
    due = one.due(state, wanted, at(20.2), backpressure=backpressure)
    assert due is not None
    assert due < at(20.2), "no other end can come"


def succeeds(**policy: int) -> CompletionPolicy:
    return CompletionPolicy(**{f"min_succeeded_task_{name}": value for name, value in policy.items()})


def waits_for(name: str) -> tuple[Dependency, ...]:
    return (Dependency(name, COMPLETE),)


@pytest.mark.parametrize(
    ("wanted", "waits"),
    [
        (spec(role("ps", 2), role("worker", 3)), True),
        (spec(role("ps", 2), role("worker", 3, framework_attempt_completion_policy=succeeds(count=3))), True),
        (spec(role("ps", 2), role("worker", 3, framework_attempt_completion_policy=succeeds(count=2))), False),
        (spec(role("ps", 2), role("worker", 3, framework_attempt_completion_policy=succeeds(percent=67))), True),
        (spec(role("ps", 2), role("worker", 3, framework_attempt_completion_policy=succeeds(percent=66))), False),
        (spec(role("ps", 2), role("worker", 2), role("last", 1, depends_on=waits_for("worker"))), False),
        (spec(role("ps", 2), role("worker", 3), role("last", 1, depends_on=waits_for("worker"))), True),
        (spec(role("ps", 2), role("worker", 2), role("last", 1, depends_on=waits_for("ps"))), True),
    ],
    ids=[
        "nothing follows", "a count too few", "the count", "a percent too few", "the percentage", "a role begins",
        "a role that waits for more", "a role that waits for others",
    ],
)  # fmt: skip
def test_ends_from_which_something_follows_wait_for_nothing(wanted: FrameworkSpec, *, waits: bool) -> None:
    """Two workers succeed, one is Completed already; the others run."""
    state, one = FrameworkState("fw"), writer()
    state.set(framework(State.PREPARING))
    state.rescale(wanted, at(0), lambda: "uid")
    state.hold_roles(wanted)
    for name, index in list(state.task_keys()):
        if name != "last":
            state.put((name, index), task(State.RUNNING, index=index))
    state.put(("worker", 0), task(State.COMPLETED, ended(0)))
    one.compose(state, wanted, 4, moment(10))
    state.put(("worker", 1), task(State.DELETION_PENDING, ended(0), index=1))
    due = one.due(state, wanted, at(20), backpressure=4 * SECOND)
    assert due is not None
    assert (due == at(24), due < at(20)) == (waits, not waits)


def test_the_end_of_a_task_that_is_alone_does_not_wait() -> None:
    state, one = ending(1)
    due = one.due(state, spec(role("worker", 1)), at(20), backpressure=SECOND)
    assert due is not None
    assert due < at(20)


def test_a_gang_that_has_become_complete_waits_for_nothing() -> None:
    state, wanted, one = large(2), spec(role("worker", 2)), writer()
    effect = one.compose(state, wanted, 4, moment(10))
    one.apply_outcome(effect, Done(resource_version="8"), state)
    for index in range(2):
        assert one.due(state, wanted, at(10)) is not None
        state.put(("worker", index), task(State.RUNNING, index=index, ip="10.0.0.1"))
    assert one.due(state, wanted, at(10), backpressure=SECOND) is None
    effect = one.compose(state, wanted, 4, moment(10.001))
    one.apply_outcome(effect, Done(resource_version="9"), state)
    assert one.due(state, wanted, at(10)) is not None


def test_under_backpressure_progress_gives_way_and_urgent_writes_do_not() -> None:
    state, wanted, one = large(10), spec(role("worker", 10)), writer()
    one.compose(state, wanted, 4, moment(10))
    state.put(("worker", 0), task(State.RUNNING))
    assert one.due(state, wanted, at(12), backpressure=40 * SECOND) == at(25)
    assert one.due(state, wanted, at(12), backpressure=2 * SECOND) == at(12)
    state.put(("worker", 1), task(State.ATTEMPT_COMPLETED, ended(1), index=1))
    due = one.due(state, wanted, at(12), backpressure=SECOND)
    assert due is not None
    assert due < at(10.1)


def test_a_config_map_that_was_created_is_written_with_what_follows_from_it() -> None:
    """The write that waits for nothing says that it was seen, and has its UID."""
    state, wanted, one = large(1), spec(role("worker", 1)), writer()
    state.set(framework(State.CREATION_PENDING))
    one.compose(state, wanted, 4, moment(10))
    state.set(framework(State.CREATION_REQUESTED))
    assert one.due(state, wanted, at(10)) == at(10.5005)
    assert one.due(state, wanted, at(10), backpressure=40 * SECOND) == at(25)
    state.set(framework(State.PREPARING))
    due = one.due(state, wanted, at(10.1), backpressure=40 * SECOND)
    assert due is not None
    assert due < at(10.1)


def test_an_end_that_is_ordered_before_the_config_map_is_seen_is_written_at_once() -> None:
    state, wanted, one = large(1), spec(role("worker", 1)), writer()
    one.compose(state, wanted, 4, moment(10))
    state.set(framework(State.CREATION_REQUESTED, framework_end(-210)))
    due = one.due(state, wanted, at(11), backpressure=40 * SECOND)
    assert due is not None
    assert due < at(11)


STATUS = (
    '{"startTime":"2026-01-01T00:00:00Z","state":"AttemptRunning","transitionTime":"2026-01-01T00:00:00Z",'
    '"attemptStatus":{"id":0,"startTime":"2026-01-01T00:00:00Z","configMapName":"fw-attempt"}}'
)


def framework_with(version: str, status: str = STATUS) -> Framework:
    meta = f'{{"name":"fw","uid":"u","resourceVersion":"{version}"}}'
    return FRAMEWORK_DECODER.decode(f'{{"metadata":{meta},"spec":{{}},"status":{status}}}')


@pytest.mark.parametrize(
    ("seen", "stale"),
    [
        (framework_with("7"), False),
        (framework_with("5", "null"), False),
        (framework_with("8"), False),
        (framework_with("8", "null"), True),
        (framework_with("10", STATUS.replace("AttemptRunning", "Completed")), True),
        (framework_with("opaque", "null"), False),
    ],
    ids=[
        "the same",
        "older",
        "newer, of others",
        "newer, without a status",
        "newer, of a second leader",
        "not a number",
    ],
)
def test_a_status_of_another_writer_is_noticed(seen: Framework, *, stale: bool) -> None:
    assert StatusWriter(framework_with("7")).is_stale(seen) is stale


def test_a_write_whose_answer_was_lost_is_no_other_writer_s() -> None:
    state, wanted, one = large(1), spec(role("worker", 1)), writer()
    lost = one.compose(state, wanted, 4, moment(10))
    one.apply_failure(lost)
    assert one.compose(state, wanted, 4, moment(11)).unanswered == lost.status
    seen = framework_with("9", msgspec.json.encode(lost.status).decode())
    assert not one.is_stale(seen)
    following = one.compose(state, wanted, 4, moment(12))
    assert (following.resource_version, following.previous, following.unanswered) == ("9", lost.status, None)


def test_compressed_roles_are_known_by_a_digest_and_not_unpacked_again() -> None:
    """To compare those of 10,000 Tasks after each edit of somebody took up to 160 ms of a turn."""
    state, wanted, one = large(1), spec(role("worker", 1)), writer()
    written = one.compose(state, wanted, 4, moment(10))
    packed = replace(
        written.status.attempt_status, task_role_statuses=None, task_role_statuses_compressed="cannot be unpacked"
    )
    stored = replace(written.status, attempt_status=packed)
    one.apply_outcome(written, Done(resource_version="8", roles=roles_digest(stored)), state)
    assert not one.is_stale(framework_with("9", msgspec.json.encode(stored).decode()))
    assert one.compose(state, wanted, 4, moment(11)).previous_roles == roles_digest(stored)
    others = replace(stored, ready="0/7")
    assert one.is_stale(framework_with("10", msgspec.json.encode(others).decode()))


def test_a_newer_version_with_our_status_is_what_the_next_write_builds_upon() -> None:
    one = StatusWriter(framework_with("7"))
    assert not one.is_stale(framework_with("9"))
    effect = one.compose(large(1), spec(role("worker", 1)), 4, moment(10))
    assert effect.resource_version == "9"


def test_a_write_contains_everything_and_what_it_builds_upon() -> None:
    state, wanted, one = large(2), spec(role("worker", 2)), writer()
    state.put(("worker", 1), task(State.RUNNING, index=1, ip="10.0.0.1"))
    effect = one.compose(state, wanted, 4, moment(10.5))
    status = effect.status
    assert (status.ready, status.attempts, status.observed_generation) == ("1/2", 1, 4)
    assert status.attempt_status.task_role_statuses == effect.summary.roles
    assert (effect.revision, effect.resource_version, effect.previous) == (state.revisions.now, "7", None)
    one.apply_outcome(effect, Done(resource_version="8"), state)
    assert state.revisions.persisted == state.revisions.now
    following = one.compose(state, wanted, 5, moment(11))
    assert (following.resource_version, following.previous) == ("8", status)


@pytest.mark.parametrize(("stored", "generation"), [("", 0), (',"observedGeneration":3', 3)], ids=["unknown", "known"])
def test_the_observed_generation_is_read_from_the_status(stored: str, generation: int) -> None:
    status = (
        '{"startTime":"2026-01-01T00:00:00Z","state":"AttemptRunning","transitionTime":"2026-01-01T00:00:00Z",'
        '"attemptStatus":{"id":0,"startTime":"2026-01-01T00:00:00Z","configMapName":"fw-attempt"}' + stored + "}"
    )
    document = '{"metadata":{"name":"fw","uid":"u","resourceVersion":"7"},"spec":{},"status":' + status + "}"
    assert StatusWriter(FRAMEWORK_DECODER.decode(document.encode())).generation == generation


@pytest.mark.parametrize(("tasks", "interval"), [(10, INTERVAL), (400, INTERVAL * 2), (2000, LONGEST_INTERVAL)])
def test_a_framework_that_always_has_something_urgent_is_written_some_times_a_second(
    tasks: int, interval: timedelta
) -> None:
    """300 Tasks that are retried all the time kept an API server busy: their status was written 20 times a second."""
    state, wanted, one = large(tasks), spec(role("worker", tasks)), writer()
    now, writes = at(0), 0
    while now < at(60):
        due = one.due(state, wanted, now)
        if due is not None and due > now:
            now = due
        effect = one.compose(state, wanted, 4, Now(now, now))
        one.apply_outcome(effect, Done(resource_version=str(10 + writes)), state)
        writes += 1
        state.put(("worker", 0), task(State.ATTEMPT_COMPLETED, ended(writes)))
    assert writes <= BURST + timedelta(seconds=60) / interval + 1
    due = one.due(state, wanted, at(200))
    assert due is not None
    assert due < at(62), "the burst is back"
