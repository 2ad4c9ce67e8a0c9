"""A cache follows its server, whether that lists in pages or in a stream; where a stream does not come, pages do."""

import asyncio
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from frameworkkube.http.client import PARTIAL_METADATA, PARTIAL_METADATA_LIST
from tests.kube.lab import BOTH_WAYS, Lab
from tests.kube.pods import DECODER, added, bookmark, deleted, end_of_list, error, event, listing, modified, pod
from tests.kube.scripted import SILENT, Connection, Step, after, answer, refusal, reset_connection, watch

SELECTION = {"labelSelector": "framework", "fieldSelector": "metadata.name=a"}
SELECTORS: dict[str, Any] = {"label_selector": "framework", "field_selector": "metadata.name=a"}
WATCH = SELECTION | {"watch": "true", "allowWatchBookmarks": "true"}


async def test_pages_are_followed_to_the_last_before_the_cache_is_ready(lab: Lab) -> None:
    ready_too_soon: list[bool] = []
    last = answer(200, listing(7, pod("b", 2)))
    lab.on("GET", answer(200, listing(7, pod("a", 1), token="two")))
    lab.on("GET", after(lambda: ready_too_soon.append(made.has_synced), last))
    lab.on("watch", SILENT)
    made = lab.follow(page_size=2, accept=PARTIAL_METADATA, **SELECTORS)
    await lab.eventually(lambda: lab.of("watch"))
    assert lab.seen == ["+a/uid-a", "+b/uid-b"]
    assert ready_too_soon == [False]
    assert (made.has_synced, made.lists, made.resource_version, len(made)) == (True, 1, "7", 2)
    pages, (watched,) = lab.of("GET"), lab.of("watch")
    assert [page.query for page in pages] == [SELECTION | {"limit": "2"}, SELECTION | {"limit": "2", "continue": "two"}]
    assert watched.query == WATCH | {"resourceVersion": "7", "timeoutSeconds": "300"}
    assert (pages[0].headers["accept"], watched.headers["accept"]) == (PARTIAL_METADATA_LIST, PARTIAL_METADATA)


async def test_a_streamed_list_is_one_request_for_the_list_and_the_changes_after_it(lab: Lab) -> None:
    lab.on("stream", watch(added("a", 3), end_of_list(9), modified("a", 10, phase="Running"), end="silence"))
    made = lab.follow(draw=0.999, accept=PARTIAL_METADATA, **SELECTORS)
    await lab.eventually(lambda: made.resource_version == "10")
    assert lab.seen == ["+a/uid-a", "~a/uid-a:Running"]
    assert (made.lists, made.has_synced) == (1, True)
    (request,) = lab.requests
    assert request.headers["accept"] == PARTIAL_METADATA
    # The server's timeout is random between five and ten minutes.
    parameters = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "timeoutSeconds": "599"}
    assert request.query == WATCH | parameters


@BOTH_WAYS
async def test_events_move_the_cache_and_the_version(lab: Lab) -> None:
    changes = [added("b", 6), modified("a", 7, phase="Running"), deleted("b", 8), bookmark(20), added("c", 9)]
    lab.listed(5, pod("a", 1), then=changes)
    made = lab.follow()
    await lab.eventually(lambda: "+c/uid-c" in lab.seen)
    assert lab.seen == ["+a/uid-a", "+b/uid-b", "~a/uid-a:Running", "-b/uid-b", "+c/uid-c"]
    assert made.resource_version == "20", "an event that comes late does not move it back"
    assert made.get("default", "a") == DECODER.decode(json.dumps(pod("a", 7, phase="Running")))
    assert made.get("default", "b") is None
    assert (len(made), made.lists) == (2, 1)


@BOTH_WAYS
async def test_a_watch_that_ended_in_order_is_resumed_from_the_last_version_at_once(lab: Lab) -> None:
    lab.listed(5, then=[added("a", 6), bookmark(9)], end="clean", lasts=60)
    lab.on("watch", watch(added("b", 10), end="silence"))
    made = lab.follow()
    await lab.eventually(lambda: len(lab.seen) == 2)
    assert lab.of("watch")[-1].query["resourceVersion"] == "9"
    assert made.lists == 1
    assert not lab.slept


async def test_unknown_events_empty_lines_and_byte_order_marks_are_passed_over(lab: Lab) -> None:
    odd = [b"", b"  \r", event("SYNC", {}), event("SYNC", {}), event("ADDED", b"3")]
    lab.listed(5, then=[b"\xef\xbb\xbf" + added("a", 6), *odd, added("b", 7)])
    with capture_logs() as logs:
        lab.follow()
        await lab.eventually(lambda: len(lab.seen) == 2)
    assert lab.seen == ["+a/uid-a", "+b/uid-b"]
    assert [entry["type"] for entry in logs if "unknown type" in entry["event"]] == ["SYNC"]


