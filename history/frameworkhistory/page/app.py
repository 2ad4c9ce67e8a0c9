"""The page: its paths, and what answers to them."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Final

from aiohttp import web

from frameworkhistory.page import api, frameworks, logs, security, spec, statistics
from frameworkhistory.page.feed import FullError
from frameworkhistory.page.people import PERSON, PageError
from frameworkhistory.page.site import SITE, Site

FEED_SECONDS: Final = 300.0
"""After this time a page asks anew, and what its person may see is looked up again."""
_ONE: Final = "/frameworks/{namespace}/{name}"
_TABLE: Final = "{table:tasks|attempts|epochs|events}"
_SUFFIX: Final = ".{suffix:csv|json}"


def make_app(site: Site) -> web.Application:
    """Return the application that answers with all pages but those that change something (`actions.setup`)."""
    app = web.Application(client_max_size=security.FORM_BYTES)
    app[SITE] = site
    security.setup(app, site.people, site.render)
    for path, handler in (
        ("/", frameworks.listing),
        (f"/frameworks{_SUFFIX}", frameworks.listing_file),
        ("/statistics", statistics.page),
        (f"/statistics/{{table:{'|'.join(statistics.COLUMNS)}}}{_SUFFIX}", statistics.file),
        ("/feed", feed),
        (_ONE, frameworks.framework),
        (f"{_ONE}/{_TABLE}", frameworks.table),
        (f"{_ONE}/{{table:tasks|attempts|epochs|events|logs}}{_SUFFIX}", frameworks.table_file),
        (f"{_ONE}/tasks/{{role}}/{{index:[0-9]{{1,9}}}}", frameworks.task),
        (f"{_ONE}/spec", spec.page),
        (f"{_ONE}/log", logs.page),
        ("/api/v1/frameworks", api.frameworks),
        (f"/api/v1{_ONE}", api.framework),
        (f"/api/v1{_ONE}/roster", api.roster),
        (f"/api/v1{_ONE}/{{table:runs|attempts|epochs|events|logs}}", frameworks.table_file),
        (f"/api/v1{_ONE}/logs/{{pod_uid}}/{{container}}/{{restart:[0-9]{{1,9}}}}", logs.file),
    ):
        app.router.add_get(path, handler)
    app.router.add_static("/static", Path(__file__).parent / "static")

    async def end(_: web.Application) -> None:
        site.feed.close()

    app.on_shutdown.append(end)
    return app


async def feed(request: web.Request) -> web.StreamResponse:
    """Answer with an event whenever something has changed in what the person may see."""
    site, namespace, uid = request.app[SITE], request.query.get("namespace", ""), request.query.get("uid", "")
    if uid:
        await site.people.require(request[PERSON], "get", namespace)
    visible = frozenset({namespace}) if uid else await site.visible(request, namespace)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    try:
        async with asyncio.timeout(FEED_SECONDS), aclosing(site.feed.subscribe(visible, uid)) as changes:
            async for is_change in changes:
                if not response.prepared:
                    await response.prepare(request)
                await response.write(b"data: changed\n\n" if is_change else b":\n\n")
    except (TimeoutError, ConnectionResetError):
        pass  # its time is over, or nobody listens any more
    except FullError as error:
        raise PageError(503, "Too many pages are open to follow what changes.") from error
    return response
