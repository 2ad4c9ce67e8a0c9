"""A faulty server: the cache ends in the truth, and the server sees few requests."""

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest

from frameworkkube.errors import EtcdRestoredError
from tests.kube.lab import BOTH_WAYS, Lab
from tests.kube.pods import added, bookmark, deleted, end_of_list, error, event, listing, modified, pod
from tests.kube.scripted import (
    SILENT,
    TEXT_429,
    Connection,
    Request,
    Step,
    answer,
    hang_up,
    refusal,
    reset_connection,
    silence,
    watch,
)

EMPTY = answer(200, listing(5))
FAULTS = {
    "429 text": TEXT_429,
    "429 json": refusal(429, "TooManyRequests", retryAfterSeconds=1),
    "429 without a pause": refusal(429, "TooManyRequests"),
    "429 with a pause of zero": answer(429, b"", Retry_After="0"),
    "500": refusal(500, "InternalError"),
    "503 html": answer(503, b"<html>\n<h1>down</h1>\n</html>\n", content_type="text/html"),
    "200 html": answer(200, b"<html>\n<h1>login</h1>\n</html>\n", content_type="text/html"),
    "403": refusal(403, "Forbidden"),
    "401": refusal(401, "Unauthorized"),
    "404": answer(404, b"404 page not found"),
    "reset": reset_connection,
    "hang up": hang_up,
    "blank lines": watch(b"", b" ", b""),
    "garbage": watch(b'{"type":'),
    "array": watch(b"[]"),
}
TOO_OLD = refusal(410, "Expired")
BROKEN_WATCHES = {
    "410": TOO_OLD,
    "nobody's object": watch(event("ADDED", b'{"a":NaN}')),
    "empty stream": watch(),
    "stream cut in a line": watch(tail=b'{"type":"ADDED","obj'),
    "stream reset": watch(bookmark(5), end="reset"),
    "bookmark and end": watch(bookmark(5)),
    "error event 500": watch(error(500, "InternalError")),
    "error event 429": watch(error(429, "TooManyRequests", retryAfterSeconds=1)),
    "error event of no shape": watch(event("ERROR", b'"?"')),
}
UNREADABLE = [FAULTS["200 html"], FAULTS["garbage"], FAULTS["array"], BROKEN_WATCHES["nobody's object"]]


def gaps(requests: list[Request]) -> list[float]:
    return [later.at - earlier.at for earlier, later in pairwise(requests)]


@pytest.mark.parametrize("fault", (FAULTS | BROKEN_WATCHES).values(), ids=FAULTS | BROKEN_WATCHES)
@pytest.mark.parametrize("draw", [0.0, 0.5], ids=["least jitter", "middle jitter"])
async def test_a_faulty_watch_is_tried_once_in_800_ms_and_then_resumes(lab: Lab, fault: Step, draw: float) -> None:
    lab.on("GET", then=answer(200, listing(5, pod("a", 5))))
    lab.on("watch", then=fault)
    made = lab.informer(draw=draw)
    await lab.run_for(60, made.run())
    watches = lab.of("watch")
    assert 3 <= len(watches) <= 60 / 0.8 + 1
    assert min(gaps(watches)) >= 0.8 - 1e-6
    if draw:
        # The waits grow: 0.8 + 0.5 * (2^n * 0.8 - 0.8) reaches the middle of 30 s after six failures.
        assert len(watches) <= 9
    # What cannot be read at one place twice leads to a list, and a version that is too old at once; nothing else does.
    per_list = 2 if fault in UNREADABLE else 1 if fault is TOO_OLD else len(watches) + 1
    assert len(watches) / per_list <= len(lab.of("GET")) <= 1 + len(watches) // per_list

    # And the server recovers.
    lab.on("watch", then=watch(modified("a", 6, phase="Running"), end="silence"))
    lab.run(made.run())
    await lab.eventually(lambda: lab.seen[-1] == "~a/uid-a:Running")
    assert lab.seen == ["+a/uid-a", "~a/uid-a:Running"]


