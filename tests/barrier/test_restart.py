"""A gang that restarts in its Pods, as one barrier sees it: its own start, the epoch, and when it has to leave."""

from collections.abc import Callable
from pathlib import Path

import pytest

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files.output import OutputDirectory
from frameworkbarrier.files.restart_notes import Notes
from frameworkbarrier.settings import parse
from tests.barrier.faulty_server import FaultyServer, Script
from tests.barrier.gangs import behind, closed, environment, gang, roster
from tests.barrier.process import Barrier
from tests.barrier.test_sidecar import Changing

Serve = Callable[[Script], FaultyServer]
IN_PLACE = {"FB_MODE": "sidecar", "FB_RESTART": "in-place"}


@pytest.mark.parametrize(
    ("kept", "number"),
    [("", 1), ("1\n", 2), ("41", 42), ("x", 1), ("9" * 400, 1), ("-5", 1)],
    ids=["none", "one", "many", "no number", "too long", "negative"],
)
def test_starts_are_counted_in_the_folder(folder: Path, kept: str, number: int) -> None:
    if kept:
        (folder / "starts").write_text(kept)
    with OutputDirectory(str(folder)) as opened:
        assert Notes(opened).count_start() == number
    assert (folder / "starts").read_text() == f"{number}\n"


def test_a_start_removes_the_notice_of_the_one_before(folder: Path) -> None:
    with OutputDirectory(str(folder)) as opened:
        notes = Notes(opened)
        notes.announce("epoch 1 begins")
        assert (folder / "restarting").read_text() == "epoch 1 begins\n"
        notes.count_start()
    assert not (folder / "restarting").exists()


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
def run(serve: Serve, start: Callable[..., Barrier]) -> Callable[[Changing], Barrier]:
    """Start the barrier on a roster; each call is one more start in the same Pod."""
    return lambda changing: start(serve(changing).url, environment(**IN_PLACE, FB_RESTART_GRACE_SEC="0"))


def test_two_epochs_of_one_pod(run: Callable[[Changing], Barrier]) -> None:
    changing = Changing(gang(0, 1, 1))
    first = run(changing)
    first.writes("generation")
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
    barrier.writes("generation")
    changing.change(gang(0, 1, 1, generation=7))
    barrier.reports("generation 7")
    changing.change(roster({"worker": 2}, generation=8))  # of somebody who knows no epochs
    changing.change(gang(0, 1, 1, generation=9))
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
