"""The page of what many attempts have come to: of a namespace or of all, over a week."""

import math
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from frameworkclient.archive import goodput
from frameworkhistory.archive.changes import Row
from frameworkhistory.archive.tables import DAY, SPENT
from frameworkhistory.page.frameworks import sent
from frameworkhistory.page.render import stamp
from frameworkhistory.page.site import SITE, time_of

DAYS: Final = 7
MOST_DAYS: Final = 400
SHOWN: Final = 31
"""Rows of a table on the page."""
COLUMNS: Final = {
    "days": ("day", "attempts", "failed", "goodput", *SPENT),
    "namespaces": ("namespace", "attempts", "failed", "goodput", *SPENT),
    "failures": ("phrase", "code", "count"),
    "nodes": ("node", "count"),
}


async def _read(request: web.Request) -> tuple[float, float, dict[str, list[Row]]]:
    """Return the times of a week, and its statistics within what the person may see."""
    site = request.app[SITE]
    visible = await site.visible(request, request.query.get("namespace", ""))
    since, until = time_of(request, "since"), min(time_of(request, "until") or math.inf, site.clock())
    since = max(until - (DAYS - 1) * DAY if since is None else since, until - MOST_DAYS * DAY)
    return since, until, await site.read(site.reader.statistics, visible, since, until)


def _rows(found: dict[str, list[Row]], name: str) -> list[Row]:
    rows = found[name]
    if "lost" in COLUMNS[name]:
        rows = [one | {"goodput": goodput(one), "life": sum(one[state] or 0 for state in SPENT)} for one in rows]
    return [one | {"day": stamp(one["day"] * DAY)[:10]} for one in rows] if name == "days" else rows


async def page(request: web.Request) -> web.StreamResponse:
    """Answer with the page."""
    since, until, found = await _read(request)
    whole = {name: _rows(found, name) for name in COLUMNS}
    whole["days"].reverse()
    whole["namespaces"].sort(key=lambda one: -one["life"])
    rows = {name: each[:SHOWN] for name, each in whole.items()}
    left_out = {name: len(each) - len(rows[name]) for name, each in whole.items()}
    for one in rows["days"]:
        one["spent"] = {state: one[state] for state in SPENT}
    total = {name: sum(day[name] for day in found["days"]) for name in ("attempts", "failed", *SPENT)}
    spent = {state: total[state] for state in SPENT}
    values: Row = {"since": since, "until": until, "total": total, "goodput": goodput(total), "spent": spent}
    return request.app[SITE].render(request, "statistics.html", rows=rows, left_out=left_out, COLUMNS=COLUMNS, **values)


async def file(request: web.Request) -> web.StreamResponse:
    """Answer with one of its tables as a file."""
    *_, found = await _read(request)
    name = request.match_info["table"]

    async def batches() -> AsyncIterator[list[Row]]:
        yield _rows(found, name)

    return await sent(request, name, COLUMNS[name], batches())