@BOTH_WAYS
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_faulty_list_is_tried_once_in_800_ms_and_then_succeeds(lab: Lab, fault: Step) -> None:
    lab.on("stream", then=fault)
    lab.on("GET", then=fault)
    lab.on("watch", then=SILENT)
    made = lab.informer(streamed=lab.streamed)
    await lab.run_for(60, made.run())
    assert 3 <= len(lab.requests) <= 60 / 0.8 + 1
    assert min(gaps(lab.requests)) >= 0.8 - 1e-6
    assert bool(lab.of("stream")) == lab.streamed
    assert not made.has_synced
    lab.on("stream", then=refusal(422, "Invalid"))
    lab.on("GET", then=answer(200, listing(5, pod("a", 5))))
    lab.run(made.run())
    await lab.eventually(lambda: made.has_synced)


GONE = {
    "status expired": refusal(410, "Expired"),
    "status gone": refusal(410, "Gone"),
    "event expired": watch(error(410, "Expired")),
    "event gone": watch(error(410, "Gone")),
    "event without a code": watch(event("ERROR", {"kind": "Status", "reason": "Expired"})),
}


@BOTH_WAYS
@pytest.mark.parametrize("gone", GONE.values(), ids=GONE)
async def test_a_410_leads_to_one_list_and_a_comparison_by_uid(lab: Lab, gone: Step) -> None:
    first = [pod("kept", 1), pod("changed", 2), pod("vanished", 3), pod("replaced", 4, uid="old")]
    second = [pod("kept", 1), pod("changed", 12, phase="Running"), pod("replaced", 14, uid="new"), pod("n", 15)]
    lab.listed(9, *first, then=[bookmark(10)], end="clean", lasts=60)
    lab.on("watch", gone)
    lab.listed(20, *second)
    made = lab.follow()
    await lab.eventually(lambda: made.lists == 2)
    assert sorted(lab.seen[:4]) == ["+changed/uid-changed", "+kept/uid-kept", "+replaced/old", "+vanished/uid-vanished"]
    replaced = ["+replaced/new", "-replaced/old"]
    assert sorted(lab.seen[4:]) == ["+n/uid-n", *replaced, "-vanished/uid-vanished", "~changed/uid-changed:Running"]
    assert lab.seen.index("-replaced/old") < lab.seen.index("+replaced/new")
    assert made.resource_version == "20"
    assert min(lab.slept) >= 0.8


async def test_a_continue_token_that_expired_leads_to_a_list_without_pages_and_that_back_to_pages(lab: Lab) -> None:
    expired, pages = refusal(410, "Expired"), answer(200, listing(5, pod("a", 1), pod("stale", 2), token="t"))
    lab.on("GET", pages, expired, expired, answer(200, listing(30, pod("a", 1), pod("b", 25))))
    lab.on("watch", SILENT)
    made = lab.follow(page_size=2)
    await lab.eventually(lambda: made.has_synced)
    # What the first page showed was true then; what has gone since is found out by the list that is complete.
    assert lab.seen == ["+a/uid-a", "+stale/uid-stale", "+b/uid-b", "-stale/uid-stale"]
    assert [sorted(request.query) for request in lab.of("GET")] == [["limit"], ["continue", "limit"], [], ["limit"]]
    assert len(lab.slept) == 2
    assert min(lab.slept) >= 0.8


async def test_a_list_in_one_answer_that_takes_too_long_gives_way_to_pages(lab: Lab) -> None:
    expired, pages = refusal(410, "Expired"), answer(200, listing(5, pod("a", 1), token="t"))
    lab.on("GET", pages, expired, silence, answer(200, listing(30, pod("a", 1))))
    lab.on("watch", SILENT)
    made = lab.follow(page_size=2)
    await lab.eventually(lambda: made.has_synced)
    assert [sorted(request.query) for request in lab.of("GET")] == [["limit"], ["continue", "limit"], [], ["limit"]]


