"""The barrier as a native sidecar: the files follow the gang, the process stays or restarts with its epoch."""

import io
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from frameworkbarrier.errors import BarrierError, GoneError, OutputError, SettingsError
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.output import OutputDirectory
from frameworkbarrier.files.restart_notes import Notes
from frameworkbarrier.files.writer import Writer
from frameworkbarrier.gate.gate import Fault, Gatekeeper
from frameworkbarrier.gate.sidecar import follow
from frameworkbarrier.gate.wait import SourceReader
from frameworkbarrier.log import Log
from frameworkbarrier.settings import parse
from frameworkbarrier.source.follow import SILENCE_SEC
from testkit.waiting import patience
from tests.barrier.gangs import closed, configmap, environment, gang, observation, released, roster, uid
from tests.barrier.gate.test_gate import ME
from tests.barrier.gate.test_gate import Script as Reader
from tests.barrier.process import Barrier
from tests.barrier.source.faulty_server import Reply, Request, Serve

SHAPE = {"ps": 1, "worker": 2}
Follows = Callable[..., list[str]]


def retried() -> dict[str, Any]:
    """The same gang, its last Task retried at another address."""
    document = roster(SHAPE, generation=2)
    document["taskRoles"][-1]["tasks"][-1][1:4] = ["10.7.7.7", uid("worker", 1, 1)[:8], 1]
    return document


class EndError(Exception):
    """The test has seen enough."""


@pytest.fixture
def follows(folder: Path) -> Follows:
    """Open the gate for a roster, then let the sidecar see others and faults; returns what it logs."""

    def run(first: dict[str, Any], *others: dict[str, Any] | Fault | BarrierError) -> list[str]:
        said, opened = io.StringIO(), released(first)
        log = Log(stream=said)
        read = parse(environment(FB_PORTS="ps=1", FB_OUTPUT_DIR=str(folder), FB_FRAMEWORK_JSON="never"))
        items = [observation(other) if isinstance(other, dict) else other for other in others]
        reader = Reader(*((number, item) for number, item in enumerate(items)), (99, EndError()))
        with OutputDirectory(str(folder)) as output:
            writer = Writer(output, read, Container(), lambda: None, log)
            writer.write(opened)
            with pytest.raises(EndError):
                follow(reader, Gatekeeper(ME), opened.gang, writer.write, log, clock=lambda: reader.now)
        return [line.split(" ", 2)[2] for line in said.getvalue().splitlines()]

    return run


def test_a_rescale_reaches_all_files_and_a_deleted_role_takes_its_list_away(follows: Follows, folder: Path) -> None:
    grown = roster({"ps": 1, "worker": 3, "extra": 1}, generation=2)
    follows(roster(SHAPE), grown)
    assert len((folder / "worker.hosts").read_text().splitlines()) == 3
    assert (folder / "extra.hosts").read_text()
    follows(grown, roster({"ps": 1, "worker": 1}, generation=3))
    assert not (folder / "extra.hosts").exists()
    assert "worker-1" not in (folder / "hosts").read_text()


def test_an_incomplete_gang_changes_nothing_for_those_who_run(follows: Follows, folder: Path) -> None:
    assert follows(roster(SHAPE), roster(SHAPE, generation=2, ready=2)) == []
    assert (folder / "generation").read_text() == "1\n"


def test_a_generation_that_cannot_be_written_is_logged_and_the_next_one_written(follows: Follows, folder: Path) -> None:
    without_ps = roster({"worker": 2}, generation=2)  # which FB_PORTS names
    assert follows(roster(SHAPE), without_ps)[0].startswith("generation 2 was not written: FB_PORTS")
    assert (folder / "generation").read_text() == "1\n"
    follows(roster(SHAPE), without_ps, roster(SHAPE, generation=3))
    assert (folder / "generation").read_text() == "3\n"


def test_the_end_of_the_attempt_does_not_end_a_sidecar(follows: Follows) -> None:
    assert follows(roster(SHAPE), GoneError("it is gone")) == ["the files stay as they are: it is gone"]


def test_faults_are_logged_once_a_minute(follows: Follows) -> None:
    assert follows(roster(SHAPE), *(Fault(f"HTTP 503, the {number}th") for number in range(61))) == [
        "HTTP 503, the 0th",
        "HTTP 503, the 60th",
    ]


