"""What a roster says, how it goes on through lost writes, restarts and changes by others; `test_gang` says when."""

import base64
import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import replace as replace_fields
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Meta
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskRoleStatus, TaskStatus
from frameworkcontroller.core.effects import RolesSummary, WriteRoster
from frameworkcontroller.core.gang import drift, roster
from frameworkcontroller.core.gang.drift import FORGET_AFTER, PAUSE_MAX, Guard
from frameworkcontroller.core.gang.gang import RestartTimes
from frameworkcontroller.core.gang.publisher import Phase, Publisher
from frameworkcontroller.core.gang.roster import AttemptName, Missing, document
from frameworkcontroller.core.restart.epoch import Gate
from frameworkcontroller.core.status.state import FrameworkState
from tests.controller.core.values import START, at, ended, events_in, task

IDENTITY = AttemptName("ns", "fw", "framework-uid", 2, "2_config-map-uid")


def gang(*addresses: str | None, revision: int = 1) -> RolesSummary:
    """A status that shows role `worker` with Tasks of these addresses; None: no Pod yet."""
    tasks = tuple(
        task() if ip is None else task(State.RUNNING, index=index, ip=ip, pod_uid=f"{index}2345678-pod")
        for index, ip in enumerate(addresses)
    )
    roles = (TaskRoleStatus("worker", "role-uid", task_statuses=tasks),)
    ready = sum(bool(ip) for ip in addresses)
    return RolesSummary(
        roles=roles, order=("worker",), ready=ready, total=len(addresses), by_arrival=False, member_revision=revision
    )


class Keeper:
    """The publisher of a gang whose ConfigMap was created at the start."""

    def __init__(self, annotation: str | None = None) -> None:
        annotations = {} if annotation is None else {names.ROSTER_ANNOTATION: annotation}
        meta = Meta("fw-attempt", "config-map-uid", "1", creation_timestamp=START, annotations=annotations)
        self.publisher = Publisher(meta, IDENTITY, roster.members, roster.behind)
        self.last: WriteRoster | None = None

    def fail(self) -> None:
        """The last write has failed."""
        self.publisher.forget()

    def decide(
        self, summary: RolesSummary, seconds: float, missing: Sequence[Missing] = ()
    ) -> tuple[dict[str, Any] | None, datetime | None]:
        """The roster that is written, and when to decide again."""
        found = self.publisher.decide(summary, lambda: missing, at(seconds), "")
        if found.write is None:
            return None, found.wake_at
        self.last = found.write
        return json.loads(found.write.document), found.wake_at

    def told(self, summary: RolesSummary, seconds: float, missing: Sequence[Missing] = ()) -> dict[str, Any]:
        """The roster, which must be written."""
        written, _ = self.decide(summary, seconds, missing)
        assert written is not None
        return written


ABOUT = """"framework": {
    "namespace": "ns", "name": "fw", "uid": "framework-uid", "attemptID": 2, "attemptInstanceUID": "2_config-map-uid"
}"""


def test_a_roster_of_a_complete_gang_lists_the_tasks_that_stay_by_role_in_the_order_of_the_spec() -> None:
    tasks = (
        task(State.RUNNING, ip="10.0.0.1", pod_uid="02345678-pod"),
        task(State.COMPLETED, ended(0), index=1, ip="10.0.0.2", pod_uid="12345678-pod", attempt=3),
        task(State.RUNNING, index=2, ip="10.0.0.3", deletion_pending=True),
    )
    roles = tuple(TaskRoleStatus(name, f"{name}-uid", task_statuses=tasks) for name in "abc")
    summary = replace_fields(gang("", ""), roles=roles, order=("c", "a"), ready=2, gpus={"a": 8, "b": 1})
    rows = '"tasks": [[0, "10.0.0.1", "02345678", 0, "", ""], [1, "10.0.0.2", "12345678", 3, "", ""]]'
    assert Keeper().told(summary, 0) == json.loads(f"""{{
        "version": 1, "generation": 1, {ABOUT}, "ready": 4, "total": 4, "complete": true, "waitingFor": [],
        "taskRoles": [{{"name": "c", {rows}}}, {{"name": "a", "gpus": 8, {rows}}}]
    }}""")


