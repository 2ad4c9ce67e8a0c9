"""The wait with a clock of the test's own: when a line is written, and what it says."""

import io
import json
from collections.abc import Iterator

import pytest

from barrier.gangs import roster, uid
from frameworkbarrier.errors import GaveUpError, GoneError
from frameworkbarrier.follow import Trouble
from frameworkbarrier.gang import Me
from frameworkbarrier.log import Log, leave_message
from frameworkbarrier.roster import decode
from frameworkbarrier.views import Look
from frameworkbarrier.wait import Inbox, Progress, wait

ME = Me("worker", 0, uid("worker", 0))


class Script(Inbox):
    """An inbox that tells its items at set seconds."""

    def __init__(self, *items: tuple[float, Look | Trouble | Exception]) -> None:
        super().__init__()
        self.now = 0.0
        self._items_at = list(items)

    def get(self, timeout_sec: float) -> Look | Trouble | None:
        if self._items_at and self._items_at[0][0] <= self.now + timeout_sec:
            at, item = self._items_at.pop(0)
            self.now = max(self.now, at)
            if isinstance(item, Exception):
                raise item
            return item
        self.now += timeout_sec
        return None


def look(ready: int, total: int = 10, **changes: object) -> Look:
    text = json.dumps(roster({"worker": total}, ready=ready, **changes))
    return Look(decode(text), text)


def run(script: Script, timeout_sec: float = 600) -> tuple[list[str], Exception | None]:
    stream = io.StringIO()
    end: Exception | None = None
    try:
        wait(script, ME, timeout_sec, Progress(Log(stream=stream), lambda: script.now))
    except (GaveUpError, GoneError) as raised:
        end = raised
    return [line.split(" INFO ")[1] for line in stream.getvalue().splitlines()], end


def test_lines_come_when_the_count_changes_and_at_most_every_ten_seconds() -> None:
    script = Script((0, look(1)), (1, look(2)), (2, look(3)), (30, look(4)), (31, look(4)), (50, look(10)))
    lines, end = run(script)
    assert end is None
    assert lines == ["waiting 1/10: 9 Tasks", "waiting 3/10: 7 Tasks", "waiting 4/10: 6 Tasks"]


def test_a_quiet_wait_writes_one_line() -> None:
    lines, end = run(Script((0, look(9))))
    assert lines == ["waiting 9/10: 1 Task"]
    assert str(end) == "gave up after 600 s of waiting 9/10: 1 Task"


def test_a_server_that_never_answers_is_told_after_ten_seconds() -> None:
    lines, end = run(Script())
    assert lines == ["waiting for the first answer of the API server"]
    assert str(end) == "gave up after 600 s of waiting for the first answer of the API server"


def test_trouble_is_told_beside_the_last_count_and_forgotten_when_it_is_over() -> None:
    script = Script((0, look(5)), (20, Trouble("the API server answers HTTP 503")), (40, look(6)))
    lines, _ = run(script)
    assert lines == [
        "waiting 5/10: 5 Tasks",
        "waiting 5/10: 5 Tasks; the API server answers HTTP 503",
        "waiting 6/10: 4 Tasks",
    ]


def test_trouble_before_any_count_is_told_alone() -> None:
    lines, end = run(Script((0, Trouble("no route"))), 5)
    assert lines == ["waiting: no route"]
    assert str(end) == "gave up after 5 s of waiting: no route"


def test_why_the_source_ended_says_how_long_it_took() -> None:
    _, end = run(Script((3, GoneError("it is gone"))))
    assert isinstance(end, GoneError)
    assert str(end) == "it is gone (waited 3.0 s)"


def test_what_takes_time_is_prepared_once_while_waiting() -> None:
    calls: list[float] = []
    script = Script((0, look(1)), (5, look(2)), (6, look(10)))
    progress = Progress(Log(stream=io.StringIO()), lambda: script.now)
    wait(script, ME, 60, progress, while_waiting=lambda: calls.append(1))
    assert calls == [1]


def test_no_request_is_made_ahead_of_its_need() -> None:
    asked: list[int] = []

    def source() -> Iterator[Look]:
        for number in range(5):
            asked.append(number)
            yield look(10)

    inbox = Inbox()
    inbox.start(source())
    inbox.get(5)
    assert asked == [0]
    inbox.get(5)
    assert asked == [0, 1]


def test_a_termination_message_fits_and_is_one_line(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "termination-log"
    path.write_text("old" * 5000)
    leave_message(str(path), "é" * 5000 + "\nsecond")
    assert len(path.read_bytes()) <= 4096
    assert "\n" not in path.read_text(errors="replace")
    leave_message(str(path.parent / "absent"), "x")
    assert not (path.parent / "absent").exists()


def test_a_log_that_cannot_be_written_decides_nothing() -> None:
    stream = io.StringIO()
    stream.close()
    Log(stream=stream).note("nobody hears it")


@pytest.mark.parametrize("text", ["é\u2028", 'quote " and \\'])
def test_a_line_of_json_holds_any_text(text: str) -> None:
    stream = io.StringIO()
    Log(as_json=True, stream=stream).note(text)
    assert json.loads(stream.getvalue())["msg"] == text
