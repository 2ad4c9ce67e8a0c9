"""A faulty server: the cache ends in the truth, and the server sees few requests."""

import asyncio
import random
import time as real_time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from frameworkkube.errors import EtcdRestoredError
from frameworkkube.http.client import INACTIVITY_TIMEOUT_SECONDS, KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.informer.informer import Informer
from testkit.waiting import patience
from tests.kube.lab import Lab
from tests.kube.pods import DECODER, PATH, Changes, added, bookmark, end_of_list, error, listing, modified, pod
from tests.kube.scripted import (
    Connection,
    Request,
    ScriptedServer,
    Step,
    a_client,
    a_server,
    answer,
    hang_up,
    refusal,
    reset_connection,
    silence,
    watch,
)
from tests.kube.virtualtime import in_virtual_time

EMPTY = answer(200, listing(5))
SILENT = watch(end="silence")
TEXT_429 = answer(429, b"Too many requests, please try again later.\n", content_type="text/plain", Retry_After="1")
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
    "reset": reset_connection(),
    "hang up": hang_up(),
    "empty stream": watch(),
    "blank lines": watch(b"", b" ", b""),
    "garbage": watch(b'{"type":'),
    "array": watch(b"[]"),
    "stream cut in a line": watch(tail=b'{"type":"ADDED","obj'),
    "stream reset": watch(bookmark(5), end="reset"),
    "bookmark and end": watch(bookmark(5)),
    "error event 500": watch(error(500, "InternalError")),
    "error event 429": watch(error(429, "TooManyRequests", retryAfterSeconds=1)),
    "error event of no shape": watch({"type": "ERROR", "object": "?"}),
}


def gaps(requests: list[Request]) -> list[float]:
    return [later.at - earlier.at for earlier, later in pairwise(requests)]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("draw", [0.0, 0.5], ids=["least jitter", "middle jitter"])
async def test_a_faulty_watch_is_requested_at_most_once_in_800_ms_and_then_resumes(
    lab: Lab, fault: Step, draw: float
) -> None:
    lab.on("GET", then=answer(200, listing(5, pod("a", 5))))
    lab.on("watch", then=fault)
    made = lab.informer(draw)
    await lab.run_for(60, made.run())
    watches = lab.of("watch")
    assert len(watches) >= 3
    assert min(gaps(watches)) >= 0.8 - 1e-6
    assert len(watches) <= 60 / 0.8 + 1
    if draw:
        # The waits grow: 0.8 + 0.5 * (2^n * 0.8 - 0.8) reaches the middle of 30 s after six failures.
        assert len(watches) <= 9
    # What cannot be read at one place twice leads to a list; nothing else does.
    unreadable = any(fault is FAULTS[name] for name in ("200 html", "garbage", "array"))
    assert len(lab.of("GET")) <= (1 + len(watches) / 2 if unreadable else 1)

    # And the server recovers.
    lab.on("watch", then=watch(modified("a", 6, phase="Running"), end="silence"))
    lab.run(made.run())
    await lab.eventually(lambda: lab.seen[-1] == "~a/uid-a:Running")
    assert lab.seen == ["+a/uid-a", "~a/uid-a:Running"]


@pytest.mark.parametrize(
    "name", [name for name in FAULTS if "stream" not in name and "event" not in name and "bookmark" not in name]
)
@pytest.mark.parametrize("streamed", [False, True], ids=["in pages", "streamed"])
async def test_a_faulty_list_is_requested_at_most_once_in_800_ms_and_then_succeeds(
    lab: Lab, name: str, *, streamed: bool
) -> None:
    lab.on("stream", then=FAULTS[name])
    lab.on("GET", then=FAULTS[name])
    lab.on("watch", then=SILENT)
    made = lab.informer(streamed=streamed)
    await lab.run_for(60, made.run())
    assert 3 <= len(lab.requests) <= 60 / 0.8 + 1
    assert min(gaps(lab.requests)) >= 0.8 - 1e-6
    assert not made.has_synced
    lab.on("stream", then=refusal(422, "Invalid"))
    lab.on("GET", then=answer(200, listing(5, pod("a", 5))))
    lab.run(made.run())
    await asyncio.wait_for(made.synced.wait(), patience(5))


