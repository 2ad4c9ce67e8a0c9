"""Buildah, run without a daemon and without leaving mounts behind; `images` calls it for what is not in the cache."""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from localcluster.errors import SetupError

UNSHARED = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")
"""The start of a command that runs in mount and PID namespaces of its own, and so leaves neither mount nor process."""
# Buildah seals a copy of itself in memory before it runs a command, whose pages the kernel may just be moving.
_BUSY: Final = "sealing memfd copy: Device or resource busy"
_TRIES: Final = 3


@dataclass(frozen=True)
class Base:
    """A base image: its name, and the archive that it is imported from; None if it is pulled from a registry."""

    reference: str
    archive: Path | None


def build(
    storage: Path,
    *,
    origin: Base,
    dockerfile: Path,
    context: Path,
    tag: str,
    destination: str,
    arguments: Mapping[str, str],
    mounts: Mapping[str, Path],
    labels: Mapping[str, str] | None = None,
    created: int | None = None,
) -> None:
    """Build an image on a base, its build argument `BASE`, with folders that the build may read by where it finds them.

    It is written to a destination, such as `docker-archive:FILE:NAME` or `oci:FOLDER:NAME`. Intermediate layers stay in
    the storage, a folder, and make later builds fast. `created` is the time of the image and of every file that the
    build makes, in Unix seconds; None means now.

    Raises:
        SetupError: Buildah failed; the text has the end of its output.
    """
    options = [f"--build-arg={key}={value}" for key, value in {"BASE": origin.reference, **arguments}.items()]
    options += [f"--volume={folder}:{place}:ro" for place, folder in mounts.items()]
    options += [f"--label={key}={value}" for key, value in (labels or {}).items()]
    if created is not None:
        options.append(f"--timestamp={created}")
    if origin.archive:
        options.append("--pull-never")
        if _buildah(storage, "inspect", "--type=image", origin.reference).returncode:
            _run(storage, "pull", "--quiet", f"docker-archive:{origin.archive}")
    _run(storage, "build", "--layers", "--tag", tag, "--file", str(dockerfile), *options, str(context))
    _run(storage, "push", "--quiet", tag, destination)


def _run(storage: Path, *arguments: str) -> None:
    for _ in range(_TRIES):
        done = _buildah(storage, *arguments)
        if not (done.returncode and _BUSY in done.stdout):
            break
    if done.returncode:
        end = "\n".join(f"  {line.rstrip()}" for line in done.stdout.splitlines()[-20:])
        raise SetupError(f"`buildah {arguments[0]}` failed with code {done.returncode}; the end of its output:\n{end}")


def _buildah(storage: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The storage driver mounts layers; the namespace removes these mounts however buildah ends.
    own = () if os.geteuid() else UNSHARED
    return subprocess.run(
        [*own, "buildah", "--root", str(storage / "storage"), "--runroot", str(storage / "run"), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        env={**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": storage_driver(storage)},
    )  # fmt: skip


def storage_driver(folder: Path) -> str:
    """Return `overlay` if the folder's file system supports overlay mounts, else `vfs`, which copies each layer."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".overlay-") as trial:
        for part in ("lower", "upper", "work", "merged"):
            Path(trial, part).mkdir()
        options = f"lowerdir={trial}/lower,upperdir={trial}/upper,workdir={trial}/work"
        mount = ["unshare", "--mount", "mount", "-t", "overlay", "overlay", "-o", options, f"{trial}/merged"]
        return "vfs" if subprocess.run(mount, capture_output=True, check=False).returncode else "overlay"
