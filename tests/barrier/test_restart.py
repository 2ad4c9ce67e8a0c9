"""A gang that restarts in its Pods, as one barrier sees it: its own start, the epoch, and when it has to leave."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from frameworkbarrier.epoch import OwnStart, leave
from frameworkbarrier.errors import EpochEndedError, SettingsError
from frameworkbarrier.files.output import OutputDirectory
from frameworkbarrier.gate.gate import Behind, Released, Waiting, decide
from frameworkbarrier.log import Log
from frameworkbarrier.settings import parse
from frameworkbarrier.source.roster import RosterError, decode
from testkit.waiting import eventually
from tests.barrier.faulty_server import FaultyServer, Script
from tests.barrier.gangs import environment, observation, roster, uid
from tests.barrier.process import Barrier
from tests.barrier.test_sidecar import Changing
from tests.barrier.test_wait import ME
from tests.barrier.test_wait import Script as Reader

Serve = Callable[[Script], FaultyServer]
IN_PLACE = {"FB_MODE": "sidecar", "FB_RESTART": "in-place"}


def gang(epoch: int, *starts: int, why: str = "", **changes: Any) -> dict[str, Any]:
    """The complete roster of an epoch, of workers with so many starts."""
    document = roster({"worker": len(starts)}, generation=epoch + 1, epoch=epoch, why=why, **changes)
    for task, number in zip(document["taskRoles"][0]["tasks"], starts, strict=True):
        task.append(number)
    return document


def closed(epoch: int, ready: int = 1, total: int = 2, **changes: Any) -> dict[str, Any]:
    """A roster of the closed gate."""
    changes = {"why": "worker-1 exited with 1: boom"} | changes
    return roster({"worker": total}, generation=epoch, ready=ready, epoch=epoch, **changes)


def behind(start: int, index: int = 0) -> dict[str, Any]:
    return {"behind": [["worker", index, uid("worker", index)[:8], start]]}


@pytest.mark.parametrize(
    ("document", "verdict"),
    [
        pytest.param(gang(1, 2, 3), Released, id="this start is listed"),
        pytest.param(gang(1, 1, 3), Waiting, id="an earlier start is listed: the gang may run without this one"),
        pytest.param(gang(1, 4, 3), Waiting, id="a later start is listed"),
        pytest.param(closed(1), Waiting, id="the gate is closed"),
        pytest.param(closed(1, **behind(2)), Behind, id="this start is of an earlier epoch"),
        pytest.param(closed(1, **behind(1)), Waiting, id="the start before was of an earlier epoch"),
        pytest.param(closed(1, **behind(2, index=1)), Waiting, id="somebody else is of an earlier epoch"),
    ],
)
def test_the_gate_opens_for_the_start_that_is_listed(document: dict[str, Any], verdict: type) -> None:
    assert type(decide(observation(document), ME, 2)) is verdict


def test_who_does_not_restart_in_place_needs_no_start() -> None:
    assert isinstance(decide(observation(gang(1, 2, 3)), ME), Released)


def test_a_gang_that_nobody_restarts_ends_a_barrier_that_was_to_restart_with_it() -> None:
    assert isinstance(decide(observation(roster({"worker": 2}, ready=1)), ME, 1), Waiting)
    with pytest.raises(SettingsError, match="the gang has no epoch"):
        decide(observation(roster({"worker": 2})), ME, 1)


def test_a_start_that_is_not_listed_says_so() -> None:
    verdict = decide(observation(gang(1, 1, 3)), ME, 2)
    assert str(verdict) == "1/2: worker-0 (this Pod) is listed with start 1, this is 2"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"epoch": -1}, "epoch: -1 is not a count"),
        ({"epoch": "1"}, "epoch: '1' is not a count"),
        ({"why": 7}, "why: 7 is not a string"),
        ({"behind": [["worker", 0, "abc"]]}, "is not \\[role, index, uid8, starts\\]"),
        ({"behind": [["worker", True, "abc", 1]]}, "is not \\[role, index, uid8, starts\\]"),
        ({"behind": {}}, "behind: {} is not of type list"),
    ],
)
def test_what_is_no_roster_is_refused_by_its_field(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(RosterError, match=fault):
        decode(observation_text(closed(1) | changes))


def observation_text(document: dict[str, Any]) -> str:
    import json

    return json.dumps(document)


@pytest.mark.parametrize("starts", ["2", True, None, 2.5])
def test_starts_are_whole_numbers(starts: Any) -> None:
    document = gang(1, 2, 3)
    document["taskRoles"][0]["tasks"][1][6] = starts
    with pytest.raises(RosterError, match=r"taskRoles\[worker\]\.tasks\[1\]"):
        decode(observation_text(document))


def test_the_reason_is_one_line_of_some_length() -> None:
    found = decode(observation_text(closed(1, why="a\nb\x1b[31m" + "c" * 5000)))
    assert "\n" not in found.why
    assert "\x1b" not in found.why
    assert len(found.why) <= 301


# --- its own start ---------------------------------------------------------------------------------------------------


class Own:
    """An `OwnStart` with a clock of the test's own."""

    def __init__(self, folder: Path, starts: str = "") -> None:
        self.now = 0.0
        self.folder = folder
        if starts:
            (folder / "starts").write_text(starts)
        self.stream = io.StringIO()
        with OutputDirectory(str(folder)) as opened:
            self.start = OwnStart(opened, Log(stream=self.stream), clock=lambda: self.now)

    def decides(self, document: dict[str, Any]) -> type:
        with OutputDirectory(str(self.folder)) as opened:
            self.start._folder = opened
            return type(self.start.decide(observation(document), ME))


