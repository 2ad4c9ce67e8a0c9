"""Every page with a real archive: its status, what it says, how large it is, and that text stays text."""

import asyncio
import csv
import gzip
import io
import json
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp import ClientPayloadError
from sqlalchemy.exc import OperationalError

from frameworkhistory.archive.changes import Changes
from frameworkhistory.archive.reader import Search
from frameworkhistory.page import feed as feeds
from frameworkhistory.page import frameworks, logs, security
from frameworkhistory.page.people import READER
from frameworkhistory.page.spec import LINES, _lines
from frameworkhistory.page.tables import Row, as_csv
from frameworkkube.deep_objects import DEEPEST
from testkit.waiting import eventually_async
from tests.client.documents import pod, training, workers
from tests.client.documents import task as task_of
from tests.history.page.rooms import HOSTILE, NAME, NOW, Room, framework_row, hostile, lines, log_row, plain, room, run
from tests.support.memory import memory
from tests.support.rows import each

ONE = "/frameworks/demo/training"
PAGES = (
    "/",
    "/?namespace=demo&state=Completed&result=Failed&person=alice&label=team%3Dvision&since=2025-12-31&until=2026-02-01",
    ONE,
    f"{ONE}?attempt=0",
    f"{ONE}/tasks",
    f"{ONE}/tasks?failed=1&role=worker&attempt=0",
    f"{ONE}/attempts",
    f"{ONE}/epochs",
    f"{ONE}/events",
    f"{ONE}/tasks/worker/1",
    f"{ONE}/spec",
    f"{ONE}/spec?generation=1&against=2",
    f"{ONE}/log",
    f"{ONE}/log?role=worker&index=1&run=0&container=main",
    "/statistics?since=2025-12-31&until=2026-01-02",
)
FILES = (
    "/frameworks.{}?label=team",
    *(f"{ONE}/{table}.{{}}" for table in ("tasks", "attempts", "epochs", "events", "logs")),
    f"{ONE}/tasks.{{}}?role=worker&index=1",
    *(f"/statistics/{table}.{{}}?since=2025-12-31" for table in ("days", "namespaces", "failures", "nodes")),
)


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Room]:
    """A page that shows a Framework."""
    async with room(tmp_path, plain()) as found:
        yield found


def test_of_a_spec_the_first_lines_are_made_however_deep_it_is() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(DEEPEST)
    try:
        with memory() as used:
            lines = _lines(b"[" * 9900 + b"]" * 9900)
            assert used() < 10_000_000
    finally:
        sys.setrecursionlimit(limit)
    assert (len(lines), lines[2], lines[-2].strip(), lines[-1]) == (LINES + 1, "    [", "[", "… (cut)")
    assert _lines(b'{"a":{"b":"x\\ny"}}') == ["{", '  "a": {', '    "b": "x\\ny"', "  }", "}"]


async def test_who_asks_for_many_pages_keeps_no_turn_from_others(tmp_path: Path) -> None:
    async with room(tmp_path) as page:
        ends = threading.Event()
        READER.set("alice")
        many = [asyncio.create_task(page.site.read(ends.wait)) for _ in range(20)]
        await asyncio.sleep(0)
        READER.set("bob")
        try:
            async with asyncio.timeout(60):
                await page.site.read(str)
            assert not any(one.done() for one in many)
        finally:
            ends.set()
            await asyncio.gather(*many)


async def test_each_page_is_shown_and_well_formed(page: Room) -> None:
    page.keep(zero=lines("hello"), one=lines("world"))
    for path in PAGES:
        await page.page(path)
    for path, words in {
        "/": ("training", "alice", "20m ago", "86 %", 'scope="col"'),
        f"{ONE}?done=stop": ("Asked for: stop.", "team=vision"),
        ONE: ("it is Completed and has failed", "deleted", "s-queued", "epoch 1, after worker-1 Exited", "BackOff"),
        f"{ONE}/tasks/worker/1": ("it broke", "the kubelet was away", "ContainerPermanentFailed (1)"[:24]),
        f"{ONE}/spec": ('<span class="removed">-', '<span class="added">+', "generation 2"),
        f"{ONE}/log": ("hello", "world", "worker-0/main", "worker-1/side: the kubelet was away"),
        "/statistics?since=2025-12-31": ("1 attempts ended", "node-1", "2026-01-01, 75 %"),
    }.items():
        await page.says(path, *words)


