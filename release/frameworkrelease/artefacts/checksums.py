"""`SHA256SUMS`: the checksums of all artefacts, in the form that `sha256sum --check` reads. It is what is signed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from frameworkrelease.artefacts.run import ReleaseError
from localcluster.archive import digest

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "SHA256SUMS"
SIGNATURE: Final = f"{FILE}.sigstore.json"
_LINE: Final = re.compile(r"(?P<sum>[0-9a-f]{64})  (?P<name>[A-Za-z0-9][\w.-]*)")


def write(folder: Path) -> Path:
    """Write the checksums of the files of a folder, and return the file."""
    sums = folder / FILE
    names = sorted(file.name for file in folder.iterdir() if file.is_file() and not file.name.startswith(FILE))
    sums.write_text("".join(f"{_sum(folder / name)}  {name}\n" for name in names))
    return sums


def verify(folder: Path) -> set[str]:
    """Check the files of a folder against their checksums, and return their names.

    Raises:
        ReleaseError: A file is missing, is another one, or has no checksum.
    """
    listed: dict[str, str] = {}
    for line in (folder / FILE).read_text().splitlines():
        found = _LINE.fullmatch(line)
        if not found:
            raise ReleaseError(f"{FILE}: {line!r} is not a checksum, two blanks and the name of a file")
        listed[found["name"]] = found["sum"]
    present = {file.name for file in folder.iterdir() if not file.name.startswith(FILE)}
    if present != listed.keys():
        differing = ", ".join(sorted(present ^ listed.keys()))
        raise ReleaseError(f"{folder} does not hold the files that {FILE} lists; the difference: {differing}")
    for name, expected in listed.items():
        if _sum(folder / name) != expected:
            raise ReleaseError(f"{folder / name} is not the file of the release: its checksum is not that in {FILE}")
    return set(listed)


def _sum(file: Path) -> str:
    return digest(file).removeprefix("sha256:")
