"""The tables of `docs/operate/support.md`, from the results that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkrelease.chart import REPOSITORY
from frameworkrelease.matrix.results import planned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frameworkrelease.matrix.results import Run

FILE: Final = REPOSITORY / "docs" / "operate" / "support.md"
_BEGIN: Final = "<!-- written by `make matrix` -->\n"
_END: Final = "\n<!-- end -->"


def page(written: str, runs: Sequence[Run]) -> str:
    """Return the page with its tables renewed.

    Args:
        written: The text of the page, with its markers.
        runs: The results that are kept.
    """
    head, _, rest = written.partition(_BEGIN)
    made = "\n".join(tables(runs))
    return f"{head}{_BEGIN}\n{made}\n{_END}{rest.partition(_END)[2]}"


def tables(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the lines: what came of each version; then what was not applicable, has failed, or was left out."""
    kept = {(run.kubernetes, run.suite): run for run in runs}
    yield from ("| Kubernetes | tests | result | on | of |", "| --- | --- | --- | --- | --- |")
    for version, suite in planned():
        run = kept.get((version, suite))
        cells = ("not run", "", "") if run is None else (_result(run), run.date, f"{run.project}, `{run.commit}`")
        yield f"| {version} | {suite} | {' | '.join(cells)} |"
    reasons = sorted((reason, run.kubernetes, count) for run in runs for reason, count in run.not_applicable.items())
    if reasons:
        yield from ("", "| not applicable | on | tests |", "| --- | --- | --- |")
        yield from (f"| {reason} | {version} | {count} |" for reason, version, count in reasons)
    for run in runs:
        for about, names in (("failed", run.failed), ("skipped", run.skipped), ("only these files ran", run.files)):
            if names:
                yield from ("", f"{run.kubernetes}, {run.suite}, {about}:", "", *(f"- `{name}`" for name in names))


def _result(run: Run) -> str:
    found = {
        "passed": run.passed,
        "failed": len(run.failed),
        "not applicable": sum(run.not_applicable.values()),
        "skipped": sum(run.skipped.values()),
    }
    # That none failed is said, too.
    words = ", ".join(f"{count} {kind}" for kind, count in found.items() if count or kind in {"passed", "failed"})
    return f"a part: {words}" if run.files else words
