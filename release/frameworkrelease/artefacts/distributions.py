"""The wheel and the source distribution of the three programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from frameworkrelease.artefacts.run import run

if TYPE_CHECKING:
    from pathlib import Path

    from frameworkrelease.artefacts.sources import Sources


def build(sources: Sources, target: Path) -> None:
    """Build both into a folder, with the build tool that the lock file of the development environment pins.

    Raises:
        ReleaseError: The build failed.
    """
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--directory",
        target,
        folder=sources.folder,
        environ=sources.environ,
    )