FROM_THE_FUTURE = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
LATER, EARLIER = answer(200, listing(900, pod("a", 800))), answer(200, listing(100, pod("a", 90)))
STREAM = watch(added("a", 800), end_of_list(900), error(410, "Expired"))
BEHIND: dict[str, dict[str, list[Step]]] = {
    "a list, since the watch does not know the version": {
        "GET": [LATER, EARLIER],
        "watch": [refusal(504, "Timeout", causes=FROM_THE_FUTURE)],
    },
    "a list, since the version is compacted": {"GET": [LATER, EARLIER], "watch": [refusal(410, "Expired")]},
    "what is asked before a streamed list": {"stream": [STREAM], "version": [EARLIER]},
    "the end of a streamed list": {"stream": [STREAM, watch(end_of_list(100))]},
}


@pytest.mark.parametrize("script", BEHIND.values(), ids=BEHIND)
async def test_a_server_whose_version_went_back_ends_the_informer(lab: Lab, script: dict[str, list[Step]]) -> None:
    for kind, steps in script.items():
        lab.on(kind, *steps)
    with pytest.raises(EtcdRestoredError, match=r"resourceVersions went back from 900 to 100"):
        await asyncio.wait_for(lab.informer().run(), 300)
    assert lab.seen == ["+a/uid-a"], "nothing has vanished"
    assert all(len(lab.of(kind)) == len(steps) for kind, steps in script.items())


@pytest.mark.parametrize("end", ["clean", "fin", "reset"])
async def test_after_each_interruption_a_list_of_one_object_shows_that_nothing_went_back(lab: Lab, end: str) -> None:
    # The real API server answers such a watch with silence until its versions have caught up.
    lab.on("GET", LATER)
    lab.on("version", *(answer(200, listing(version)) for version in (900, 901, 899)))
    lab.on("watch", then=watch(end=end))
    made = lab.informer()
    with pytest.raises(EtcdRestoredError, match=r"resourceVersions went back from 900 to 899"):
        await asyncio.wait_for(made.run(), 300)
    assert [request.query for request in lab.of("version")] == [{"limit": "1"}] * 3
    assert (made.lists, len(lab.of("watch"))) == (1, 3)


async def asked_in(
    lab: Lab, seconds: float, *watches: Step, then: Step = SILENT, lists: Step = EMPTY, **settings: Any
) -> list[Request]:
    """The watches that an informer asked for in so many seconds, with these answers to them and to its lists."""
    lab.on("GET", then=lists)
    lab.on("watch", *watches, then=then)
    await lab.run_for(seconds, lab.informer(**settings).run())
    return lab.of("watch")


async def opened_in_a_minute(lab: Lab, changes_each: int) -> list[Request]:
    """The watches, each of which the server ends as soon as it has shown so many changes, or one bookmark."""

    async def cut_short(connection: Connection) -> None:
        version = int(connection.request.query["resourceVersion"])
        shown = [added(f"pod-{number}", number) for number in range(version + 1, version + 1 + changes_each)]
        await watch(*(shown or [bookmark(version + 1)]))(connection)

    return await asked_in(lab, 60, then=cut_short, draw=0.5)


async def test_a_watch_that_ends_after_each_bookmark_is_opened_again_ever_more_rarely(lab: Lab) -> None:
    pauses = gaps(await opened_in_a_minute(lab, 0))
    assert min(pauses) >= 0.8
    assert len(pauses) < 20


async def test_a_watch_that_ends_after_each_change_is_soon_opened_no_more_than_a_faulty_one(lab: Lab) -> None:
    # An API server ends the watches that it cannot serve quickly enough, several times a second in a burst of Pods.
    watches = await opened_in_a_minute(lab, 1)
    pauses = gaps(watches)
    assert pauses[:30] == pytest.approx([0.05] * 30, abs=0.02)
    assert pauses[29:36] == sorted(pauses[29:36])
    assert min(pauses[36:]) >= 0.8 - 0.02
    assert [int(request.query["resourceVersion"]) for request in watches] == list(range(5, 5 + len(watches)))
    assert not lab.of("version")


async def test_watches_that_a_long_burst_ends_are_resumed_without_a_pause_all_the_time(lab: Lab) -> None:
    assert max(gaps(await opened_in_a_minute(lab, 10))) <= 0.07


