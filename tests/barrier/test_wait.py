"""The wait with a clock of the test's own: when a line is written, and what it says."""

import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from frameworkbarrier.errors import GoneError, WaitTimeoutError
from frameworkbarrier.gate.gate import Fault, Gatekeeper, Observation
from frameworkbarrier.gate.wait import Progress, SourceReader, wait
from frameworkbarrier.log import Log, leave_message
from frameworkbarrier.settings import OwnTask
from tests.barrier.gangs import observation, roster, uid

ME = OwnTask("worker", 0, uid("worker", 0))


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


def seen(ready: int, total: int = 10, **changes: object) -> Observation:
    return observation(roster({"worker": total}, ready=ready, **changes))


def run(script: Script) -> tuple[list[str], Exception | None]:
    stream = io.StringIO()
    end: Exception | None = None
    try:
        wait(script, Gatekeeper(ME), 600, Progress(Log(stream=stream), lambda: script.now))
    except (WaitTimeoutError, GoneError) as raised:
        end = raised
    return [line.split(" INFO ")[1] for line in stream.getvalue().splitlines()], end


def waits_for(why: str) -> Observation:
    return seen(9, waitingFor=[{"task": "worker-9", "why": why}])


FIRST_ANSWER = "waiting for the first answer of the API server"


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        pytest.param(
            [(0, seen(1)), (1, seen(2)), (2, seen(3)), (30, seen(4)), (31, seen(4)), (50, seen(10))],
            ["waiting 1/10: 9 Tasks", "waiting 3/10: 7 Tasks", "waiting 4/10: 6 Tasks"],
            id="when the count changes, and at most every ten seconds",
        ),
        pytest.param(
            # The reason that counts is the latest when the minute is over: those of the seconds 0, 48 and 112.
            [*((16.0 * number, waits_for(f"reason {number}")) for number in range(10)), (151, seen(10))],
            [f"waiting 9/10: worker-9 reason {number}" for number in (0, 3, 7)],
            id="another reason, each minute at most",
        ),
        pytest.param([(0, seen(9))], ["waiting 9/10: 1 Task"], id="one for a quiet wait"),
        pytest.param([], [FIRST_ANSWER], id="a server that never answers, after ten seconds"),
        pytest.param(
            [(0, seen(5)), (20, Fault("the API server answers HTTP 503")), (40, seen(6))],
            [
                "waiting 5/10: 5 Tasks",
                "waiting 5/10: 5 Tasks; the API server answers HTTP 503",
                "waiting 6/10: 4 Tasks",
            ],
            id="a fault beside the last count, until it is over",
        ),
        pytest.param([(0, Fault("no route"))], ["waiting: no route"], id="a fault before any count, alone"),
    ],
)
def test_lines_say_what_is_waited_for(script: list[tuple[float, Observation | Fault]], lines: list[str]) -> None:
    found, end = run(Script(*script))
    assert found == lines
    opened = bool(script) and script[-1][1] == seen(10)
    assert end is None if opened else str(end) == f"gave up after 600 s of {lines[-1]}"


def test_why_the_source_ended_says_how_long_it_took() -> None:
    _, end = run(Script((3, GoneError("it is gone"))))
    assert isinstance(end, GoneError)
    assert str(end) == "it is gone (waited 3.0 s)"


def test_what_takes_time_is_prepared_once_while_waiting() -> None:
    calls: list[float] = []
    script = Script((0, seen(1)), (5, seen(2)), (6, seen(10)))
    progress = Progress(Log(stream=io.StringIO()), lambda: script.now)
    wait(script, Gatekeeper(ME), 60, progress, while_waiting=lambda: calls.append(1))
    assert calls == [1]


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
