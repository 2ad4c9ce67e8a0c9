"""`SHA256SUMS`: the checksums of all artefacts, by sha256sum as users check them. It is what is signed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkrelease.artefacts.run import ReleaseError, run

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "SHA256SUMS"
SIGNATURE: Final = f"{FILE}.sigstore.json"
# Before the name of a file: 64 digits and two blanks.
_SUM: Final = 66


def write(folder: Path) -> Path:
    """Write the checksums of the files of a folder, and return the file."""
    sums = folder / FILE
    sums.write_text(run("sha256sum", "--", *sorted(_present(folder)), folder=folder))
    return sums


def verify(folder: Path) -> set[str]:
    """Check the files of a folder against their checksums, and return their names.

    Raises:
        ReleaseError: A file is missing, is another one, or has no checksum, or a line is no checksum.
    """
    run("sha256sum", "--check", "--strict", "--quiet", FILE, folder=folder)
    # sha256sum also reads comments, other formats, and files of other folders.
    listed = {line[_SUM:] for line in (folder / FILE).read_text().splitlines()}
    if differing := listed ^ _present(folder):
        raise ReleaseError(f"{folder} does not hold what {FILE} lists; the difference: {', '.join(sorted(differing))}")
    return listed


def _present(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()} - {FILE, SIGNATURE}
