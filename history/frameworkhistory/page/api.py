"""The same as JSON, for programs, and for `frameworkctl` when an object is gone."""

import msgspec
from aiohttp import web

from frameworkhistory.page.frameworks import PAGE, found, search_of
from frameworkhistory.page.people import PageError
from frameworkhistory.page.site import SITE, number_of


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


async def roster(request: web.Request) -> web.StreamResponse:
    """Answer with the last roster of an attempt: who was in the gang, and where.

    Raises:
        PageError: There is none: no gang was complete in it.
    """
    site = request.app[SITE]
    row = await site.framework(request)
    attempt = number_of(request, "attempt")
    attempt = max(0, row["attempts"] - 1) if attempt is None else attempt
    document = await site.read(site.reader.roster, row["id"], attempt)
    if document is None:
        raise PageError(404, "The archive has no roster of this attempt: no gang was complete in it.")
    return web.Response(body=document, content_type="application/json")