@pytest.mark.parametrize(
    ("kept", "number"),
    [("", 1), ("1\n", 2), ("41", 42), ("x", 1), ("9" * 400, 1), ("-5", 1)],
    ids=["none", "one", "many", "no number", "too long", "negative"],
)
def test_starts_are_counted_in_the_folder(folder: Path, kept: str, number: int) -> None:
    assert Own(folder, kept).start.number == number
    assert (folder / "starts").read_text() == f"{number}\n"


def test_a_start_removes_the_notice_of_the_one_before(folder: Path) -> None:
    (folder / "restarting").write_text("epoch 1 begins\n")
    Own(folder)
    assert not (folder / "restarting").exists()


def test_a_roster_that_insists_is_right_if_the_gate_was_seen_closed(folder: Path) -> None:
    own = Own(folder)
    assert own.decides(closed(3)) is Waiting
    assert own.start.due_in() is None
    assert own.decides(gang(3, 4, 2)) is Waiting
    assert own.start.due_in() == 10
    own.now = 9.9
    assert own.decides(gang(3, 4, 2)) is Waiting
    own.now = 10
    assert own.decides(gang(3, 4, 2)) is Released
    assert (folder / "starts").read_text() == "4\n"
    assert "has counted 1: the number of the roster counts" in own.stream.getvalue()


def test_a_gang_that_may_run_since_before_this_start_is_never_joined(folder: Path) -> None:
    """Nobody has told that controller yet, or it is away: the peers run with the start before."""
    own = Own(folder, "1")
    for own.now in (0, 11, 600):
        assert own.decides(gang(3, 1, 2)) is Waiting
        assert own.start.due_in() is None


def test_a_gate_that_closes_again_begins_the_ten_seconds_anew(folder: Path) -> None:
    own = Own(folder)
    own.decides(closed(3))
    own.decides(gang(3, 4, 2))
    own.now = 8
    own.decides(closed(4))
    own.decides(gang(4, 5, 2))
    own.now = 12
    assert own.decides(gang(4, 5, 2)) is Waiting


def test_the_wait_looks_again_when_the_ten_seconds_are_over(folder: Path) -> None:
    from frameworkbarrier.gate.wait import Progress, wait

    script = Reader((0, observation(closed(3))), (1, observation(gang(3, 4, 2))))
    log = Log(stream=io.StringIO())
    with OutputDirectory(str(folder)) as opened:
        start = OwnStart(opened, log, clock=lambda: script.now)
        wait(script, ME, 600, Progress(log, lambda: script.now), judge=start.decide, judge_in=start.due_in)
    assert script.now == 11


