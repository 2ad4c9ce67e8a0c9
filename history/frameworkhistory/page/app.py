"""The page: its paths, and what answers to them."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from frameworkhistory.archive.changes import Row
from frameworkhistory.page import frameworks, logs, security, spec, statistics
from frameworkhistory.page.people import PERSON
from frameworkhistory.page.site import Site
from frameworkhistory.page.tables import STATISTICS

_ONE: Final = "/frameworks/{namespace}/{name}"
_SUFFIX: Final = ".{suffix:csv|json}"


def make_app(site: Site) -> web.Application:
    """Return the application that answers with all pages but those that change something (`actions.setup`)."""

    def of(answer: Callable[[Site, web.Request, Row], Awaitable[web.StreamResponse]], *more: str) -> Handler:
        """Return what answers about a Framework to whoever may get it, and these resources."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return await answer(site, request, await site.framework(request, *more))

        return handle

    app = web.Application(client_max_size=security.FORM_BYTES)
    security.setup(app, site.people, site.render)
    for path, handler in (
        ("/", partial(frameworks.listing, site)),
        (f"/frameworks{_SUFFIX}", partial(frameworks.listing_file, site)),
        ("/statistics", partial(statistics.page, site)),
        (f"/statistics/{{table:{'|'.join(STATISTICS)}}}{_SUFFIX}", partial(statistics.file, site)),
        ("/feed", partial(feed, site)),
        (_ONE, of(frameworks.framework)),
        (f"{_ONE}/{{table:tasks|attempts|epochs|events}}", of(frameworks.table)),
        (f"{_ONE}/{{table:tasks|attempts|epochs|events}}{_SUFFIX}", of(frameworks.table_file)),
        (f"{_ONE}/{{table:logs}}{_SUFFIX}", of(frameworks.table_file, "pods/log")),
        (f"{_ONE}/tasks/{{role}}/{{index:[0-9]{{1,9}}}}", of(frameworks.task)),
        (f"{_ONE}/spec", of(spec.page)),
        (f"{_ONE}/log", of(logs.page, "pods/log")),
        ("/api/v1/frameworks", partial(frameworks.listing_data, site)),
        (f"/api/v1{_ONE}", of(frameworks.framework_data)),
        (f"/api/v1{_ONE}/roster", of(frameworks.roster)),
        (f"/api/v1{_ONE}/{{table:runs|attempts|epochs|events}}", of(frameworks.table_file)),
        (f"/api/v1{_ONE}/{{table:logs}}", of(frameworks.table_file, "pods/log")),
        (f"/api/v1{_ONE}/logs/{{pod_uid}}/{{container}}/{{restart:[0-9]{{1,9}}}}", of(logs.file, "pods/log")),
    ):
        app.router.add_get(path, handler)
    app.router.add_static("/static", Path(__file__).parent / "static")
    app.on_shutdown.append(site.feed.close)
    return app


async def feed(site: Site, request: web.Request) -> web.StreamResponse:
    """Answer with an event whenever something has changed in what the person may see."""
    namespace, uid = request.query.get("namespace", ""), request.query.get("uid", "")
    if uid:
        await site.people.require(request[PERSON], "get", namespace)
    visible = frozenset({namespace}) if uid else await site.visible(request, namespace)
    return await site.feed.answer(request, visible, uid)
