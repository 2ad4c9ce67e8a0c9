"""When the gate opens, for whom, and what the barrier says while it waits: flows under a clock of the test's own."""

import io
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest

from frameworkbarrier.errors import BarrierError, EpochEndedError, GoneError, OutputError, WaitTimeoutError
from frameworkbarrier.gate.epoch import InEpochs, follow
from frameworkbarrier.gate.gate import Fault, Gatekeeper, Observation, Released
from frameworkbarrier.gate.wait import Progress, SourceReader, wait
from frameworkbarrier.log import Log, leave_message
from frameworkbarrier.settings import OwnTask
from tests.barrier.gangs import behind, closed, foreign, gang, observation, roster, uid

ME = OwnTask("worker", 0, uid("worker", 0))
WORKER_1 = OwnTask("worker", 1, uid("worker", 1))


def decided(gatekeeper: Gatekeeper, document: dict[str, Any]) -> str:
    """What it decides, and when it wants to decide again."""
    try:
        decision = gatekeeper.decide(observation(document))
    except BarrierError as end:
        return str(end)
    if isinstance(decision, Released):
        return f"open for {decision.role.name}-{decision.task.index}" if decision.role and decision.task else "open"
    due_in = gatekeeper.due_in()
    return str(decision) if due_in is None else f"{decision}; again in {due_in:g} s"


def pod_named(name: str) -> OwnTask:
    """A Pod of another controller, whose gang has a Pod of the same UID for each Task."""
    return OwnTask(None, None, uid("worker", 1), name)


def missing(name: str) -> str:
    return f"2/3: {name} (this Pod) is not recorded yet"


ANOTHER_WORKER_1 = OwnTask("worker", 1, uid("worker", 1, instance=1))
COMPLETE = roster({"ps": 1, "worker": 2})
ALIKE = foreign({"ps": 1, "worker": 2}, uid8=uid("worker", 1)[:8])
INCOMPLETE = roster({"worker": 3}, ready=1, waitingFor=[{"task": "worker-0", "why": "Pending"}])
SEEN = {
    "a complete gang lists it": (WORKER_1, COMPLETE, "open for worker-1"),
    "an incomplete gang names who is missing": (WORKER_1, INCOMPLETE, "1/3: worker-0 Pending, 1 more"),
    "nobody is missing": (WORKER_1, roster({"worker": 5}, ready=5, complete=False), "5/5: the gang to be complete"),
    "a gang without names is a count": (WORKER_1, roster({"worker": 5}, ready=3), "3/5: 2 Tasks"),
    "another instance of this Pod is listed": (ANOTHER_WORKER_1, COMPLETE, missing("worker-1")),
    "the UID is that of a neighbour": (OwnTask("worker", 1, uid("worker", 0)), COMPLETE, missing("worker-1")),
    "this index is not listed": (OwnTask("worker", 3, uid("worker", 3)), COMPLETE, missing("worker-3")),
    "a Pod that knows only its UID is found by it": (OwnTask(None, None, uid("ps", 0)), COMPLETE, "open for ps-0"),
    "a Pod whose UID is not rare is found by its name too": (pod_named("train-worker-1"), ALIKE, "open for worker-1"),
    "no Pod has its name": (pod_named("x"), ALIKE, missing("this Pod")),
    "a Pod does not know who it is": (OwnTask(None, None, None), COMPLETE, "open"),
    "who does not restart in place needs no start": (ME, gang(1, 2, 3), "open for worker-0"),
    "who does not restart in place is never behind": (ME, closed(1, **behind(1)), "1/2: 1 Task"),
}


@pytest.mark.parametrize(("own", "seen", "decision"), SEEN.values(), ids=SEEN)
def test_a_complete_gang_opens_the_gate_for_whom_it_lists(own: OwnTask, seen: dict[str, Any], decision: str) -> None:
    assert decided(Gatekeeper(own), seen) == decision


OPEN, CLOSED = "open for worker-0", "1/2: 1 Task"
BEHIND = "epoch 1 has begun without this start of the Pod: worker-1 exited with 1: boom"
NO_EPOCHS = "FB_RESTART=in-place: the gang has no epoch, so nobody restarts it"
ENDS = "epoch 4 begins: worker-1 exited with 1: boom"


def listed(start: int, again: str = "") -> str:
    """The second start of this Pod sees another one in the roster, and decides again when some seconds are over."""
    return f"1/2: worker-0 (this Pod) is listed with start {start}, this is 2" + (again and f"; again in {again} s")