# --- the end of the epoch --------------------------------------------------------------------------------------------


def test_the_application_gets_a_notice_and_its_grace(folder: Path) -> None:
    slept: list[float] = []
    stream = io.StringIO()
    with (
        OutputDirectory(str(folder)) as opened,
        pytest.raises(EpochEndedError, match="epoch 4 begins: worker-1 exited with 1: all containers"),
    ):
        leave(4, "worker-1 exited with 1", opened, Log(stream=stream), 30, slept.append)
    assert slept == [30]
    assert (folder / "restarting").read_text() == "epoch 4 begins: worker-1 exited with 1\n"
    assert "the application has 30 s" in stream.getvalue()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"FB_MODE": "init"}, "FB_RESTART: needs FB_MODE=sidecar"),
        ({"FC_POD_UID": ""}, "FB_RESTART: needs a Framework"),
        ({"FB_RESTART": "never"}, "FB_RESTART='never': must be"),
        ({"FB_RESTART_GRACE_SEC": "86401"}, "FB_RESTART_GRACE_SEC='86401': must be"),
    ],
)
def test_settings_that_cannot_work_are_named(changes: dict[str, str], fault: str) -> None:
    with pytest.raises(SettingsError) as raised:
        parse(environment(**IN_PLACE) | changes)
    assert fault in str(raised.value)


# --- the whole program -----------------------------------------------------------------------------------------------


@pytest.fixture
def run(serve: Serve, folder: Path) -> Iterator[Callable[[Changing], Barrier]]:
    """Start the barrier on a roster; each call is one more start in the same Pod."""
    started: list[Barrier] = []

    def start(changing: Changing) -> Barrier:
        started.append(Barrier(folder, serve(changing).url, environment(**IN_PLACE, FB_RESTART_GRACE_SEC="0")))
        return started[-1]

    yield start
    for barrier in started:
        barrier.stop()


def is_open(barrier: Barrier) -> None:
    def is_there() -> None:
        assert (barrier.folder / "generation").exists()

    eventually(is_there)


def test_two_epochs_of_one_pod(run: Callable[[Changing], Barrier]) -> None:
    changing = Changing(gang(0, 1, 1))
    first = run(changing)
    is_open(first)
    changing.change(closed(1))
    code, last = first.ends()
    assert code == 88
    assert "epoch 1 begins: worker-1 exited with 1: boom: all containers of this Pod start again (exit code 88)" in last
    assert first.termination_log.read_text().endswith("(exit code 88)")
    assert first.read("restarting") == "epoch 1 begins: worker-1 exited with 1: boom\n"
    second = run(changing)
    second.reports("start 2 of the barrier in this Pod")
    changing.change(gang(0, 1, 1))  # a late one
    changing.change(gang(1, 2, 2))
    second.reports("generation 2, epoch 1")
    assert not (second.folder / "restarting").exists()


def test_a_later_generation_of_the_same_epoch_is_written(run: Callable[[Changing], Barrier]) -> None:
    changing = Changing(gang(0, 1, 1))
    barrier = run(changing)
    is_open(barrier)
    changing.change(gang(0, 1, 1, why="") | {"generation": 7})
    barrier.reports("generation 7")
    changing.change(roster({"worker": 2}, generation=8))  # of somebody who knows no epochs
    changing.change(gang(0, 1, 1) | {"generation": 9})
    barrier.reports("generation 9")
    assert "generation 8" not in " ".join(barrier.lines)


def test_a_start_that_missed_its_epoch_begins_again(run: Callable[[Changing], Barrier]) -> None:
    barrier = run(Changing(closed(1, **behind(1))))
    code, last = barrier.ends()
    assert code == 88
    assert "epoch 1 has begun without this start of the Pod" in last
    assert not (barrier.folder / "generation").exists()


def test_a_folder_that_cannot_count_starts_is_an_error(run: Callable[[Changing], Barrier], folder: Path) -> None:
    (folder / "starts").mkdir()
    (folder / "starts" / "in the way").write_text("")
    code, last = run(Changing(gang(0, 1, 1))).ends()
    assert (code, "cannot write" in last) == (1, True)
