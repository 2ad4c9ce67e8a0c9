"""Publishes the images and the chart of a release to a registry, and signs them there."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import yaml

from frameworkrelease import chart
from frameworkrelease.artefacts import checksums, signing
from frameworkrelease.artefacts.errors import ReleaseError
from frameworkrelease.artefacts.names import IMAGES, PROGRAMS, PROJECT, Names
from frameworkrelease.artefacts.run import run
from localcluster.packages import require
from localcluster.progress import Progress, task

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def publish(folder: Path, version: str, prefix: str, private: str, progress: Progress) -> dict[str, str]:
    """Copy the images and push the chart, and sign all of them.

    Args:
        folder: The release.
        version: Its version.
        prefix: The registry and the path; 127.0.0.1 is spoken to without TLS.
        private: The key, as cosign reads it.
        progress: Shows what is published.

    Returns:
        The references with digests by name: those of the images, and `chart`.

    Raises:
        ReleaseError: A file is not that of the release, or the registry refuses it.
    """
    checksums.verify(folder)
    require(("skopeo",), progress)
    names, published = Names(version), dict[str, str]()
    digests = digests_of(folder)
    for program in PROGRAMS:
        reference = names.reference(prefix, program)
        with task(progress, f"publish {reference}"):
            # The policy of the machine is about images that it runs.
            run(
                "skopeo", "--insecure-policy", "copy", "--quiet", "--preserve-digests",
                *_insecure(prefix, "--dest-tls-verify=false"), f"oci-archive:{folder / names.image(program)}", f"docker://{reference}",
            )  # fmt: skip
        published[program] = f"{prefix}/{program}@{digests[program]}"
        if (found := _digest(reference)) != digests[program]:
            raise ReleaseError(f"{reference} has the digest {found}, not {digests[program]}: the registry changed it")
    with task(progress, "publish the chart"):
        chart.helm("push", str(folder / names.chart), f"oci://{prefix}", *_insecure(prefix, "--plain-http"))
        published["chart"] = f"{prefix}/{PROJECT}@{_digest(names.reference(prefix, PROJECT))}"
    for reference in published.values():
        with task(progress, f"sign {reference}"):
            signing.sign_image(reference, private)
    return published


def digests_of(folder: Path) -> dict[str, str]:
    """Return the digests of the images of a release by their names."""
    found: Mapping[str, Any] = yaml.safe_load((folder / IMAGES).read_text())
    return {program: str(found[program]["image"]["digest"]) for program in PROGRAMS}


def prefix_of(folder: Path) -> str:
    """Return where a release says that its images are: a registry and a path."""
    found: Mapping[str, Any] = yaml.safe_load((folder / IMAGES).read_text())
    path = str(found[PROGRAMS[0]]["image"]["repository"]).removesuffix(PROGRAMS[0])
    return f"{found['image']['registry']}/{path}".rstrip("/")


def _digest(reference: str) -> str:
    """Return the digest that a registry has for a name: that of the manifest as it sends it."""
    prefix = reference.rpartition("/")[0]
    manifest = run("skopeo", "inspect", "--raw", *_insecure(prefix, "--tls-verify=false"), f"docker://{reference}")
    return f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}"


def _insecure(prefix: str, option: str) -> tuple[str, ...]:
    return (option,) if prefix.startswith("127.0.0.1:") else ()
