"""A list that comes as a stream: it is as good as one in pages, and where it does not come, pages do."""

import asyncio
import functools

import pytest

from frameworkkube.errors import EtcdRestoredError
from frameworkkube.http.client import PARTIAL_METADATA
from frameworkkube.informer.lists import Lists, Way
from testkit.waiting import patience
from tests.kube.lab import Lab
from tests.kube.pods import added, bookmark, deleted, end_of_list, error, listing, modified, pod
from tests.kube.scripted import Step, answer, refusal, reset_connection, watch

SILENT = watch(end="silence")
PAGES = answer(200, listing(9, pod("a", 5), pod("b", 8)))


async def test_one_request_brings_the_list_and_the_changes_after_it(lab: Lab) -> None:
    stream = watch(added("a", 3), added("b", 2), end_of_list(9), modified("a", 10, phase="Running"), end="silence")
    lab.on("stream", stream)
    made = lab.follow(label_selector="framework", accept=PARTIAL_METADATA)
    await lab.eventually(lambda: made.resource_version == "10")
    assert lab.seen == ["+a/uid-a", "+b/uid-b", "~a/uid-a:Running"]
    assert (made.lists, made.has_synced, len(made)) == (1, True, 2)
    (request,) = lab.requests
    assert request.headers["accept"] == PARTIAL_METADATA
    assert request.query == {
        "labelSelector": "framework",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": "300",
    }


async def test_the_cache_is_ready_only_at_the_end_of_the_list(lab: Lab) -> None:
    lab.on("stream", watch(added("a", 3), added("b", 2), end="silence"))
    made = lab.follow()
    await lab.eventually(lambda: len(lab.seen) == 2)
    assert not made.has_synced
    assert made.resource_version == ""


async def test_a_stream_that_ended_in_order_is_followed_by_a_watch_from_its_last_version(lab: Lab) -> None:
    lab.on("stream", watch(added("a", 3), end_of_list(9), bookmark(20)))
    lab.on("watch", then=SILENT)
    lab.follow()
    await lab.eventually(lambda: lab.of("watch"))
    assert lab.of("watch")[0].query["resourceVersion"] == "20"
    assert len(lab.of("stream")) == 1
    assert not lab.of("GET")


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
    assert len(lab.time.slept) == 1, "after the 410, and not before the pages"


BROKEN = {
    "it ends": watch(added("a", 5)),
    "the connection is closed": watch(added("a", 5), end="fin"),
    "the connection is reset": watch(added("a", 5), end="reset"),
    "a line is cut": watch(added("a", 5), tail=b'{"type":"ADDED","obj'),
    "a line is garbage": watch(added("a", 5), b'{"type":'),
    "the server ends it with 410": watch(added("a", 5), error(410, "Expired")),
    "the server ends it with 500": watch(added("a", 5), error(500, "InternalError")),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
async def test_a_stream_that_breaks_off_before_its_end_is_followed_by_pages_and_the_next_list_is_streamed(
    lab: Lab, broken: Step
) -> None:
    lab.on("stream", broken, watch(added("b", 8), end_of_list(20), end="silence"))
    lab.on("GET", then=PAGES)
    lab.on("version", then=answer(body=listing(15)))
    lab.on("watch", refusal(410, "Expired"))
    made = lab.follow()
    await lab.eventually(lambda: made.lists == 2)
    assert lab.seen == ["+a/uid-a", "+b/uid-b", "-a/uid-a"]
    assert [request.kind for request in lab.requests] == ["stream", "GET", "watch", "version", "stream"]
    assert "limit" in lab.of("GET")[0].query
    assert min(lab.time.slept) >= 0.8 - 0.1


async def test_a_stream_that_falls_silent_before_its_end_is_followed_by_pages(lab: Lab) -> None:
    lab.on("stream", watch(added("a", 5), end="silence"))
    lab.on("GET", PAGES)
    lab.on("watch", then=SILENT)
    made = lab.follow(inactivity_seconds=0.2)
    await lab.eventually(lambda: made.has_synced)
    assert lab.seen == ["+a/uid-a", "+b/uid-b"]


@pytest.mark.parametrize(
    "fault",
    [reset_connection(), *(refusal(code, "Whatever") for code in (503, 429, 403))],
    ids=["reset", "503", "429", "403"],
)
async def test_a_stream_that_never_opened_is_tried_again_after_a_pause(lab: Lab, fault: Step) -> None:
    lab.on("stream", fault, fault, watch(added("a", 5), end_of_list(9), end="silence"))
    made = lab.follow()
    await lab.eventually(lambda: made.has_synced)
    assert [request.kind for request in lab.requests] == ["stream"] * 3
    assert len(lab.time.slept) == 2
    assert min(lab.time.slept) >= 0.8


@pytest.mark.parametrize("code", [403, 404, 500])
async def test_a_stream_that_never_opens_is_followed_by_pages_after_three_times(lab: Lab, code: int) -> None:
    lab.on("stream", then=refusal(code, "Whatever"))
    lab.on("GET", then=PAGES)
    lab.on("watch", then=SILENT)
    made = lab.follow()
    await lab.eventually(lambda: made.has_synced)
    assert [request.kind for request in lab.requests][:4] == ["stream"] * 3 + ["GET"]
    assert len(lab.time.slept) == 3


async def test_changes_among_the_objects_of_a_list_are_taken_in(lab: Lab) -> None:
    changed = [modified("a", 7, phase="Running"), deleted("b", 8), added("b", 9, uid="second")]
    lab.on("stream", watch(added("a", 1), added("b", 2), *changed, end_of_list(9), end="silence"))
    made = lab.follow()
    await lab.eventually(lambda: made.has_synced)
    assert lab.seen == ["+a/uid-a", "+b/uid-b", "~a/uid-a:Running", "-b/uid-b", "+b/second"]
    assert len(made) == 2


@pytest.mark.parametrize(
    ("kind", "step", "streams"),
    [("version", answer(200, listing(100)), 1), ("stream", watch(end_of_list(100)), 2)],
    ids=["the server says so when it is asked", "the next list ends with an older version"],
)
async def test_versions_that_went_back_are_found_before_anything_of_the_stream_is_believed(
    lab: Lab, kind: str, step: Step, streams: int
) -> None:
    lab.on("stream", watch(added("a", 800), end_of_list(900), error(410, "Expired")))
    lab.on(kind, step)
    with pytest.raises(EtcdRestoredError, match=r"resourceVersions went back from 900 to 100"):
        await asyncio.wait_for(lab.informer().run(), patience(5))
    assert lab.seen == ["+a/uid-a"], "nothing has vanished"
    assert len(lab.of("stream")) == streams


async def test_an_informer_that_is_to_list_in_pages_does(lab: Lab) -> None:
    lab.on("GET", PAGES)
    lab.on("watch", then=SILENT)
    made = lab.follow(streamed=False)
    await lab.eventually(lambda: made.has_synced)
    assert not lab.of("stream")


def test_the_way_of_the_next_list_follows_from_what_became_of_the_last() -> None:
    lists = Lists(streamed=True)
    ways = [lists.way]
    broke_off = functools.partial(lists.broke_off, opened=True)
    for what in (broke_off, lists.expired, lists.expired, lists.complete, lists.refused, lists.expired, lists.complete):
        what()
        ways.append(lists.way)
    pages, whole = Way.PAGES, Way.WHOLE
    assert ways == [Way.STREAMED, pages, whole, pages, Way.STREAMED, pages, whole, pages]
