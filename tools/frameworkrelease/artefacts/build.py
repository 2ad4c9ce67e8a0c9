"""Builds the artefacts of a release into one folder; the same commit gives the same bytes."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from frameworkrelease import chart, plain
from frameworkrelease.artefacts import bills, checksums, layout
from frameworkrelease.artefacts.release import HELLO, IMAGES, MANIFESTS, PREFIX, PROGRAMS, Release, bill_of, images
from frameworkrelease.artefacts.run import run
from localcluster.images import build_release
from localcluster.progress import Progress, task

if TYPE_CHECKING:
    from frameworkrelease.artefacts.sources import Sources


def build(sources: Sources, target: Path, *, prefix: str, progress: Progress) -> None:
    """Build everything but the signature.

    Args:
        sources: The commit.
        target: The folder, which is emptied first.
        prefix: Where the images will be: a registry and a path, such as `docker.io/frameworkcontroller`.
        progress: Shows what is built.

    Raises:
        ReleaseError: A step failed.
        SetupError: An image cannot be built.
        ChartError: helm refuses the chart.
    """
    release = Release(target, sources.version)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with task(progress, "build the wheel and the source distribution"):
        distributions(sources, target)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".images-") as folder:
        _images(sources, release, Path(folder), prefix, progress)
    source = sources.folder / "charts" / "frameworkcontroller"
    # helm keeps the times of files.
    for path in (source, *source.rglob("*")):
        os.utime(path, (sources.epoch, sources.epoch))
    chart.helm("package", str(source), f"--destination={target}")
    (target / MANIFESTS).write_text(plain.manifests(f"--values={target / IMAGES}", source=source))
    hello = (sources.folder / "deploy" / HELLO).read_text()
    named = rf"{re.escape(PREFIX)}/(\w+):\S+"
    (target / HELLO).write_text(re.sub(named, lambda found: f"{prefix}/{found[1]}:{sources.version}", hello))
    checksums.write(target)


def distributions(sources: Sources, target: Path) -> None:
    """Build the wheel and the source distribution, with the tool that the lock of the development environment pins.

    Raises:
        ReleaseError: The build failed.
    """
    hatchling = (sys.executable, "-m", "hatchling", "build", "--directory", target)
    run(*hatchling, folder=sources.folder, environ=sources.environ)


def _images(sources: Sources, release: Release, folder: Path, prefix: str, progress: Progress) -> None:
    labels = {
        "org.opencontainers.image.version": sources.version,
        "org.opencontainers.image.revision": sources.revision,
    }
    build_release(
        PROGRAMS, sources=sources.folder, target=folder, created=sources.epoch, labels=labels, progress=progress
    )
    digests: dict[str, str] = {}
    everything: set[bills.Part] = set()
    for program in PROGRAMS:
        image, archive, reference = folder / program, release.image(program), f"{prefix}/{program}:{sources.version}"
        with task(progress, f"pack image {program}"):
            layout.name(image, reference)
            layout.pack(image, archive, sources.epoch)
            digests[program] = layout.digest(image)
            found = bills.parts(image)
        everything |= set(found)
        bill_of(archive).write_text(bills.of_image(reference, image, found, sources.epoch))
    bill = bills.of_wheel(release.wheel, sources.version, everything, sources.epoch)
    bill_of(release.wheel).write_text(bill)
    (release.folder / IMAGES).write_text(images(prefix, digests))
