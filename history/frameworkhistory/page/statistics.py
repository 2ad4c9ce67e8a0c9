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
from frameworkhistory.page.site import Site, time_of
from frameworkhistory.page.tables import STATISTICS

DAYS: Final = 7
MOST_DAYS: Final = 400
SHOWN: Final = 31  # rows of a table on the page


async def _read(site: Site, request: web.Request) -> tuple[float, float, dict[str, list[Row]]]:
    """Return the times of a week, and its statistics within what the person may see."""
    visible = await site.visible(request, request.query.get("namespace", ""))
    since, until = time_of(request, "since"), min(time_of(request, "until") or math.inf, site.clock())
    since = max(until - (DAYS - 1) * DAY if since is None else since, until - MOST_DAYS * DAY)
    return since, until, await site.read(site.reader.statistics, visible, since, until)


def _rows(found: dict[str, list[Row]], name: str) -> list[Row]:
    rows = found[name]
    if "goodput" in STATISTICS[name]:
        rows = [_with_life(one) for one in rows]
    return [one | {"day": stamp(one["day"] * DAY)[:10]} for one in rows] if name == "days" else rows


def _with_life(row: Row) -> Row:
    return row | {"goodput": goodput(row), "life": sum(row[state] or 0 for state in SPENT)}


async def page(site: Site, request: web.Request) -> web.StreamResponse:
    """Answer with the page."""
    since, until, found = await _read(site, request)
    rows = {name: _rows(found, name) for name in STATISTICS}
    rows["days"].reverse()
    rows["namespaces"].sort(key=lambda one: -one["life"])
    left_out = {name: max(0, len(each) - SHOWN) for name, each in rows.items()}
    rows = {name: each[:SHOWN] for name, each in rows.items()}
    total = {name: sum(day[name] for day in found["days"]) for name in ("attempts", "failed", *SPENT)}
    values: Row = {"rows": rows, "left_out": left_out, "total": _with_life(total)}
    return site.render(request, "statistics.html", since=since, until=until, **values)


async def file(site: Site, request: web.Request) -> web.StreamResponse:
    """Answer with one of its tables as a file."""
    *_, found = await _read(site, request)

    async def batches() -> AsyncIterator[list[Row]]:
        yield _rows(found, request.match_info["table"])

    return await sent(site, request, batches())