def test_that_applications_may_end_is_told_once_and_in_the_same_generation() -> None:
    keeper, running = Keeper(), gang("a", "b")
    assert "mayEnd" not in keeper.told(running, 0)
    ending = replace_fields(running, may_end=True)
    assert keeper.decide(ending, 0.5) == (None, at(1))
    told = keeper.told(ending, 1)
    assert (told["mayEnd"], told["generation"], told["complete"]) == (True, 1, True)
    assert keeper.decide(ending, 5) == (None, None)
    keeper.fail()
    assert keeper.told(ending, 6) == told
    assert keeper.decide(running, 10) == (None, at(36)), "others may not have read it yet"
    assert "mayEnd" not in keeper.told(running, 36)


def test_a_gang_that_has_lost_a_member_is_told_that_it_may_end() -> None:
    keeper, lost = Keeper(), gang("a", None, revision=2)
    keeper.told(gang("a", "b"), 0)
    assert "mayEnd" not in keeper.told(lost, 10)
    told = keeper.told(replace_fields(lost, may_end=True), 11)
    assert (told["mayEnd"], told["complete"]) == (True, False)


def test_a_roster_of_a_gang_that_waits_names_ten_of_its_tasks() -> None:
    missing = [(f"worker-{index}", "Pending") for index in range(50)]
    named = ", ".join(f'{{"task": "worker-{index}", "why": "Pending"}}' for index in range(10))
    assert Keeper().told(gang("a", None), 5, missing) == json.loads(f"""{{
        "version": 1, "generation": 0, {ABOUT}, "ready": 1, "total": 2, "complete": false, "waitingFor": [{named}]
    }}""")


UNREADABLE = {
    "none": None,
    "empty": "",
    "no JSON": "nonsense",
    "no fields": "{}",
    "text": '{"generation": "x"}',
    "a list": "[]",
    "negative": '{"generation": -1}',
    "beyond 64 bits": '{"generation": 100000000000000000000, "complete": true}',
    "a long digest": json.dumps({"complete": True, "digest": "x" * 1000}),
}


@pytest.mark.parametrize("annotation", UNREADABLE.values(), ids=UNREADABLE)
def test_an_annotation_that_cannot_be_read_is_none(annotation: str | None) -> None:
    keeper = Keeper(annotation)
    assert keeper.publisher.phase is Phase.GATHERING
    assert keeper.told(gang("a"), 0)["generation"] == 1


addresses = st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=3)


@given(st.lists(st.tuples(st.floats(0, 8), addresses, st.booleans(), st.booleans()), max_size=40))
def test_generations_tell_memberships_apart_and_readers_never_wait_long(
    moments: list[tuple[float, list[str | None], bool, bool]],
) -> None:
    """Over any life, with lost writes and new controllers, the ConfigMap is right soon and generations are true."""
    keeper, now, revision = Keeper(), 0.0, 0
    stored: list[dict[str, Any]] = []
    annotation: str | None = None
    for pause, members, lost, restart in moments:
        now, revision = now + pause, revision + 1
        if restart:
            keeper = Keeper(annotation)
        summary = gang(*members, revision=revision)
        written, wake_at = keeper.decide(summary, now)
        if written is not None:
            assert keeper.last is not None
            if lost:
                keeper.fail()
            else:
                annotation = keeper.last.annotation
                stored.append(written)
        elif wake_at is not None:
            assert wake_at > at(now)
        if summary.complete and not lost and wake_at is None:
            assert stored[-1]["complete"]
            assert [row[1] for row in stored[-1]["taskRoles"][0]["tasks"]] == members
    complete = [one for one in stored if one["complete"]]
    for before, after in pairwise(complete):
        step = after["generation"] - before["generation"]
        if before["taskRoles"] != after["taskRoles"]:
            assert step > 0
        elif not any(lost for _, _, lost, _ in moments):
            assert step == 0
    assert [one["generation"] for one in stored] == sorted(one["generation"] for one in stored)


def test_whatever_keeps_a_gang_waiting_its_barriers_read_little_of_it() -> None:
    missing = tuple((f"worker-{index}", "0/5000 nodes are available: " * 1200) for index in range(10))
    written = document(IDENTITY, 1, 9_990, 10_000, missing)
    assert len(written) < 4096
    assert json.loads(written)["waitingFor"][0]["why"].endswith("…")


