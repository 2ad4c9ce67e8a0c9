"""Container images built from Dockerfiles with buildah, without a registry and without a daemon.

An archive in the cache carries the digest of everything that went into it (Dockerfile, the files it copies, build
arguments, base image), so a second build of the same is a look at a file name.

The build itself needs no network: the wheels of every hashed lock file that a Dockerfile copies are downloaded before,
on this machine, and mounted at /wheels with `PIP_NO_INDEX` and `PIP_FIND_LINKS` set, which pip reads by itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localcluster import base
from localcluster.binaries import cache_root
from localcluster.errors import SetupError
from localcluster.packages import require
from localcluster.progress import Lines, Progress, task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

REPOSITORY = Path(__file__).parents[2]
_KEPT_ARCHIVES = 2
_UNSEEN = ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache")


@dataclass(frozen=True)
class Image:
    """One of the project's images.

    Attributes:
        dockerfile: Relative to the repository.
        context: The build context, relative to the repository.
    """

    dockerfile: str
    context: str = "."


CATALOGUE: Mapping[str, Image] = {
    "barrier": Image("images/barrier/Dockerfile"),
    "controller": Image("images/controller/Dockerfile"),
    "injector": Image("images/injector/Dockerfile"),
    "tensorflow-example": Image("examples/tensorflow/Dockerfile", "examples/tensorflow"),
}


def reference(name: str, tag: str = "dev") -> str:
    """The full name under which Pods know one of the project's images."""
    return f"docker.io/frameworkcontroller/{name}:{tag}"


def build_all(names: Iterable[str] = tuple(CATALOGUE), *, progress: Progress | None = None) -> dict[str, Path]:
    """Build the project's images as `docker.io/frameworkcontroller/<name>:dev`.

    Args:
        names: Keys of `CATALOGUE`.
        progress: Who is told; None means lines on standard error.

    Returns:
        The archives by name, in the order of the names.

    Raises:
        SetupError: A name is unknown, a tool is missing, or a build failed; the text has the end of its output.
    """
    archives = {}
    for name in names:
        if name not in CATALOGUE:
            raise SetupError(f"{name!r} is none of the project's images: {', '.join(CATALOGUE)}")
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
    """Build an image, or find the archive of an earlier build of exactly the same.

    Args:
        name: Names the archive.
        dockerfile: The Dockerfile; it takes its base from the build argument `BASE`.
        context: The folder that its COPY lines start from.
        tag: The full name of the image.
        args: More build arguments.
        progress: Who is told; None means lines on standard error.

    Returns:
        An archive in Docker's format, in the cache.

    Raises:
        SetupError: A tool is missing, or the build failed; the text has the end of its output.
    """
    progress = progress or Lines()
    folder = cache_root() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        if os.geteuid() == 0:
            require(("buildah", "debootstrap", "debian-keyring"), progress)
        origin = base.choose(folder, progress)
        arguments = {"BASE": origin.reference, **(args or {})}
        copied = copied_files(dockerfile, context)
        archive = folder / f"{name}-{digest_of(dockerfile, context, copied, arguments, tag)}.tar"
        if archive.is_file():
            archive.touch()
            return archive
        wheels = _wheels([file for file in copied if is_lock(file)], folder.parent / "wheels", progress)
        detail: list[str] = []
        with task(progress, f"build image {name}", detail):
            _Builder(folder.parent / "buildah", detail).build(
                origin=origin,
                dockerfile=dockerfile,
                context=context,
                tag=tag,
                arguments=arguments,
                wheels=wheels,
                archive=archive,
            )
        _forget_old(folder, name)
    return archive


def copied_files(dockerfile: Path, context: Path) -> list[Path]:
    """The files of the context that a Dockerfile copies, sorted; those of other stages are not counted."""
    files: set[Path] = set()
    for line in dockerfile.read_text().replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0].upper() not in {"COPY", "ADD"}:
            continue
        if any(word.startswith("--from") for word in words):
            continue
        sources = [word for word in words[1:] if not word.startswith("--")][:-1]
        # Also `.`, `./program` and patterns.
        patterns = [os.path.normpath(source.strip("/")) for source in sources]
        paths = [path for pattern in patterns for path in ([context] if pattern == "." else context.glob(pattern))]
        found = {file for path in paths for file in _files_under(path)}
        if not found:
            raise SetupError(f"{dockerfile} copies {' '.join(sources)}, which is not in {context}")
        files |= found
    return sorted(files)


