"""Logs: of the containers of one Task, or of some merged by time; from the API server while they run, else archived."""

import asyncio
import zlib
from collections import deque
from contextlib import aclosing
from functools import partial
from heapq import merge
from operator import itemgetter
from typing import Final

from aiohttp import web
from markupsafe import Markup
from obstore.exceptions import BaseError

from frameworkclient.errors import ClientError
from frameworkclient.logs.lines import LineCutter, LogLine, LogSource
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.pods import Stage, TaskPod
from frameworkclient.views.text import sanitize
from frameworkhistory.archive.changes import Row
from frameworkhistory.page.frameworks import log_file
from frameworkhistory.page.people import PageError
from frameworkhistory.page.site import Site, number_of, url
from frameworkkube.errors import KubeError
from frameworkkube.log import Logger

SOURCES: Final = 16  # logs on a page
KEPT_BYTES: Final = 4 << 20  # of the ends of the logs of a page, together; a file has all of one
RUNNING_SECONDS: Final = 10.0  # for the logs of Pods that run
LINE: Final = 4096  # characters that are shown of a line
LINES: Final = 2000  # on a page
CHARACTERS: Final = 200_000  # of HTML, of the lines on a page
_log = Logger(__name__)
_FAULTS: Final = (OSError, BaseError, zlib.error)
"""Of what keeps a log, or of the log."""


async def page(site: Site, request: web.Request, row: Row) -> web.StreamResponse:
    """Answer with a page of lines: the newest, or those before so many of the newest (`skip`)."""
    wanted: Row = {key: number_of(request, key) for key in ("attempt", "index", "run")}
    wanted["role"], container = request.query.get("role", ""), request.query.get("container", "")
    if wanted["attempt"] is None:
        wanted["attempt"] = max(0, row["attempts"] - 1)
    rows = await site.read(site.reader.logs, row["id"], **wanted)
    # The newest are shown.
    rows = sorted((one for one in rows if container in {"", one["container"]}), key=itemgetter("taken"))
    stored = [one for one in rows if one["key"]]
    known = {one["pod_uid"] for one in stored}
    live = site.pods(row["namespace"], row["name"]).values() if site.current(row) else ()
    pods = [pod for pod in live if _is_wanted(pod, wanted, known)]
    notes = [f"{_label(one)}: {one['gap']}" for one in rows if one["gap"]][-SOURCES:]
    left_out = max(0, len(stored) + len(pods) - SOURCES)
    pods = pods[:SOURCES]
    stored = stored[-(SOURCES - len(pods)) or len(stored) :]
    logs = [await _running(site, row, pods, container, notes)] if pods else []
    logs += [await _stored(site, one, KEPT_BYTES // len(stored), notes) for one in stored]
    skip = number_of(request, "skip") or 0
    lines, has_more = await site.read(_page, logs, skip)
    values: Row = {"wanted": wanted, "lines": lines, "notes": notes, "left_out": left_out, "is_live": pods and not skip}
    here = partial(url, row, "log", **wanted, container=container)
    values |= {"earlier": here(skip=skip + len(lines)) if has_more else "", "newest": here() if skip else ""}
    values["files"] = [(_label(one), log_file(row, one)) for one in stored]
    values["link"] = site.elsewhere(row, pods[0].metadata.name if pods else "")
    return site.render(request, "log.html", framework=row, **values)


def _is_wanted(pod: TaskPod, wanted: Row, stored: set[str]) -> bool:
    """Report whether the logs of a Pod are asked for and not all archived."""
    its = {"attempt": pod.attempt[0], "role": pod.role, "index": pod.index, "run": pod.attempt[1]}
    is_over = pod.stage in {Stage.SUCCEEDED, Stage.FAILED} and pod.metadata.uid in stored
    return not is_over and all(wanted[key] in {"", None, value} for key, value in its.items())


def _label(log: Row) -> str:
    return f"{log['role']}-{log['index']}/{log['container']}" + (f" restart {log['restart']}" if log["restart"] else "")


async def _running(site: Site, row: Row, pods: list[TaskPod], container: str, notes: list[str]) -> list[LogLine]:
    """Return the last lines that the containers of Pods have written so far."""
    found, size = deque[LogLine](), 0
    try:
        batches = site.log(row["namespace"], pods, LogSelection(tail=LINES))
        async with asyncio.timeout(RUNNING_SECONDS), aclosing(batches):
            async for batch in batches:
                notes += [batch.note] if batch.note else []
                for line in batch.lines:
                    if container in {"", line.source.container}:
                        found.append(line)
                        size += len(line.text) + 64
                while size > KEPT_BYTES:
                    size -= len(found.popleft().text) + 64
    except (ClientError, KubeError) as error:
        notes.append(f"the API server does not give the logs of Pods that run: {error}")
    except TimeoutError:
        notes.append("the API server does not give the logs of Pods that run in time; lines are missing")
    return list(found)


async def _stored(site: Site, log: Row, most: int, notes: list[str]) -> list[LogLine]:
    """Return the last lines of a log of the archive, of so many bytes."""
    source = LogSource("", (0, 0), "", log["pod_uid"], log["container"], log["restart"], _label(log))
    cutter, end = LineCutter(source), b""
    try:
        async with aclosing(site.storage.chunks(log["key"])) as pieces:
            async for piece in pieces:
                end = (end + piece)[-most:]
    except _FAULTS as error:
        _log.warning("a log cannot be read", key=log["key"], error=str(error).partition("\n")[0])
        notes.append(f"{source.label}: cannot be read from where it is kept")
        return []
    return await site.read(lambda: cutter.feed(end) + cutter.rest())


def _page(logs: list[list[LogLine]], skip: int) -> tuple[list[Markup], bool]:
    """Return lines as HTML, those before so many of the newest, and whether there are more before them."""
    lines = list(merge(*logs, key=lambda line: line.stamp))
    end, left, shown = max(0, len(lines) - skip), CHARACTERS, list[Markup]()
    for line in reversed(lines[:end]):
        text = sanitize(line.text[:LINE]) + ("… (cut)" if len(line.text) > LINE else "")
        stamp, label = sanitize(line.stamp[:30]), sanitize(line.source.label)
        html = Markup('<time title="{}">{}</time> <b>{}</b> {}').format(stamp, stamp[11:23], label, text)
        left -= len(html) + 1
        if shown and (left < 0 or len(shown) == LINES):
            break
        shown.append(html)
    return shown[::-1], len(shown) < end


async def file(site: Site, request: web.Request, row: Row) -> web.StreamResponse:
    """Answer with a whole log of the archive, as text with the time of each line."""
    match = request.match_info
    known = await site.read(site.reader.pod_logs, row["uid"], match["pod_uid"])
    which = match["container"], int(match["restart"])
    log = next((one for one in known if (one["container"], one["restart"]) == which), None)
    if log is None or not log["key"]:
        raise PageError(404, f"The archive does not have this log{': ' + log['gap'] if log else ''}.")
    headers = {"Content-Type": "text/plain; charset=utf-8", "Content-Disposition": "attachment"}
    response = web.StreamResponse(headers=headers)
    try:
        async with aclosing(site.storage.chunks(log["key"])) as pieces:
            async for piece in pieces:
                await response.prepare(request)  # once
                await response.write(piece)
    except _FAULTS as error:
        if response.prepared:
            raise
        _log.warning("a log cannot be read", key=log["key"], error=str(error).partition("\n")[0])
        is_gone = isinstance(error, FileNotFoundError)
        raise PageError(404 if is_gone else 503, "The log cannot be read from where it is kept.") from error
    return response
