"""Container images built from Dockerfiles with buildah, without a registry and without a daemon.

Images for this machine become archives in Docker's format, those of a release become OCI layouts. The name of an
archive in the cache contains a digest of everything that decides on its content (Dockerfile, the files that it copies,
build arguments, base image), so an image that did not change is found by its file name.

The build itself needs no network for what the lock files that a Dockerfile copies name. This is downloaded first:
wheels are mounted at /wheels, with `PIP_NO_INDEX` and `PIP_FIND_LINKS` set, which pip reads; jars are mounted at /jars,
and the build argument `MAVEN` is the URL of that folder, in place of that of Maven Central.
"""

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from filelock import FileLock

from localcluster.errors import SetupError
from localcluster.images import base, buildah, jars, wheels
from localcluster.images.dockerfiles import copied_files, digest_of, is_lock
from localcluster.packages import require
from localcluster.programs.binaries import cache_root
from localcluster.progress import task

REPOSITORY = base.REPOSITORY
_KEPT_ARCHIVES = 2
_OF_THE_CHECKOUT = ("barrier", "controller", "history", "injector")
CATALOGUE: Mapping[str, str] = {
    **{name: f"images/{name}" for name in (*_OF_THE_CHECKOUT, "jvm", "tools", "training")},
    **{
        f"{file.parent.name}-example": str(file.parent.relative_to(REPOSITORY))
        for file in sorted(REPOSITORY.glob("examples/*/Dockerfile"))
    },
}
"""The folder of each image: the programs, what examples and tests share, and `<folder>-example` of an example."""


def reference(name: str, tag: str = "dev") -> str:
    """Return the full name of one of the project's images, for Pod templates."""
    return f"docker.io/frameworkcontroller/{name}:{tag}"


def build_all(names: Iterable[str] = tuple(CATALOGUE)) -> dict[str, Path]:
    """Build images of `CATALOGUE` as `docker.io/frameworkcontroller/<name>:dev`; return their archives by name.

    Raises:
        SetupError: A name is unknown, a tool is missing, or a build failed; the text has the end of its output.
    """
    archives = {}
    for name in names:
        if name not in CATALOGUE:
            raise SetupError(f"{name!r} is not an image of the project; choose from: {', '.join(CATALOGUE)}")
        dockerfile, context = _sources(name, REPOSITORY)
        archives[name] = build(name, dockerfile=dockerfile, context=context, tag=reference(name))
    return archives


def _sources(name: str, checkout: Path) -> tuple[Path, Path]:
    """Return the Dockerfile of an image and its build context: for programs the checkout, else its own folder."""
    folder = checkout / CATALOGUE[name]
    return folder / "Dockerfile", checkout if name in _OF_THE_CHECKOUT else folder


def build(name: str, *, dockerfile: Path, context: Path, tag: str) -> Path:
    """Build an image, unless the cache has an archive of the same content; return the archive, in Docker's format.

    The Dockerfile takes its base from the build argument `BASE`; `name` is the prefix of the archive's name. It
    fails as `build_all` does.
    """
    folder = cache_root() / "images"
    # One build at a time on a machine: builds share buildah's storage, and two would not be faster.
    with FileLock(folder / ".lock"):
        if os.geteuid() == 0:
            require(("buildah",))
        origin = base.choose(folder)
        copied = copied_files(dockerfile, context)
        digest = digest_of(dockerfile, context, copied, {"BASE": origin.reference}, tag)
        archive = folder / f"{name}-{digest}.tar"
        if archive.is_file():
            archive.touch()
            return archive
        arguments, mounts = _offline(copied)
        with task(f"build image {name}"):
            temporary = archive.with_name(f".{archive.name}.new")
            temporary.unlink(missing_ok=True)
            buildah.build(
                folder.parent / "buildah", origin=origin, dockerfile=dockerfile, context=context, tag=tag,
                destination=f"docker-archive:{temporary}:{tag}", arguments=arguments, mounts=mounts,
            )  # fmt: skip
            temporary.replace(archive)
        _forget_old(folder, name)
    return archive


def build_release(
    names: Sequence[str], *, sources: Path, target: Path, created: int, labels: Mapping[str, str]
) -> None:
    """Build images of a release from a checkout, on the locked base: the same sources give the same digests.

    They are built from nothing, because the layers of an earlier build have other times. `target` gets an OCI layout
    `<name>` of each image; `created` is the time of everything in them, in Unix seconds. It fails as `build` does.
    """
    folder = cache_root() / "images"
    with FileLock(folder / ".lock"):
        require(("buildah",))
        origin = base.locked(folder)
        given = {name: _offline(copied_files(*_sources(name, sources))) for name in names}
    # The storage is its own, so other builds need not wait.
    with tempfile.TemporaryDirectory(prefix=".release-", dir=folder) as storage:
        for name, (arguments, mounts) in given.items():
            dockerfile, context = _sources(name, sources)
            with task(f"build image {name} for a release"):
                buildah.build(
                    Path(storage), origin=origin, dockerfile=dockerfile, context=context,
                    tag=f"localhost/release/{name}", destination=f"oci:{target / name}:{name}",
                    arguments=arguments, mounts=mounts, labels=labels, created=created,
                )  # fmt: skip


def _offline(copied: Sequence[Path]) -> tuple[dict[str, str], dict[str, Path]]:
    """Download what the lock files among copied files name; return the build arguments, and the folders to mount."""
    arguments: dict[str, str] = {}
    mounts: dict[str, Path] = {}
    if locks := [file for file in copied if is_lock(file)]:
        mounts["/wheels"] = wheels.download(locks, cache_root() / "wheels")
        arguments |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
    if locks := [file for file in copied if file.suffix == jars.SUFFIX]:
        mounts["/jars"] = jars.download(locks, cache_root() / "jars")
        arguments["MAVEN"] = "file:///jars"
    return arguments, mounts


def _forget_old(folder: Path, name: str) -> None:
    """Delete the archives of an image except those that were used last; each may be a gigabyte."""
    archives = sorted(folder.glob(f"{name}-????????????.tar"), key=lambda file: file.stat().st_mtime)
    for archive in archives[:-_KEPT_ARCHIVES]:
        archive.unlink()
