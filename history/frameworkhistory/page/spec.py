"""The page of a spec, and of what has changed in it since another generation."""

import difflib
import json
from typing import Final

import msgspec
from aiohttp import web
from markupsafe import escape

from frameworkclient.views.text import sanitize
from frameworkhistory.archive.changes import Row
from frameworkhistory.archive.reader import Reader
from frameworkhistory.page.people import PageError
from frameworkhistory.page.site import Site, number_of

LINES: Final = 2000  # that are compared
CHARACTERS: Final = 100_000  # of HTML: of a spec, and of the changes in it


async def page(site: Site, request: web.Request, row: Row) -> web.StreamResponse:
    """Answer with a generation of a spec, by default the newest, and what has changed since the one before."""
    seen = dict(await site.read(site.reader.specs, row["id"]))
    if not seen:
        raise PageError(404, "The archive has no spec of this Framework.")
    wanted = number_of(request, "generation") or max(seen)
    before = number_of(request, "against") or max((one for one in seen if one < wanted), default=wanted)
    if not {wanted, before} <= set(seen):
        raise PageError(404, "The archive does not have this generation.")
    text, changes = await site.read(_compared, site.reader, row["id"], wanted, before)
    values: Row = {"seen": seen, "wanted": wanted, "before": before, "text": text, "changes": changes}
    return site.render(request, "spec.html", framework=row, **values)


def _compared(reader: Reader, number: int, wanted: int, before: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the lines of a spec, and the changes as lines with their kinds."""
    old, new = (_lines(reader.spec(number, one)) for one in (before, wanted))
    kinds = {"+": "added", "-": "removed", "@": "place"}
    changes = difflib.unified_diff(old, new, f"generation {before}", f"generation {wanted}", lineterm="")
    return _bounded(new), [(kinds.get(line[:1], ""), line) for line in _bounded(list(changes))]


def _lines(document: bytes | None) -> list[str]:
    """Return the first lines: those of a document as deep as the API server stores would be 200 MB of spaces."""
    parts, number = list[str](), 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(msgspec.json.decode(document or b"{}")):
        number += "\n" in part
        if number >= LINES:
            parts.append(part.partition("\n")[0] + "\n… (cut)")
            break
        parts.append(part)
    return [*map(sanitize, "".join(parts).split("\n"))]


def _bounded(lines: list[str]) -> list[str]:
    """Return the first lines, as many as a page may have as HTML."""
    left, kept = CHARACTERS, list[str]()
    for line in lines:
        kept.append(line if len(line) < 2000 else f"{line[:2000]}… (cut)")
        left -= len(escape(kept[-1])) + 30
        if left < 0:
            return [*kept[:-1], "… (cut)"]
    return kept
