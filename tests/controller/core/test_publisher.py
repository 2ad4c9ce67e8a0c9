"""When which roster is written, and what it says."""

from __future__ import annotations

import base64
import gzip
import json
import random
from dataclasses import replace as replace_fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Meta
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskRoleStatus
from frameworkcontroller.core.effects import RolesSummary
from frameworkcontroller.core.gang import roster
from frameworkcontroller.core.gang.publisher import Phase, Publisher
from frameworkcontroller.core.gang.roster import AttemptName, Missing, document
from tests.controller.core.values import START, at, ended, task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from frameworkcontroller.core.effects import WriteRoster

IDENTITY = AttemptName("ns", "fw", "framework-uid", 2, "2_config-map-uid")


def gang(*addresses: str | None, revision: int = 1, total: int | None = None) -> RolesSummary:
    """A status that shows role `worker` with Tasks of these addresses; None: no Pod yet."""
    tasks = tuple(
        task() if ip is None else task(State.RUNNING, index=index, ip=ip, pod_uid=f"{index}2345678-pod")
        for index, ip in enumerate(addresses)
    )
    roles = (TaskRoleStatus("worker", "role-uid", task_statuses=tasks),)
    ready = sum(bool(ip) for ip in addresses)
    return RolesSummary(
        roles=roles,
        order=("worker",),
        ready=ready,
        total=len(addresses) if total is None else total,
        by_arrival=False,
        member_revision=revision,
    )


class Keeper:
    """The publisher of a gang whose ConfigMap was created at the start."""

    def __init__(self, annotation: str | None = None) -> None:
        annotations = {} if annotation is None else {names.ROSTER_ANNOTATION: annotation}
        meta = Meta("fw-attempt", "config-map-uid", "1", creation_timestamp=START, annotations=annotations)
        self.publisher = Publisher(meta, IDENTITY, roster.members, roster.behind)
        self.last: WriteRoster | None = None

    @property
    def is_complete(self) -> bool:
        return self.publisher.phase is Phase.COMPLETE

    def fail(self) -> None:
        """The last write has failed."""
        self.publisher.apply_outcome(done=False, complete=False)

    def decide(
        self, summary: RolesSummary, seconds: float, missing: Sequence[Missing] = ()
    ) -> tuple[dict[str, Any] | None, datetime | None]:
        """The roster that is written, and when to decide again."""
        found = self.publisher.decide(summary, lambda: missing, at(seconds))
        if found.write is None:
            return None, found.wake_at
        self.last = found.write
        assert found.write.config_map_uid == "config-map-uid"
        written: dict[str, Any] = json.loads(found.write.document)
        assert written["complete"] == found.write.complete == self.is_complete
        return written, found.wake_at

    def told(self, summary: RolesSummary, seconds: float, missing: Sequence[Missing] = ()) -> dict[str, Any]:
        """The roster, which must be written."""
        written, _ = self.decide(summary, seconds, missing)
        assert written is not None
        return written


def test_news_of_progress_is_written_every_5_seconds_at_most_and_without_members() -> None:
    keeper, why = Keeper(), [("worker-1", "Pending")]
    assert keeper.decide(gang("a", None), 0, why) == (None, at(5))
    assert keeper.decide(gang("a", None), 4.9, why) == (None, at(5))
    written, wake_at = keeper.decide(gang("a", None), 5, why)
    assert (written["ready"], written["total"], written["complete"], written["generation"]) == (1, 2, False, 0)
    assert "taskRoles" not in written
    assert wake_at == at(10)
    assert keeper.decide(gang("a", None), 10, why) == (None, at(15)), "it would say the same"
    assert keeper.decide(gang("a", "b", None), 14.9, why) == (None, at(15))
    assert keeper.told(gang("a", "b", None), 15, why)["ready"] == 2
    written = keeper.told(gang("a", "b", None), 20, [("worker-1", "Pending: no image")])
    assert written["waitingFor"] == [{"task": "worker-1", "why": "Pending: no image"}]


def test_at_most_ten_are_named() -> None:
    missing = [(f"worker-{index}", "Pending") for index in range(50)]
    written = Keeper().told(gang("a", None), 5, missing)
    assert [one["task"] for one in written["waitingFor"]] == [f"worker-{index}" for index in range(10)]


def test_a_complete_gang_is_written_at_once_with_every_member() -> None:
    keeper = Keeper()
    keeper.decide(gang("10.0.0.1", None), 5)
    written, wake_at = keeper.decide(gang("10.0.0.1", "10.0.0.2"), 5.001)
    assert wake_at is None
    assert written == {
        "version": 1,
        "generation": 1,
        "framework": {
            "namespace": "ns",
            "name": "fw",
            "uid": "framework-uid",
            "attemptID": 2,
            "attemptInstanceUID": "2_config-map-uid",
        },
        "ready": 2,
        "total": 2,
        "complete": True,
        "waitingFor": [],
        "taskRoles": [
            {
                "name": "worker",
                "tasks": [[0, "10.0.0.1", "02345678", 0, "", ""], [1, "10.0.0.2", "12345678", 0, "", ""]],
            }
        ],
    }


def test_a_roster_says_how_many_gpus_each_pod_of_a_role_asks_for() -> None:
    assert roster.members(gang("10.0.0.1"))[0].keys() == {"name", "tasks"}
    (role,) = roster.members(replace_fields(gang("10.0.0.1"), gpus={"worker": 8, "other": 1}))
    assert role["gpus"] == 8


