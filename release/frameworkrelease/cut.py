"""`python -m frameworkrelease.cut VERSION`: name the next version in all files, and give it a section of the changelog.

`make cut` calls it and then `make manifests`. The result is to be committed and tagged. With `--notes` it prints the
section of a version that was cut, for the page of its release.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from frameworkrelease import changelog, version
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.version import VersionError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence
    from pathlib import Path


def main(argv: Sequence[str] | None = None, root: Path = REPOSITORY) -> int:
    """Cut a version, or print its notes, and return the exit code."""
    parser = argparse.ArgumentParser(prog="frameworkrelease.cut", description="Cut a version.")
    parser.add_argument("version", help="such as 1.2.3")
    parser.add_argument("--notes", action="store_true", help="print the section of the changelog instead")
    options = parser.parse_args(argv)
    try:
        if options.notes:
            sys.stdout.write(notes(options.version, root))
        else:
            cut(options.version, datetime.now(UTC).date(), root)
    except VersionError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def cut(wanted: str, day: dt.date, root: Path) -> None:
    """Write a version into all files that name it, and into the changelog.

    Raises:
        VersionError: It is no version, it was released, or there is nothing to release.
    """
    if not version.PATTERN.fullmatch(wanted):
        raise VersionError(f"VERSION={wanted!r} is not a version: write three numbers, such as 1.2.3")
    file = root / changelog.FILE
    file.write_text(changelog.cut(file.read_text(), wanted, day))
    version.write(wanted, root)


def notes(wanted: str, root: Path) -> str:
    """Return what the changelog says of the version of the sources.

    Raises:
        VersionError: The sources are of another version, or the changelog has no section of it.
    """
    version.require(wanted, root)
    found = changelog.section((root / changelog.FILE).read_text(), wanted)
    if found is None:
        raise VersionError(f"CHANGELOG.md has no section {wanted}: run `make cut VERSION={wanted}` and commit")
    return found


if __name__ == "__main__":
    sys.exit(main())