async def test_a_resumption_that_takes_longer_than_two_seconds_is_an_interruption_and_no_failure(lab: Lab) -> None:
    # A busy API server may take seconds to open a watch, again and again. Meanwhile etcd may have been restored, too.
    late = [step for version in range(6, 16) for step in (watch(added("a", version)), silence)]
    watches = await asked_in(lab, 30, *late)
    assert watches[-1].query["resourceVersion"] == "15"
    given_up = [asked.at - opened.at for opened, asked in zip(watches[1::2], lab.of("version"), strict=True)]
    assert given_up == pytest.approx([2] * 10, abs=0.1)
    assert max(gaps(watches)) < 2.5


async def test_a_long_pause_is_slept_through_at_once(lab: Lab) -> None:
    lab.on("GET", answer(503, b"", Retry_After="20"), EMPTY)
    lab.on("watch", SILENT)
    made = lab.follow(draw=0.5)
    await lab.eventually(lambda: made.has_synced)
    assert lab.slept == [20 + 0.5 * 0.8]


async def test_a_half_open_watch_is_opened_again_from_where_it_was_without_a_back_off(lab: Lab) -> None:
    silent, later = [watch(added("a", 6), end="silence")] * 4, watch(added("b", 7), end="silence")
    watches = await asked_in(lab, 4.5 * 70, *silent, then=later, draw=1.0)
    assert lab.seen == ["+a/uid-a", "+b/uid-b"]
    assert {request.query["resourceVersion"] for request in watches[1:5]} == {"6"}
    assert len(lab.of("GET")) == 1
    # It lived longer than the floor between two watches, and its silence is no failure.
    assert gaps(watches) == pytest.approx([70] * 4, abs=0.1)


async def test_a_list_or_watch_without_any_answer_is_given_up(lab: Lab) -> None:
    # The pause after a first failure is 0.8 s here.
    assert gaps(await asked_in(lab, 20, silence)) == pytest.approx([10.8], abs=0.1)
    await asked_in(lab, 100, lists=silence)
    assert gaps(lab.of("GET")[1:]) == pytest.approx([60.8], abs=0.1)


async def test_a_stream_that_breaks_anywhere_loses_nothing(lab: Lab) -> None:
    history = {
        11: added("a", 11),
        12: modified("a", 12, phase="Running"),
        13: deleted("a", 13),
        14: added("a", 14, uid="second"),
        15: added("b", 15),
        16: modified("b", 16, phase="Failed"),
    }
    draw = random.Random(20)

    async def broken(connection: Connection) -> None:
        first = int(connection.request.query["resourceVersion"])
        left = [line for version, line in history.items() if version > first]
        if len(lab.of("watch")) >= 50:
            step = watch(*left, end="silence")
        else:
            cut = draw.choice([b"", b'{"type":"MODIFIED","object":{"metadata":{"na'])
            step = watch(*left[: draw.randrange(len(left) + 1)], end=draw.choice(["fin", "reset", "clean"]), tail=cut)
        await step(connection)

    lab.on("GET", then=answer(200, listing(10)))
    lab.on("watch", then=broken)
    made = lab.follow()
    await lab.eventually(lambda: made.resource_version == "16")
    assert lab.seen == ["+a/uid-a", "~a/uid-a:Running", "-a/uid-a", "+a/second", "+b/uid-b", "~b/uid-b:Failed"]
    assert len(lab.of("GET")) == 1


async def test_two_healthy_minutes_forget_the_failures_before(lab: Lab) -> None:
    lab.on("GET", EMPTY)
    two_minutes = watch(bookmark(6), end="reset", lasts=130)
    lab.on("watch", *[refusal(500, "InternalError")] * 6, two_minutes, then=SILENT)
    lab.follow(draw=1.0, inactivity_seconds=200)
    await lab.eventually(lambda: len(lab.of("watch")) == 8)
    assert [round(pause, 1) for pause in lab.slept] == [1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 1.6]
