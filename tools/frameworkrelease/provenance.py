"""Which sources a result is about."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from frameworkrelease.chart import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path


def commit(*ours: Path) -> str:
    """Return the name of the commit, which ends with `-dirty` if files were changed.

    Args:
        ours: Files that the caller writes itself, which do not count.
    """

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    excluded = [f":(exclude){file.relative_to(REPOSITORY)}" for file in ours]
    changed = git("status", "--porcelain", "--", ".", *excluded)
    return git("describe", "--always", "--abbrev=12", "--match=v*") + ("-dirty" if changed else "")
