"""The locks of images: the jars that a build downloads, and the base image of a release."""

import hashlib
import stat
from pathlib import Path

import pytest
import responses

from localcluster import SetupError
from localcluster.images import base, baselock, debian, jars
from localcluster.images.baselock import Lock
from localcluster.images.debian import Package
from localcluster.images.images import CATALOGUE, REPOSITORY
from tests.support.rows import each

JAR = b"not really a jar"
PATH = "org/example/tool_2.13/1.0/tool_2.13-1.0.jar"
LINE = f"{hashlib.sha256(JAR).hexdigest()}  {PATH}"
CENTRAL = "http://central.example/maven2"

LIBC, PYTHON = Package("libc6", "2.36-9+deb12u13", "a" * 64), Package("python3.11", "3.11.2-6", "b" * 64)
NO_LAYER = f"sha256:{'0' * 64}"
LOCK = Lock(1_795_305_600, NO_LAYER, (LIBC, PYTHON))


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "tool.jars"
    file.write_text(f"{LINE}\n")
    return file


def download(lock: Path) -> Path:
    folder = lock.with_name("jars")
    assert jars.download([lock], folder, repository=CENTRAL) == folder
    return folder / PATH


@responses.activate
def test_a_jar_is_downloaded_once_and_again_only_if_it_is_not_the_one_of_the_lock(lock: Path) -> None:
    responses.get(f"{CENTRAL}/{PATH}", JAR)
    assert download(lock).read_bytes() == download(lock).read_bytes() == JAR
    assert len(responses.calls) == 1
    download(lock).write_bytes(b"damaged")
    assert download(lock).read_bytes() == JAR
    assert len(responses.calls) == 2


@responses.activate
def test_a_jar_of_another_checksum_is_refused_and_not_kept(lock: Path) -> None:
    responses.get(f"{CENTRAL}/{PATH}", JAR)
    lock.write_text(f"{'0' * 64}  {PATH}\n")
    with pytest.raises(SetupError, match=r"tool_2\.13-1\.0\.jar\) does not match .*: expected 0000"):
        download(lock)
    assert not list(lock.with_name("jars").rglob("*.jar*"))


@responses.activate
def test_what_the_repository_refuses_is_tried_four_times(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    for status in (503, 503, 200, 404):
        responses.get(f"{CENTRAL}/{PATH}", JAR, status=status)
    assert stat.S_IMODE(download(lock).stat().st_mode) == 0o644
    assert pauses == [1, 2]
    download(lock).unlink()
    with pytest.raises(SetupError, match=rf"cannot download the jars of tool.jars: 404 .*{CENTRAL}/{PATH}"):
        download(lock)
    assert len(responses.calls) == 3 + 4


@each(
    "line", ["", PATH, LINE.replace("  ", " "), LINE.replace("org/", "../"), LINE.replace("org/", "/"), f"{LINE}.asc"]
)
def test_a_line_of_a_lock_that_is_no_checksum_with_a_path_is_refused(line: str, lock: Path) -> None:
    lock.write_text(f"{LINE}\n{line}\n")
    with pytest.raises(SetupError, match=r"tool\.jars, line 2: must be a SHA-256 checksum"):
        jars.read_lock(lock)


def test_each_lock_of_an_image_belongs_to_a_project_with_versions_and_has_each_jar_once() -> None:
    folder = REPOSITORY / CATALOGUE["jvm"]
    locks = sorted(folder.glob(f"*{jars.SUFFIX}"))
    assert [lock.stem for lock in locks] == sorted(project.stem for project in folder.glob("*.xml"))
    for lock in locks:
        paths = list(jars.read_lock(lock))
        assert len(paths) == len(lock.read_text().splitlines())
        # All jars of an image are in one folder.
        assert len({path.rpartition("/")[2] for path in paths}) == len(paths)


def test_the_lock_of_a_base_image_is_read_as_it_was_written_and_nothing_else_is(tmp_path: Path) -> None:
    names = [one.name for one in baselock.read(base.LOCK).packages]
    assert {"libc6", "python3.11-minimal", "dpkg"} <= set(names)
    assert sorted(set(names)) == names
    file = tmp_path / "base.lock"
    file.write_text(baselock.text(LOCK))
    assert baselock.read(file) == LOCK
    for text, problem in (
        ("", "must begin with `epoch SECONDS`"),
        ("epoch 1\nlayer md5:0\n", "must begin with `epoch SECONDS`"),
        (f"epoch 1\nlayer {NO_LAYER}\nlibc6 2.36\n", "'libc6 2.36' must be a package, its version and its"),
    ):
        file.write_text(text)
        with pytest.raises(SetupError, match=problem):
            baselock.read(file)


def difference(*packages: Package) -> str:
    return baselock.difference(base.LOCK, LOCK, Lock(LOCK.epoch, f"sha256:{'1' * 64}", packages))


def test_packages_that_changed_are_named_with_both_ways_on_and_else_a_tool_is_at_fault() -> None:
    text = difference(Package("libc6", "2.36-9+deb12u14", "c" * 64), Package("added", "1", "d" * 64))
    assert "added (absent in the lock, 1 now)" in text
    assert "libc6 (2.36-9+deb12u13 in the lock, 2.36-9+deb12u14 now)" in text
    assert "python3.11 (3.11.2-6 in the lock, absent now)" in text
    assert "make lock-base" in text
    assert "DEBIAN_SNAPSHOT=20261122T000000Z" in text
    assert "a program of this machine that makes it" in difference(*LOCK.packages)


def test_the_packages_of_a_root_have_the_checksums_of_the_signed_indexes(tmp_path: Path) -> None:
    lists, dpkg = tmp_path / "var/lib/apt/lists", tmp_path / "var/lib/dpkg"
    lists.mkdir(parents=True)
    dpkg.mkdir(parents=True)
    index = "Package: libc6\nArchitecture: amd64\nVersion: {}\nSHA256: {}\nDescription: C\n library\n\n"
    (lists / "main_Packages").write_text(index.format("1", "a"))
    (lists / "security_Packages").write_text(index.format("2", "b"))
    status = "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
    (dpkg / "status").write_text(status.format(version="2"))
    assert debian.packages_of(tmp_path) == (Package("libc6", "2", "b"),)
    (dpkg / "status").write_text(status.format(version="3"))
    with pytest.raises(SetupError, match="no checksum for libc6"):
        debian.packages_of(tmp_path)
