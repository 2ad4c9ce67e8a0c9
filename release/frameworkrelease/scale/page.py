"""The generated parts of `docs/scale.md`, from the figures that are kept."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from frameworkrelease.scale import tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frameworkrelease.scale.results import Results


class PageError(Exception):
    """The page lacks a pair of markers."""


def page(written: str, results: Results) -> str:
    """Return the page with its generated parts renewed.

    Args:
        written: The text of the page, with its markers.
        results: The figures that are kept.

    Raises:
        PageError: A part has no markers; the text names them.
    """
    rows, restarts = results.rows, results.restarts
    starts = [row for row in rows if row.start_p99 is not None]
    gates = [row for row in rows if row.gate_created is not None]
    lives = [row for row in rows if row.phases]
    parts = {
        "times": [tables.measured(row.origin for row in rows), "", *tables.of_times(rows)],
        "processes": tables.of_processes(rows),
        "requests": tables.of_requests(rows),
        "starts": [tables.measured(row.origin for row in starts), "", *tables.of_starts(starts)],
        "gates": [tables.measured(row.origin for row in gates), "", *tables.of_gates(gates)],
        "life": [tables.measured(row.origin for row in lives), "", *tables.of_phases(lives)],
        "resources": tables.of_resources(restarts),
        "restarts": [tables.measured(one.origin for one in restarts), "", *tables.of_restarts(restarts)],
    }
    for name, lines in parts.items():
        written = _renewed(written, name, lines)
    return written


def _renewed(written: str, name: str, lines: Iterable[str]) -> str:
    begin, end = f"<!-- {name}: made by `make manifests` -->\n", f"<!-- end of {name} -->"
    content = "\n".join(lines).strip("\n")
    found = re.compile(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", re.DOTALL)
    if not found.search(written):
        raise PageError(f"docs/scale.md: there is no part between {begin.strip()} and {end}: put both lines back")
    return found.sub(lambda _: f"\n{content}\n\n", written, count=1)
