"""Builds the artefacts of a release from one commit into one folder; the same commit gives the same bytes.

The commit is exported first, so that nothing else of a working tree gets into an artefact.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.model.component import Component

from frameworkrelease import bills, chart, cut, signing
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.commands import ReleaseError, run
from frameworkrelease.generate import plain
from frameworkrelease.release import HELLO, IMAGES, MANIFESTS, PREFIX, PROGRAMS, Release, bill_of, images
from localcluster.images.images import build_release
from localcluster.progress import task


@dataclass(frozen=True)
class Sources:
    """The files of a commit, and the time of everything that is built from them, in Unix seconds."""

    folder: Path
    version: str
    revision: str
    epoch: int

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a build: it fixes the time of what build tools write."""
        return {**os.environ, "SOURCE_DATE_EPOCH": str(self.epoch)}


def export(wanted: str, folder: Path, commit: str = "HEAD", environ: Mapping[str, str] = os.environ) -> Sources:
    """Write the files of a commit of a version into an empty folder.

    `SOURCE_DATE_EPOCH` of the environment takes the place of the time of the commit.

    Raises:
        ReleaseError: The commit is not of this version, or git knows no such commit.
    """
    revision, seconds = run("git", "log", "-1", "--format=%H %ct", commit, folder=REPOSITORY).split()
    archive = folder / ".tar"
    # The mode of a file does not depend on who exports it.
    run("git", "-c", "tar.umask=0022", "archive", f"--output={archive}", revision, folder=REPOSITORY)
    run("tar", "--extract", "--preserve-permissions", "--file", archive, "--directory", folder)
    archive.unlink()
    cut.require(wanted, folder)
    return Sources(folder, wanted, revision, int(environ.get("SOURCE_DATE_EPOCH") or seconds))


def require_clean() -> None:
    """Check that the working tree is what is committed; ReleaseError about changes, which a release would not have."""
    if changes := run("git", "status", "--porcelain", folder=REPOSITORY).splitlines():
        raise ReleaseError(f"{len(changes)} files are not committed, for example {changes[0][3:]}: commit them first")


def build(sources: Sources, target: Path, *, prefix: str) -> None:
    """Build everything but the signature, into a folder that is emptied first.

    The images will be at `prefix`, a registry and a path, such as `docker.io/frameworkcontroller`.
    """
    release = Release(target, sources.version)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with task("build the wheel and the source distribution"):
        distributions(sources, target)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".images-") as folder:
        _images(sources, release, Path(folder), prefix)
    source = sources.folder / "charts" / "frameworkcontroller"
    if url := sources.environ.get("PROJECT_URL"):
        # Where the project is, who releases it knows.
        with (source / "Chart.yaml").open("a") as file:
            file.write(f"home: {url}\nsources: [{url}]\n")
    # helm keeps the times of files.
    for path in (source, *source.rglob("*")):
        os.utime(path, (sources.epoch, sources.epoch))
    chart.helm("package", str(source), f"--destination={target}")
    (target / MANIFESTS).write_text(plain.manifests(f"--values={target / IMAGES}", source=source))
    hello = (sources.folder / "deploy" / HELLO).read_text()
    named = rf"{re.escape(PREFIX)}/(\w+):\S+"
    (target / HELLO).write_text(re.sub(named, lambda found: f"{prefix}/{found[1]}:{sources.version}", hello))
    signing.write_checksums(target)


def distributions(sources: Sources, target: Path) -> None:
    """Build the wheel and the source distribution, with the tool that the lock of the development environment pins."""
    hatchling = (sys.executable, "-m", "hatchling", "build", "--directory", target)
    run(*hatchling, folder=sources.folder, environ=sources.environ)


def pack(image: Path, reference: str, archive: Path, epoch: int) -> str:
    """Write an image as an archive whose bytes do not depend on the day or the user, and return its digest.

    `podman load`, `docker load` and containerd know it by the reference, which its OCI layout gets, too. `epoch` is the
    time of everything in it, in Unix seconds.
    """
    file = image / "index.json"
    index = json.loads(file.read_text())
    (manifest,) = index["manifests"]
    tag = reference.rpartition(":")[2]
    manifest["annotations"] = {"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": tag}
    file.write_text(json.dumps(index))
    run(
        "tar", "--create", "--file", archive, "--format=gnu", "--sort=name", f"--mtime=@{epoch}", "--owner=0",
        "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX", "--directory", image,
        *sorted(path.name for path in image.iterdir()),
    )  # fmt: skip
    return str(manifest["digest"])


def _images(sources: Sources, release: Release, folder: Path, prefix: str) -> None:
    labels = {
        "org.opencontainers.image.version": sources.version,
        "org.opencontainers.image.revision": sources.revision,
    }
    build_release(PROGRAMS, sources=sources.folder, target=folder, created=sources.epoch, labels=labels)
    digests, everything = dict[str, str](), list[Component]()
    for program in PROGRAMS:
        archive, reference = release.image(program), f"{prefix}/{program}:{sources.version}"
        with task(f"pack image {program}"):
            digests[program] = digest = pack(folder / program, reference, archive, sources.epoch)
            found = bills.contents(folder / program, digest)
        everything += found
        bill_of(archive).write_text(bills.of_image(reference, digest, found, sources.epoch))
    bill = bills.of_wheel(release.wheel, sources.version, everything, sources.epoch)
    bill_of(release.wheel).write_text(bill)
    (release.folder / IMAGES).write_text(images(release.version, prefix, digests))