def is_lock(file: Path) -> bool:
    """Whether it is a requirements file that pins hashes, whose wheels a build wants."""
    return file.suffix == ".txt" and "--hash=" in file.read_text(errors="replace")


def digest_of(dockerfile: Path, context: Path, copied: Sequence[Path], arguments: Mapping[str, str], tag: str) -> str:
    """A short digest of everything that decides on the content of an image."""
    digest = hashlib.sha256(repr((tag, sorted(arguments.items()))).encode())
    digest.update(dockerfile.read_bytes())
    for file in copied:
        executable = os.access(file, os.X_OK)
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(context)} {executable} {content}\n".encode())
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class _Builder:
    """Buildah with a storage of its own, in a mount namespace of its own.

    Attributes:
        folder: The storage; intermediate layers stay in it and make later builds fast.
        detail: Its last item is the last line that a build wrote.
    """

    folder: Path
    detail: list[str]

    def build(
        self,
        *,
        origin: base.Base,
        dockerfile: Path,
        context: Path,
        tag: str,
        arguments: Mapping[str, str],
        wheels: Path | None,
        archive: Path,
    ) -> None:
        """Build and write the archive, whole or not at all."""
        if origin.archive and not self._has(origin.reference):
            self._run("pull", "--quiet", f"docker-archive:{origin.archive}")
        options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        if wheels:
            options += [
                "--build-arg=PIP_NO_INDEX=1",
                "--build-arg=PIP_FIND_LINKS=/wheels",
                f"--volume={wheels}:/wheels:ro",
            ]
        if origin.archive:
            options.append("--pull-never")
        self._run("build", "--layers", "--tag", tag, "--file", str(dockerfile), *options, str(context))
        temporary = archive.with_name(f".{archive.name}.new")
        temporary.unlink(missing_ok=True)
        self._run("push", "--quiet", tag, f"docker-archive:{temporary}:{tag}")
        temporary.replace(archive)

    def _has(self, image: str) -> bool:
        return (
            subprocess.run(
                self._command("inspect", "--type=image", image),
                capture_output=True,
                check=False,
                env=self._environment(),
            ).returncode
            == 0
        )

    def _run(self, *arguments: str) -> None:
        with subprocess.Popen(
            self._command(*arguments),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=self._environment(),
        ) as process:  # fmt: skip
            assert process.stdout
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line.rstrip())
                self.detail[:] = [line.strip()[:60]]
        if process.returncode:
            end = "\n".join(f"  {line}" for line in lines[-20:])
            raise SetupError(
                f"`buildah {arguments[0]}` failed with code {process.returncode}; the end of its output:\n{end}"
            )

    def _command(self, *arguments: str) -> list[str]:
        # The storage driver mounts; in a namespace of their own no mount outlives buildah, whatever ends it.
        own = (
            []
            if os.geteuid()
            else ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        )
        place = ["--root", str(self.folder / "storage"), "--runroot", str(self.folder / "run")]
        return [*own, "buildah", *place, *arguments]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": storage_driver(self.folder)}


def storage_driver(folder: Path) -> str:
    """`overlay` where the folder's file system can carry one, which copies nothing; else `vfs`, which copies layers."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".overlay-") as trial:
        for part in ("lower", "upper", "work", "merged"):
            Path(trial, part).mkdir()
        options = f"lowerdir={trial}/lower,upperdir={trial}/upper,workdir={trial}/work"
        mount = ["unshare", "--mount", "mount", "-t", "overlay", "overlay", "-o", options, f"{trial}/merged"]
        return "vfs" if subprocess.run(mount, capture_output=True, check=False).returncode else "overlay"


def _wheels(locks: Sequence[Path], folder: Path, progress: Progress) -> Path | None:
    """A folder with the wheels of these lock files, downloaded once; None without lock files."""
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
            raise SetupError(f"the wheels of {locks[0]} could not be downloaded: {done.stderr.strip()[-2000:]}")
        temporary.replace(target)
    return target


def _files_under(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for file in path.rglob("*"):
            if file.is_file() and not any(part in _UNSEEN for part in file.parts) and file.suffix != ".pyc":
                yield file


def _forget_old(folder: Path, name: str) -> None:
    """Keep the archives of an image that were used last; each may be a gigabyte."""
    archives = sorted(folder.glob(f"{name}-????????????.tar"), key=lambda file: file.stat().st_mtime)
    for archive in archives[:-_KEPT_ARCHIVES]:
        archive.unlink()


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """One build at a time on a machine: they share the storage, and two would not be faster."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