IN_PLACE: dict[str, list[tuple[float, dict[str, Any], str]]] = {
    "this start is listed": [(0, gang(1, 2, 3), OPEN)],
    "a later start is listed": [(0, gang(1, 4, 3), listed(4))],
    "an earlier start is listed: the peers may run since before this one, and it never joins them": [
        (at, gang(1, 1, 3), listed(1)) for at in (0, 11, 600)
    ],
    "the gate is closed": [(0, closed(1), CLOSED), (600, closed(1), CLOSED)],
    "this start is of an earlier epoch": [(0, closed(1, **behind(2)), BEHIND)],
    "the start before was of an earlier epoch": [(0, closed(1, **behind(1)), CLOSED)],
    "somebody else is of an earlier epoch": [(0, closed(1, **behind(2, index=1)), CLOSED)],
    "a roster that insists is right if the gate was seen closed": [
        (0, closed(3), CLOSED),
        (1, gang(3, 4, 2), listed(4, again="10")),
        (10.5, gang(3, 4, 2), listed(4, again="0.5")),
        (11, gang(3, 4, 2), OPEN),
    ],
    "a gate that closes again begins the ten seconds anew": [
        (0, closed(3), CLOSED),
        (0, gang(3, 4, 2), listed(4, again="10")),
        (8, closed(4), CLOSED),
        (9, gang(4, 4, 2), listed(4, again="10")),
        (12, gang(4, 4, 2), listed(4, again="7")),
    ],
    "nobody restarts the gang": [(0, roster({"worker": 2}, ready=1), CLOSED), (1, roster({"worker": 2}), NO_EPOCHS)],
    "a later epoch begins": [(0, gang(3, 2, 1), OPEN), (1, closed(4), ENDS)],
    "a restored etcd counts epochs anew, and lists a start that runs": [
        (0, gang(5, 2, 1), OPEN),
        (1, gang(3, 1, 1), listed(1)),
        (2, closed(4), CLOSED),
        (3, gang(4, 2, 2), "epoch 4 lists this start, which epoch 5 has released"),
    ],
    "a restored etcd counts epochs anew, and the complete roster is missed": [
        (0, gang(5, 2, 1), OPEN),
        (1, closed(4, **behind(1)), CLOSED),
        (2, closed(4, **behind(2)), "epoch 4 has begun without this start of the Pod"),
    ],
    "the gate has opened, and its epoch goes on": [
        (0, gang(3, 2, 1), OPEN),
        (1, closed(3, **behind(1)), CLOSED),
        (2, gang(3, 2, 1, generation=9), OPEN),
    ],
    "the gate has opened, and somebody writes who knows no epochs": [
        (0, gang(3, 2, 1), OPEN),
        (1, roster({"worker": 2}), listed(0)),
        (2, closed(4), ENDS),
    ],
    "the gate has opened, and no other start counts any more": [
        (0, closed(3), CLOSED),
        (1, gang(3, 2, 1), OPEN),
        (2, gang(3, 3, 1), listed(3)),
        (99, gang(3, 3, 1), listed(3)),
    ],
}


@pytest.mark.parametrize("steps", IN_PLACE.values(), ids=IN_PLACE)
def test_in_a_gang_that_restarts_in_place(steps: list[tuple[float, dict[str, Any], str]]) -> None:
    now = 0.0
    gatekeeper = InEpochs(ME, 2, Log(stream=io.StringIO()), clock=lambda: now)
    for now, document, decision in steps:
        assert decided(gatekeeper, document).startswith(decision), now


# --- the wait --------------------------------------------------------------------------------------------------------


class Script(SourceReader):
    """A reader that returns its items at set seconds."""

    def __init__(self, *items: tuple[float, Observation | Fault | Exception]) -> None:
        super().__init__()
        self.now = 0.0
        self._items_at = list(items)

    def get(self, timeout_sec: float) -> Observation | Fault | None:
        if self._items_at and self._items_at[0][0] <= self.now + timeout_sec:
            at, item = self._items_at.pop(0)
            self.now = max(self.now, at)
            if isinstance(item, Exception):
                raise item
            return item
        self.now += timeout_sec
        return None


def seen(ready: int, total: int = 10, **changes: Any) -> Observation:
    return observation(roster({"worker": total}, ready=ready, **changes))


FIRST_ANSWER = "for the first answer of the API server"


def waits_for(why: str) -> Observation:
    return seen(9, waitingFor=[{"task": "worker-9", "why": why}])


@dataclass(frozen=True)
class Case:
    """What is read at which second, the lines about it, and why it ends if the gate does not open."""

    items: list[tuple[float, Observation | Fault | Exception]]
    lines: list[str]
    end: str = ""


