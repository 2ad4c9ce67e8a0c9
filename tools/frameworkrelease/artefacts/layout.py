"""OCI layouts of images: their digests, their files, and archives of them whose bytes do not depend on the day."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_INDEX = "index.json"


def digest(layout: Path) -> str:
    """Return the digest of the image in a layout, by which registries know it: `sha256:...`."""
    (found,) = json.loads((layout / _INDEX).read_text())["manifests"]
    return str(found["digest"])


def name(layout: Path, reference: str) -> None:
    """Give the image in a layout its full name, by which `podman load`, `docker load` and containerd know it."""
    file = layout / _INDEX
    index = json.loads(file.read_text())
    index["manifests"][0]["annotations"] = {
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
    }
    file.write_text(json.dumps(index))


def pack(layout: Path, archive: Path, epoch: int) -> None:
    """Write a layout as a tar with sorted names, in which everything is root's and of one time."""

    def uniform(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = epoch
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(layout.rglob("*")):
            tar.add(path, str(path.relative_to(layout)), recursive=False, filter=uniform)


def files(layout: Path, wanted: tuple[str, ...]) -> dict[str, str]:
    """Return the texts of files of the image by their paths, those of the upper layers where several have one.

    Args:
        layout: The layout.
        wanted: The ends of their paths.
    """

    def blob(found: str) -> Path:
        return layout / "blobs" / found.replace(":", "/")

    texts: dict[str, str] = {}
    for layer in json.loads(blob(digest(layout)).read_text())["layers"]:
        with tarfile.open(blob(layer["digest"])) as tar:
            for member in tar:
                if member.isfile() and member.name.endswith(wanted):
                    content = tar.extractfile(member)
                    assert content
                    texts[member.name.removeprefix("./")] = content.read().decode(errors="replace")
    return texts
