"""Image archives of one layer, written and looked into without any container tool.

The format is Docker's (`docker save`): an uncompressed tar of the layer, the image's configuration and manifest.json.
containerd imports it, buildah pulls from it.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localcluster.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CHUNK = 1 << 20


def write(archive: Path, *, reference: str, layer: Path, config: Mapping[str, Any]) -> Path:
    """Write an image of one layer; the file appears whole or not at all.

    Args:
        archive: The file to write.
        reference: The image's full name, for example `localhost/frameworkcontroller/pause:dev`.
        layer: An uncompressed tar of the image's root.
        config: The image's `config` (OCI image specification): `Entrypoint`, `Env`, `User` ...

    Returns:
        The archive's path.
    """
    machine = platform.machine()
    image = {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}"]},
        "history": [{"created_by": "localcluster"}],
    }
    text = json.dumps(image).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [reference], "Layers": ["layer.tar"]}]).encode()
    temporary = archive.with_name(f".{archive.name}.new")
    with tarfile.open(temporary, "w") as tar:
        for member, content in ((name, text), ("manifest.json", manifest)):
            header = tarfile.TarInfo(member)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
        tar.add(layer, "layer.tar")
    return temporary.replace(archive)


def layer_of(target: Path, files: Mapping[str, Path]) -> Path:
    """Write a layer with these files of this machine, executable by all: the path within the image, and the file."""
    with tarfile.open(target, "w") as tar:
        for name, file in files.items():
            header = tarfile.TarInfo(name.lstrip("/"))
            header.mode = 0o755
            header.size = file.stat().st_size
            with file.open("rb") as content:
                tar.addfile(header, content)
    return target


def images(archive: Path) -> dict[str, str]:
    """The images in an archive: full name, and the digest of its configuration, which identifies all of its content.

    Raises:
        SetupError: It is no archive of `docker save` or of `buildah push ... docker-archive:`.
    """
    try:
        with tarfile.open(archive) as tar:
            member = tar.extractfile("manifest.json")
            entries: Sequence[Mapping[str, Any]] = json.load(member) if member else []
            return {tag: Path(entry["Config"]).stem for entry in entries for tag in entry["RepoTags"] or ()}
    except (OSError, KeyError, ValueError, tarfile.TarError) as error:
        raise SetupError(f"{archive} is no image archive in Docker's format: {error}") from error


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
