"""The tables of the page by the keys of their columns, what is worked out for their rows, and the same as CSV."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from frameworkclient.archive import goodput
from frameworkhistory.archive.changes import Row
from frameworkhistory.archive.tables import SPENT


def _columns(keys: str) -> tuple[str, ...]:
    return tuple(keys.split())


_RUNS: Final = _columns("task attempt run log state phrase code pod node started seconds diagnostics gap")
STATISTICS: Final = {
    "days": ("day", "attempts", "failed", "goodput", *SPENT),
    "namespaces": ("namespace", "attempts", "failed", "goodput", *SPENT),
    "failures": ("phrase", "code", "count"),
    "nodes": ("node", "count"),
}
TABLES: Final = STATISTICS | {
    "frameworks": _columns("name state namespace phrase person tasks gpus attempts created seconds goodput"),
    "tasks": _RUNS,
    "runs": _RUNS,
    "attempts": _columns("attempt result phrase code trigger diagnostics tasks restarts started seconds goodput gap"),
    "epochs": _columns("attempt epoch began reason task code message gap"),
    "events": _columns("last type reason object count message"),
    "logs": _columns("container attempt run restart bytes taken gap"),
}
_NUMBERS: Final = "tasks gpus attempts restarts code epoch count restart bytes failed"
KINDS: Final = (
    dict.fromkeys(_columns("created started began last taken"), "time")
    | dict.fromkeys(_columns(_NUMBERS), "number")
    | dict.fromkeys(_columns("diagnostics message gap"), "long")
    | dict.fromkeys(("seconds", *SPENT), "seconds")
    | dict.fromkeys(_columns("state result type"), "result")
    | {"attempt": "ordinal", "run": "ordinal", "goodput": "share"}
)
"""Of columns that are not text; an `ordinal` is kept from 0 and shown from 1."""
TITLES: Final = {"gpus": "GPUs", "seconds": "Duration", "gap": "Not known", "last": "Last seen", "count": "Times"}
TITLES.update(trigger="By", taken="Read")


def derived(row: Mapping[str, Any], now: float) -> Row:
    """Return a row of any table with its duration, its goodput, and what it is called; an end is its state."""
    found = dict(row)
    if (start := row.get("created") or row.get("started")) is not None:
        found["seconds"] = (row.get("completed") or row.get("deleted") or row.get("ended") or now) - start
    if "role" in row:
        found["task"] = f"{row['role']}-{row['index']}"
    if "lost" in row:
        found["goodput"] = goodput(row)
    if row.get("result"):
        found["state"] = row["result"]
    return found


def as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, head: bool) -> bytes:
    """Return rows as CSV in UTF-8, with times in ISO 8601; no cell is a formula for a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([columns] if head else ())
    writer.writerows([_plain(column, row.get(column)) for column in columns] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def _plain(column: str, value: object) -> object:
    if KINDS.get(column) == "time" and isinstance(value, float):
        return datetime.fromtimestamp(value, UTC).isoformat()
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value