CASES = {
    "when the count changes, and at most every ten seconds": Case(
        [(0, seen(1)), (1, seen(2)), (2, seen(3)), (30, seen(4)), (31, seen(4)), (50, seen(10))],
        ["waiting 1/10: 9 Tasks", "waiting 3/10: 7 Tasks", "waiting 4/10: 6 Tasks"],
    ),
    # The reason that counts is the latest when the minute is over: those of the seconds 0, 48 and 112.
    "another reason, each minute at most": Case(
        [*((16.0 * number, waits_for(f"reason {number}")) for number in range(10)), (151, seen(10))],
        [f"waiting 9/10: worker-9 reason {number}" for number in (0, 3, 7)],
    ),
    "one for a quiet wait": Case(
        [(0, seen(9))], ["waiting 9/10: 1 Task"], "gave up after 600 s of waiting 9/10: 1 Task"
    ),
    "a server that never answers, after ten seconds": Case(
        [], [f"waiting {FIRST_ANSWER}"], f"gave up after 600 s of waiting {FIRST_ANSWER}"
    ),
    "a fault beside the last count, until it is over": Case(
        [(0, seen(5)), (20, Fault("HTTP 503")), (40, seen(6)), (60, seen(10))],
        ["waiting 5/10: 5 Tasks", "waiting 5/10: 5 Tasks; HTTP 503", "waiting 6/10: 4 Tasks"],
    ),
    "a fault before any count, alone": Case(
        [(0, Fault("no route"))], ["waiting: no route"], "gave up after 600 s of waiting: no route"
    ),
    "how long it took until the source ended": Case([(3, GoneError("it is gone"))], [], "it is gone (waited 3.0 s)"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_lines_say_what_is_waited_for_while_what_takes_time_is_prepared_once(case: Case) -> None:
    stream, end, prepare, script = io.StringIO(), "", Mock(), Script(*case.items)
    progress = Progress(Log(stream=stream), lambda: script.now)
    try:
        wait(script, Gatekeeper(ME), 600, progress, while_waiting=prepare)
    except (WaitTimeoutError, GoneError) as raised:
        end = str(raised)
    assert [line.split(" INFO ")[1] for line in stream.getvalue().splitlines()] == case.lines
    assert end == case.end
    assert prepare.call_count == any(not isinstance(item, Exception) for _, item in case.items)


def test_the_wait_looks_again_when_the_ten_seconds_are_over() -> None:
    script, said = Script((0, observation(closed(3))), (1, observation(gang(3, 4, 2)))), io.StringIO()
    log = Log(stream=said)
    gatekeeper = InEpochs(ME, 1, log, clock=lambda: script.now)
    opened = wait(script, gatekeeper, 600, Progress(log, lambda: script.now))
    assert script.now == 11
    assert opened.task
    assert opened.task.starts == 4
    assert "has counted 1: the number of the roster counts" in said.getvalue()


def test_no_request_is_made_ahead_of_its_need() -> None:
    asked: list[int] = []

    def source() -> Iterator[Observation]:
        for number in range(5):
            asked.append(number)
            yield seen(10)

    reader = SourceReader()
    reader.start(source())
    reader.get(60)
    assert asked == [0]
    reader.get(60)
    assert asked == [0, 1]


def test_a_wake_up_without_an_item_is_not_the_end_of_the_wait() -> None:
    reader = SourceReader()
    os.write(reader.wakeup_fd, b"\x0f")  # as the interpreter does for a signal
    begun = time.monotonic()
    assert reader.get(0.2) is None
    assert time.monotonic() - begun >= 0.2


def full(_: str) -> None:
    raise OutputError("no space left")


@pytest.mark.parametrize(
    ("item", "announce", "end", "said"),
    [
        (observation(closed(4)), lambda _: None, ENDS, f"{ENDS}: the application has 30 s"),
        (observation(closed(4)), full, ENDS, "the application gets no notice: no space left"),
        (ZeroDivisionError("x"), pytest.fail, "the barrier failed: ZeroDivisionError: x", ""),
    ],
    ids=["it gets its grace", "a notice that cannot be written holds nothing up", "whatever ends an open gate"],
)
def test_when_the_epoch_ends_the_application_gets_a_notice_and_all_containers_start_again(
    item: Any, announce: Callable[[str], None], end: str, said: str
) -> None:
    stream, notices, slept = io.StringIO(), Mock(side_effect=announce), Mock()
    log, opened = Log(stream=stream), observation(gang(3, 1, 1))
    gatekeeper = InEpochs(ME, 1, log)
    gatekeeper.decide(opened)
    with pytest.raises(EpochEndedError) as ended:
        follow(Script((0, item)), gatekeeper, opened.gang, lambda _: 1, log, notices, 30, sleep=slept)
    assert str(ended.value) == f"{end}: all containers of this Pod start again"
    assert said in stream.getvalue()
    expected = [] if isinstance(item, Exception) else [[call(ENDS)], [call(30)]]
    assert [each for each in (notices.mock_calls, slept.mock_calls) if each] == expected


# --- what is said ----------------------------------------------------------------------------------------------------


def test_a_termination_message_fits_and_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    path.write_text("old" * 5000)
    leave_message(str(path), "é" * 5000 + "\nsecond")
    assert len(path.read_bytes()) <= 4096
    assert "\n" not in path.read_text(errors="replace")
    leave_message(str(path.parent / "absent"), "x")
    assert not (path.parent / "absent").exists()


def test_a_log_that_cannot_be_written_decides_nothing() -> None:
    stream = io.StringIO()
    stream.close()
    Log(stream=stream).info("nobody hears it")


@pytest.mark.parametrize("text", ["é\u2028", 'quote " and \\'])
def test_a_line_of_json_holds_any_text(text: str) -> None:
    stream = io.StringIO()
    Log(as_json=True, stream=stream).info(text)
    assert json.loads(stream.getvalue())["msg"] == text