async def test_hostile_text_is_text_on_each_page_and_in_each_file(tmp_path: Path) -> None:
    async with room(tmp_path, hostile(), log_link="https://logs/?q={namespace}&n={name}&p={pod}") as page:
        page.keep(zero=lines(HOSTILE), one=lines(HOSTILE))
        kept = quote(HOSTILE.replace("\0", "\N{REPLACEMENT CHARACTER}"))
        for path in PAGES:
            asked = path.replace("training", quote(NAME)).replace("=alice", f"={kept}").replace("=main", f"={kept}")
            text = await page.page(asked)
            assert "alert(1)" in text or "training" not in path, path
            assert not {"\x1b", "\x07", "\x00", "\u202e"} & set(text), path
            assert "49gone" not in text, path
            # JSON has its own words for control characters.
            for wrong in ("<script>alert", "<b>\"'", *(() if "/spec" in path else ("[31m",))):
                assert wrong not in text, path
        for path in FILES:
            for suffix in ("csv", "json"):
                status, _, text = await page.get(path.format(suffix).replace("training", quote(NAME)))
                assert status == 200, path
                assert suffix == "csv" or json.loads(text), path
        await page.says(f"/frameworks/demo/{quote(NAME)}?done=call+me", lacks=("Asked for",))
        search = "/?" + "&".join(f"{key}={quote(HOSTILE)}" for key in ("name", "person", "label", "state", "result"))
        await page.says(search, "&lt;script&gt;")


REFUSED = [
    ("nobody", ONE, 403, "You may not get frameworks in namespace demo"),
    ("nobody", ONE, 403, '<a href="/">All Frameworks</a>'),
    ("demo", "/frameworks/other/training", 403, "get frameworks in namespace other"),
    ("demo", "/?namespace=other", 403, "list frameworks in namespace other"),
    ("demo", f"{ONE}/log", 403, "get pods/log in namespace demo"),
    ("demo", f"/api/v1{ONE}/logs", 403, "get pods/log"),
    ("demo", f"{ONE}/logs.csv", 403, "get pods/log"),
    ("demo", f"/api/v1{ONE}/logs/pod-0/main/0", 403, "get pods/log"),
    ("demo", "/statistics?namespace=other", 403, "list frameworks in namespace other"),
    ("demo", "/feed?namespace=other&uid=framework-uid", 403, "get frameworks in namespace other"),
    ("demo", "/feed?namespace=other", 403, "list frameworks in namespace other"),
    ("stranger", "/", 401, "Bearer token"),
    ("stranger", f"/api/v1{ONE}", 401, "Sign in"),
    ("root", f"/frameworks/{'n' * 64}/training", 403, "get frameworks in namespace nnn"),
    ("root", f"/?namespace={'n' * 64}", 403, "list frameworks in namespace nnn"),
    ("root", "/frameworks/demo/other", 404, "knows no such Framework"),
    ("root", f"{ONE}?uid=other", 404, "knows no such Framework"),
    ("root", f"{ONE}?uid=other", 404, "<h1>Not Found</h1>"),
    ("root", f"{ONE}/tasks/worker/7", 404, "knows no such Task"),
    ("root", f"{ONE}/spec?generation=9", 404, "does not have this generation"),
    ("root", f"/api/v1{ONE}/logs/pod-1/side/0", 404, "the kubelet was away"),
    ("root", f"/api/v1{ONE}/logs/pod-0/main/0", 404, "cannot be read from where it is kept"),
    ("root", f"{ONE}/log?attempt=-1", 400, "attempt: must be a number"),
    ("root", "/?since=yesterday", 400, "since: must be a date"),
    ("root", "/?since=99999999999999999999", 400, "since: must be a date"),
    ("root", "/?since=%D9%A3", 200, "Frameworks"),
    *(
        ("root", f"/statistics?{key}={time}", 400, f"{key}: must be a date")
        for key in ("since", "until")
        for time in ("9" * 13, "9" * 400, "1969-12-31", "%C2%B2")
    ),
    ("root", "/statistics?since=0&until=9999-12-31", 200, "from 2024-11-27 to 2026-01-01"),
    ("root", "/?before=[1,99999999999999999999]", 400, "before: must be"),
    ("root", f"{ONE}/tasks?after=[0,1,2,3]", 400, "after: must be"),
    ("root", "/?limit=0", 200, "Frameworks"),
]