@pytest.mark.parametrize(
    "gone",
    [
        refusal(410, "Expired"),
        refusal(410, "Gone"),
        watch(error(410, "Expired")),
        watch(error(410, "Gone")),
        watch({"type": "ERROR", "object": {"kind": "Status", "reason": "Expired"}}),
        None,
    ],
    ids=["status expired", "status gone", "event expired", "event gone", "event without a code", "of streamed lists"],
)
async def test_a_410_leads_to_one_list_and_a_comparison_by_uid(lab: Lab, gone: Step | None) -> None:
    first = [added("kept", 1), added("changed", 2), added("vanished", 3), added("replaced", 4, uid="old")]
    second = [added("kept", 1), added("changed", 12, phase="Running"), added("replaced", 14, uid="new"), added("n", 15)]
    if gone is None:
        lab.on("stream", watch(*first, end_of_list(9), error(410, "Expired")))
        lab.on("stream", watch(*second, end_of_list(20), end="silence"))
    else:
        for version, events in ((9, first), (20, second)):
            lab.on("GET", answer(200, listing(version, *(event["object"] for event in events))))
        lab.on("watch", gone, then=SILENT)
    made = lab.follow()
    watched = [] if gone is None else ["9", "20"]
    await lab.eventually(lambda: made.lists == 2 and len(lab.of("watch")) == len(watched))
    assert sorted(lab.seen[:4]) == ["+changed/uid-changed", "+kept/uid-kept", "+replaced/old", "+vanished/uid-vanished"]
    replaced = ["+replaced/new", "-replaced/old"]
    assert sorted(lab.seen[4:]) == ["+n/uid-n", *replaced, "-vanished/uid-vanished", "~changed/uid-changed:Running"]
    assert lab.seen.index("-replaced/old") < lab.seen.index("+replaced/new")
    assert [request.query["resourceVersion"] for request in lab.of("watch")] == watched
    assert made.lists == 2
    assert len(lab.of("stream")) == (2 if gone is None else 1)
    assert min(lab.time.slept) >= 0.8


async def test_410_on_each_watch_costs_few_lists(lab: Lab) -> None:
    lab.on("GET", then=EMPTY)
    lab.on("watch", then=refusal(410, "Expired"))
    await lab.run_for(60, lab.informer(0.5).run())
    assert len(lab.of("GET")) <= 9


async def test_a_continue_token_that_expired_leads_to_one_list_without_pages(lab: Lab) -> None:
    lab.on(
        "GET",
        answer(200, listing(5, pod("a", 1), pod("stale", 2), token="t")),
        refusal(410, "Expired"),
        answer(200, listing(30, pod("a", 1), pod("b", 25))),
    )
    lab.on("watch", then=SILENT)
    made = lab.follow(page_size=2)
    await asyncio.wait_for(made.synced.wait(), patience(5))
    # What the first page showed was true then; what has gone since is found out by the list that is complete.
    assert lab.seen == ["+a/uid-a", "+stale/uid-stale", "+b/uid-b", "-stale/uid-stale"]
    assert [sorted(request.query) for request in lab.of("GET")] == [["limit"], ["continue", "limit"], []]
    assert len(lab.time.slept) == 1
    assert lab.time.slept[0] >= 0.8


_FROM_THE_FUTURE = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]


@pytest.mark.parametrize(
    "end",
    [refusal(504, "Timeout", causes=_FROM_THE_FUTURE), refusal(410, "Expired")],
    ids=["the version is unknown", "the version is compacted"],
)
async def test_a_list_whose_version_went_back_ends_the_informer(lab: Lab, end: Step) -> None:
    lab.on("GET", answer(200, listing(900, pod("a", 800))), answer(200, listing(100, pod("a", 90))))
    lab.on("watch", end)
    with pytest.raises(EtcdRestoredError, match=r"resourceVersions went back from 900 to 100"):
        await asyncio.wait_for(lab.informer().run(), patience(5))
    assert lab.seen == ["+a/uid-a"]


@pytest.mark.parametrize("end", ["clean", "fin", "reset"])
async def test_after_each_interruption_a_list_of_one_object_shows_that_versions_have_not_gone_back(
    lab: Lab, end: str
) -> None:
    # The real API server answers such a watch with silence until its versions have caught up.
    lab.on("GET", answer(200, listing(900, pod("a", 800))))
    lab.on("version", answer(200, listing(900)), answer(200, listing(901)), answer(200, listing(899)))
    lab.on("watch", then=watch(end=end))
    made = lab.informer()
    with pytest.raises(EtcdRestoredError, match=r"resourceVersions went back from 900 to 899"):
        await asyncio.wait_for(made.run(), patience(5))
    assert [request.query for request in lab.of("version")] == [{"limit": "1"}] * 3
    assert (made.lists, len(lab.of("watch"))) == (1, 3)


