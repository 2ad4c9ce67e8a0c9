"""Container images built from Dockerfiles with buildah, without a registry and without a daemon.

The name of an archive in the cache contains a digest of everything that decides on its content (Dockerfile, the files
that it copies, build arguments, base image), so an image that did not change is found by its file name.

The build itself needs no network for what the lock files that a Dockerfile copies name. This is downloaded first:
wheels are mounted at /wheels, with `PIP_NO_INDEX` and `PIP_FIND_LINKS` set, which pip reads; jars are mounted at /jars,
and the build argument `MAVEN` is the URL of that folder, in place of that of Maven Central.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localcluster import base, jars
from localcluster.binaries import cache_root
from localcluster.buildah import Buildah
from localcluster.dockerfiles import copied_files, digest_of, is_lock
from localcluster.errors import SetupError
from localcluster.locks import locked
from localcluster.packages import require
from localcluster.progress import Lines, Progress, task

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REPOSITORY = Path(__file__).parents[2]
_KEPT_ARCHIVES = 2


@dataclass(frozen=True)
class Image:
    """One of the project's images.

    Attributes:
        dockerfile: The path of its Dockerfile in the repository.
        context: The path of its build context in the repository.
    """

    dockerfile: str
    context: str = "."


CATALOGUE: Mapping[str, Image] = {
    "barrier": Image("images/barrier/Dockerfile"),
    "controller": Image("images/controller/Dockerfile"),
    "injector": Image("images/injector/Dockerfile"),
    "jvm": Image("images/jvm/Dockerfile", "images/jvm"),
    "tools": Image("images/tools/Dockerfile", "images/tools"),
    "training": Image("images/training/Dockerfile", "images/training"),
    **{
        f"{file.parent.name}-example": Image(
            str(file.relative_to(REPOSITORY)), str(file.parent.relative_to(REPOSITORY))
        )
        for file in sorted(REPOSITORY.glob("examples/*/Dockerfile"))
    },
}
"""The images by name: the programs, what examples and tests share, and `<folder>-example` of each example with one."""


def reference(name: str, tag: str = "dev") -> str:
    """Return the full name of one of the project's images, for Pod templates."""
    return f"docker.io/frameworkcontroller/{name}:{tag}"


def build_all(names: Iterable[str] = tuple(CATALOGUE), *, progress: Progress | None = None) -> dict[str, Path]:
    """Build the project's images as `docker.io/frameworkcontroller/<name>:dev`.

    Args:
        names: Keys of `CATALOGUE`.
        progress: Shows the builds; None means lines on standard error.

    Returns:
        The archives by name, in the order of the names.

    Raises:
        SetupError: A name is unknown, a tool is missing, or a build failed; the text has the end of its output.
    """
    archives = {}
    for name in names:
        if name not in CATALOGUE:
            raise SetupError(f"{name!r} is not an image of the project; choose from: {', '.join(CATALOGUE)}")
        image = CATALOGUE[name]
        archives[name] = build(
            name,
            dockerfile=REPOSITORY / image.dockerfile,
            context=REPOSITORY / image.context,
            tag=reference(name),
            progress=progress,
        )
    return archives


def build(
    name: str,
    *,
    dockerfile: Path,
    context: Path,
    tag: str,
    args: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Build an image, unless the cache has an archive of the same content.

    Args:
        name: The prefix of the archive's name.
        dockerfile: The Dockerfile; it takes its base from the build argument `BASE`.
        context: The folder that its COPY lines start from.
        tag: The full name of the image.
        args: More build arguments.
        progress: Shows the build; None means lines on standard error.

    Returns:
        An archive in Docker's format, in the cache.

    Raises:
        SetupError: A tool is missing, or the build failed; the text has the end of its output.
    """
    progress = progress or Lines()
    folder = cache_root() / "images"
    # One build at a time on a machine: builds share buildah's storage, and two would not be faster.
    with locked(folder / ".lock"):
        if os.geteuid() == 0:
            require(("buildah", "debootstrap", "debian-keyring"), progress)
        origin = base.choose(folder, progress)
        arguments = {"BASE": origin.reference, **(args or {})}
        copied = copied_files(dockerfile, context)
        archive = folder / f"{name}-{digest_of(dockerfile, context, copied, arguments, tag)}.tar"
        if archive.is_file():
            archive.touch()
            return archive
        mounts: dict[str, Path] = {}
        if wheels := _wheels([file for file in copied if is_lock(file)], folder.parent / "wheels", progress):
            mounts["/wheels"] = wheels
            arguments |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
        locks = [file for file in copied if file.suffix == jars.SUFFIX]
        if repository := jars.download(locks, folder.parent / "jars", progress):
            mounts["/jars"] = repository
            arguments["MAVEN"] = "file:///jars"
        detail: list[str] = []
        with task(progress, f"build image {name}", detail):
            Buildah(folder.parent / "buildah", detail).build(
                origin=origin,
                dockerfile=dockerfile,
                context=context,
                tag=tag,
                arguments=arguments,
                mounts=mounts,
                archive=archive,
            )
        _forget_old(folder, name)
    return archive


def _wheels(locks: Sequence[Path], folder: Path, progress: Progress) -> Path | None:
    """Download the wheels of lock files, once, and return their folder; None without lock files."""
    if not locks:
        return None
    digest = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()[:12]
    target = folder / digest
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".new-*"):
        shutil.rmtree(leftover)
    temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".new-"))
    # Readable in the build, which may run as another user.
    temporary.chmod(0o755)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"]
    command += ["--only-binary=:all:", f"--python-version={base.PYTHON}", "--dest", str(temporary)]
    command += [word for lock in locks for word in ("-r", str(lock))]
    with task(progress, f"download the wheels of {', '.join(lock.name for lock in locks)}"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SetupError(f"pip cannot download the wheels of {locks[0]}: {done.stderr.strip()[-2000:]}")
        temporary.replace(target)
    return target


def _forget_old(folder: Path, name: str) -> None:
    """Delete the archives of an image except those that were used last; each may be a gigabyte."""
    archives = sorted(folder.glob(f"{name}-????????????.tar"), key=lambda file: file.stat().st_mtime)
    for archive in archives[:-_KEPT_ARCHIVES]:
        archive.unlink()
