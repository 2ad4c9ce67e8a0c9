"""The version: its one source is `pyproject.toml`, and every other file that names it is written from there.

`__version__` stands in each program, because the images hold packages without the metadata of a distribution, and
because the barrier starts too often to look for it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frameworkrelease.chart import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCE: Final = "pyproject.toml"
PATTERN: Final = re.compile(r"(?:(?:0|[1-9]\d{0,5})\.){2}(?:0|[1-9]\d{0,5})")
"""Three numbers, which Python, helm and image registries spell in the same way; a pre-release they do not."""

_IN_CODE: Final = r'^__version__ = "([^"]+)"$'
_IN_PROSE: Final = r"(?:[:/-]|\bv|--version |VERSION=)(\d+\.\d+\.\d+)\b(?!\.\d)"
PLACES: Final = {
    SOURCE: r'^version = "([^"]+)"$',
    "barrier/frameworkbarrier/__init__.py": _IN_CODE,
    "controller/frameworkcontroller/__init__.py": _IN_CODE,
    "injector/frameworkinjector/__init__.py": _IN_CODE,
    "charts/frameworkcontroller/Chart.yaml": r"^(?:version|appVersion): (\S+)$",
    "deploy/hello.yaml": _IN_PROSE,
    "README.md": _IN_PROSE,
    "docs/operate/install.md": _IN_PROSE,
    "docs/operate/release.md": _IN_PROSE,
}
"""The files that name the version, each with a pattern whose group is it; `make manifests` makes more from these."""


class VersionError(Exception):
    """A version is wrong, or files name different ones; the text says what to do next."""


@dataclass(frozen=True)
class Place:
    """One place of a file that names a version.

    Attributes:
        file: The path of the file in the repository.
        line: The number of the line.
        version: What stands there.
    """

    file: str
    line: int
    version: str


def current(root: Path = REPOSITORY) -> str:
    """Return the version of the sources."""
    return str(tomllib.loads((root / SOURCE).read_text())["project"]["version"])


def places(root: Path = REPOSITORY) -> Iterator[Place]:
    """Yield every place that names the version.

    Raises:
        VersionError: A file that must name it does not.
    """
    for file, pattern in PLACES.items():
        text = (root / file).read_text()
        found = list(re.finditer(pattern, text, re.MULTILINE))
        if not found:
            raise VersionError(f"{file} names no version: write it there, or remove the file from {__name__}")
        for one in found:
            yield Place(file, text.count("\n", 0, one.start(1)) + 1, one[1])


def write(version: str, root: Path = REPOSITORY) -> None:
    """Write a version into every file that names it."""
    for file, pattern in PLACES.items():
        path = root / file
        path.write_text(rewritten(path.read_text(), pattern, version))


def rewritten(text: str, pattern: str, version: str) -> str:
    """Return a text with a version in place of the group of each match."""

    def replaced(found: re.Match[str]) -> str:
        whole, start = found[0], found.start()
        return whole[: found.start(1) - start] + version + whole[found.end(1) - start :]

    return re.sub(pattern, replaced, text, flags=re.MULTILINE)


def require(version: str, root: Path = REPOSITORY) -> None:
    """Check that the sources are of a version.

    Raises:
        VersionError: It is no version, or a file names another one.
    """
    if not PATTERN.fullmatch(version):
        raise VersionError(f"VERSION={version!r} is not a version: write three numbers, such as 1.2.3")
    others = [place for place in places(root) if place.version != version]
    if others:
        first = others[0]
        raise VersionError(
            f"{first.file}, line {first.line}, names version {first.version} and not {version}"
            f" (and {len(others) - 1} places more): run `make cut VERSION={version}` and commit"
        )