async def asked_in(
    seconds: float, *watches: Step, then: Step = SILENT, lists: Step = EMPTY, **settings: Any
) -> ScriptedServer:
    """A server after so many seconds of virtual time, in which it answered the watches of an informer so."""
    async with a_server() as server, a_client(server) as client:
        server.on("GET", then=lists)
        server.on("watch", *watches, then=then)
        made = Informer(client, PATH, DECODER, **({"on_change": Changes([]), "clock": server.clock} | settings))
        task = asyncio.ensure_future(made.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return server


@in_virtual_time
async def test_a_watch_that_a_busy_server_cuts_short_is_resumed_without_a_pause_or_a_question() -> None:
    # An API server ends the watches that it cannot serve quickly enough, several times a second in a burst of Pods.
    changes = Changes([])
    server = await asked_in(
        1.5, *(watch(added(f"pod-{version}", version)) for version in range(6, 26)), on_change=changes
    )
    assert len(changes.seen) == 20
    assert [request.query["resourceVersion"] for request in server.of("watch")] == [str(n) for n in range(5, 26)]
    assert gaps(server.of("watch")) == pytest.approx([0.05] * 20, abs=0.02)
    assert not server.of("version")


async def opened_in_a_minute(changes_each: int) -> list[float]:
    """The pauses between watches that a server ends as soon as they have shown so many changes, or one bookmark."""

    async def cut_short(connection: Connection) -> None:
        version = int(connection.request.query["resourceVersion"])
        shown = [added(f"pod-{number}", number) for number in range(version + 1, version + 1 + changes_each)]
        await watch(*(shown or [bookmark(version + 1)]))(connection)

    return gaps((await asked_in(60, then=cut_short, draw=lambda: 0.5)).of("watch"))


@in_virtual_time
async def test_a_watch_that_ends_after_each_bookmark_is_opened_again_ever_more_rarely() -> None:
    pauses = await opened_in_a_minute(0)
    assert min(pauses) >= 0.8
    assert len(pauses) < 20


@in_virtual_time
async def test_a_watch_that_ends_after_each_change_is_soon_opened_no_more_than_a_faulty_one() -> None:
    pauses = await opened_in_a_minute(1)
    assert pauses[:30] == pytest.approx([0.05] * 30, abs=0.02)
    assert pauses[29:36] == sorted(pauses[29:36])
    assert min(pauses[36:]) >= 0.8 - 0.02


@in_virtual_time
async def test_watches_that_a_long_burst_ends_are_resumed_without_a_pause_all_the_time() -> None:
    assert max(await opened_in_a_minute(10)) <= 0.07


@in_virtual_time
async def test_a_resumption_that_takes_longer_than_two_seconds_counts_as_an_interruption() -> None:
    # As it would if etcd were restored meanwhile.
    async with a_server() as server, a_client(server) as client:
        server.on("GET", EMPTY)
        server.on("version", answer(200, listing(4)))
        server.on("watch", watch(added("a", 6)), silence(), then=SILENT)
        made = Informer(client, PATH, DECODER, on_change=Changes([]), clock=server.clock)
        with pytest.raises(EtcdRestoredError, match=r"resourceVersions went back from 6 to 4"):
            await asyncio.wait_for(made.run(), 60)
    second, question = server.of("watch")[1], server.of("version")[0]
    assert 2 <= question.at - second.at <= 4


@in_virtual_time
async def test_resumptions_that_come_too_late_are_no_failures() -> None:
    # A busy API server may take seconds to open a watch, again and again; it has not failed.
    late = [step for version in range(6, 16) for step in (watch(added("a", version)), silence())]
    watches = (await asked_in(30, *late)).of("watch")
    assert watches[-1].query["resourceVersion"] == "15"
    assert max(gaps(watches)) < 2.5


async def test_a_long_pause_is_slept_through_at_once(lab: Lab) -> None:
    lab.on("GET", answer(503, b"", Retry_After="20"), EMPTY)
    lab.on("watch", then=SILENT)
    made = lab.follow()
    await asyncio.wait_for(made.synced.wait(), patience(5))
    assert lab.time.slept == [20]


async def test_a_bad_line_that_stays_at_its_place_is_passed_by_a_list(lab: Lab) -> None:
    lab.on("GET", EMPTY, answer(200, listing(9, pod("a", 8))))
    bad = watch(b'{"type":"ADDED","object":{"a":NaN}}')
    lab.on("watch", bad, bad, then=SILENT)
    lab.follow()
    await lab.eventually(lambda: lab.seen)
    assert [request.query["resourceVersion"] for request in lab.of("watch")][:2] == ["5", "5"]
    assert len(lab.of("GET")) == 2


@in_virtual_time
async def test_a_half_open_watch_is_opened_again_from_where_it_was_without_a_back_off() -> None:
    changes, silent = Changes([]), [watch(added("a", 6), end="silence")] * 4
    later = watch(added("b", 7), end="silence")
    seconds = 4.5 * INACTIVITY_TIMEOUT_SECONDS
    server = await asked_in(seconds, *silent, then=later, on_change=changes, draw=lambda: 1.0)
    assert changes.seen == ["+a/uid-a", "+b/uid-b"]
    assert {request.query["resourceVersion"] for request in server.of("watch")[1:5]} == {"6"}
    assert len(server.of("GET")) == 1
    # It lived longer than the floor between two watches, and its silence is no failure.
    assert gaps(server.of("watch")) == pytest.approx([INACTIVITY_TIMEOUT_SECONDS] * 4, abs=0.1)


async def test_a_stream_that_breaks_anywhere_loses_nothing(lab: Lab) -> None:
    history = [
        added("a", 11),
        modified("a", 12, phase="Running"),
        {"type": "DELETED", "object": pod("a", 13)},
        added("a", 14, uid="second"),
        added("b", 15),
        modified("b", 16, phase="Failed"),
    ]
    draw = random.Random(20)

    def resume(first: int) -> list[dict[str, object]]:
        return [event for event in history if int(event["object"]["metadata"]["resourceVersion"]) > first]

    async def broken(connection: object) -> None:
        left = resume(int(connection.request.query["resourceVersion"]))
        heard = draw.randrange(len(left) + 1) if len(lab.of("watch")) < 50 else len(left)
        end = draw.choice(["fin", "reset", "clean"])
        cut = draw.choice([b"", b'{"type":"MODIFIED","object":{"metadata":{"na'])
        finished = len(lab.of("watch")) >= 50
        step = watch(*left[:heard], end="silence" if finished else end, tail=b"" if finished else cut)
        await step(connection)

    lab.on("GET", then=answer(200, listing(10)))
    lab.on("watch", then=broken)
    made = lab.follow()
    await lab.eventually(lambda: made.resource_version == "16")
    assert lab.seen == ["+a/uid-a", "~a/uid-a:Running", "-a/uid-a", "+a/second", "+b/uid-b", "~b/uid-b:Failed"]
    assert len(lab.of("GET")) == 1


@in_virtual_time
async def test_a_list_or_watch_without_any_answer_is_given_up() -> None:
    # The pause after a first failure is between 0.8 and 1.6 s.
    (watched,) = gaps((await asked_in(20, silence())).of("watch"))
    assert 10.8 <= watched <= 12
    listed = gaps((await asked_in(100, lists=silence())).of("GET"))
    assert listed
    assert max(listed) <= 62


async def test_two_healthy_minutes_forget_the_failures_before(lab: Lab) -> None:
    async def two_minutes(connection: object) -> None:
        lab.time.now += 130
        await watch(bookmark(6), end="reset")(connection)

    lab.on("GET", EMPTY)
    lab.on("watch", *[refusal(500, "InternalError")] * 6, two_minutes, then=SILENT)
    lab.follow(1.0)
    await lab.eventually(lambda: len(lab.of("watch")) == 8)
    assert [round(pause, 1) for pause in lab.time.slept] == [1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 1.6]


@pytest.mark.parametrize("fault", ["empty stream", "503 html"])
async def test_in_real_time_too_a_faulty_server_sees_at_most_one_watch_in_800_ms(lab: Lab, fault: str) -> None:
    server = ScriptedServer(real_time.monotonic)
    await server.start()
    client = KubeClient(Endpoint(server.url))
    server.on("GET", then=EMPTY)
    server.on("watch", then=FAULTS[fault])
    lab.run(Informer(client, PATH, DECODER, on_change=lambda old, new: None, draw=lambda: 0.0).run())
    await lab.eventually(lambda: len(server.of("watch")) == 4)
    await client.close()
    await server.stop()
    assert min(gaps(server.of("watch"))) >= 0.8 - 1e-2
    assert len(server.of("GET")) == 1


async def test_a_pause_that_one_informer_met_holds_the_others(lab: Lab) -> None:
    lab.on("GET", then=TEXT_429)
    await lab.run_for(30, *(lab.informer().run() for _ in range(5)))
    # Each sleeper moves the fake clock, so seconds are counted, not compared with wall time.
    assert len(lab.requests) <= 5 + 30


async def test_a_401_after_token_rotation_is_not_seen_by_the_cache(lab: Lab, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    lab.client = KubeClient(Endpoint(lab.server.url, token_file=token), clock=lab.time.clock)

    async def guarded(connection: Connection) -> None:
        fresh = connection.request.headers["authorization"] == "Bearer two"
        await (watch(added("a", 6), end="silence") if fresh else refusal(401, "Unauthorized"))(connection)

    lab.on("GET", EMPTY)
    lab.on("watch", then=guarded)
    made = lab.informer()
    rotation = asyncio.ensure_future(made.synced.wait())
    rotation.add_done_callback(lambda _: token.write_text("two"))
    lab.run(made.run())
    await lab.eventually(lambda: lab.seen)
    assert lab.time.slept == []
    await lab.client.close()