def test_members_are_the_tasks_that_stay_ended_ones_too_by_role_in_the_order_of_the_spec() -> None:
    tasks = (
        task(State.RUNNING, ip="a"),
        task(State.COMPLETED, ended(0), index=1, ip="b"),
        task(State.RUNNING, index=2, ip="c", deletion_pending=True),
    )
    roles = tuple(TaskRoleStatus(name, f"{name}-uid", task_statuses=tasks) for name in "abc")
    written = Keeper().told(
        RolesSummary(roles=roles, order=("c", "a"), ready=4, total=4, by_arrival=False, member_revision=1), 0
    )
    listed = {one["name"]: [row[:2] for row in one["tasks"]] for one in written["taskRoles"]}
    assert list(listed) == ["c", "a"]
    assert listed["c"] == listed["a"] == [[0, "a"], [1, "b"]]


def test_a_change_of_a_running_gang_is_a_new_generation_a_second_after_the_last() -> None:
    keeper = Keeper()
    keeper.decide(gang("a", "b"), 0)
    assert keeper.decide(gang("a", "c", revision=2), 0.5) == (None, at(1))
    written = keeper.told(gang("a", "d", revision=3), 1)
    assert (written["generation"], written["taskRoles"][0]["tasks"][1][1]) == (2, "d")
    written = keeper.told(gang("a", "e", revision=4), 30)
    assert written["generation"] == 3


def test_the_same_members_are_not_written_again_nor_a_change_that_was_undone_before() -> None:
    keeper = Keeper()
    keeper.decide(gang("a", "b"), 0)
    assert keeper.decide(gang("a", "c", revision=2), 0.5) == (None, at(1))
    for seconds in (2, 10):
        assert keeper.decide(gang("a", "b", revision=3), seconds) == (None, None)


def test_a_gang_that_loses_a_member_says_so_each_time_and_a_new_one_is_a_new_generation() -> None:
    keeper, missing = Keeper(), [("worker-1", "has no Pod yet")]
    keeper.decide(gang("a", "b"), 0)
    told = [
        keeper.told(gang("a", None, revision=2), 5, missing),
        keeper.told(gang("a", "b", revision=3), 6),
        keeper.told(gang("a", None, revision=4), 11, missing),
        keeper.told(gang("a", "c", revision=5), 11.5),
    ]
    assert [(one["complete"], one["generation"]) for one in told] == [(False, 1), (True, 1), (False, 1), (True, 2)]


def test_without_a_barrier_only_the_complete_gang_and_its_end_are_written() -> None:
    def unread(*addresses: str | None, revision: int = 1) -> RolesSummary:
        return replace_fields(gang(*addresses, revision=revision), has_barriers=False)

    keeper = Keeper()
    assert keeper.decide(unread("a", None), 5) == (None, at(30)), "when it is late, an Event says so"
    again = keeper.publisher.again(unread("a", None))
    assert again is not None, "if somebody else has written one"
    assert not again.complete
    assert keeper.decide(unread("a", "b"), 10)[0] is not None
    lost = keeper.told(unread("a", None, revision=2), 20)
    assert not lost["complete"]
    assert keeper.decide(unread(None, None, revision=3), 30)[0] is None
    keeper.fail()
    assert keeper.decide(unread(None, None, revision=3), 31)[0] is not None, "what the last roster says is not known"
    assert keeper.decide(unread("a", "b", revision=4), 40)[0] is not None


@pytest.mark.parametrize("summary", [gang("a", "b"), gang("a", None)], ids=["all members", "progress"])
def test_a_write_that_failed_is_repeated_with_the_same_generation(summary: RolesSummary) -> None:
    keeper = Keeper()
    first = keeper.told(summary, 5)
    keeper.fail()
    assert keeper.told(summary, 5.1) == first


def test_the_next_controller_goes_on_where_the_last_one_stopped() -> None:
    first = Keeper()
    first.decide(gang("a", "b"), 0)
    first.decide(gang("a", "c", revision=2), 5)
    second = Keeper(first.last.annotation)
    assert second.is_complete
    assert second.decide(gang("a", "c", revision=77), 10) == (None, None)
    written = second.told(gang("a", "d", revision=78), 20)
    assert written["generation"] == 3


@pytest.mark.parametrize(
    "annotation",
    [
        None,
        "",
        "nonsense",
        "{}",
        '{"generation": "x"}',
        "[]",
        '{"generation": -1}',
        '{"generation": 100000000000000000000, "complete": true}',
        json.dumps({"complete": True, "digest": "x" * 1000}),
    ],
    ids=["none", "empty", "no JSON", "no fields", "text", "a list", "negative", "beyond 64 bits", "a long digest"],
)
def test_an_annotation_that_cannot_be_read_is_none(annotation: str | None) -> None:
    keeper = Keeper(annotation)
    assert not keeper.is_complete
    written = keeper.told(gang("a"), 0)
    assert written["generation"] == 1


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


def test_a_gang_that_was_once_complete_is_never_late() -> None:
    keeper = Keeper()
    keeper.decide(gang("a", "b"), 0)
    for seconds, fails in ((40, True), (80, False), (120, False)):
        found = keeper.publisher.decide(gang("a", None, revision=2), lambda: [("worker-1", "Pending")], at(seconds))
        assert (found.event, keeper.publisher.phase) == (None, Phase.DEGRADED)
        if fails:
            keeper.fail()
    assert keeper.decide(gang("a", "c", revision=3), 121)[0] is not None
    assert keeper.is_complete


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
