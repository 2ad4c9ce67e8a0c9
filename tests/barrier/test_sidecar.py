"""The barrier as a native sidecar: the files follow the gang, the process stays."""

import io
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from barrier.faulty_server import FaultyServer, Reply, Request, Script
from barrier.gangs import configmap, environment, roster, uid
from barrier.process import Barrier
from frameworkbarrier.errors import BarrierError, OutputError, SettingsError
from frameworkbarrier.gang import Me, Open, decide
from frameworkbarrier.log import Log
from frameworkbarrier.roster import decode
from frameworkbarrier.sidecar import follow
from frameworkbarrier.views import Look
from frameworkbarrier.wait import Inbox, Opened
from frameworkbarrier.writer import Writer
from support import eventually

Serve = Callable[[Script], FaultyServer]


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
        told = int(request.query["resourceVersion"])
        reply.stream()
        while True:
            while told < len(self.versions):
                told += 1
                reply.event("MODIFIED", configmap(self.versions[told - 1], told))
            reply.hang(0.02)
            reply.chunk(b"\n")


@pytest.fixture
def gang() -> Changing:
    return Changing(roster({"ps": 1, "worker": 2}))


@pytest.fixture
def sidecar(serve: Serve, folder: Path, gang: Changing) -> Iterator[Barrier]:
    barrier = Barrier(folder, serve(gang).url, environment(FB_MODE="sidecar", FB_PORTS="ps=1"))

    def is_open() -> None:
        assert (folder / "generation").exists()

    eventually(is_open)
    yield barrier
    barrier.stop()


def follows(barrier: Barrier, generation: int) -> None:
    def is_there() -> None:
        assert barrier.read("generation") == f"{generation}\n"

    eventually(is_there, 2)


def moved(document: dict[str, Any], ip: str) -> dict[str, Any]:
    """The same gang, its last Task retried at another address."""
    document["taskRoles"][-1]["tasks"][-1][1:4] = [ip, uid("worker", 1, 1)[:8], 1]
    return document


def test_a_retried_task_reaches_all_files_and_hosts_keeps_its_inode(sidecar: Barrier, gang: Changing) -> None:
    inode = (sidecar.folder / "hosts").stat().st_ino
    gang.change(moved(roster({"ps": 1, "worker": 2}, generation=2), "10.7.7.7"))
    follows(sidecar, 2)
    assert "10.7.7.7\tmnist-worker-1" in sidecar.read("hosts")
    assert (sidecar.folder / "hosts").stat().st_ino == inode
    assert sidecar.read("worker.hosts").splitlines()[1] == "10.7.7.7"
    assert json.loads(sidecar.read("roster.json"))["generation"] == 2
    assert sidecar.process.poll() is None


def test_a_rescale_reaches_all_files_and_a_deleted_role_takes_its_list_away(sidecar: Barrier, gang: Changing) -> None:
    gang.change(roster({"ps": 1, "worker": 3, "extra": 1}, generation=2))
    follows(sidecar, 2)
    assert len(sidecar.read("worker.hosts").splitlines()) == 3
    assert sidecar.read("extra.hosts")
    gang.change(roster({"ps": 1, "worker": 1}, generation=3))
    follows(sidecar, 3)
    assert not (sidecar.folder / "extra.hosts").exists()
    assert "worker-1" not in sidecar.read("hosts")


def test_an_incomplete_gang_changes_nothing_for_those_who_run(sidecar: Barrier, gang: Changing) -> None:
    before = sidecar.read("hosts")
    gang.change(roster({"ps": 1, "worker": 2}, generation=1, ready=2))
    time.sleep(0.5)
    assert sidecar.read("hosts") == before
    gang.change(moved(roster({"ps": 1, "worker": 2}, generation=2), "10.7.7.7"))
    follows(sidecar, 2)


def test_what_cannot_be_written_is_said_and_the_next_generation_is(sidecar: Barrier, gang: Changing) -> None:
    gang.change(roster({"worker": 2}, generation=2))  # FB_PORTS names ps, which is gone
    time.sleep(0.5)
    assert sidecar.read("generation") == "1\n"
    gang.change(roster({"ps": 1, "worker": 3}, generation=3))
    follows(sidecar, 3)
    sidecar.process.send_signal(signal.SIGTERM)
    sidecar.ends()
    assert any("generation 2 was not written: FB_PORTS" in line for line in sidecar.lines)


def test_what_could_not_be_written_is_tried_again_without_a_new_generation(sidecar: Barrier, gang: Changing) -> None:
    obstacle = sidecar.folder / "worker.hosts"
    obstacle.unlink()
    (obstacle / "x").mkdir(parents=True)
    gang.change(moved(roster({"ps": 1, "worker": 2}, generation=2), "10.7.7.7"))
    time.sleep(1)
    assert sidecar.read("generation") == "1\n"
    (obstacle / "x").rmdir()

    def is_written() -> None:
        assert sidecar.read("generation") == "2\n"

    eventually(is_written, 15)
    assert sidecar.read("worker.hosts").splitlines()[1] == "10.7.7.7"


def test_the_end_of_the_attempt_does_not_end_a_sidecar(serve: Serve, folder: Path) -> None:
    def script(request: Request, reply: Reply) -> None:
        if request.watches:
            reply.stream()
            reply.event("DELETED", configmap(roster({"worker": 1}), 2))
            reply.hang()
        else:
            reply.answer(200, configmap(roster({"worker": 1})))

    barrier = Barrier(folder, serve(script).url, environment(FB_MODE="sidecar"))
    time.sleep(1.5)
    assert barrier.process.poll() is None
    begun = time.monotonic()
    barrier.process.send_signal(signal.SIGTERM)
    code, last = barrier.ends()
    assert (code, time.monotonic() - begun < 1) == (143, True)
    assert "ended by SIGTERM" in last
    assert any("the files stay as they are: ConfigMap lab/mnist-attempt is gone" in line for line in barrier.lines)


def test_sigterm_ends_a_sidecar_at_once(sidecar: Barrier) -> None:
    begun = time.monotonic()
    sidecar.process.send_signal(signal.SIGTERM)
    assert sidecar.ends()[0] == 143
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("fault", "tries"), [(SettingsError("FB_PORTS: no role ps"), 1), (OutputError("cannot write hosts: full"), 4)]
)
def test_a_write_that_no_retry_will_mend_is_not_retried_and_each_fault_is_said_once(
    fault: BarrierError, tries: int
) -> None:
    def look(generation: int) -> Look:
        text = json.dumps(roster({"worker": 1}, generation=generation))
        return Look(decode(text), text)

    me = Me("worker", 0, uid("worker", 0))
    opened = decide(look(1).gang, me)
    assert isinstance(opened, Open)
    inbox, writer, said = Mock(Inbox), Mock(Writer), io.StringIO()
    inbox.get.side_effect = [look(2), None, None, None, KeyboardInterrupt]
    writer.write.side_effect = fault
    with pytest.raises(KeyboardInterrupt):
        follow(inbox, me, Opened(opened, look(1)), writer, Log(stream=said))
    assert writer.write.call_count == tries
    assert said.getvalue().count(f"generation 2 was not written: {fault}") == 1
