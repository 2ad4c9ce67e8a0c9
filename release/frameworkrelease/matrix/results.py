"""The results that are kept: for each version of Kubernetes and each suite the last run, with its date and commit."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from frameworkrelease.chart import REPOSITORY
from localcluster.programs import BUILDABLE, minor_of, pinned_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FILE: Final = REPOSITORY / "docs" / "operate" / "support.json"


class Suite(StrEnum):
    """The tests that run against a cluster."""

    API_SERVER = "API server"
    END_TO_END = "end to end"


def planned(versions: Iterable[str] = BUILDABLE) -> Iterator[tuple[str, Suite]]:
    """Yield what the matrix runs, the newest version first: end to end only on that of CI."""
    for version in sorted(set(versions), key=minor_of, reverse=True):
        yield version, Suite.API_SERVER
        if version == pinned_version("kubernetes"):
            yield version, Suite.END_TO_END


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run of a suite.

    Attributes:
        kubernetes: The version of Kubernetes, without `v`.
        suite: What was run.
        files: The files and folders of tests to which the run was limited; none: the whole suite.
        date: The day on which it began, in UTC.
        project: The version of this project.
        commit: The commit, by `git describe`; it ends with `-dirty` if files were changed.
        machine: The architecture, such as `x86_64`.
        python: The version of Python.
        minutes: How long it took, builds left out.
        passed: The number of tests that passed.
        failed: The names of those that failed.
        not_applicable: The number of those that need a newer Kubernetes, by the reason.
        skipped: The number of those that were skipped because the machine lacks something, by the reason.
    """

    kubernetes: str
    suite: Suite
    files: tuple[str, ...]
    date: str
    project: str
    commit: str
    machine: str
    python: str
    minutes: int
    passed: int
    failed: tuple[str, ...]
    not_applicable: dict[str, int]
    skipped: dict[str, int]

    @property
    def is_clean(self) -> bool:
        """Whether no test failed, and none was left out that is applicable."""
        return not self.failed and not self.skipped


def read(file: Path = FILE) -> tuple[Run, ...]:
    """Return the runs of a file; none if there is no file."""
    return msgspec.json.decode(file.read_bytes(), type=tuple[Run, ...]) if file.exists() else ()


def write(runs: Iterable[Run], file: Path = FILE) -> None:
    """Write the runs, the newest version first."""
    ordered = sorted(runs, key=lambda run: (-minor_of(run.kubernetes), run.suite))
    file.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=2) + b"\n")


def replaced(runs: Iterable[Run], new: Run) -> tuple[Run, ...]:
    """Return the runs with a new one in the place of the last of its kind; a part does not replace the whole."""
    known = tuple(runs)
    same = [run for run in known if (run.kubernetes, run.suite) == (new.kubernetes, new.suite)]
    if new.files and any(not run.files for run in same):
        return known
    return (*(run for run in known if run not in same), new)
