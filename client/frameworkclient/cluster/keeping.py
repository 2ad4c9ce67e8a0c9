"""Files with the manifests of Frameworks that are deleted to be created again: whatever ends this process, one is left.

They are in `$XDG_STATE_HOME/frameworkctl`, by default in `~/.local/state`, for their user alone.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from frameworkclient.errors import ArgumentError, ClientError
from frameworkclient.model.yaml_text import dump


def folder() -> Path:
    """Return where the files are."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()) / "frameworkctl"


def keep(manifest: Mapping[str, Any], uid: str) -> Path:
    """Write the manifest of the Framework of this UID to the disk, and return the file.

    Raises:
        ArgumentError: The file cannot be written.
    """
    metadata = manifest["metadata"]
    try:
        # The name alone may be that of a Framework of another cluster.
        file = folder() / f"{metadata['namespace']}.{metadata['name']}.{uid}.yaml"
        part = file.with_suffix(".part")
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as stream:
            stream.write(dump(manifest))
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
        if os.name == "posix":  # elsewhere a folder cannot be opened
            directory = os.open(file.parent, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
    except (OSError, RuntimeError) as error:
        raise ArgumentError(
            f"cannot keep the manifest in a file: {error}; nothing was deleted: set XDG_STATE_HOME to a folder for it"
        ) from error
    return file


def kept(namespace: str, name: str) -> list[Path]:
    """Return the files of a Framework whose retry was interrupted."""
    return sorted(folder().glob(f"{namespace}.{name}.*.yaml"))


@contextmanager
def named(file: Path | None) -> Iterator[None]:
    """Add to an error of the block where the manifest is, or that it is not needed."""
    try:
        yield
    except ClientError as error:
        is_kept = file is not None and file.exists()
        told = f"if it is gone, create it again: frameworkctl submit -f {file}" if is_kept else "nothing was deleted"
        error.args = (f"{error}; {told}",)
        raise
