import fcntl
import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from frameworkbarrier.errors import OutputError, SettingsError
from frameworkbarrier.files.output import SCRIPT, File, OutputDirectory


def write(folder: Path, *files: File) -> None:
    with OutputDirectory(str(folder)) as directory:
        for file in files:
            directory.write(file)


def test_files_have_their_modes_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        write(folder, File("env", b"x"), File("run", b"y", SCRIPT))
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "env").stat().st_mode) == 0o644
    assert stat.S_IMODE((folder / "run").stat().st_mode) == 0o755


def test_nothing_but_the_files_remains(folder: Path) -> None:
    write(folder, File("a", b"1"), File("b", b"2"), File("a", b"3"))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a": b"3", "b": b"2"}


def test_a_file_is_replaced_and_one_written_in_place_keeps_its_inode(folder: Path) -> None:
    write(folder, File("a", b"1"), File("hosts", b"a long first text", in_place=True))
    inodes = {path.name: path.stat().st_ino for path in folder.iterdir()}
    held = (folder / "hosts").open("rb")
    write(folder, File("a", b"2"), File("hosts", b"short", in_place=True))
    assert (folder / "a").stat().st_ino != inodes["a"]
    assert (folder / "hosts").stat().st_ino == inodes["hosts"]
    with held:
        assert held.read() == b"short"


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("kind", ["a link", "a second name of a file elsewhere", "a FIFO", "an empty folder"])
def test_what_is_planted_is_replaced_and_what_it_leads_to_unharmed(folder: Path, kind: str, in_place: bool) -> None:
    victim, hosts = folder.parent / "victim", folder / "hosts"
    victim.write_text("precious")
    match kind:
        case "a link":
            hosts.symlink_to(victim)
        case "a second name of a file elsewhere":
            os.link(victim, hosts)
        case "a FIFO":
            os.mkfifo(hosts)
        case _:
            hosts.mkdir()
    write(folder, File("hosts", b"new", in_place=in_place))
    assert victim.read_text() == "precious"
    assert not hosts.is_symlink()
    assert hosts.read_bytes() == b"new"


def test_a_full_folder_in_the_way_is_an_error_that_names_it_and_leaves_no_rubbish(folder: Path) -> None:
    (folder / "env" / "x").mkdir(parents=True)
    with pytest.raises(OutputError, match="/env: "):
        write(folder, File("env", b"new"))
    assert [path.name for path in folder.iterdir()] == ["env"]


def test_a_full_disk_is_an_error_and_the_old_file_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, File("env", b"old"))

    def full(handle: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OutputError, match="No space left on device"):
            write(folder, File("env", b"new"))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"env": b"old"}


def test_a_full_disk_leaves_what_is_rewritten_in_place_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, File("hosts", b"old", in_place=True))

    def full(handle: int, offset: int, size: int) -> None:
        os.ftruncate(handle, offset + size // 2)  # as a file system may
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OutputError, match="No space left on device"):
            write(folder, File("hosts", b"new and longer", in_place=True))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"hosts": b"old"}
    write(folder, File("hosts", b"new and longer", in_place=True))
    assert (folder / "hosts").read_bytes() == b"new and longer"


@pytest.mark.parametrize("kind", ["absent", "a file", "a link"])
def test_an_output_folder_that_is_none_is_a_fault_of_the_settings(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "out"
    if kind == "a file":
        path.touch()
    if kind == "a link":
        path.symlink_to(tmp_path)
    with pytest.raises(SettingsError, match="FB_OUTPUT_DIR"):
        OutputDirectory(str(path))


def probe(folder: Path, seconds: float) -> int:
    """Run the startup probe of a sidecar."""
    command = ["flock", "-s", "-w", str(seconds), str(folder), "test", "-s", str(folder / "generation")]
    return subprocess.run(command, check=False, timeout=60).returncode


def test_the_startup_probe_waits_for_the_lock_and_then_for_the_file(folder: Path) -> None:
    assert probe(folder, 0.1) == 1
    with OutputDirectory(str(folder)) as directory:
        directory.hold()
        directory.write(File("generation", b"1"))
        assert probe(folder, 0.1) == 1
        directory.let_go()
        assert probe(folder, 30) == 0
        directory.hold()
        assert probe(folder, 0.1) == 1
    assert probe(folder, 30) == 0


def test_a_probe_that_has_the_lock_is_waited_for_and_somebody_who_keeps_it_is_not(folder: Path) -> None:
    other, slept = os.open(folder, os.O_RDONLY), []

    def wait_for_others(_seconds: float) -> None:
        slept.append(1)
        if len(slept) == 3:
            fcntl.flock(other, fcntl.LOCK_UN)

    with OutputDirectory(str(folder)) as directory:
        fcntl.flock(other, fcntl.LOCK_SH)
        directory.hold(wait_for_others)
        assert len(slept) == 3
        assert probe(folder, 0.1) == 1
        directory.let_go()
        fcntl.flock(other, fcntl.LOCK_SH)
        directory.hold(lambda _seconds: None)
        assert probe(folder, 30) == 1
    os.close(other)


def test_a_reader_never_sees_half_a_file(folder: Path) -> None:
    contents = [bytes([letter]) * 200_000 for letter in b"ab"]
    write(folder, File("env", contents[0]))
    stop, halves = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            data = (folder / "env").read_bytes()
            if data not in contents:
                halves.append(data[:1])

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(200):
        write(folder, File("env", contents[number % 2]))
    stop.set()
    reader.join()
    assert halves == []
