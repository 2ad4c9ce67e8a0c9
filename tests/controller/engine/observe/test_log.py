"""The log has a reader that may be slow or stop: that costs lines, and nobody's time."""

import asyncio
import dataclasses
import json
import math
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import ContainerEnd, PodEnd, TaskStatus
from frameworkcontroller.core.pods import snapshots
from frameworkcontroller.core.pods.snapshots import HistoryCause, Lines, Snapshot
from frameworkcontroller.core.pods.template import RoleAttempt
from frameworkcontroller.engine.observe import log
from frameworkcontroller.engine.observe.history import IN_A_ROW, History
from frameworkcontroller.engine.observe.log import LineWriter, OwnedLines, render_text
from frameworkkube.log import render_json
from testkit.waiting import patience
from tests.controller.core.values import ended, task
from tests.controller.core.values import framework as status_of

KIB = 1024
ROLE = RoleAttempt("ns", "fw", "framework-uid", 0, "config-map-uid", "worker", "role-uid")


class Reader:
    """Takes what is written once it reads."""

    def __init__(self) -> None:
        self.reads, self.taken = threading.Event(), bytearray()
        self.asked = threading.Event()

    def write(self, lines: bytes) -> None:
        self.asked.set()
        assert self.reads.wait(patience(20))
        self.taken += lines


def stuck(kib: int) -> tuple[Reader, LineWriter]:
    """A reader that has begun and does not go on, and a writer with so many KiB of place for what waits for it."""
    reader = Reader()
    lines = LineWriter(reader.write, capacity=kib * KIB)
    lines.write(b"first\n")
    assert reader.asked.wait(patience(20))
    return reader, lines


def put(lines: LineWriter, line: bytes, size: int, owner: str = "", done: Callable[[], object] | None = None) -> None:
    """Write a line that is made late."""
    lines.put(lambda: line, size, owner, done)


def read_all(reader: Reader, lines: LineWriter) -> None:
    reader.reads.set()
    lines.flush(patience(20))


def framework(generation: int, template: bytes) -> Any:
    pod = msgspec.Raw(b'{"metadata":{"annotations":{"x":"' + template + b'"}}}')
    metadata = {"name": "fw", "namespace": "ns", "uid": "framework-uid", "resourceVersion": "7"}
    spec = {"taskRoles": [{"name": "worker", "taskNumber": 2000, "task": {"pod": pod}}]}
    return FRAMEWORK_DECODER.decode(
        msgspec.json.encode({"metadata": metadata | {"generation": generation}, "spec": spec})
    )


def taken(seen: Any, status: TaskStatus, cause: HistoryCause = HistoryCause.TASK_RETRY) -> Snapshot:
    """A snapshot of a Task."""
    return snapshots.of_task(cause, seen, ROLE, seen.spec.task_roles[0].task, status)


def retried(seen: Any, index: int) -> Snapshot:
    return taken(seen, task(State.ATTEMPT_COMPLETED, ended(1), index=index))


def test_a_snapshot_counts_what_was_said_of_ends() -> None:
    """Those of attempts of 30 Tasks with 256 containers each counted 23 KB, and kept 3.4 MB."""
    seen = framework(1, b"")
    says = PodEnd(containers=tuple(ContainerEnd(name=f"c{place}", message="x" * 100, code=1) for place in range(256)))
    assert taken(seen, task(State.ATTEMPT_COMPLETED, replace(ended(1), pod=says))).size > 256 * 100
    status = status_of(State.RUNNING)
    size = snapshots.of_framework(HistoryCause.FRAMEWORK_RETRY, seen, status, text_bytes=1000).size
    assert size == snapshots.of_framework(HistoryCause.FRAMEWORK_RETRY, seen, status).size + 1000


def test_lines_come_in_their_order_also_those_that_are_made_late() -> None:
    reader = Reader()
    lines = LineWriter(reader.write)
    written = threading.Event()
    for number in range(1000):
        put(lines, b"%d\n" % number, 3, done=written.set if number == 999 else None)
    assert not written.wait(0.01)
    reader.reads.set()
    assert written.wait(patience(20))
    assert reader.taken.split() == [b"%d" % number for number in range(1000)]


def test_lines_are_written_together() -> None:
    written: list[bytes] = []
    lines, begun = LineWriter(written.append), time.monotonic()
    for _ in range(50):
        lines.write(b"x")
        time.sleep(0.001)
    lines.flush(patience(20))
    assert b"".join(written) == b"x" * 50
    assert len(written) <= 1 + (time.monotonic() - begun) / log.COLLECT_SECONDS


@pytest.mark.parametrize("waits_for", ["one", "many"])
def test_a_line_for_which_somebody_waits_and_many_are_written_at_once(
    waits_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "COLLECT_SECONDS", 60.0)
    written: list[bytes] = []
    lines, done = LineWriter(written.append), threading.Event()
    if waits_for == "one":
        lines.write(b"before it")
        lines.put(lambda: b"it", 2, done=done.set)
        assert done.wait(patience(20))
        assert b"".join(written) == b"before itit"
    else:
        lines.put(lambda: b"x", log.AT_ONCE)
        lines.flush(patience(20))
        assert written == [b"x"]


