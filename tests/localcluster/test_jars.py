"""Jars for image builds: what a lock is, and that only jars of their checksums are kept."""

from __future__ import annotations

import hashlib
import stat
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from localcluster import SetupError, jars
from localcluster.images import CATALOGUE, REPOSITORY
from localcluster.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JAR = b"not really a jar"
PATH = "org/example/tool_2.13/1.0/tool_2.13-1.0.jar"
LINE = f"{hashlib.sha256(JAR).hexdigest()}  {PATH}"


class Central:
    """A Maven repository with one jar; `faults` are the codes of its next answers."""

    def __init__(self) -> None:
        self.faults: list[int] = []
        self.asked: list[str] = []
        self.pauses: list[float] = []
        self.url = ""


@pytest.fixture
def central(monkeypatch: pytest.MonkeyPatch) -> Iterator[Central]:
    found = Central()
    monkeypatch.setattr("time.sleep", found.pauses.append)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            self.send_response(found.faults.pop(0) if found.faults else 200)
            self.end_headers()
            self.wfile.write(JAR)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/maven2"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "tool.jars"
    file.write_text(f"{LINE}\n")
    return file


def download(central: Central, lock: Path) -> Path:
    folder = lock.with_name("jars")
    assert jars.download([lock], folder, Silent(), repository=central.url) == folder
    return folder / PATH


def test_a_jar_is_downloaded_once_and_again_only_if_it_is_not_the_one_of_the_lock(central: Central, lock: Path) -> None:
    for damage in (False, False, True):
        file = download(central, lock)
        assert file.read_bytes() == JAR
        if damage:
            file.write_bytes(b"damaged")
    assert central.asked == [f"/maven2/{PATH}"]
    assert download(central, lock).read_bytes() == JAR
    assert len(central.asked) == 2


def test_a_jar_of_another_checksum_is_refused_and_not_kept(central: Central, lock: Path) -> None:
    lock.write_text(f"{'0' * 64}  {PATH}\n")
    with pytest.raises(SetupError, match=r"tool_2\.13-1\.0\.jar\) does not match .*: expected 0000"):
        download(central, lock)
    assert not list(lock.with_name("jars").rglob("*.jar*"))


def test_what_the_repository_refuses_is_tried_four_times(central: Central, lock: Path) -> None:
    central.faults = [503, 503]
    assert stat.S_IMODE(download(central, lock).stat().st_mode) == 0o644
    download(central, lock).unlink()
    assert central.pauses == [1, 2]
    central.faults = [404] * 4
    with pytest.raises(SetupError, match=rf"cannot download the jars of tool.jars: 404 .*{central.url}/{PATH}"):
        download(central, lock)
    assert len(central.asked) == 3 + 4


@pytest.mark.parametrize(
    "line",
    ["", PATH, LINE.replace("  ", " "), LINE.replace("org/", "../"), LINE.replace("org/", "/"), f"{LINE}.asc"],
    ids=["empty", "no-checksum", "one-blank", "outside", "absolute", "no-jar"],
)
def test_a_line_of_a_lock_that_is_no_checksum_with_a_path_is_refused(line: str, lock: Path) -> None:
    lock.write_text(f"{LINE}\n{line}\n")
    with pytest.raises(SetupError, match=r"tool\.jars, line 2: must be a SHA-256 checksum"):
        jars.read_lock(lock)


def test_without_locks_there_is_nothing_to_mount(tmp_path: Path) -> None:
    assert jars.download([], tmp_path / "jars", Silent()) is None


def test_each_lock_of_an_image_belongs_to_a_project_with_versions_and_has_each_jar_once() -> None:
    folder = REPOSITORY / CATALOGUE["jvm"].context
    locks = sorted(folder.glob(f"*{jars.SUFFIX}"))
    assert [lock.stem for lock in locks] == sorted(project.stem for project in folder.glob("*.xml"))
    for lock in locks:
        paths = list(jars.read_lock(lock))
        assert len(paths) == len(lock.read_text().splitlines())
        # All jars of an image are in one folder.
        assert len({path.rpartition("/")[2] for path in paths}) == len(paths)
