"""Code that the barrier unpacks: whole and writable for everybody, or refused before it costs anything."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from frameworkbarrier.errors import OutputError, SettingsError
from frameworkbarrier.files import code
from frameworkclient.model.code import MAX_FILES, MAX_UNPACKED, Code


def an_archive(path: Path, name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE) -> str:
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size, info.type, info.linkname = len(data), kind, "/etc/passwd"
        archive.addfile(info, io.BytesIO(data))
    return str(path)


def test_files_are_as_they_were_and_anybody_may_change_them_until_they_are_unpacked_again(
    tmp_path: Path, folder: Path
) -> None:
    packed = Code.packed({"train.py": (b"print(1)", False), "lib/run.sh": (b"#!/bin/sh", True), "empty": (b"", False)})
    archive = tmp_path / "code.tar.gz"
    archive.write_bytes(packed.archive)
    assert code.unpack(str(archive), str(folder)) == 3
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    assert found.pop(code.DONE).read_bytes() == b""
    modes = {name: oct(path.stat().st_mode)[-3:] for name, path in found.items()}
    assert modes == {"train.py": "666", "empty": "666", "lib": "777", "lib/run.sh": "777"}
    assert (folder / "lib" / "run.sh").read_bytes() == b"#!/bin/sh"
    (folder / "train.py").write_text("changed")
    assert code.unpack(str(archive), str(folder)) == 0
    assert (folder / "train.py").read_text() == "changed"


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", "a//b", "./a"])
def test_a_path_that_may_leave_the_folder_is_refused(tmp_path: Path, folder: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="is no file that may be there"):
        code.unpack(an_archive(tmp_path / "a", name, b"x"), str(folder))
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", folder]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_only_files_are_taken(tmp_path: Path, folder: Path, kind: bytes) -> None:
    with pytest.raises((SettingsError, OutputError)):
        code.unpack(an_archive(tmp_path / "a", "link", kind=kind), str(folder))
    assert list(folder.iterdir()) == []


def test_no_more_is_unpacked_than_the_client_sends(tmp_path: Path, folder: Path) -> None:
    assert MAX_UNPACKED + MAX_FILES * 512 > code.MAX_BYTES >= MAX_UNPACKED
    assert code.MAX_FILES == MAX_FILES
    bomb = an_archive(tmp_path / "bomb", "zeros", bytes(2 * code.MAX_BYTES))
    with pytest.raises(SettingsError, match="the code is more than 64 MiB when it is unpacked"):
        code.unpack(bomb, str(folder))
    assert (folder / "zeros").stat().st_size <= code.MAX_BYTES


NO_ARCHIVE = {
    "empty": b"",
    "no gzip": b"no gzip",
    "no tar": gzip.compress(b"no tar" * 100, mtime=0),
    "cut": gzip.compress(b"a" * 99, mtime=0)[:-9],
}


@pytest.mark.parametrize("data", NO_ARCHIVE.values(), ids=NO_ARCHIVE)
def test_what_is_no_archive_is_named(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(OutputError, match=r"cannot unpack .*/broken into .*: No such file"):
        code.unpack(str(tmp_path / "broken"), str(tmp_path))
    (tmp_path / "broken").write_bytes(data)
    with pytest.raises(SettingsError, match=r"FB_CODE_ARCHIVE=.*/broken: is no archive"):
        code.unpack(str(tmp_path / "broken"), str(tmp_path))
