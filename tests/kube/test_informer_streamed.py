"""A list that comes as a stream: it is as good as one in pages, and where it does not come, pages do."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from frameworkkube.errors import EtcdRestoredError
from frameworkkube.http.client import PARTIAL_METADATA
from frameworkkube.informer.informer import Informer
from frameworkkube.informer.lists import Lists, Way
from testkit.waiting import patience
from tests.kube.faketime import FakeTime
from tests.kube.pods import Changes, Pod, added, bookmark, deleted, end_of_list, error, listing, modified, pod
from tests.kube.scripted import ScriptedServer, Step, answer, refusal, reset_connection, watch

Make = Callable[..., Informer[Pod]]
Run = Callable[[Awaitable[object]], object]
Eventually = Callable[[Callable[[], object]], Awaitable[None]]

SILENT = watch(end="silence")
PAGES = answer(200, listing(9, pod("a", 5), pod("b", 8)))


async def test_one_request_brings_the_list_and_the_changes_after_it(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    stream = watch(added("a", 3), added("b", 2), end_of_list(9), modified("a", 10, phase="Running"), end="silence")
    server.on("stream", stream)
    made = informer(label_selector="framework", accept=PARTIAL_METADATA)
    run(made.run())
    await eventually(lambda: made.resource_version == "10")
    assert changes.seen == ["+a/uid-a", "+b/uid-b", "~a/uid-a:Running"]
    assert (made.lists, made.has_synced, len(made)) == (1, True, 2)
    (request,) = server.requests
    assert request.headers["accept"] == PARTIAL_METADATA
    assert request.query == {
        "labelSelector": "framework",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": "300",
    }


async def test_the_cache_is_ready_only_at_the_end_of_the_list(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    server.on("stream", watch(added("a", 3), added("b", 2), end="silence"))
    made = informer()
    run(made.run())
    await eventually(lambda: len(changes.seen) == 2)
    assert not made.has_synced
    assert made.resource_version == ""


async def test_a_stream_that_ended_in_order_is_followed_by_a_watch_from_its_last_version(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually
) -> None:
    server.on("stream", watch(added("a", 3), end_of_list(9), bookmark(20)))
    server.on("watch", then=SILENT)
    run(informer().run())
    await eventually(lambda: server.of("watch"))
    assert server.of("watch")[0].query["resourceVersion"] == "20"
    assert len(server.of("stream")) == 1
    assert not server.of("GET")


@pytest.mark.parametrize(
    "refused",
    [
        refusal(
            422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        ),
        refusal(400, "BadRequest"),
        watch(added("a", 5), bookmark(7), end="silence"),
    ],
    ids=["422", "400", "parameters are ignored"],
)
async def test_a_server_that_cannot_stream_is_asked_for_pages_at_once_and_for_good(
    server: ScriptedServer,
    informer: Make,
    run: Run,
    eventually: Eventually,
    time: FakeTime,
    changes: Changes,
    refused: Step,
) -> None:
    server.on("stream", refused)
    server.on("GET", then=PAGES)
    server.on("watch", refusal(410, "Expired"), then=SILENT)
    made = informer()
    run(made.run())
    await eventually(lambda: len(server.of("watch")) == 2)
    assert changes.seen == ["+a/uid-a", "+b/uid-b"]
    assert made.lists == 2
    assert len(server.of("stream")) == 1
    assert len(time.slept) == 1, "after the 410, and not before the pages"


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
    server: ScriptedServer,
    informer: Make,
    run: Run,
    eventually: Eventually,
    time: FakeTime,
    changes: Changes,
    broken: Step,
) -> None:
    server.on("stream", broken, watch(added("b", 8), end_of_list(20), end="silence"))
    server.on("GET", then=PAGES)
    server.on("version", then=answer(body=listing(15)))
    server.on("watch", refusal(410, "Expired"))
    made = informer()
    run(made.run())
    await eventually(lambda: made.lists == 2)
    assert changes.seen == ["+a/uid-a", "+b/uid-b", "-a/uid-a"]
    assert [request.kind for request in server.requests] == ["stream", "GET", "watch", "version", "stream"]
    assert "limit" in server.of("GET")[0].query
    assert min(time.slept) >= 0.8 - 0.1


async def test_a_stream_that_falls_silent_before_its_end_is_followed_by_pages(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    server.on("stream", watch(added("a", 5), end="silence"))
    server.on("GET", PAGES)
    server.on("watch", then=SILENT)
    made = informer(inactivity_seconds=0.2)
    run(made.run())
    await eventually(lambda: made.has_synced)
    assert changes.seen == ["+a/uid-a", "+b/uid-b"]


@pytest.mark.parametrize(
    "fault",
    [
        reset_connection(),
        refusal(503, "ServiceUnavailable"),
        refusal(429, "TooManyRequests"),
        refusal(403, "Forbidden"),
    ],
    ids=["reset", "503", "429", "403"],
)
async def test_a_stream_that_never_opened_is_tried_again_after_a_pause(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, time: FakeTime, fault: Step
) -> None:
    server.on("stream", fault, fault, watch(added("a", 5), end_of_list(9), end="silence"))
    made = informer()
    run(made.run())
    await eventually(lambda: made.has_synced)
    assert [request.kind for request in server.requests] == ["stream"] * 3
    assert len(time.slept) == 2
    assert min(time.slept) >= 0.8


@pytest.mark.parametrize("code", [403, 404, 500])
async def test_a_stream_that_never_opens_is_followed_by_pages_after_three_times(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, time: FakeTime, code: int
) -> None:
    server.on("stream", then=refusal(code, "Whatever"))
    server.on("GET", then=PAGES)
    server.on("watch", then=SILENT)
    made = informer()
    run(made.run())
    await eventually(lambda: made.has_synced)
    assert [request.kind for request in server.requests][:4] == ["stream"] * 3 + ["GET"]
    assert len(time.slept) == 3


async def test_a_second_list_shows_what_has_vanished_and_what_was_replaced(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    first = [added("kept", 1), added("changed", 2), added("vanished", 3), added("replaced", 4, uid="old")]
    second = [added("kept", 1), added("changed", 12, phase="Running"), added("replaced", 14, uid="new")]
    server.on("stream", watch(*first, end_of_list(9), error(410, "Expired")))
    server.on("stream", watch(*second, end_of_list(20), end="silence"))
    made = informer()
    run(made.run())
    await eventually(lambda: made.lists == 2)
    assert changes.seen[4:] == [
        "~changed/uid-changed:Running",
        "-replaced/old",
        "+replaced/new",
        "-vanished/uid-vanished",
    ]
    assert [request.kind for request in server.requests] == ["stream", "version", "stream"]


async def test_changes_among_the_objects_of_a_list_are_taken_in(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    stream = [
        added("a", 1),
        added("b", 2),
        modified("a", 7, phase="Running"),
        deleted("b", 8),
        added("b", 9, uid="second"),
    ]
    server.on("stream", watch(*stream, end_of_list(9), end="silence"))
    made = informer()
    run(made.run())
    await eventually(lambda: made.has_synced)
    assert changes.seen == ["+a/uid-a", "+b/uid-b", "~a/uid-a:Running", "-b/uid-b", "+b/second"]
    assert len(made) == 2


async def test_one_object_that_cannot_be_read_costs_only_itself(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    deep = (
        json.dumps(added("bad", 6)).encode().replace(b'"spec": {', b'"spec": {"x": ' + b"[" * 2000 + b"]" * 2000 + b",")
    )
    server.on("stream", watch(added("a", 5), deep, added("z", 7), end_of_list(9), error(410, "Expired")))
    server.on("stream", watch(added("a", 5), added("z", 7), end_of_list(20), end="silence"))
    found: list[object] = []
    made = informer(on_undecodable=found.append)
    run(made.run())
    await eventually(lambda: made.lists == 1)
    assert changes.seen == ["+a/uid-a", "+z/uid-z"]
    assert len(found) == 1
    await eventually(lambda: made.lists == 2)
    assert not made.undecodable, "the second list does not have it"


async def test_versions_that_went_back_are_found_before_anything_of_the_stream_is_believed(
    server: ScriptedServer, informer: Make, changes: Changes
) -> None:
    server.on("stream", watch(added("a", 800), end_of_list(900), error(410, "Expired")))
    server.on("version", answer(200, listing(100)))
    with pytest.raises(EtcdRestoredError, match=r"resourceVersions went back from 900 to 100"):
        await asyncio.wait_for(informer().run(), patience(5))
    assert changes.seen == ["+a/uid-a"]
    assert len(server.of("stream")) == 1


async def test_an_end_of_an_older_version_ends_the_informer(
    server: ScriptedServer, informer: Make, changes: Changes
) -> None:
    server.on("stream", watch(added("a", 800), end_of_list(900), error(410, "Expired")), watch(end_of_list(100)))
    with pytest.raises(EtcdRestoredError, match=r"resourceVersions went back from 900 to 100"):
        await asyncio.wait_for(informer().run(), patience(5))
    assert changes.seen == ["+a/uid-a"], "nothing has vanished"


async def test_an_informer_that_is_to_list_in_pages_does(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually
) -> None:
    server.on("GET", PAGES)
    server.on("watch", then=SILENT)
    made = informer(streamed=False)
    run(made.run())
    await eventually(lambda: made.has_synced)
    assert not server.of("stream")


def test_the_way_of_the_next_list_follows_from_what_became_of_the_last() -> None:
    lists = Lists(streamed=True)
    ways = [lists.way]
    for what in (
        lambda: lists.broke_off(opened=True),
        lists.expired,
        lists.expired,
        lists.complete,
        lists.refused,
        lists.expired,
    ):
        what()
        ways.append(lists.way)
    lists.complete()
    assert [*ways, lists.way] == [
        Way.STREAMED,
        Way.PAGES,
        Way.WHOLE,
        Way.PAGES,
        Way.STREAMED,
        Way.PAGES,
        Way.WHOLE,
        Way.PAGES,
    ]
