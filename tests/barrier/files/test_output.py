"""What is written into the shared folder: whole files in spite of whoever else writes there, and what is said of it."""

import fcntl
import io
import json
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from frameworkbarrier import settings
from frameworkbarrier.errors import OutputError, SettingsError
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.output import SCRIPT, File, OutputDirectory
from frameworkbarrier.files.writer import Writer
from frameworkbarrier.log import Log
from frameworkbarrier.source.access import Access
from frameworkbarrier.source.api import Api
from frameworkbarrier.source.choose import read_framework
from tests.barrier.documents import framework_object
from tests.barrier.gangs import environment, released, roster
from tests.barrier.source.faulty_server import Script, Serve, answers, in_turn, status


@pytest.fixture
def directory(folder: Path) -> Iterator[OutputDirectory]:
    with OutputDirectory(str(folder)) as opened:
        yield opened


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_have_their_modes_whatever_the_umask_and_nothing_else_remains(
    directory: OutputDirectory, folder: Path
) -> None:
    before = os.umask(0o077)
    try:
        for file in (File("env", b"1"), File("run", b"2", SCRIPT), File("env", b"3")):
            directory.write(file)
    finally:
        os.umask(before)
    assert contents(folder) == {"env": b"3", "run": b"2"}
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}
    assert modes == {"env": "0o644", "run": "0o755"}


def test_a_file_is_replaced_and_one_written_in_place_keeps_its_inode(directory: OutputDirectory, folder: Path) -> None:
    directory.write(File("a", b"1"))
    directory.write(File("hosts", b"a long first text", in_place=True))
    inodes = {path.name: path.stat().st_ino for path in folder.iterdir()}
    with (folder / "hosts").open("rb") as held:
        directory.write(File("a", b"2"))
        directory.write(File("hosts", b"short", in_place=True))
        assert held.read() == b"short"
    assert (folder / "a").stat().st_ino != inodes["a"]
    assert (folder / "hosts").stat().st_ino == inodes["hosts"]


PLANTED: dict[str, Callable[[Path, Path], None]] = {
    "a link": lambda hosts, victim: hosts.symlink_to(victim),
    "a second name of a file elsewhere": lambda hosts, victim: hosts.hardlink_to(victim),
    "a FIFO": lambda hosts, victim: os.mkfifo(hosts),
    "an empty folder": lambda hosts, victim: hosts.mkdir(),
}


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_what_is_planted_is_replaced_and_what_it_leads_to_unharmed(
    directory: OutputDirectory, folder: Path, plant: Callable[[Path, Path], None], in_place: bool
) -> None:
    victim, hosts = folder.parent / "victim", folder / "hosts"
    victim.write_text("precious")
    plant(hosts, victim)
    directory.write(File("hosts", b"new", in_place=in_place))
    assert victim.read_text() == "precious"
    assert not hosts.is_symlink()
    assert hosts.read_bytes() == b"new"


