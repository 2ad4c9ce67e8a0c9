"""The lock of the base image of a release: what it says, and what is said where Debian has moved on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from localcluster import SetupError, base, baselock, debian
from localcluster.baselock import Lock
from localcluster.debian import Package

if TYPE_CHECKING:
    from pathlib import Path

LIBC, PYTHON = Package("libc6", "2.36-9+deb12u13", "a" * 64), Package("python3.11", "3.11.2-6", "b" * 64)
LOCK = Lock(1_795_305_600, f"sha256:{'0' * 64}", (LIBC, PYTHON))


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "base.lock"
    file.write_text(baselock.text(LOCK))
    assert baselock.read(file) == LOCK


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must begin with `epoch SECONDS`"),
        ("epoch 1\nlayer md5:0\n", "must begin with `epoch SECONDS`"),
        (f"epoch 1\nlayer sha256:{'0' * 64}\nlibc6 2.36\n", "'libc6 2.36' must be a package, its version and its"),
    ],
    ids=["empty", "digest", "package"],
)
def test_what_is_no_lock_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "base.lock"
    file.write_text(text)
    with pytest.raises(SetupError, match=problem):
        baselock.read(file)


def test_packages_that_changed_are_named_with_both_ways_on(tmp_path: Path) -> None:
    newer = Package("libc6", "2.36-9+deb12u14", "c" * 64)
    made = Lock(LOCK.epoch, f"sha256:{'1' * 64}", (newer, Package("added", "1", "d" * 64)))
    text = baselock.difference(tmp_path / "base.lock", LOCK, made)
    assert "added (absent in the lock, 1 now)" in text
    assert "libc6 (2.36-9+deb12u13 in the lock, 2.36-9+deb12u14 now)" in text
    assert "python3.11 (3.11.2-6 in the lock, absent now)" in text
    assert "make lock-base" in text
    assert "DEBIAN_SNAPSHOT=20261122T000000Z" in text


def test_the_same_packages_with_another_digest_are_the_fault_of_a_tool(tmp_path: Path) -> None:
    made = Lock(LOCK.epoch, f"sha256:{'1' * 64}", LOCK.packages)
    assert "a program of this machine that makes it" in baselock.difference(tmp_path / "base.lock", LOCK, made)


def test_the_packages_of_a_root_have_the_checksums_of_the_signed_indexes(tmp_path: Path) -> None:
    lists, dpkg = tmp_path / "var/lib/apt/lists", tmp_path / "var/lib/dpkg"
    lists.mkdir(parents=True)
    dpkg.mkdir(parents=True)
    index = "Package: libc6\nArchitecture: amd64\nVersion: {version}\nSHA256: {sum}\nDescription: C\n library\n\n"
    (lists / "main_Packages").write_text(index.format(version="1", sum="a"))
    (lists / "security_Packages").write_text(index.format(version="2", sum="b"))
    status = "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
    (dpkg / "status").write_text(status.format(version="2"))
    assert debian.packages_of(tmp_path) == (Package("libc6", "2", "b"),)
    (dpkg / "status").write_text(status.format(version="3"))
    with pytest.raises(SetupError, match="no checksum for libc6"):
        debian.packages_of(tmp_path)


def test_the_lock_of_the_repository_can_be_read() -> None:
    lock = baselock.read(base.LOCK)
    names = {one.name for one in lock.packages}
    assert {"libc6", "python3.11-minimal", "dpkg"} <= names
    assert sorted(names) == [one.name for one in lock.packages]