@pytest.mark.parametrize(("handler", "calls"), [("on_change", 3), ("on_deleted", 1), ("on_undecodable", 1)])
async def test_a_handler_that_raises_is_counted_and_stops_nothing(lab: Lab, handler: str, calls: int) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no")

    unreadable = event("ADDED", pod("b", 7) | {"status": 7})
    lab.listed(5, pod("a", 1), then=[deleted("a", 6), unreadable, added("c", 8)])
    with capture_logs() as logs:
        made = lab.follow(**dict[str, Any]({handler: broken}))
        await lab.eventually(lambda: made.resource_version == "8")
    assert made.get("default", "c") is not None
    assert made.failures == calls
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["handler failed"] * calls


async def test_last_activity_is_when_the_server_last_sent_anything(lab: Lab) -> None:
    async def late(connection: Connection) -> None:
        await asyncio.sleep(5)
        await watch(lasts=5)(connection)

    lab.on("GET", answer(200, listing(5)))
    lab.on("watch", late)
    made, begun = lab.follow(), lab.server.clock()
    await asyncio.sleep(9)
    # A watch that opens without any event counts too.
    assert made.last_activity - begun == pytest.approx(5, abs=0.1)


# --- streams that do not come ----------------------------------------------------------------------------------------


PAGES = answer(200, listing(9, pod("a", 5), pod("b", 8)))


@pytest.mark.parametrize(
    "refused",
    [refusal(422, "Invalid"), refusal(400, "BadRequest"), watch(added("a", 5), bookmark(7), end="silence")],
    ids=["422", "400", "parameters are ignored"],
)
async def test_a_server_that_cannot_stream_is_asked_for_pages_at_once_and_for_good(lab: Lab, refused: Step) -> None:
    lab.on("stream", refused)
    lab.on("GET", then=PAGES)
    lab.on("watch", refusal(410, "Expired"), then=SILENT)
    made = lab.follow()
    await lab.eventually(lambda: len(lab.of("watch")) == 2)
    assert lab.seen == ["+a/uid-a", "+b/uid-b"]
    assert made.lists == 2
    assert len(lab.of("stream")) == 1
    assert len(lab.slept) == 1, "after the 410, and not before the pages"


BROKEN = {
    "it ends": watch(added("a", 5)),
    "the connection is closed": watch(added("a", 5), end="fin"),
    "the connection is reset": watch(added("a", 5), end="reset"),
    "it falls silent": watch(added("a", 5), end="silence"),
    "a line is cut": watch(added("a", 5), tail=b'{"type":"ADDED","obj'),
    "a line is garbage": watch(added("a", 5), b'{"type":'),
    "the server ends it with 410": watch(added("a", 5), error(410, "Expired")),
    "the server ends it with 500": watch(added("a", 5), error(500, "InternalError")),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
async def test_a_stream_that_breaks_off_is_followed_by_pages_and_then_by_a_stream(lab: Lab, broken: Step) -> None:
    before: list[tuple[bool, str]] = []
    lab.on("stream", broken, watch(added("b", 8), end_of_list(20), end="silence"))
    lab.on("GET", after(lambda: before.append((made.has_synced, made.resource_version)), PAGES))
    lab.on("version", then=answer(body=listing(15)))
    lab.on("watch", refusal(410, "Expired"))
    made = lab.follow(inactivity_seconds=5)
    await lab.eventually(lambda: made.lists == 2)
    assert lab.seen == ["+a/uid-a", "+b/uid-b", "-a/uid-a"]
    assert [request.kind for request in lab.requests] == ["stream", "GET", "watch", "version", "stream"]
    assert "limit" in lab.of("GET")[0].query
    assert before == [(False, "")], "the cache is ready only at the end of a list"
    assert min(lab.slept) >= 0.8 - 0.1


FAULTS = {str(code): refusal(code, "Whatever") for code in (403, 404, 429, 500, 503)} | {"reset": reset_connection}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_stream_that_never_opens_is_tried_three_times_with_pauses_before_pages(lab: Lab, fault: Step) -> None:
    lab.on("stream", fault, fault, watch(added("a", 5), end_of_list(9), error(410, "Expired")), then=fault)
    lab.on("GET", PAGES)
    lab.on("watch", SILENT)
    made = lab.follow()
    await lab.eventually(lambda: made.lists == 2)
    lists = [request.kind for request in lab.requests if request.kind in {"stream", "GET"}]
    assert lists == ["stream"] * 3 + ["stream"] * 3 + ["GET"], "a list that came forgets the failures before it"
    assert len(lab.slept) == 2 + 1 + 3
    assert min(lab.slept) >= 0.8


async def test_changes_among_the_objects_of_a_list_are_taken_in(lab: Lab) -> None:
    changed = [modified("a", 7, phase="Running"), deleted("b", 8), added("b", 9, uid="second")]
    lab.on("stream", watch(added("a", 1), added("b", 2), *changed, end_of_list(9), end="silence"))
    made = lab.follow()
    await lab.eventually(lambda: made.has_synced)
    assert lab.seen == ["+a/uid-a", "+b/uid-b", "~a/uid-a:Running", "-b/uid-b", "+b/second"]
    assert len(made) == 2