@pytest.mark.parametrize(
    ("results", "tries", "last"),
    [
        ([SettingsError("no role ps")] * 4, 1, "generation 2 was not written: no role ps"),
        ([OutputError("full")] * 4, 4, "generation 2 was not written: full"),
        ([OutputError("full"), OutputError("full"), 5], 3, "generation 2: 1 Tasks; wrote 5 files"),
    ],
    ids=["wrong settings", "a full disk", "a disk that was full"],
)
def test_a_failed_write_is_logged_once_and_tried_again_unless_the_settings_are_wrong(
    results: list[Any], tries: int, last: str
) -> None:
    first, second = (roster({"worker": 1}, generation=generation) for generation in (1, 2))
    reader, write, said = Mock(SourceReader), Mock(side_effect=results), io.StringIO()
    reader.get.side_effect = [observation(second), None, None, None, EndError]
    with pytest.raises(EndError):
        follow(reader, Gatekeeper(ME), released(first).gang, write, Log(stream=said))
    assert write.call_count == tries
    assert said.getvalue().count("generation 2 was not written: ") == 1
    assert said.getvalue().endswith(f"{last}\n")


class Changing:
    """A roster that a test changes while it is watched."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.versions = [document]

    def change(self, document: dict[str, Any]) -> None:
        self.versions.append(document)

    def __call__(self, request: Request, reply: Reply) -> None:
        if not request.watches:
            reply.answer(200, configmap(self.versions[-1], len(self.versions)))
            return
        sent = int(request.query["resourceVersion"])
        reply.stream()
        while True:
            while sent < len(self.versions):
                sent += 1
                reply.event("MODIFIED", configmap(self.versions[sent - 1], sent))
            reply.hang(0.02)
            reply.chunk(b"\n")


def test_the_process_follows_the_gang_and_ends_at_once_by_sigterm(serve: Serve, start: Callable[..., Barrier]) -> None:
    changing = Changing(roster(SHAPE))
    sidecar = start(serve(changing).url, environment(FB_MODE="sidecar"))
    sidecar.writes("generation")
    inode = (sidecar.folder / "hosts").stat().st_ino
    changing.change(retried())
    sidecar.writes("generation", "2\n")
    assert (sidecar.folder / "hosts").stat().st_ino == inode
    assert "10.7.7.7\tmnist-worker-1" in sidecar.read("hosts")
    assert sidecar.read("worker.hosts").splitlines()[1] == "10.7.7.7"
    assert json.loads(sidecar.read("roster.json"))["generation"] == 2
    sidecar.process.send_signal(signal.SIGTERM)
    # Its watch would end by itself later than that.
    assert patience(4) < SILENCE_SEC
    code, last = sidecar.ends(4)
    assert code == 143
    assert "ended by SIGTERM" in last


def test_a_process_that_restarts_in_place_ends_with_each_epoch(serve: Serve, start: Callable[..., Barrier]) -> None:
    changing = Changing(gang(0, 1, 1))
    server = serve(changing)
    environ = environment(FB_MODE="sidecar", FB_RESTART="in-place", FB_RESTART_GRACE_SEC="0")
    first = start(server.url, environ)
    first.writes("generation")
    changing.change(closed(1))
    code, last = first.ends()
    assert code == 88
    assert "epoch 1 begins: worker-1 exited with 1: boom: all containers of this Pod start again (exit code 88)" in last
    assert first.termination_log.read_text().endswith("(exit code 88)")
    assert first.read("restarting") == "epoch 1 begins: worker-1 exited with 1: boom\n"
    second = start(server.url, environ)
    second.reports("start 2 of the barrier in this Pod")
    changing.change(gang(0, 1, 1))  # a late one
    changing.change(gang(1, 2, 2))
    second.reports("generation 2, epoch 1")
    assert not (second.folder / "restarting").exists()


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


def test_a_folder_that_cannot_count_starts_is_an_error(folder: Path) -> None:
    (folder / "starts" / "in the way").mkdir(parents=True)
    with OutputDirectory(str(folder)) as opened, pytest.raises(OutputError, match="cannot write"):
        Notes(opened).count_start()
