"""What the benchmarks have measured: `docs/performance.csv`, and the tables of `docs/performance.md` that show it.

A row of the file is one measurement: of a shape, by a program or by what it is compared with. A benchmark writes its
rows into `build/bench`; `make scale` takes them over, and writes the page. A table of the page is a header whose cells
name columns of the file.
"""

import csv
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from frameworkrelease.chart import REPOSITORY
from frameworkrelease.commands import ReleaseError, run
from frameworkrelease.generate import pages

FILE: Final = REPOSITORY / "docs" / "performance.csv"
PAGE: Final = REPOSITORY / "docs" / "performance.md"
MEASURED: Final = REPOSITORY / "build" / "bench"
"""The folder into which the benchmarks write."""
KEY: Final = ("shape", "by")
ORIGIN: Final = ("date", "commit", "machine", "Kubernetes", "Python")
"""Where the figures of a row come from: columns that the file has and the page need not show."""
_TABLE: Final = re.compile(r"^\| shape \| by \| (.+) \|\n\|[ |-]+\|\n(?:\|.*\n)*", re.MULTILINE)

Row = dict[str, str]
"""A measurement: each figure by the name of its column, which says the unit; of `KEY` each has both."""


def row(shape: str, by: str, figures: Mapping[str, object]) -> Row:
    """Return a measurement with its numbers as the page shows them, without figures that are None."""
    found = {name: round(one, 2) if isinstance(one, float) else one for name, one in figures.items()}
    return {"shape": shape, "by": by} | {name: str(one) for name, one in found.items() if one is not None}


def origin(kubernetes: str, ours: Sequence[Path] = (FILE, PAGE)) -> dict[str, str]:
    """Return where figures come from that are measured now, as columns.

    The files that the caller writes, `ours`, do not make the commit a changed one.
    """
    today, machine = datetime.now(UTC).date().isoformat(), f"{platform.machine()}, {os.cpu_count()} cores"
    return dict(zip(ORIGIN, (today, _commit(ours), machine, kubernetes, platform.python_version()), strict=True))


def _commit(ours: Sequence[Path]) -> str:
    """Return the name of the commit, which ends with `-dirty` if files other than `ours` were changed."""
    excluded = [f":(exclude){file.relative_to(REPOSITORY)}" for file in ours]
    changed = run("git", "status", "--porcelain", "--", ".", *excluded, folder=REPOSITORY)
    name = run("git", "describe", "--always", "--abbrev=12", "--match=v*", folder=REPOSITORY).strip()
    return f"{name}-dirty" if changed else name


def read(file: Path = FILE) -> list[Row]:
    """Return the measurements of a file."""
    with file.open(newline="") as lines:
        return [{name: text for name, text in one.items() if text} for one in csv.DictReader(lines)]


def write(rows: Sequence[Row], file: Path = FILE) -> None:
    """Write measurements; the columns are in the order in which they come first."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, dict.fromkeys(name for one in rows for name in one), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def merged(kept: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Return the measurements with new ones in the place of those of the same shape."""
    return list({(one["shape"], one["by"]): one for one in (*kept, *new)}.values())


def table(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """Return the lines of a table of the measurements that have the first figure."""
    names = (*KEY, *columns)
    return pages.table(names, ([one.get(name, "") for name in names] for one in rows if columns[0] in one))


def tables(written: str, rows: Sequence[Row]) -> str:
    """Return a page, which has the header of each table, with the rows renewed."""
    return _TABLE.sub(lambda found: "\n".join(table(found[1].split(" | "), rows)) + "\n", written)


def of_page(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the tables of the page that have a row among these, for those who measure."""
    for found in _TABLE.finditer(PAGE.read_text()):
        if len(lines := list(table(found[1].split(" | "), rows))) > 2:
            yield from ("", *lines)


def take_over(files: Iterable[Path], kept: Path = FILE, page: Path = PAGE) -> None:
    """Keep what benchmarks have measured, in the place of older figures of the same shape, and write the page.

    Raises:
        ReleaseError: There are no files.
    """
    measured = list(files)
    if not measured:
        raise ReleaseError(f"{MEASURED} has no figures: run a benchmark first, such as `make bench`")
    rows = read(kept)
    for file in measured:
        rows = merged(rows, read(file))
    write(rows, kept)
    page.write_text(tables(page.read_text(), rows))
