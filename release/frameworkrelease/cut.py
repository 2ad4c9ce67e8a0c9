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
from frameworkrelease.version import VersionError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Cut a version, or print its notes, and return the exit code."""
    parser = argparse.ArgumentParser(prog="frameworkrelease.cut", description="Cut a version.")
    parser.add_argument("version", help="such as 1.2.3")
    parser.add_argument("--notes", action="store_true", help="print the section of the changelog instead")
    options = parser.parse_args(argv)
    try:
        text = changelog.FILE.read_text()
        if options.notes:
            sys.stdout.write(_notes(text, options.version))
        else:
            _cut(text, options.version)
    except VersionError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _notes(text: str, wanted: str) -> str:
    version.require(wanted)
    notes = changelog.section(text, wanted)
    if notes is None:
        raise VersionError(f"CHANGELOG.md has no section {wanted}: run `make cut VERSION={wanted}` and commit")
    return notes


def _cut(text: str, wanted: str) -> None:
    if not version.PATTERN.fullmatch(wanted):
        raise VersionError(f"VERSION={wanted!r} is not a version: write three numbers, such as 1.2.3")
    # First, because it refuses a version that exists.
    changelog.FILE.write_text(changelog.cut(text, wanted, datetime.now(UTC).date()))
    version.write(wanted)


if __name__ == "__main__":
    sys.exit(main())
