"""Image builds: what decides on the name of an archive, what the images contain, and the tools that builds need."""

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from localcluster import SetupError, packages
from localcluster.images import archive, base, dockerfiles, images
from testkit.waiting import patience
from tests.support.http import serving

INSTALL = Path(packages.__file__).with_name("install-apt")


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "program" / "__pycache__").mkdir(parents=True)
    (tmp_path / "program" / "main.py").write_text("print('hello')\n")
    (tmp_path / "program" / "__pycache__" / "main.pyc").write_text("bytecode")
    (tmp_path / "lock.txt").write_text("requests==2 --hash=sha256:0\n")
    (tmp_path / "other.txt").write_text("not copied\n")
    (tmp_path / "Dockerfile").write_text(
        "ARG BASE\nFROM ${BASE} AS build\nCOPY lock.txt \\\n  /tmp/\nFROM ${BASE}\n"
        "# COPY other.txt /\nCOPY --from=build /other.txt /x\nCOPY --chown=1:1 program /app\n"
    )
    return tmp_path


def copied(context: Path) -> list[Path]:
    return dockerfiles.copied_files(context / "Dockerfile", context)


def key(context: Path, **arguments: str) -> str:
    return dockerfiles.digest_of(context / "Dockerfile", context, copied(context), arguments, "image:dev")


def test_the_files_that_matter_are_those_that_the_dockerfile_copies(context: Path) -> None:
    lock, program = copied(context)
    assert (lock, program) == (context / "lock.txt", context / "program" / "main.py")
    # Only requirements with hashes are locks.
    assert [dockerfiles.is_lock(file) for file in (lock, program, context / "other.txt")] == [True, False, False]


def test_a_dockerfile_may_copy_its_whole_context_and_nothing_that_is_not_there(context: Path) -> None:
    whole = [context / name for name in ("Dockerfile", "lock.txt", "other.txt", "program/main.py")]
    for source in (".", "./", "./*", "/"):
        (context / "Dockerfile").write_text(f"FROM scratch\nCOPY {source} /\n")
        assert copied(context) == whole
    (context / "Dockerfile").write_text("FROM scratch\nCOPY absent.py /\n")
    with pytest.raises(SetupError, match=r"copies absent\.py, which is not in"):
        copied(context)


def test_the_digest_depends_on_content_alone(context: Path) -> None:
    before = key(context, BASE="one")
    (context / "other.txt").write_text("changed\n")
    (context / "program" / "__pycache__" / "main.pyc").write_text("changed")
    os.utime(context / "program" / "main.py", (0, 0))
    assert key(context, BASE="one") == before
    assert key(context, BASE="two") != before
    (context / "program" / "main.py").chmod(0o755)
    executable = key(context, BASE="one")
    assert executable != before
    (context / "program" / "main.py").write_text("print('changed')\n")
    assert key(context, BASE="one") not in {before, executable}


def test_the_error_for_an_unknown_image_lists_the_known_ones() -> None:
    with pytest.raises(SetupError, match="'barier' is not an image of the project; choose from: barrier, "):
        images.build_all(["barier"])


def test_a_file_that_is_not_an_archive_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"no tar at all" * 100):
        (tmp_path / "image.tar").write_bytes(content)
        with pytest.raises(SetupError, match="is no image archive in Docker's format"):
            archive.images(tmp_path / "image.tar")


def test_a_registry_is_there_if_it_answers_in_time_or_asks_for_a_token() -> None:
    for status, there in ((200, True), (401, True), (403, False), (503, False)):
        with serving(lambda _, status=status: (status, b"")) as url:  # type: ignore[misc]  # of this round
            assert base.registry_answers(f"{url}/v2/", patience_seconds=patience(5)) is there
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v2/"
        began = time.monotonic()
        assert not base.registry_answers(url, patience_seconds=0.3)
        # Without a limit it would wait for ever.
        assert time.monotonic() - began < patience(3)
    assert not base.registry_answers(url)


def test_a_base_image_from_the_environment_is_used_as_it_is(tmp_path: Path) -> None:
    name = "registry.example/python:3.11"
    assert base.choose(tmp_path, {"BASE_IMAGE": name}) == base.Base(name, None)


def install(*arguments: str, **environ: str) -> tuple[int, str]:
    command, env = ["/bin/bash", INSTALL, *arguments], {**os.environ, **environ}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return done.returncode, done.stderr


def test_commands_that_cannot_be_installed_are_named(tmp_path: Path) -> None:
    sentence = "install-apt: no apt-get here; please install these commands by other means: containerd buildah\n"
    assert install("containerd", "buildah", PATH=str(tmp_path)) == (1, sentence)
    code, error = install("--missing", "dockerd")
    assert code == 2
    assert "unknown command dockerd; known: " in error
