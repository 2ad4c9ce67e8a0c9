"""The sources of a release: one commit, exported, so that nothing else of a working tree gets into an artefact."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frameworkrelease import cut
from frameworkrelease.artefacts.run import ReleaseError, run
from frameworkrelease.chart import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Sources:
    """A commit.

    Attributes:
        folder: Its files.
        version: Their version.
        revision: Its hash.
        epoch: The time of everything that is built from it, in Unix seconds.
    """

    folder: Path
    version: str
    revision: str
    epoch: int

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a build: it fixes the time of what build tools write."""
        return {**os.environ, "SOURCE_DATE_EPOCH": str(self.epoch)}


def export(wanted: str, folder: Path, commit: str = "HEAD", environ: Mapping[str, str] = os.environ) -> Sources:
    """Write the files of a commit into an empty folder.

    Args:
        wanted: The version of the release.
        folder: The folder.
        commit: The commit.
        environ: The environment; `SOURCE_DATE_EPOCH` takes the place of the time of the commit.

    Raises:
        VersionError: The commit is not of this version.
        ReleaseError: git knows no such commit.
    """
    revision, seconds = run("git", "log", "-1", "--format=%H %ct", commit, folder=REPOSITORY).split()
    archive = folder / ".tar"
    # The mode of a file does not depend on who exports it.
    run("git", "-c", "tar.umask=0022", "archive", f"--output={archive}", revision, folder=REPOSITORY)
    run("tar", "--extract", "--preserve-permissions", "--file", archive, "--directory", folder)
    archive.unlink()
    cut.require(wanted, folder)
    return Sources(folder, wanted, revision, int(environ.get("SOURCE_DATE_EPOCH") or seconds))


def require_clean() -> None:
    """Check that the working tree is what is committed.

    Raises:
        ReleaseError: There are changes, which a release would not contain.
    """
    if changes := run("git", "status", "--porcelain", folder=REPOSITORY).splitlines():
        raise ReleaseError(f"{len(changes)} files are not committed, for example {changes[0][3:]}: commit them first")