def test_a_full_folder_in_the_way_is_an_error_that_names_it_and_leaves_no_rubbish(
    directory: OutputDirectory, folder: Path
) -> None:
    (folder / "env" / "x").mkdir(parents=True)
    with pytest.raises(OutputError, match="/env: "):
        directory.write(File("env", b"new"))
    assert [path.name for path in folder.iterdir()] == ["env"]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_full_disk_is_an_error_and_the_old_file_stays(
    directory: OutputDirectory, folder: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    directory.write(File("hosts", b"old", in_place=in_place))

    def full(handle: int, place: Any, size: int = 0) -> None:
        if in_place:
            os.ftruncate(handle, place + size // 2)  # as a file system may
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate" if in_place else "write", full)
        with pytest.raises(OutputError, match="No space left on device"):
            directory.write(File("hosts", b"new and longer", in_place=in_place))
    assert contents(folder) == {"hosts": b"old"}
    directory.write(File("hosts", b"new and longer", in_place=in_place))
    assert contents(folder) == {"hosts": b"new and longer"}


@pytest.mark.parametrize("make", [lambda _: None, Path.touch, lambda path: path.symlink_to(path.parent)])
def test_an_output_folder_that_is_absent_or_a_file_or_a_link_is_a_fault_of_the_settings(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "out")
    with pytest.raises(SettingsError, match="FB_OUTPUT_DIR"):
        OutputDirectory(str(tmp_path / "out"))


def probe(folder: Path, seconds: float) -> int:
    """Run the startup probe of a sidecar."""
    command = ["flock", "-s", "-w", str(seconds), str(folder), "test", "-s", str(folder / "generation")]
    return subprocess.run(command, check=False, timeout=60).returncode


def test_a_startup_probe_waits_for_the_lock_and_whoever_had_it_before_is_waited_for_but_not_for_ever(
    directory: OutputDirectory, folder: Path
) -> None:
    other, slept = os.open(folder, os.O_RDONLY), []

    def wait_for_others(_seconds: float) -> None:
        slept.append(1)
        if len(slept) == 3:
            fcntl.flock(other, fcntl.LOCK_UN)

    fcntl.flock(other, fcntl.LOCK_SH)
    directory.hold(wait_for_others)
    assert len(slept) == 3
    directory.write(File("generation", b"1"))
    assert probe(folder, 0.1) == 1
    directory.let_go()
    assert probe(folder, 30) == 0
    fcntl.flock(other, fcntl.LOCK_SH)
    directory.hold(lambda _seconds: None)
    assert probe(folder, 30) == 0
    os.close(other)


def test_a_reader_never_sees_half_a_file(directory: OutputDirectory, folder: Path) -> None:
    texts = [bytes([letter]) * 200_000 for letter in b"ab"]
    directory.write(File("env", texts[0]))
    stop, halves = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            data = (folder / "env").read_bytes()
            if data not in texts:
                halves.append(data[:1])

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(200):
        directory.write(File("env", texts[number % 2]))
    stop.set()
    reader.join()
    assert halves == []


MANY = 8000
"""Tasks whose addresses fit neither into the file `env` nor into a variable."""


def test_each_warning_is_logged_once_in_all_generations(directory: OutputDirectory, folder: Path) -> None:
    said = io.StringIO()
    read = settings.parse(environment(FB_FRAMEWORK_JSON="never"))
    writer = Writer(directory, read, Container(), lambda: pytest.fail("not wanted"), Log(stream=said))

    def warnings_of(generation: int, **shape: int) -> list[str]:
        said.seek(0)
        said.truncate()
        writer.write(released(roster(shape, generation=generation)))
        assert (folder / "generation").read_text() == f"{generation}\n"
        return [line.split(" WARNING ")[1].split(" ")[0] for line in said.getvalue().splitlines()]

    first = warnings_of(1, ps=1, worker=MANY)
    assert "FB_WORKER_IPS" in first
    assert len(first) == len(set(first))
    # The text differs (it counts bytes), the thing does not.
    assert warnings_of(2, ps=1, worker=MANY + 1) == []
    # What is new is still said.
    assert {name.split("_")[1] for name in warnings_of(3, ps=MANY, worker=MANY)} == {"PS"}
    assert warnings_of(4, ps=MANY, worker=MANY) == []


def test_a_role_that_was_deleted_before_the_barrier_started_again_leaves_no_file(
    directory: OutputDirectory, folder: Path
) -> None:
    read = settings.parse(environment(FB_MODE="sidecar", FB_RESTART="in-place", FB_FRAMEWORK_JSON="never"))
    for shape in ({"ps": 1, "worker": 1}, {"worker": 1}):
        writer = Writer(directory, read, Container(), lambda: pytest.fail("not wanted"), Log(stream=io.StringIO()))
        writer.write(released(roster(shape)))
        assert sorted(file.name for file in folder.glob("*.hosts")) == [f"{role}.hosts" for role in shape]
    assert (folder / "hosts").exists()


def test_a_framework_that_cannot_be_read_again_leaves_the_old_file_and_one_warning(
    serve: Serve, directory: OutputDirectory, folder: Path
) -> None:
    said = io.StringIO()
    read = settings.parse(environment(FB_FRAMEWORK_JSON="always"))
    api = Api(Access(serve(in_turn(answers(framework_object({})), status(503))).url))
    log, slept = Log(stream=said), []
    writer = Writer(directory, read, Container(), lambda: read_framework(read, api, log, slept.append), log)
    for generation in (1, 2, 3):
        writer.write(released(roster({"worker": 1}, generation=generation)))
        assert json.loads((folder / "framework.json").read_text())["metadata"]["name"] == "mnist"
    assert said.getvalue().count("framework.json is not written: the Framework cannot be read") == 1


THIRD = [status(429, Retry_After="1"), status(500), answers(framework_object({}))]


@pytest.mark.parametrize(
    ("script", "is_read", "requests", "warning"),
    [
        (THIRD, True, 3, ""),
        ([status(500)], False, 3, "HTTP 500: no"),
        ([status(429, Retry_After="60")], False, 1, "HTTP 429: no"),
        ([status(403)], False, 1, ""),
        ([status(404)], False, 1, ""),
    ],
    ids=["the third time", "never", "after a long pause", "forbidden", "not found"],
)
def test_a_framework_is_read_again_where_the_server_does_not_answer_but_the_application_does_not_wait_for_long(
    script: list[Script], is_read: bool, requests: int, warning: str, serve: Serve
) -> None:
    said, slept, server = io.StringIO(), [], serve(in_turn(*script))
    found = read_framework(settings.parse(environment()), Api(Access(server.url)), Log(stream=said), slept.append)
    assert ((found is not None), len(server.requests), len(slept)) == (is_read, requests, requests - 1)
    assert (warning in said.getvalue()) if warning else not said.getvalue()
    assert sum(slept) < 10
