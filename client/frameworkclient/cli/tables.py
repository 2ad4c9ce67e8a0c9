"""Frameworks and Events as tables."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from frameworkclient.archive import Archived
from frameworkclient.cli.terminal import Colours
from frameworkclient.views.events import EventView
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.gangs import GangView
from frameworkclient.views.ledger import ledger_of, share_text
from frameworkclient.views.outlook import waiting
from frameworkclient.views.progress import step_text
from frameworkclient.views.text import sanitize, shorten, since

STATE_COLOURS: Final = {
    "AttemptRunning": "green",
    "AttemptPreparing": "yellow",
    "AttemptCreationPending": "yellow",
    "AttemptCreationRequested": "yellow",
    "Completed": "dim",
}
_GAP: Final = "   "
_SOURCE: Final = 6
"""Where in a row is where it comes from, if that is told."""
_WAITING: Final = 80
"""Characters of a waiting reason in a table; `describe` has all."""


def frameworks_table(
    views: Sequence[FrameworkView],
    now: datetime,
    colours: Colours,
    *,
    wide: bool = False,
    with_namespace: bool = False,
    archived: Sequence[Archived] | None = None,
) -> str:
    """Return a table of Frameworks; a wide one has goodput, step, roles, description, and all of the waiting reason.

    With those of the archive, it says where each was found, and the newest is the first.
    """
    head = ["NAME", "STATE", "READY", "ATTEMPTS", "RESULT", "AGE", "WAITS FOR"]
    if wide:
        head += ["GOODPUT", "STEP", "ROLES", "DESCRIPTION"]
    found: list[tuple[FrameworkView | Archived, list[str]]] = [(view, _row(view, now, wide=wide)) for view in views]
    if archived is not None:
        head.insert(_SOURCE, "SOURCE")
        for _, row in found:
            row.insert(_SOURCE, "cluster")
        found += [(one, _archived_row(one, now, wide=wide)) for one in archived]
        found.sort(key=lambda pair: pair[0].created, reverse=True)
    rows = [[one.namespace, *row] if with_namespace else row for one, row in found]
    return table(["NAMESPACE", *head] if with_namespace else head, rows, colours)


def _row(view: FrameworkView, now: datetime, *, wide: bool) -> list[str]:
    result = view.result
    reason = waiting(view, now)
    row = [
        view.name,
        view.state or "-",
        view.ready_text or "-",
        str(view.attempts),
        result.phrase if result else "",
        since(view.created, now),
        reason if wide else shorten(reason, _WAITING),
    ]
    if wide:
        roles = " ".join(f"{role.name}:{role.task_number}" for role in view.spec.task_roles or ())
        ledger = ledger_of(view, now)
        share, step = share_text(ledger.goodput) if ledger else "-", step_text(view)
        row += [share, step, roles, shorten(view.spec.description or "", _WAITING)]
    return row


def _archived_row(one: Archived, now: datetime, *, wide: bool) -> list[str]:
    row = [one.name, one.state or "-", one.ready or "-", str(one.attempts), one.phrase, since(one.created, now)]
    row += ["archive", ""]
    if wide:
        row += [share_text(one.goodput), "-", "", ""]
    return row


def gangs_table(gangs: Sequence[GangView], now: datetime, colours: Colours, *, with_namespace: bool) -> str:
    """Return a table of gangs of other controllers."""
    rows = []
    for gang in gangs:
        owner, one = gang.owner, gang.roster
        reason = one.never or next((f"{each.task}: {each.why}" for each in one.waiting_for), "")
        row = [f"{gang.kind.lower()}/{owner.name}", gang.state, f"{one.ready}/{one.total}", str(owner.attempt)]
        row += [since(gang.created, now), shorten(reason, _WAITING)]
        rows.append([owner.namespace, *row] if with_namespace else row)
    head = ["NAME", "STATE", "READY", "ATTEMPT", "AGE", "WAITS FOR"]
    return table(["NAMESPACE", *head] if with_namespace else head, rows, colours)


def events_table(events: Sequence[EventView], now: datetime, colours: Colours) -> str:
    """Return a table of Events."""
    rows = [
        (
            since(event.time, now) + (f" (x{event.times})" if event.times > 1 else ""),
            event.type,
            event.reason,
            event.subject,
            event.message,
        )
        for event in events
    ]
    return table(("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows, colours)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], colours: Colours) -> str:
    """Return a table, its columns as wide as their cells; text of others is made safe for the terminal."""
    cells = [[sanitize(cell) for cell in row] for row in rows]
    widths = [max(len(name), *(len(row[place]) for row in cells), 0) for place, name in enumerate(head)]
    lines = [_GAP.join(name.ljust(width) for name, width in zip(head, widths, strict=True)).rstrip()]
    for row in cells:
        padded = [
            colours(cell, _colour(name, cell)) + " " * (width - len(cell))
            for name, cell, width in zip(head, row, widths, strict=True)
        ]
        lines.append(_GAP.join(padded).rstrip())
    return "\n".join(lines) + "\n"


def _colour(column: str, cell: str) -> str:
    match column:
        case "STATE":
            return STATE_COLOURS.get(cell, "")
        case "RESULT" if cell:
            return "green" if cell == "Succeeded" else "red"
        case "TYPE" if cell == "Warning":
            return "yellow"
        case _:
            return ""