def test_ten_thousand_members_with_long_names_are_a_third_of_a_mebibyte_for_each_barrier() -> None:
    draw = random.Random(14)

    def group() -> str:
        return f"{draw.randrange(1 << 16):x}"

    nodes = [(f"ip-10-{n % 256}-{draw.randrange(256)}-7.eu-central-1.compute.internal", f"2a05:d014::{group()}")
             for n in range(1_250)]  # fmt: skip
    rows = [
        [index, f"2a05:d014:{group()}:{group()}::{group()}", f"{draw.randrange(1 << 32):08x}", 0, *nodes[index // 8]]
        for index in range(10_000)
    ]
    written = document(IDENTITY, 1, 10_000, 10_000, rows=[{"name": "worker", "tasks": rows}])
    assert len(base64.b64encode(gzip.compress(written, 6))) < (1 << 20) / 3


# --- a gang that restarts in place -----------------------------------------------------------------------------------

WHY = "worker-1 exited with 1"


def changed(one: TaskStatus, **changes: Any) -> TaskStatus:
    """The Task with another attempt."""
    return replace(one, attempt_status=replace(one.attempt_status, **changes))


def member(index: int, starts: int, epoch: int, *, arrived: bool = True) -> TaskStatus:
    found = task(State.RUNNING, index=index, ip=f"10.0.0.{index}", pod_uid=f"{index}2345678-pod")
    return changed(found, starts=starts, epoch=epoch, arrived=arrived)


def epoch(number: int, *members: TaskStatus, revision: int) -> RolesSummary:
    """A status of a gang in this epoch; its gate is open if everybody is there."""
    ready = sum(one.attempt_status.arrived is True for one in members)
    released = len(members) if ready == len(members) else 0
    gate = Gate(number, released, WHY if number else "", at(0) if number else None)
    roles = (TaskRoleStatus("worker", "role-uid", task_statuses=members),)
    return replace_fields(gang(*("" for _ in members)), roles=roles, ready=ready, member_revision=revision, gate=gate)


LAGGARD = member(0, 1, 0, arrived=False)
OPEN = epoch(0, member(0, 1, 0), member(1, 1, 0), revision=1)
ENDED = epoch(1, LAGGARD, member(1, 2, 1, arrived=False), revision=2)
LATE = epoch(1, LAGGARD, member(1, 2, 1), revision=3)
AGAIN = epoch(1, member(0, 2, 1), member(1, 2, 1), revision=4)


def test_the_end_of_an_epoch_is_told_at_once_and_who_is_behind_some_seconds_later() -> None:
    keeper = Keeper()
    first = keeper.told(OPEN, 1)
    assert (first["epoch"], first["complete"], first["why"]) == (0, True, "")
    assert [row[6] for row in first["taskRoles"][0]["tasks"]] == [1, 1]
    closed, wake_at = keeper.decide(ENDED, 1.1)
    assert (closed["epoch"], closed["complete"], closed["why"]) == (1, False, WHY)
    assert "behind" not in closed
    assert wake_at == at(6.1)
    assert keeper.decide(LATE, 3) == (None, at(6.1))
    late = keeper.told(LATE, 6.1)
    assert late["behind"] == [["worker", 0, "02345678", 1]]
    again = keeper.told(AGAIN, 7)
    assert (again["epoch"], again["complete"], again["generation"]) == (1, True, 2)
    assert "behind" not in again


def test_a_leader_that_takes_over_goes_on_with_the_epoch_that_was_told() -> None:
    keeper = Keeper()
    keeper.decide(OPEN, 1)
    was_open = json.loads(keeper.last.annotation)
    assert (was_open["generation"], was_open["complete"], was_open["epoch"]) == (1, True, 0)
    keeper.decide(ENDED, 2)
    assert json.loads(keeper.last.annotation) == was_open | {"complete": False, "epoch": 1}
    next_leader = Keeper(keeper.last.annotation)
    assert next_leader.decide(ENDED, 3) == (None, at(5))
    behind_the_times = Keeper('{"generation":1,"complete":true,"digest":"x","epoch":0}')
    assert behind_the_times.publisher.phase is Phase.COMPLETE
    told = behind_the_times.told(ENDED, 3)
    assert told["epoch"] == 1


NOT_BEHIND = {
    "it ends": changed(LAGGARD, completion_status=ended(1)),
    "it is scaled down": replace(LAGGARD, deletion_pending=True),
    "it has restarted": changed(LAGGARD, epoch=UNSET),
    "it has no barrier": changed(LAGGARD, arrived=UNSET),
}


@pytest.mark.parametrize("one", NOT_BEHIND.values(), ids=NOT_BEHIND)
def test_nobody_else_is_behind(one: TaskStatus) -> None:
    assert roster.behind(epoch(1, one, member(1, 2, 1), revision=1)) == ()


def test_the_seconds_of_a_restart_begin_with_the_end_of_the_epoch() -> None:
    state, times = FrameworkState("fw"), RestartTimes()

    def reached(seconds: float) -> list[tuple[str, float]]:
        return [(one.phase, one.seconds) for one in times.milestones(state, lambda: 2, at(seconds))]

    times.note(Gate(0, 0))
    times.is_released = True
    assert reached(1) == []
    times.note(Gate(1, 0, WHY, at(10)))
    assert reached(11) == []
    times.is_released = True
    assert (reached(12), reached(13)) == ([("restart-open", 2)], [])
    state.applications |= {("worker", 0), ("worker", 1)}
    assert (reached(14), reached(15)) == ([("restart-running", 4)], [])
    (event,) = events_in(state.reports.take(0))
    assert (event.reason, event.message) == ("GangRestarted", "Epoch 1: all 2 Tasks are ready again after 2.0 s")


# --- what others change ----------------------------------------------------------------------------------------------

VERSIONS = {
    "its own": ("7", "7", False),
    "a newer one": ("7", "8", True),
    "by number, not by text": ("7", "10", True),
    "a late cache": ("10", "9", False),
    "its own is not known": ("", "9", True),
    "not comparable": ("7", "opaque", False),
    "not comparable either": ("opaque", "7", False),
    "neither known nor comparable": ("", "opaque", True),
}


@pytest.mark.parametrize(("own", "seen", "changed"), VERSIONS.values(), ids=VERSIONS)
def test_a_version_above_ones_own_is_somebody_elses(own: str, seen: str, *, changed: bool) -> None:
    assert drift.is_changed(Guard(own), seen) == changed


def test_who_goes_on_changing_it_is_answered_later_and_later() -> None:
    guard, now, pauses = Guard("1"), START, []
    for version in range(2, 200, 2):
        then = max(now, drift.due(guard, now))
        pauses.append((then - now).total_seconds())
        guard, restored = drift.written(drift.answer(guard, str(version), then), str(version + 1))
        assert restored
        now = then
    assert pauses[:8] == [0, 1, 2, 4, 8, 16, 32, 60]
    assert set(pauses[7:]) == {PAUSE_MAX.total_seconds()}


def test_after_a_quiet_while_the_next_change_is_answered_at_once() -> None:
    guard = Guard("1")
    for _ in range(9):
        guard = drift.answer(guard, "2", START)
    later = START + FORGET_AFTER
    assert drift.due(guard, later - timedelta(seconds=1)) == START + PAUSE_MAX
    assert drift.due(guard, later) == later
    assert drift.due(drift.answer(guard, "3", later), later) == later + timedelta(seconds=1)


def test_the_roster_that_answers_a_change_by_others_is_made_when_it_is_due() -> None:
    """Fifty patches a second of the ConfigMap of 1,000 TaskRoles took the loop from others."""
    made: list[RolesSummary] = []

    def members(summary: RolesSummary) -> list[dict[str, Any]]:
        made.append(summary)
        return roster.members(summary)

    meta = Meta("fw-attempt", "config-map-uid", "1", creation_timestamp=START)
    keeper = Publisher(meta, IDENTITY, members, version="1")
    for version in ("1", "3"):
        write = keeper.decide(gang("a"), lambda: (), at(0), version).write
        assert write is not None
        keeper.apply_outcome(write, str(int(version) + 1))
    made.clear()
    waits = [keeper.decide(gang("a"), lambda: (), at(0.5), str(version)) for version in range(5, 20)]
    assert (made, {one.write for one in waits}, {one.wake_at for one in waits}) == ([], {None}, {at(1)})
