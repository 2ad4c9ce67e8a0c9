"""Image archives of one layer, written and read without a container tool.

The format is Docker's (`docker save`): an uncompressed tar with the layer, the image's configuration and manifest.json.
containerd imports such archives, and buildah pulls from them.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from localcluster.errors import SetupError
from localcluster.programs.catalogue import architecture


def write(archive: Path, *, reference: str, layer: Path, config: Mapping[str, Any]) -> Path:
    """Write an image of one layer, an uncompressed tar of its root; the file appears complete or not at all.

    The reference is its full name; the config, that of the OCI image specification: `Entrypoint`, `Env`, `User` ...
    """
    image = {
        "architecture": architecture(),
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
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


def images(archive: Path) -> dict[str, str]:
    """Return the images in an archive: full names, each with the digest of its configuration.

    The digest identifies the content of the image, because the configuration lists the digests of the layers.

    Raises:
        SetupError: The file was not written by `docker save` or `buildah push ... docker-archive:`.
    """
    try:
        with tarfile.open(archive) as tar:
            member = tar.extractfile("manifest.json")
            entries: Sequence[Mapping[str, Any]] = json.load(member) if member else []
            return {tag: Path(entry["Config"]).stem for entry in entries for tag in entry["RepoTags"] or ()}
    except (OSError, KeyError, ValueError, tarfile.TarError) as error:
        raise SetupError(f"{archive} is no image archive in Docker's format: {error}") from error


def digest(file: Path) -> str:
    """Return the digest of a file, as images write it: `sha256:...`."""
    with file.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