def test_those_who_write_most_lose_their_oldest_lines_first() -> None:
    """A reader of 20 MB/s lost 77 of the 121 lines of healthy gangs beside one Framework that wrote 80 MB/s."""
    reader, lines = stuck(256)
    for number in range(1000):
        put(lines, b"large %d\n" % number, 10 * KIB, "ns/large")
        if number % 100 == 0:
            put(lines, b"small %d\n" % number, 2 * KIB, "ns/small")
    read_all(reader, lines)
    taken = reader.taken.splitlines()
    assert [line for line in taken if line.startswith(b"small")] == [
        b"small %d" % number for number in range(0, 1000, 100)
    ]
    assert taken[-1] == b"large 999"
    assert lines.dropped == 1011 - len(taken) > 900


def test_a_namespace_of_many_owners_loses_its_own_lines() -> None:
    """With 5,000 Frameworks of a few lines each, a tenant pushed out what one of many lines had written."""
    reader, lines = stuck(1024)
    for _ in range(100):
        lines.put(lambda: b"gang\n", KIB, "ns/gang")
    for number in range(5000):
        lines.put(lambda: b"crowd\n", KIB, f"crowd/{number}")
    read_all(reader, lines)
    assert reader.taken.split().count(b"gang") == 100


def test_what_a_line_was_made_of_takes_no_place_while_the_line_is_written() -> None:
    """Lines of a few bytes, made of large objects, left no place for the lines of others."""
    reader = Reader()
    lines = LineWriter(reader.write, capacity=256 * KIB)
    lines.put(lambda: b"first\n", 250 * KIB, "ns/large")
    assert reader.asked.wait(patience(20))
    for number in range(20):
        put(lines, b"small %d\n" % number, 2 * KIB, "ns/small")
    read_all(reader, lines)
    assert lines.dropped == 0


def test_a_place_is_found_among_many_owners_without_a_look_at_each_for_each_line() -> None:
    """With as many owners as there is place for, each line cost the event loop half a millisecond."""
    (reader, lines), looks = stuck(4096), 0
    make_place = lines._make_place

    def counted() -> None:
        nonlocal looks
        looks += 1
        make_place()

    lines._make_place = counted  # type: ignore[method-assign]
    for number in range(20_000):
        lines.put(lambda: b"x\n", 2 * KIB, f"ns/{number}")
    assert lines.dropped > 15_000
    assert looks < 200
    read_all(reader, lines)


def test_nobody_waits_for_lines_that_were_dropped() -> None:
    (reader, lines), written = stuck(64), threading.Event()
    lines.put(lambda: b"waited for\n", KIB, "ns/large", written.set)
    lines.put(lambda: b"last\n", 128 * KIB, "ns/large")
    assert written.is_set()
    read_all(reader, lines)
    assert reader.taken.split(b"\n")[:2] == [b"first", b"last"]


def test_a_reader_that_stops_costs_the_oldest_lines_and_no_time_and_is_told_so() -> None:
    reader, lines = stuck(256)
    tracemalloc.start()
    try:
        for number in range(10_000):
            lines.write(b"%d " % number + b"x" * KIB + b"\n")
        assert tracemalloc.get_traced_memory()[1] < 2 * 256 * KIB
    finally:
        tracemalloc.stop()
    assert lines.dropped > 9000
    with capture_logs() as said:
        read_all(reader, lines)
    assert reader.taken.startswith(b"first\n")
    assert [(one["event"], one["lines"]) for one in said] == [
        ("lines of this log were dropped: its reader is too slow", lines.dropped)
    ]
    assert reader.taken.splitlines()[-1].startswith(b"9999 ")


