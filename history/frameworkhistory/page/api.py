"""The same as JSON, for programs, and for `frameworkctl` when an object is gone."""

import msgspec
from aiohttp import web

from frameworkhistory.page.frameworks import PAGE, found, search_of
from frameworkhistory.page.site import SITE


def _answer(**values: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(values), content_type="application/json")


async def frameworks(request: web.Request) -> web.StreamResponse:
    """Answer with a page of the list, and what the next one begins before."""
    rows, after = await found(request.app[SITE], await search_of(request, PAGE))
    return _answer(frameworks=rows, next=after)


async def framework(request: web.Request) -> web.StreamResponse:
    """Answer with a Framework as the API server had it, and with what the archive knows beside."""
    site, reader = request.app[SITE], request.app[SITE].reader
    row = await site.framework(request)
    raw = await site.read(reader.whole, row["id"]) or await site.read(reader.document, row["id"]) or b"null"
    archive = {key: row[key] for key in ("uid", "deleted", "seen", "gap")}
    attempts, epochs = await site.read(reader.attempts, row["id"]), await site.read(reader.epochs, row["id"])
    return _answer(framework=msgspec.Raw(raw), archive=archive, attempts=attempts, epochs=epochs)
