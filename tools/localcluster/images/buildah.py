"""Buildah, run without a daemon and without leaving mounts behind; `images` calls it for what is not in the cache."""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import SetupError

UNSHARED = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")
"""The start of a command that runs in mount and PID namespaces of its own, and so leaves neither mount nor process."""


@dataclass(frozen=True)
class Base:
    """A base image: its name, and the archive that it is imported from; None if it is pulled from a registry."""

    reference: str
    archive: Path | None


@dataclass(frozen=True)
class Buildah:
    """Buildah in a mount namespace of its own; intermediate layers stay in its storage and make later builds fast.

    Where it fails, a method raises SetupError with the end of its output.
    """

    folder: Path

    def build(
        self,
        *,
        origin: Base,
        dockerfile: Path,
        context: Path,
        tag: str,
        arguments: Mapping[str, str],
        mounts: Mapping[str, Path],
        labels: Mapping[str, str] | None = None,
        created: int | None = None,
    ) -> None:
        """Build an image on a base into the storage, with folders that the build may read by where it finds them.

        `created` is the time of the image and of every file that the build makes, in Unix seconds; None means now.
        """
        if origin.archive and not self._has(origin.reference):
            self._run("pull", "--quiet", f"docker-archive:{origin.archive}")
        options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        options += [f"--volume={folder}:{place}:ro" for place, folder in mounts.items()]
        if origin.archive:
            options.append("--pull-never")
        if created is not None:
            options.append(f"--timestamp={created}")
        options += [f"--label={key}={value}" for key, value in (labels or {}).items()]
        self._run("build", "--layers", "--tag", tag, "--file", str(dockerfile), *options, str(context))

    def push(self, tag: str, destination: str) -> None:
        """Write an image of the storage to a destination, such as `docker-archive:FILE:NAME` or `oci:FOLDER:NAME`."""
        self._run("push", "--quiet", tag, destination)

    def _has(self, image: str) -> bool:
        return (
            subprocess.run(
                self._command("inspect", "--type=image", image),
                capture_output=True,
                check=False,
                env=self._environment(),
            ).returncode
            == 0
        )

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            self._command(*arguments),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
            env=self._environment(),
        )  # fmt: skip
        if done.returncode:
            end = "\n".join(f"  {line.rstrip()}" for line in done.stdout.splitlines()[-20:])
            raise SetupError(
                f"`buildah {arguments[0]}` failed with code {done.returncode}; the end of its output:\n{end}"
            )

    def _command(self, *arguments: str) -> list[str]:
        # The storage driver mounts layers; the namespace removes these mounts however buildah ends.
        own = () if os.geteuid() else UNSHARED
        place = ["--root", str(self.folder / "storage"), "--runroot", str(self.folder / "run")]
        return [*own, "buildah", *place, *arguments]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": storage_driver(self.folder)}


def storage_driver(folder: Path) -> str:
    """Return `overlay` if the folder's file system supports overlay mounts, else `vfs`, which copies each layer."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".overlay-") as trial:
        for part in ("lower", "upper", "work", "merged"):
            Path(trial, part).mkdir()
        options = f"lowerdir={trial}/lower,upperdir={trial}/upper,workdir={trial}/work"
        mount = ["unshare", "--mount", "mount", "-t", "overlay", "overlay", "-o", options, f"{trial}/merged"]
        return "vfs" if subprocess.run(mount, capture_output=True, check=False).returncode else "overlay"