def test_a_line_that_cannot_be_made_costs_no_other() -> None:
    reader = Reader()
    reader.reads.set()
    lines = LineWriter(reader.write)
    with capture_logs() as said:
        lines.put(lambda: b"x" * (1 // 0), 1)
        lines.write(b"next\n")
        lines.flush(patience(20))
    assert [one["event"] for one in said] == ["a line of this log cannot be made"]
    assert reader.taken == b"next\n"


def test_many_snapshots_of_tasks_with_a_large_template_cost_little_memory_and_few_bytes() -> None:
    """2,000 retried Tasks of 200 KB were 400 MB, all of which was encoded before the first line was written."""
    seen, history, size = framework(3, b"x" * 200_000), Lines(), 0
    tracemalloc.start()
    try:
        of_all = [retried(seen, index) for index in range(2000)]
        for one in of_all:
            size += len(history.of("ns/fw", one))
        assert tracemalloc.get_traced_memory()[1] < 20 * KIB * KIB
    finally:
        tracemalloc.stop()
    assert size < 200_000 + 2000 * 4 * KIB


async def test_frameworks_that_lines_keep_are_counted_until_their_last_line_is_dropped() -> None:
    """400 of 1 MB that were gone, with two retried Tasks each, took 384 MiB and counted 27."""
    (reader, lines), size = stuck(1024), 100 * KIB
    history = History(lines, frozenset(HistoryCause))
    for number in range(50):
        seen = framework(number, b"x" * size)
        for _ in history.write_pass("ns", f"fw{number}", [retried(seen, index) for index in range(2)]):
            pass
    assert 5 < len(lines._shares) <= 1024 * KIB / size
    read_all(reader, lines)


async def test_a_framework_counts_once_for_all_snapshots_of_a_pass_which_lets_others_have_their_turn() -> None:
    (reader, lines), size, number = stuck(1024), 300 * KIB, 200
    history, seen = History(lines, frozenset(HistoryCause)), framework(1, b"x" * size)
    turns = list(history.write_pass("ns", "fw", [retried(seen, index) for index in range(number)]))
    assert (lines.dropped, len(turns), len(set(turns))) == (0, math.ceil(number / IN_A_ROW), 1)
    assert not turns[-1].done()
    reader.reads.set()
    await asyncio.wait_for(turns[-1], patience(20))


def test_a_snapshot_that_cannot_be_made_does_not_hide_that_of_its_framework() -> None:
    seen, history = framework(3, b"x" * 20 * KIB), Lines()

    def fail() -> bytes:
        raise ValueError("it cannot be made")

    with pytest.raises(ValueError, match=r"^it cannot be made$"):
        history.of("ns/fw", dataclasses.replace(retried(seen, 0), encode=fail))
    assert history.of("ns/fw", retried(seen, 1)).count(b"ObjectSnapshot") == 2


def test_a_large_template_stands_in_the_snapshot_of_its_framework_to_which_tasks_refer() -> None:
    history = Lines()

    def documents(one: Snapshot) -> list[dict[str, Any]]:
        lines = history.of("ns/fw", one).splitlines()
        assert all(line.startswith(b"[ns/fw]: OnTaskRetry: ObjectSnapshot: ") for line in lines)
        return [json.loads(line.split(b": ObjectSnapshot: ")[1]) for line in lines]

    large, edited, small = framework(3, b"x" * 20 * KIB), framework(4, b"y" * 20 * KIB), framework(5, b"z")
    whole, first = documents(retried(large, 0))
    assert (whole["kind"], whole["metadata"]["generation"], whole["status"]) == ("Framework", 3, None)
    assert whole["spec"]["taskRoles"][0]["task"]["pod"]["metadata"]["annotations"]["x"] == "x" * 20 * KIB
    assert (first["kind"], first["spec"]) == ("Task", {"frameworkGeneration": 3})
    assert first["metadata"]["annotations"]["FC_FRAMEWORK_UID"] == whole["metadata"]["uid"]
    [second] = documents(retried(large, 1))
    assert second["spec"] == {"frameworkGeneration": 3}
    assert [one["kind"] for one in documents(retried(edited, 2))] == ["Framework", "Task"]
    [plain] = documents(retried(small, 3))
    assert plain["spec"]["pod"]["metadata"]["annotations"]["x"] == "z"


def test_a_task_without_a_pod_refers_also_to_a_template_of_more_than_a_kibibyte() -> None:
    """One edit removes 9,000 of them: with 5 KB each these were 52 MB of lines, again and again."""
    waits = task(State.CREATION_PENDING, deletion_pending=True)
    gone = task(State.COMPLETED, ended(1), deletion_pending=True)
    for size, refers in ((900, False), (1100, True)):
        seen = framework(1, b"x" * size)
        both = [taken(seen, one, HistoryCause.TASK_DELETION) for one in (waits, gone)]
        assert [one.refers for one in both] == [refers, False]


def test_owners_of_short_lines_take_place_too() -> None:
    """With 73,000 of them to look at, the event loop stood still for 150 ms to find what to drop."""
    reader, lines = stuck(1024)
    for number in range(10_000):
        lines.put(lambda: b"x\n", 2, f"ns/{number}")
    assert lines.dropped > 9_300
    read_all(reader, lines)
    assert (lines._waiting, lines._shares) == (0, {})


@pytest.mark.parametrize("what", ["framework", "gang", "namespace"])
def test_a_line_about_an_object_takes_the_place_of_its_namespace(what: str) -> None:
    """With a slow reader, 20,000 lines about Tasks of one namespace pushed out a third of those of another."""
    reader, lines = stuck(512)
    for logger in (OwnedLines(lines, render_json), OwnedLines(lines, render_text)):
        for number in range(20):
            logger.info(level="info", event="x", n=number, **{what: "ns/gang"})
        for number in range(5000):
            lines.write(b"x" * 101, f"hostile/fw-{number % 3}")
    read_all(reader, lines)
    assert reader.taken.count(b"ns/gang") == 40
    assert lines.dropped > 5000
