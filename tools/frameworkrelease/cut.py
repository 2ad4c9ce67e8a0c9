"""Whether a version can be cut, and what the changelog says of it; where it cannot, ReleaseError says what to do.

`make cut` checks it; then bump-my-version writes the version into the files that `[tool.bumpversion]` of
`pyproject.toml` lists, and `make manifests` into what is made of them.

`__version__` stands in each program, because the images hold packages without the metadata of a distribution, and
because the barrier starts too often to look for it.
"""

import re
import tomllib
from pathlib import Path
from typing import Final

from frameworkrelease.chart import REPOSITORY
from frameworkrelease.commands import ReleaseError

CHANGELOG: Final = "CHANGELOG.md"
# Three numbers, which Python, helm and image registries spell in the same way; a pre-release they do not.
_VERSION: Final = re.compile(r"(?:(?:0|[1-9]\d{0,5})\.){2}(?:0|[1-9]\d{0,5})")


def current(root: Path = REPOSITORY) -> str:
    """Return the version of the sources."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def check(wanted: str, root: Path = REPOSITORY) -> None:
    """Check that a version can be cut."""
    if not _VERSION.fullmatch(wanted):
        raise ReleaseError(f"VERSION={wanted!r} is not a version: write three numbers, such as 1.2.3")
    if _section(wanted, root):
        raise ReleaseError(f"{CHANGELOG} has a section {wanted}: choose the next version")
    if wanted == current(root):  # bump-my-version would do nothing
        raise ReleaseError(f"the sources are of version {wanted} already: choose the next version")
    if not _section("Unreleased", root):
        raise ReleaseError(f"{CHANGELOG} has nothing under `## Unreleased`: there is nothing to release")


def require(wanted: str, root: Path = REPOSITORY) -> None:
    """Check that the sources are of a version; ReleaseError if they are of another one."""
    if current(root) != wanted:
        raise ReleaseError(f"the sources are of version {current(root)}: run `make cut VERSION={wanted}` and commit")


def notes(wanted: str, root: Path = REPOSITORY) -> str:
    """Return what the changelog says of the version of the sources."""
    require(wanted, root)
    if found := _section(wanted, root):
        return found
    raise ReleaseError(f"{CHANGELOG} has no section {wanted}: run `make cut VERSION={wanted}` and commit")


def _section(title: str, root: Path) -> str:
    text = (root / CHANGELOG).read_text()
    found = re.search(rf"^## {re.escape(title)}(?: - [\d-]+)?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""
