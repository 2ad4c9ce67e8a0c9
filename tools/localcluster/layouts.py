"""Images of a release: built from nothing with fixed times, on the locked base, as OCI layouts.

The same sources give the same digests. Nothing is taken from an earlier build, whose layers have other times.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from localcluster import base
from localcluster.binaries import cache_root
from localcluster.buildah import Buildah
from localcluster.dockerfiles import copied_files
from localcluster.images import CATALOGUE, offline
from localcluster.packages import require
from localcluster.progress import Progress, task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def build(
    names: Sequence[str],
    *,
    sources: Path,
    target: Path,
    created: int,
    labels: Mapping[str, str],
    progress: Progress,
) -> None:
    """Build some of the project's images into `target`, a folder for each.

    Args:
        names: Keys of `CATALOGUE`.
        sources: A checkout of the repository.
        target: Gets an OCI layout `<name>` for each image.
        created: The time of everything that is built, in Unix seconds.
        labels: The labels of all images.
        progress: Shows the builds.

    Raises:
        SetupError: A tool is missing, or a build failed; the text has the end of its output.
    """
    folder = cache_root() / "images"
    files = {name: (sources / CATALOGUE[name].dockerfile, sources / CATALOGUE[name].context) for name in names}
    with FileLock(folder / ".lock"):
        require(("buildah",), progress)
        origin = base.locked(folder, progress)
        given = {name: offline(copied_files(*where), progress) for name, where in files.items()}
    # The storage is its own, so other builds need not wait.
    with tempfile.TemporaryDirectory(prefix=".release-", dir=folder) as storage:
        for name, (dockerfile, context) in files.items():
            arguments, mounts = given[name]
            tag = f"localhost/release/{name}"
            detail: list[str] = []
            with task(progress, f"build image {name} for a release", detail):
                buildah = Buildah(Path(storage), detail)
                buildah.build(
                    origin=origin,
                    dockerfile=dockerfile,
                    context=context,
                    tag=tag,
                    arguments={"BASE": origin.reference, **arguments},
                    mounts=mounts,
                    labels=labels,
                    created=created,
                )
                buildah.push(tag, f"oci:{target / name}:{name}")
