"""Builds the artefacts of a release into one folder; the same commit gives the same bytes."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from frameworkrelease import chart, plain
from frameworkrelease.artefacts import bills, checksums, distributions, layout, signing
from frameworkrelease.artefacts.names import HELLO, IMAGES, MANIFESTS, PREFIX, PROGRAMS, Names, bill_of
from localcluster import layouts
from localcluster.progress import Progress, task

if TYPE_CHECKING:
    from frameworkrelease.artefacts.sources import Sources

_CHART = "charts/frameworkcontroller"
_IMAGES_HEAD = "# The images of a release, each by its digest: `helm install --values images.yaml`.\n"


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
    names = Names(sources.version)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with task(progress, "build the wheel and the source distribution"):
        distributions.build(sources, target)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".images-") as folder:
        _images(sources, names, Path(folder), target, prefix, progress)
    _chart(sources, target)
    _manifests(sources, target, prefix)
    checksums.write(target)


def sign(target: Path, private: str) -> None:
    """Sign the checksums of a release, and so all of its files.

    Raises:
        ReleaseError: cosign failed.
    """
    signing.sign_file(target / checksums.FILE, private, target / checksums.SIGNATURE)


def values(prefix: str, digests: dict[str, str]) -> str:
    """Return the values of the chart by which it installs the images of a release, each by its digest."""
    registry, _, path = prefix.partition("/")
    images = {
        program: {"image": {"repository": f"{path}/{program}".lstrip("/"), "digest": found}}
        for program, found in digests.items()
    }
    return _IMAGES_HEAD + yaml.safe_dump({"image": {"registry": registry}, **images}, sort_keys=False)


def _images(sources: Sources, names: Names, folder: Path, target: Path, prefix: str, progress: Progress) -> None:
    labels = {
        "org.opencontainers.image.version": sources.version,
        "org.opencontainers.image.revision": sources.revision,
    }
    layouts.build(
        PROGRAMS, sources=sources.folder, target=folder, created=sources.epoch, labels=labels, progress=progress
    )
    digests: dict[str, str] = {}
    everything: set[bills.Part] = set()
    for program in PROGRAMS:
        image, archive, reference = folder / program, target / names.image(program), names.reference(prefix, program)
        with task(progress, f"pack image {program}"):
            layout.name(image, reference)
            layout.pack(image, archive, sources.epoch)
            digests[program] = layout.digest(image)
            found = bills.parts(image)
        everything |= set(found)
        (target / bill_of(archive.name)).write_text(bills.of_image(reference, image, found, sources.epoch))
    wheel = target / names.wheel
    (target / bill_of(wheel.name)).write_text(bills.of_wheel(wheel, sources.version, everything, sources.epoch))
    (target / IMAGES).write_text(values(prefix, digests))


def _chart(sources: Sources, target: Path) -> None:
    """Package the chart; helm keeps the times of its files."""
    folder = sources.folder / _CHART
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (sources.epoch, sources.epoch))
    chart.helm("package", str(folder), f"--destination={target}")


def _manifests(sources: Sources, target: Path, prefix: str) -> None:
    images = f"--values={target / IMAGES}"
    (target / MANIFESTS).write_text(plain.manifests(images, source=sources.folder / _CHART))
    hello = (sources.folder / "deploy" / HELLO).read_text()
    named = rf"{re.escape(PREFIX)}/(\w+):\S+"
    (target / HELLO).write_text(re.sub(named, lambda found: f"{prefix}/{found[1]}:{sources.version}", hello))