async def test_what_is_refused_says_why(page: Room) -> None:
    for person, path, status, words in REFUSED:
        found = await page.get(path, person)
        assert found[0] == status, (path, found)
        assert words in found[2], (path, found)


async def test_a_person_sees_their_namespaces_alone(tmp_path: Path) -> None:
    other = Changes("other-uid", "other", framework_row(namespace="other", name="secret"))
    async with room(tmp_path, plain(), other) as page:
        for path in ("/", "/frameworks.csv", "/frameworks.json", "/api/v1/frameworks", "/statistics?since=2025-12-31"):
            assert "secret" not in (await page.get(path, "demo"))[2], path
            assert "secret" not in (await page.get(path, "nobody"))[2], path
        await page.says("/", "secret")
        await page.says("/", "None.", lacks=("training",), person="nobody")


async def test_the_list_goes_on_from_page_to_page(tmp_path: Path) -> None:
    many = [Changes(f"uid-{n}", "demo", framework_row(name=f"job-{n}", created=NOW - n // 3)) for n in range(230)]
    async with room(tmp_path, *many) as page:
        seen, after = [], ""
        for _ in range(4):
            answer = await page.json(f"/api/v1/frameworks?limit=60&before={quote(after)}")
            seen += [one["name"] for one in answer["frameworks"]]
            after = answer["next"]
        assert not after
        assert sorted(seen) == sorted(f"job-{n}" for n in range(230))
        text = await page.page("/")
        assert text.count('<th scope="row"') == 100
        assert "Older ones" in text
        rows = list(csv.DictReader(io.StringIO((await page.get("/frameworks.csv?name=job-1"))[2])))
        assert len(rows) == 111
        assert rows[0]["created"].startswith("2026-01-01T12:")


async def test_ten_thousand_tasks_stay_small_and_are_all_in_the_files(tmp_path: Path) -> None:
    bad = {"result": "Failed", "code": 137, "phrase": "ContainerTransientFailed", "diagnostics": HOSTILE * 40}
    runs = [run(n, **(bad if n % 50 == 7 else {}), node=HOSTILE[:60]) for n in range(10_000)]
    whole = Changes("framework-uid", "demo", framework_row(tasks=10_000), runs=runs)
    async with room(tmp_path, whole) as page:
        await page.says(ONE, "worker-7<", "9940 more runs, 40 or more of them failed")
        await page.says(f"{ONE}/tasks", "after=%5B0%2C%22worker%22%2C99%2C0%5D")
        await page.says(ONE + '/tasks?after=[0,"worker",99,0]', "worker-150<")
        await page.says(f"{ONE}/tasks?failed=1", lacks=("worker-8<",))
        assert len(await page.json(f"{ONE}/tasks.json")) == 1
        found = await page.json(f"/api/v1{ONE}/runs")
        assert [one["index"] for one in found["runs"]] == list(range(10_000))
        assert len((await page.json(f"{ONE}/tasks.json?failed=1"))["tasks"]) == 200
        assert (await page.get(f"{ONE}/tasks.csv"))[2].count("\r\n") == 10_001


async def test_what_fails_again_and_again_stays_small(tmp_path: Path) -> None:
    whole = plain()
    long = {"phrase": "<" * 256, "diagnostics": "<" * 5000, "result": "Failed", "code": 1}
    whole.attempts = [{**whole.attempts[0], **long, "attempt": n, "started": NOW - n} for n in range(300)]
    whole.epochs = [{**whole.epochs[0], "epoch": n, "began": NOW - n, "message": "<" * 5000} for n in range(300)]
    whole.spans = [{"began": NOW - n, "ended": NOW, "attempt": 0, "state": "backoff"} for n in range(300)]
    whole.runs = [run(n % 30, run=n, **long, node="<" * 253) for n in range(600)]
    whole.events = [{**whole.events[0], "uid": str(n), "message": "<" * 5000} for n in range(300)]
    async with room(tmp_path, whole) as page:
        for path in PAGES:
            await page.page(path)
        await page.says(f"{ONE}/epochs", "200 more are in the files.")
        await page.says(f"{ONE}/log?attempt=0", '<option value="0" selected>1</option>')
        await page.says(ONE, "140 more, left out")


async def test_the_interface_for_programs_has_the_object_and_what_is_known_beside(page: Room) -> None:
    page.keep(zero=lines("hello", "world"))
    found = await page.json(f"/api/v1{ONE}")
    assert found["framework"]["metadata"]["name"] == "training"
    assert found["archive"] == {"uid": "framework-uid", "deleted": NOW - 30, "seen": NOW - 30, "gap": ""}
    assert found["attempts"][0]["trigger"] == "worker-1"
    assert found["epochs"][0]["epoch"] == 1
    assert (await page.json(f"/api/v1{ONE}/events"))["events"][0]["reason"] == "BackOff"
    assert await page.json(f"/api/v1{ONE}/roster") == {"complete": True}
    assert (await page.get(f"/api/v1{ONE}/roster?attempt=7"))[0] == 404
    assert [one["key"] for one in (await page.json(f"/api/v1{ONE}/logs?index=1"))["logs"]] == ["one", ""]
    assert [one["index"] for one in (await page.json(f"{ONE}/tasks.json?role=worker&index=1"))["tasks"]] == [1]
    log = await page.get(f"/api/v1{ONE}/logs/pod-0/main/0")
    assert log[:2] == (200, "text/plain")
    assert log[2].splitlines()[1] == "2026-01-01T12:00:01.000000000Z world"


async def test_a_newer_framework_of_the_name_is_another_one(tmp_path: Path) -> None:
    newer = Changes(
        "newer-uid", "demo", framework_row(created=NOW - 10, deleted=None, completed=None, result=None, state="")
    )
    async with room(tmp_path, plain(), newer) as page:
        await page.says(f"{ONE}?uid=framework-uid", "There is <a")
        await page.says(ONE, lacks=("There is <a",))


async def test_a_framework_that_exists_is_told_from_what_it_is_now(tmp_path: Path) -> None:
    async with room(
        tmp_path,
        Changes("framework-uid", "demo", framework_row(result=None, completed=None, deleted=None), runs=[run(1)]),
    ) as page:
        page.live.views["demo/training"] = training()
        feed, task = 'data-feed="/feed?namespace=demo&amp;uid=framework-uid"', f"{ONE}/tasks/worker/1"
        await page.says(ONE, feed, "step 1200..1204 of 2 Tasks", "/frameworks/demo/training/stop?uid=framework-uid")
        await page.says(ONE, lacks=("/stop",), person="demo")
        await page.says(task, lacks=("/retry",))  # its policy would end it
        page.live.views["demo/training"] = workers(task_of(0), task_of(1), retry={"fancyRetryPolicy": True})
        await page.says(task, "/retry?uid=framework-uid&amp;task=worker-1")
        await page.says(task, lacks=("/retry",), person="demo")
        page.site.has_actions = False
        await page.says(ONE, lacks=("/stop",))
        await page.says(task, lacks=("/retry",))


async def test_logs_are_merged_by_time_cut_and_paged(page: Room) -> None:
    page.keep(zero=lines(*(f"even {n}" for n in range(9))), one=lines("odd", second=3))
    text = await page.page(f"{ONE}/log")
    assert text.index("even 2") < text.index("odd") < text.index("even 4")
    many = "".join(f"2026-01-01T12:00:00.{n:09}Z line {n}.\n" for n in range(5000))
    page.keep(zero=gzip.compress(many.encode()), one=b"damaged")
    await page.says(f"{ONE}/log?index=0", "line 4999.", "skip=", lacks=("line 2999.",))
    await page.says(f"{ONE}/log?index=0&skip=3500", "line 0.")
    await page.says(f"{ONE}/log?index=0&skip=999999", "No lines.")
    await page.says(f"{ONE}/log?index=1", "cannot be read from where it is kept")
    assert (await page.get(f"/api/v1{ONE}/logs/pod-1/main/0"))[0] == 503
    huge = b"2026-01-01T12:00:00.000000000Z " + b"<" * 50_000_000
    page.keep(zero=gzip.compress(huge), one=gzip.compress(huge + b"\n2026-01-01T12:00:01.0000000Z end\n"))
    await page.says(f"{ONE}/log?index=0")
    await page.says(f"{ONE}/log?index=1", " end")


async def test_the_newest_of_many_logs_are_shown(tmp_path: Path) -> None:
    whole = plain()
    whole.logs = [log_row(0, f"restart-{n}", restart=n, taken=NOW + n) for n in range(300)]
    async with room(tmp_path, whole) as page:
        page.keep(**{f"restart-{n}": lines(f"epoch {n}.") for n in range(300)})
        await page.says(f"{ONE}/log", "epoch 299.", "284 or more other logs")
        await page.says(f"{ONE}/tasks/worker/0", "/logs/pod-0/main/299", lacks=("/logs/pod-0/main/199",))


async def test_files_of_the_program_are_loaded_once(tmp_path: Path) -> None:
    async with room(tmp_path) as page, page.session.get(f"{page.url}/static/page.js") as first:
        assert first.headers["Cache-Control"] == "no-cache"
        async with page.session.get(first.url, headers={"If-None-Match": first.headers["ETag"]}) as again:
            assert again.status == 304


def let_run(page: Room, line: str) -> None:
    """Let `training` exist, and a Pod of it write a line."""
    page.live.views["demo/training"] = training()
    page.live.tasks = {"worker-1": pod("worker-1")}
    page.live.lines = [("2026-01-01T12:00:05.000000000Z", line)]


RUNS = framework_row(deleted=None)


async def test_a_pod_that_runs_is_read_from_the_api_server(tmp_path: Path) -> None:
    async with room(tmp_path, Changes("framework-uid", "demo", RUNS, logs=[log_row(0, "zero")])) as page:
        page.keep(zero=lines("before"))
        let_run(page, "live <line>")
        text = await page.page(f"{ONE}/log")
        assert text.index("before") < text.index("live &lt;line&gt;")
        assert 'data-every="3"' in text


async def test_logs_that_do_not_come_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "RUNNING_SECONDS", 0.1)
    async with room(tmp_path, Changes("framework-uid", "demo", RUNS)) as page:
        let_run(page, "first")
        page.live.pause = 60
        await page.says(f"{ONE}/log", "first", "does not give the logs of Pods that run in time")


async def test_one_person_cannot_take_the_places_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "AT_ONCE", 2)
    async with room(tmp_path, plain()) as page, AsyncExitStack() as stack:
        for _ in range(2):
            following = page.session.get(f"{page.url}/feed", headers={"Authorization": "Bearer demo"})
            answer = await stack.enter_async_context(following)
            await answer.content.readuntil(b"\n\n")
        status, _, text = await page.get("/", "demo")
        assert (status, "too much at once" in text) == (429, True)
        await page.page("/")
        await stack.aclose()

        async def is_answered() -> None:
            page.site.feed.publish("demo", "framework-uid")  # that nobody listens is found by telling
            await page.page("/", "demo")

        await eventually_async(is_answered)


async def test_a_file_whose_rest_cannot_be_read_breaks_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks, "MOST", 1)
    two = [Changes(f"uid-{n}", "demo", framework_row(name=f"job-{n}")) for n in range(2)]
    async with room(tmp_path, *two) as page:
        read = page.site.reader.frameworks

        def once(search: Search) -> list[Row]:
            if search.before is not None:
                raise OperationalError("", None, Exception())
            return read(search)

        monkeypatch.setattr(page.site.reader, "frameworks", once)
        async with page.session.get(f"{page.url}/frameworks.csv", headers={"Authorization": "Bearer root"}) as answer:
            assert answer.status == 200
            with pytest.raises(ClientPayloadError, match="not completed"):
                await answer.read()


async def test_the_feed_tells_whom_it_concerns(page: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PAUSE_SECONDS", 0.01)
    headers = {"Authorization": "Bearer demo"}
    async with page.session.get(f"{page.url}/feed", headers=headers) as answer:
        assert answer.content_type == "text/event-stream"
        assert await answer.content.readuntil(b"\n\n") == b":\n\n"
        page.site.feed.publish("other", "other-uid")
        page.site.feed.publish("demo", "framework-uid")
        assert await answer.content.readuntil(b"\n\n") == b"data: changed\n\n"
        monkeypatch.setattr(feeds, "SUBSCRIBERS", 1)
        assert (await page.get("/feed"))[0] == 503


async def test_an_archive_that_is_away_is_said(page: Room) -> None:
    with page.site.reader._engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE frameworks RENAME TO gone")
    status, _, text = await page.get("/")
    assert status == 503
    assert "cannot be read now" in text


@each("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_no_cell_of_a_file_is_a_formula(text: str) -> None:
    row = next(csv.reader(io.StringIO(as_csv(("phrase",), [{"phrase": text}], head=False).decode(), newline="")))
    assert row == [f"'{text}"]
