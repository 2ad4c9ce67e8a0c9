"""Which files of this machine travel with a job, and what is said of those that cannot."""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from frameworkclient import Code, ManifestError, Role, read_code
from frameworkclient.code import path_of
from frameworkclient.model.code import MAX_FILES, MAX_UNPACKED, check_sizes
from frameworkclient.model.functions import with_packages

if TYPE_CHECKING:
    from pathlib import Path

AT_HOME = (".env", ".env.local", "server.key", "deep/id_rsa", ".aws/credentials", "kubeconfig")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a job: code, data that git ignores, secrets, caches and links."""
    made = tmp_path / "job"
    for name in ("train.py", "lib/model.py", "data/large", "__pycache__/train.pyc", "run.sh", "ünicode name", *AT_HOME):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    (made / "run.sh").chmod(0o755)
    (made / ".gitignore").write_text("data/\n")
    (made / "linked.py").symlink_to("train.py")
    (made / "datasets").symlink_to(made / "data")
    return made


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


TRAVEL = {".gitignore", "lib/model.py", "linked.py", "run.sh", "train.py", "ünicode name"}


@pytest.mark.parametrize("repository", ["", "job", "."])
def test_what_git_ignores_secrets_and_links_to_folders_stay_at_home(folder: Path, repository: str) -> None:
    if repository:
        git(folder.parent / repository, "init")
        git(folder, "add", "train.py", "run.sh", ".env", "-f")
        (folder / "gone.py").write_text("")
        git(folder, "add", "gone.py")
        (folder / "gone.py").unlink()
    code = read_code(folder)
    assert set(code.sizes) == TRAVEL
    assert set(code.left_out) == {*AT_HOME, "datasets"}
    with tarfile.open(fileobj=io.BytesIO(code.archive)) as archive:
        assert {one.name: bool(one.mode & 0o100) for one in archive} == {name: name == "run.sh" for name in TRAVEL}
        linked = archive.extractfile("linked.py")
        assert linked is not None
        assert linked.read() == b"train.py"
    assert read_code(folder).archive == code.archive
    assert "6 files, " in str(code)
    assert "left out: .aws/credentials, .env" in str(code)


def test_without_git_all_travels_unless_something_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(ManifestError, match=r"workdir .*/job: has a .gitignore, and there is no git to read it"):
        read_code(folder)
    (folder / ".gitignore").unlink()
    assert set(read_code(folder).sizes) == TRAVEL - {".gitignore"} | {"data/large"}


def test_single_files_lie_beside_those_of_the_folder(folder: Path) -> None:
    other = folder.parent / "requirements.txt"
    other.write_text("einops")
    code = read_code(folder / "lib", [folder / "lib" / "model.py", other])
    assert code.sizes == {"model.py": 12, "requirements.txt": 6}
    assert read_code(None, [folder / "data" / "large"]).sizes == {"large": 10}
    assert path_of(folder / "lib" / "model.py", folder) == "lib/model.py"


def test_what_does_not_fit_names_the_largest_files_and_the_ways_out(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(os.urandom(1_100_000))
    with pytest.raises(
        ManifestError, match=r"1\.\d MiB compressed is more .* the largest are weights.bin \(1.0 MiB\), "
    ):
        read_code(folder)
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(MAX_UNPACKED + 1)
    with pytest.raises(ManifestError, match=r"7 files of 60.0 MiB is more .*: name in .gitignore .* or put the code"):
        read_code(folder)
    with pytest.raises(ManifestError, match=f"{MAX_FILES + 1} files of 0.0 KiB is more"):
        check_sizes({str(number): 0 for number in range(MAX_FILES + 1)})


@pytest.mark.parametrize(
    ("workdir", "files", "text"),
    [("none", [], "workdir none: there is no such folder"), (None, ["none.py"], "none.py: No such file or directory")],
)
def test_what_is_not_there_is_named(workdir: str | None, files: list[str], text: str) -> None:
    with pytest.raises(ManifestError, match=text):
        read_code(workdir, files)


def test_a_role_asks_the_injector_for_its_code_and_starts_where_it_is() -> None:
    code = Code.packed({"train.py": (b"print(1)", False)})
    role = Role.container("worker", 2, image="i", command=["python3", "train.py"], code=code)
    assert role.code is code
    assert role.pod["metadata"] == {
        "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"},
        "annotations": {"barrier.frameworkcontroller.microsoft.com/code": code.name},
    }
    assert role.pod["spec"]["containers"][0]["workingDir"] == "/mnt/frameworkcode"
    assert "code" not in role.to_dict()
    made = code.config_map({"uid": "u"})
    assert (made["metadata"]["name"], made["metadata"]["ownerReferences"]) == (code.name, [{"uid": "u"}])
    assert base64.b64decode(made["binaryData"]["code.tar.gz"]) == code.archive
    assert Code.packed({}).name != Code.packed({}).name


def test_packages_are_installed_before_a_command_that_then_takes_the_process(tmp_path: Path) -> None:
    """With a package of this folder, so that nothing is downloaded; the package is found, and so is its program."""
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (tmp_path / "backend.py").write_text(BACKEND)
    command = with_packages(
        ["--no-build-isolation", str(tmp_path)], [sys.executable, "-c", "import tiny; print(tiny.X)"]
    )
    command[command.index("/tmp/frameworkpackages")] = str(tmp_path / "packages")
    done = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=False, cwd="/")
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
    command[command.index(str(tmp_path))] = str(tmp_path / "none")
    failed = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=False, cwd="/")
    assert (failed.returncode, failed.stderr.endswith("pip could not install the packages\n")) == (1, True)
    with pytest.raises(ManifestError, match="packages: need a command"):
        Role.container("worker", 1, image="i", packages=["einops"])


BACKEND = """
import zipfile
def build_wheel(folder, settings=None, metadata=None):
    with zipfile.ZipFile(f"{folder}/tiny-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "X = 7")
        wheel.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
        wheel.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("tiny-1.dist-info/RECORD", "")
    return "tiny-1-py3-none-any.whl"
"""
