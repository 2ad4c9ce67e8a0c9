"""`CHANGELOG.md`: the section of a version, and how `Unreleased` becomes one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from frameworkrelease.version import VersionError

if TYPE_CHECKING:
    import datetime as dt

FILE: Final = "CHANGELOG.md"
_UNRELEASED: Final = "## Unreleased\n"


def cut(text: str, version: str, day: dt.date) -> str:
    """Return the changelog with what was unreleased as the section of a version.

    Args:
        text: The changelog.
        version: The version.
        day: The date of the release.

    Raises:
        VersionError: The version has a section, or nothing is unreleased.
    """
    if section(text, version) is not None:
        raise VersionError(f"CHANGELOG.md has a section {version}: choose the next version")
    before, found, after = text.partition(_UNRELEASED)
    if not found or not after.partition("\n## ")[0].strip():
        raise VersionError("CHANGELOG.md has nothing under `## Unreleased`: there is nothing to release")
    return f"{before}{_UNRELEASED}\n## {version} - {day.isoformat()}\n{after}"


def section(text: str, version: str) -> str | None:
    """Return what the changelog says of a version; None if it has no section of it."""
    found = re.search(
        rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    return found[1].strip() + "\n" if found else None
