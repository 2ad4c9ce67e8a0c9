"""Pages about Frameworks: the list, one of them, a Task, and the tables of all, also as CSV and JSON.

Under `/api` is the same for programs, and for `frameworkctl` when an object is gone.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final, TypeAlias

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
from frameworkhistory.page.site import Number, Site, asked, number_of, time_of, url
from frameworkhistory.page.tables import TABLES, as_csv, derived
from frameworkhistory.page.timeline import picture

PAGE: Final = 100  # rows of a table on a page
SOME: Final = 30  # rows of a table on the page of a Framework
MOST: Final = 1000  # rows that are read at a time for a file
EXPORTED: Final = 100_000  # Frameworks in a file
LABELS: Final = 1000  # characters of the labels of a Framework
DRAWN: Final = 100  # runs of Tasks that are read for a picture: of those that have failed, and of all
Pods: TypeAlias = Mapping[str, TaskPod]
_AFTER: Final = msgspec.json.Decoder(tuple[Number, str, Number, Number])
_BEFORE: Final = msgspec.json.Decoder(tuple[float, Number])
_CURSOR: Final = "what an answer has given"


async def _search_of(site: Site, request: web.Request) -> Search:
    """Return what a query asks for, within what the person may see."""
    query = request.query
    return Search(
        namespaces=await site.visible(request, query.get("namespace", "")),
        before=asked(request, "before", _BEFORE.decode, _CURSOR),
        limit=max(1, min(number_of(request, "limit") or PAGE, MOST)),
        since=time_of(request, "since"),
        until=time_of(request, "until"),
        **{key: query.get(key, "").strip() for key in ("name", "state", "result", "person", "label")},
    )


async def _found(site: Site, search: Search) -> tuple[list[Row], str]:
    """Return a page of the list, and what the next one begins before, "" after the last."""
    rows = await site.read(site.reader.frameworks, search)
    return rows, _cursor(rows[-1]["created"], rows[-1]["id"]) if len(rows) == search.limit else ""


def _cursor(*key: object) -> str:
    return msgspec.json.encode(key).decode()


async def listing(site: Site, request: web.Request) -> web.StreamResponse:
    """Answer with the list."""
    rows, after = await _found(site, await _search_of(site, request))
    rows = [derived(row, site.clock()) | {"name_href": url(row)} for row in rows]
    asked_for = {key: value for key, value in request.query.items() if key != "before"}
    return site.render(request, "list.html", rows=rows, after=after, asked=asked_for, states=list(State))


async def listing_data(site: Site, request: web.Request) -> web.StreamResponse:
    """Answer with a page of the list as JSON, and with what the next one begins before."""
    rows, after = await _found(site, await _search_of(site, request))
    return web.json_bytes_response({"frameworks": rows, "next": after}, dumps=msgspec.json.encode)


async def listing_file(site: Site, request: web.Request) -> web.StreamResponse:
    """Answer with the list as a file."""
    search = replace(await _search_of(site, request), limit=MOST)

    async def batches() -> AsyncIterator[list[Row]]:
        wanted = search
        for _ in range(EXPORTED // MOST):
            rows, after = await _found(site, wanted)
            yield rows
            if not after:
                return
            wanted = replace(wanted, before=(rows[-1]["created"], rows[-1]["id"]))

    return await sent(site, request, batches())


async def sent(site: Site, request: web.Request, batches: AsyncIterator[list[Row]]) -> web.StreamResponse:
    """Send rows of a table as they are read: as CSV, or as JSON under its name."""
    name, suffix = request.match_info.get("table", "frameworks"), request.match_info.get("suffix", "")
    response = web.StreamResponse(headers={"Content-Type": "text/csv" if suffix == "csv" else "application/json"})
    if suffix:
        response.headers["Content-Disposition"] = f"attachment; filename={name}.{suffix}"
    begin = f'{{"{name}":['.encode()
    async for batch in batches:
        rows = [derived(row, site.clock()) for row in batch]
        if is_first := not response.prepared:
            await response.prepare(request)  # not before: what cannot be read at all has another status
        if suffix == "csv":
            await response.write(as_csv(TABLES[name], rows, head=is_first))
        elif rows or is_first:
            await response.write((begin if is_first else b",") + b",\n".join(map(msgspec.json.encode, rows)))
    await response.write(b"" if suffix == "csv" else b"]}\n")
    return response


def _key_of(run: Mapping[str, Any]) -> tuple[int, str, int, int]:
    """Return what a run of a Task is found by."""
    return run["attempt"], run["role"], run["index"], run["run"]


async def _batches_of(site: Site, request: web.Request, row: Row, limit: int) -> AsyncIterator[list[Row]]:
    """Yield the rows of a table of a Framework, the newest first; those of Tasks by their keys, so many at a time."""
    query, reader, name = request.query, site.reader, request.match_info["table"]
    wanted, index = (number_of(request, "attempt"), query.get("role", "")), number_of(request, "index")
    rows: list[Row]
    if name in {"attempts", "epochs", "events"}:
        rows = (await site.read(getattr(reader, name), row["id"]))[::-1]
    elif name == "logs":
        rows = await site.read(reader.logs, row["id"], *wanted, index, number_of(request, "run"))
    elif index is not None:
        rows = await site.read(reader.run_history, row["id"], *wanted, index)
    else:
        after, failed = asked(request, "after", _AFTER.decode, _CURSOR), bool(query.get("failed"))
        while len(rows := await site.read(reader.runs, row["id"], *wanted, after, failed=failed, limit=limit)) == limit:
            yield rows
            after = _key_of(rows[-1])
    yield rows


async def table(site: Site, request: web.Request, row: Row) -> web.StreamResponse:
    """Answer with a page of a table of a Framework."""
    name, found = request.match_info["table"], await anext(_batches_of(site, request, row, PAGE))
    rows = [_linked(row, one, site.clock()) for one in found[:PAGE]]
    after = _cursor(*_key_of(rows[-1])) if name == "tasks" and len(rows) == PAGE else ""
    asked_for = {key: request.query.get(key, "") for key in ("attempt", "role", "failed")}
    values: Row = {"rows": rows, "after": after, "asked": asked_for, "left_out": len(found) - len(rows)}
    return site.render(request, "table.html", framework=row, name=name, **values)


async def table_file(site: Site, request: web.Request, row: Row) -> web.StreamResponse:
    """Answer with a table of a Framework as a file, all of it."""
    return await sent(site, request, _batches_of(site, request, row, MOST))


def _linked(framework: Row, row: Row, now: float) -> Row:
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


async def task(site: Site, request: web.Request, row: Row) -> web.StreamResponse:
    """Answer with the page of a Task: its runs in the last attempts, and their logs."""
    role, index, now = request.match_info["role"], int(request.match_info["index"]), site.clock()

    def read() -> list[list[Row]]:
        attempts = range(max(0, row["attempts"] - SOME), row["attempts"])
        runs = [one for attempt in attempts for one in site.reader.run_history(row["id"], attempt, role, index)]
        logs = sorted(site.reader.logs(row["id"], role=role, index=index), key=itemgetter("taken"), reverse=True)
        return [[_linked(row, one, now) for one in each[:PAGE]] for each in (runs[::-1], logs)]

    runs, logs = await site.read(read)
    if not runs:
        raise PageError(404, "The archive knows no such Task.")
    name = f"{role}-{index}"
    values: Row = {"name": name, "role": role, "index": index, "link": site.elsewhere(row, runs[0]["pod"])}
    values["verbs"] = await _verbs(site, request, row, name)
    return site.render(request, "task.html", framework=row, runs=runs, logs=logs, **values)


async def _verbs(site: Site, request: web.Request, row: Row, task: str = "") -> list[str]:
    """Return what may be done to a Framework now, or to a Task of it, by who has the right that most of it takes."""
    live = site.current(row) if site.has_actions else None
    right, what = ("delete", "pods") if task else ("patch", names.PLURAL)
    if live is None or not await site.people.may(request[PERSON], right, row["namespace"], what):
        return []
    return await site.read(possible, live, task)


async def framework(site: Site, request: web.Request, row: Row) -> web.StreamResponse:
    """Answer with the page of a Framework, or of one attempt of it."""
    attempt, now, live = number_of(request, "attempt"), site.clock(), site.current(row)
    pods = None if live is None else site.pods(row["namespace"], row["name"])
    values = await site.read(_gathered, site.reader, row, attempt, live, pods, now)
    newest = await site.read(site.reader.framework, row["namespace"], row["name"])
    values["newer"] = url(newest) if newest and newest["id"] != row["id"] else ""
    values["verbs"] = await _verbs(site, request, row)
    return site.render(request, "framework.html", framework=row, attempt=attempt, is_live=live is not None, **values)


async def framework_data(site: Site, _request: web.Request, row: Row) -> web.StreamResponse:
    """Answer with a Framework as the API server had it, and with what the archive knows beside, as JSON."""
    reader = site.reader
    raw = await site.read(reader.whole, row["id"]) or await site.read(reader.document, row["id"]) or b"null"
    archive = {key: row[key] for key in ("uid", "deleted", "seen", "gap")}
    attempts, epochs = await site.read(reader.attempts, row["id"]), await site.read(reader.epochs, row["id"])
    whole = {"framework": msgspec.Raw(raw), "archive": archive, "attempts": attempts, "epochs": epochs}
    return web.json_bytes_response(whole, dumps=msgspec.json.encode)


async def roster(site: Site, request: web.Request, row: Row) -> web.StreamResponse:
    """Answer with the last roster of an attempt, by default of the last one: who was in the gang, and where."""
    attempt = number_of(request, "attempt")
    attempt = max(0, row["attempts"] - 1) if attempt is None else attempt
    document = await site.read(site.reader.roster, row["id"], attempt)
    if document is None:
        raise PageError(404, "The archive has no roster of this attempt: no gang was complete in it.")
    return web.json_response(body=document)


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
    of_all = reader.runs(number, attempt, limit=DRAWN)
    runs = list({_key_of(one): one for one in (*failed, *of_all)}.values())
    others = reader.count_runs(number, attempt) - len(runs) if len(of_all) == DRAWN else 0
    drawn = picture(began, ended, reader.spans(number), attempts, epochs, runs, others, reader.gaps(began))
    rows = {"tasks": runs, "attempts": attempts[::-1], "epochs": epochs[::-1], "events": events[::-1]}
    shown = {name: [_linked(row, one, at) for one in each[:SOME]] for name, each in rows.items()}
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
