"""Pages about Frameworks: the list, one of them, a Task, and the tables of all, also as CSV and JSON."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from aiohttp import web

from frameworkclient.archive import event_of, goodput
from frameworkclient.diagnosis.evidence import Evidence
from frameworkclient.diagnosis.framework import findings, summary
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.ledger import ledger_of
from frameworkclient.views.outlook import framework_outlook, waiting
from frameworkclient.views.pods import TaskPod
from frameworkclient.views.progress import hang_lines, progress_text, shown_hang
from frameworkclient.views.text import shorten
from frameworkcontroller.api import names
from frameworkcontroller.api.states import State
from frameworkhistory.archive.changes import Row
from frameworkhistory.archive.reader import Reader, Search
from frameworkhistory.page.actions import possible
from frameworkhistory.page.people import PERSON, PageError
from frameworkhistory.page.site import SITE, Site, cursor_of, number_of, time_of, url
from frameworkhistory.page.tables import FRAMEWORKS, TABLES, as_csv, derived
from frameworkhistory.page.timeline import picture

PAGE: Final = 100
"""Rows of a table on a page."""
SOME: Final = 30
"""Rows of a table on the page of a Framework."""
MOST: Final = 1000
"""Rows that are read at a time for a file."""
EXPORTED: Final = 100_000
"""Frameworks in a file."""
LABELS: Final = 1000
"""Characters of the labels of a Framework."""
DRAWN: Final = 100
"""Runs of Tasks that are read for a picture: of those that have failed, and of all."""
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Pods: TypeAlias = Mapping[str, TaskPod]
RunKey: TypeAlias = tuple[Number, str, Number, Number]
_AFTER: Final = msgspec.json.Decoder(RunKey)
_BEFORE: Final = msgspec.json.Decoder(tuple[float, Number])


async def search_of(request: web.Request, limit: int) -> Search:
    """Return what a query asks for, within what the person may see."""
    query = request.query
    return Search(
        namespaces=await request.app[SITE].visible(request, query.get("namespace", "")),
        before=cursor_of(request, "before", _BEFORE),
        limit=max(1, min(number_of(request, "limit") or limit, MOST)),
        since=time_of(request, "since"),
        until=time_of(request, "until"),
        **{key: query.get(key, "").strip() for key in ("namespace", "name", "state", "result", "person", "label")},
    )


async def found(site: Site, search: Search) -> tuple[list[Row], str]:
    """Return a page of the list, and what the next one begins before, "" after the last."""
    rows = await site.read(site.reader.frameworks, search)
    return rows, _cursor(rows[-1]["created"], rows[-1]["id"]) if len(rows) == search.limit else ""


def _cursor(*key: object) -> str:
    return msgspec.json.encode(key).decode()


async def listing(request: web.Request) -> web.StreamResponse:
    """Answer with the list."""
    site = request.app[SITE]
    rows, after = await found(site, await search_of(request, PAGE))
    rows = [derived(row, site.clock()) | {"name_href": url(row)} for row in rows]
    asked = {key: value for key, value in request.query.items() if key != "before"}
    values: Row = {"rows": rows, "after": after, "asked": asked, "states": list(State), "columns": FRAMEWORKS}
    return site.render(request, "list.html", **values)


async def listing_file(request: web.Request) -> web.StreamResponse:
    """Answer with the list as a file."""
    site, search = request.app[SITE], replace(await search_of(request, MOST), limit=MOST)

    async def batches() -> AsyncIterator[list[Row]]:
        wanted = search
        for _ in range(EXPORTED // MOST):
            rows, after = await found(site, wanted)
            yield rows
            if not after:
                return
            wanted = replace(wanted, before=(rows[-1]["created"], rows[-1]["id"]))

    return await sent(request, "frameworks", FRAMEWORKS, batches())


async def sent(
    request: web.Request, name: str, columns: Sequence[str], batches: AsyncIterator[list[Row]]
) -> web.StreamResponse:
    """Send rows as they are read: as CSV, or as JSON under a name."""
    site, is_csv = request.app[SITE], request.match_info.get("suffix") == "csv"
    response = web.StreamResponse(headers={"Content-Type": "text/csv" if is_csv else "application/json"})
    if "suffix" in request.match_info:
        response.headers["Content-Disposition"] = f"attachment; filename={name}.{request.match_info['suffix']}"
    begin = f'{{"{name}":['.encode()
    async for batch in batches:
        rows = [derived(row, site.clock()) for row in batch]
        if is_first := not response.prepared:
            await response.prepare(request)  # not before: what cannot be read at all has another status
        if is_csv:
            await response.write(as_csv(columns, rows, head=is_first))
        elif rows or is_first:
            await response.write((begin if is_first else b",") + b",\n".join(map(msgspec.json.encode, rows)))
    await response.write(b"" if is_csv else b"]}\n")
    return response


def key_of(run: Mapping[str, Any]) -> RunKey:
    """Return what a run of a Task is found by."""
    return run["attempt"], run["role"], run["index"], run["run"]


async def batches_of(request: web.Request, row: Row, name: str, limit: int) -> AsyncIterator[list[Row]]:
    """Yield the rows of a table of a Framework, the newest first; those of Tasks by their keys, so many at a time."""
    site, query, reader = request.app[SITE], request.query, request.app[SITE].reader
    wanted, index = (number_of(request, "attempt"), query.get("role", "")), number_of(request, "index")
    if name in {"attempts", "epochs", "events"}:
        yield (await site.read(getattr(reader, name), row["id"]))[::-1]
        return
    if name == "logs":
        yield await site.read(reader.logs, row["id"], *wanted, index, number_of(request, "run"))
        return
    if index is not None:
        yield await site.read(reader.run_history, row["id"], *wanted, index)
        return
    after = cursor_of(request, "after", _AFTER)
    while True:
        rows = await site.read(reader.runs, row["id"], *wanted, after, failed=bool(query.get("failed")), limit=limit)
        yield rows
        if len(rows) < limit:
            return
        after = key_of(rows[-1])


async def table(request: web.Request) -> web.StreamResponse:
    """Answer with a page of a table of a Framework."""
    site, name = request.app[SITE], request.match_info["table"]
    row = await site.framework(request)
    found = await anext(batches_of(request, row, name, PAGE))
    rows = [linked(row, one, site.clock()) for one in found[:PAGE]]
    after = _cursor(*key_of(rows[-1])) if name == "tasks" and len(rows) == PAGE else ""
    asked = {key: request.query.get(key, "") for key in ("attempt", "role", "failed")}
    values: Row = {"rows": rows, "after": after, "asked": asked, "left_out": len(found) - len(rows)}
    return site.render(request, "table.html", framework=row, name=name, **values)


async def table_file(request: web.Request) -> web.StreamResponse:
    """Answer with a table of a Framework as a file, all of it."""
    name = request.match_info["table"]
    row = await request.app[SITE].framework(request, logs=name == "logs")
    return await sent(request, name, TABLES[name], batches_of(request, row, name, MOST))


def linked(framework: Row, row: Row, now: float) -> Row:
    """Return a row of a table of a Framework with what is worked out, and with ways to what it is about."""
    found = derived(row, now)
    if "pod" in found:
        place = {key: row[key] for key in ("attempt", "role", "index", "run")}
        found |= {"task_href": url(framework, "tasks", row["role"], row["index"]), "log": "log"}
        found["log_href"] = url(framework, "log", **place)
    elif "trigger" in found:
        found["attempt_href"] = url(framework, attempt=row["attempt"])
    elif "key" in found:
        found["container_href"] = log_file(framework, row) if row["key"] else ""
    return found


def log_file(framework: Row, log: Row) -> str:
    """Return the path of a whole log."""
    return f"/api/v1{url(framework, 'logs', log['pod_uid'], log['container'], log['restart'])}"


async def task(request: web.Request) -> web.StreamResponse:
    """Answer with the page of a Task: its runs in the last attempts, and their logs."""
    site, role, index = request.app[SITE], request.match_info["role"], int(request.match_info["index"])
    row, now = await site.framework(request), site.clock()

    def read() -> tuple[list[Row], list[Row]]:
        attempts = range(max(0, row["attempts"] - SOME), row["attempts"])
        runs = [one for attempt in attempts for one in site.reader.run_history(row["id"], attempt, role, index)]
        logs = sorted(site.reader.logs(row["id"], role=role, index=index), key=itemgetter("taken"), reverse=True)
        return runs[-PAGE:][::-1], logs[:PAGE]

    runs, logs = await site.read(read)
    if not runs:
        raise PageError(404, "The archive knows no such Task.")
    values: Row = {"runs": [linked(row, one, now) for one in runs], "logs": [linked(row, one, now) for one in logs]}
    values["link"], name = site.elsewhere(row, runs[0]["pod"]), f"{role}-{index}"
    values["verbs"] = await verbs(request, row, "delete", "pods", name)
    return site.render(request, "task.html", framework=row, name=name, role=role, index=index, **values)


async def verbs(request: web.Request, row: Row, right: str, resource: str, task: str = "") -> list[str]:
    """Return what may be done to a Framework now, or to a Task of it, by who has a right that most of it takes."""
    site = request.app[SITE]
    live = site.current(row) if site.has_actions else None
    if live is None or not await site.people.may(request[PERSON], right, row["namespace"], resource):
        return []
    return await site.read(possible, live, task)


async def framework(request: web.Request) -> web.StreamResponse:
    """Answer with the page of a Framework, or of one attempt of it."""
    site, attempt = request.app[SITE], number_of(request, "attempt")
    row, now = await site.framework(request), site.clock()
    live = site.current(row)
    pods = None if live is None else site.live.pods(row["namespace"], row["name"])
    values = await site.read(_gathered, site.reader, row, attempt, live, pods, now)
    newest = await site.read(site.reader.framework, row["namespace"], row["name"])
    values["newer"] = url(newest) if newest and newest["id"] != row["id"] else ""
    values["verbs"] = await verbs(request, row, "patch", names.PLURAL)
    return site.render(request, "framework.html", framework=row, attempt=attempt, is_live=live is not None, **values)


def _gathered(
    reader: Reader, row: Row, attempt: int | None, live: FrameworkView | None, pods: Pods | None, now: float
) -> Row:
    """Return what takes time to read or to work out for the page of a Framework."""
    number = row["id"]
    # What is gone is told as it was when it was seen last.
    at = now if live else row["completed"] or row["deleted"] or row["seen"]
    raw = b"" if live else (None if row["completed"] else reader.whole(number)) or reader.document(number) or b"{}"
    attempts, epochs = reader.attempts(number), reader.epochs(number, attempt)
    events = reader.events(number, SOME)
    this = next((one for one in attempts if one["attempt"] == attempt), None)
    began = (this and this["started"]) or row["created"]
    ended = (this["ended"] if this else row["completed"] or row["deleted"]) or at
    failed = reader.runs(number, attempt, failed=True, limit=DRAWN)
    known, of_all = {key_of(one) for one in failed}, reader.runs(number, attempt, limit=DRAWN)
    runs = failed + [one for one in of_all if key_of(one) not in known]
    others = reader.count_runs(number, attempt) - len(runs) if len(of_all) == DRAWN else 0
    gaps = [one for one in reader.gaps(began) if one["began"] < ended]
    drawn = picture(began, ended, reader.spans(number), attempts, epochs, runs, others, gaps)
    rows = {"tasks": runs, "attempts": attempts[::-1], "epochs": epochs[::-1], "events": events[::-1]}
    shown = {name: [linked(row, one, at) for one in each[:SOME]] for name, each in rows.items()}
    words = _words(live or FrameworkView.decode(raw), pods, events, datetime.fromtimestamp(at, UTC))
    labels = shorten(", ".join(f"{key}={value}" for key, value in reader.labels(number).items()), LABELS)
    return {**words, "rows": shown, "picture": drawn, "at": at, "goodput": goodput(row), "labels": labels}


def _words(view: FrameworkView, pods: Pods | None, events: Sequence[Row], now: datetime) -> Row:
    """Return what `frameworkctl why` and `describe` say of a Framework at a time; without its Pods, of it alone."""
    evidence = Evidence(view, pods or {}, [event_of(one) for one in events], now)
    # A status that was written by somebody else may be Completed without an end.
    is_known = not view.finished or view.result is not None
    reasons = [one for one in findings(evidence) if pods is not None or not one.tasks] if is_known else []
    hang = shown_hang(view)
    return {
        "summary": summary(evidence, reasons),
        "findings": [str(one).split("\n  -> ") for one in reasons],
        "waits": waiting(view, now) if pods is not None else "",
        "next": framework_outlook(view, now) if pods is not None else "",
        "progress": progress_text(view, now),
        "hang": [] if hang is None else list(hang_lines(view, hang, now)),
        "hangs_now": view.hang is not None,
        "ledger": ledger_of(view, now),
        "description": shorten(view.spec.description or "", 500),
    }
