"""The barrier as a native sidecar: the files follow the gang, the process stays."""

import io
import json
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from frameworkbarrier.errors import BarrierError, OutputError, SettingsError
from frameworkbarrier.gate.gate import Gatekeeper
from frameworkbarrier.gate.sidecar import follow
from frameworkbarrier.gate.wait import SourceReader
from frameworkbarrier.log import Log
from frameworkbarrier.source.follow import SILENCE_SEC
from testkit.waiting import patience
from tests.barrier.faulty_server import FaultyServer, Reply, Request, Script
from tests.barrier.gangs import configmap, environment, observation, released, roster, uid
from tests.barrier.process import Barrier
from tests.barrier.test_wait import ME

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
        sent = int(request.query["resourceVersion"])
        reply.stream()
        while True:
            while sent < len(self.versions):
                sent += 1
                reply.event("MODIFIED", configmap(self.versions[sent - 1], sent))
            reply.hang(0.02)
            reply.chunk(b"\n")


@pytest.fixture
def gang() -> Changing:
    return Changing(roster({"ps": 1, "worker": 2}))


@pytest.fixture
def sidecar(serve: Serve, start: Callable[..., Barrier], gang: Changing) -> Barrier:
    barrier = start(serve(gang).url, environment(FB_MODE="sidecar", FB_PORTS="ps=1"))
    barrier.writes("generation")
    return barrier


def moved(document: dict[str, Any], ip: str) -> dict[str, Any]:
    """The same gang, its last Task retried at another address."""
    document["taskRoles"][-1]["tasks"][-1][1:4] = [ip, uid("worker", 1, 1)[:8], 1]
    return document


def test_a_retried_task_reaches_all_files_and_hosts_keeps_its_inode(sidecar: Barrier, gang: Changing) -> None:
    inode = (sidecar.folder / "hosts").stat().st_ino
    gang.change(moved(roster({"ps": 1, "worker": 2}, generation=2), "10.7.7.7"))
    sidecar.writes("generation", "2\n")
    assert "10.7.7.7\tmnist-worker-1" in sidecar.read("hosts")
    assert (sidecar.folder / "hosts").stat().st_ino == inode
    assert sidecar.read("worker.hosts").splitlines()[1] == "10.7.7.7"
    assert json.loads(sidecar.read("roster.json"))["generation"] == 2
    assert sidecar.process.poll() is None


def test_a_rescale_reaches_all_files_and_a_deleted_role_takes_its_list_away(sidecar: Barrier, gang: Changing) -> None:
    gang.change(roster({"ps": 1, "worker": 3, "extra": 1}, generation=2))
    sidecar.writes("generation", "2\n")
    assert len(sidecar.read("worker.hosts").splitlines()) == 3
    assert sidecar.read("extra.hosts")
    gang.change(roster({"ps": 1, "worker": 1}, generation=3))
    sidecar.writes("generation", "3\n")
    assert not (sidecar.folder / "extra.hosts").exists()
    assert "worker-1" not in sidecar.read("hosts")


def test_an_incomplete_gang_changes_nothing_for_those_who_run(sidecar: Barrier, gang: Changing) -> None:
    before = sidecar.read("hosts")
    gang.change(roster({"ps": 1, "worker": 2}, generation=1, ready=2))
    time.sleep(0.5)
    assert sidecar.read("hosts") == before
    gang.change(moved(roster({"ps": 1, "worker": 2}, generation=2), "10.7.7.7"))
    sidecar.writes("generation", "2\n")


def test_a_generation_that_cannot_be_written_is_logged_and_the_next_one_written(
    sidecar: Barrier, gang: Changing
) -> None:
    gang.change(roster({"worker": 2}, generation=2))  # FB_PORTS names ps, which is gone
    sidecar.reports("generation 2 was not written: FB_PORTS")
    assert sidecar.read("generation") == "1\n"
    gang.change(roster({"ps": 1, "worker": 3}, generation=3))
    sidecar.writes("generation", "3\n")


def test_what_could_not_be_written_is_tried_again_without_a_new_generation(sidecar: Barrier, gang: Changing) -> None:
    obstacle = sidecar.folder / "worker.hosts"
    obstacle.unlink()
    (obstacle / "x").mkdir(parents=True)
    gang.change(moved(roster({"ps": 1, "worker": 2}, generation=2), "10.7.7.7"))
    sidecar.reports("generation 2 was not written: ")
    assert sidecar.read("generation") == "1\n"
    (obstacle / "x").rmdir()
    sidecar.writes("generation", "2\n")
    assert sidecar.read("worker.hosts").splitlines()[1] == "10.7.7.7"


def test_the_end_of_the_attempt_does_not_end_a_sidecar(serve: Serve, start: Callable[..., Barrier]) -> None:
    def script(request: Request, reply: Reply) -> None:
        if request.watches:
            reply.stream()
            reply.event("DELETED", configmap(roster({"worker": 1}), 2))
            reply.hang()
        else:
            reply.answer(200, configmap(roster({"worker": 1})))

    barrier = start(serve(script).url, environment(FB_MODE="sidecar"))
    barrier.reports("the files stay as they are: ConfigMap lab/mnist-attempt is gone")
    with pytest.raises(subprocess.TimeoutExpired):
        barrier.process.wait(0.5)
    barrier.process.send_signal(signal.SIGTERM)
    code, last = barrier.ends()
    assert code == 143
    assert "ended by SIGTERM" in last


def test_sigterm_ends_a_sidecar_at_once(sidecar: Barrier) -> None:
    sidecar.process.send_signal(signal.SIGTERM)
    # Its watch would end by itself later than that.
    assert patience(4) < SILENCE_SEC
    assert sidecar.ends(4)[0] == 143


@pytest.mark.parametrize(
    ("fault", "tries"), [(SettingsError("FB_PORTS: no role ps"), 1), (OutputError("cannot write hosts: full"), 4)]
)
def test_wrong_settings_are_not_retried_and_each_failure_is_logged_once(fault: BarrierError, tries: int) -> None:
    first, second = (roster({"worker": 1}, generation=generation) for generation in (1, 2))
    reader, write, said = Mock(SourceReader), Mock(), io.StringIO()
    reader.get.side_effect = [observation(second), None, None, None, KeyboardInterrupt]
    write.side_effect = fault
    with pytest.raises(KeyboardInterrupt):
        follow(reader, Gatekeeper(ME), released(first).gang, write, Log(stream=said))
    assert write.call_count == tries
    assert said.getvalue().count(f"generation 2 was not written: {fault}") == 1
