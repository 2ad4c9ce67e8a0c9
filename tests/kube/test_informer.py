"""A cache that follows a healthy server, and one whose objects do not always decode."""

import json

import pytest
from structlog.testing import capture_logs

from frameworkkube.http.client import PARTIAL_METADATA, PARTIAL_METADATA_LIST
from tests.kube.lab import Lab
from tests.kube.pods import Pod, added, bookmark, deleted, listing, modified, pod
from tests.kube.scripted import after, answer, watch


async def test_pages_are_followed_to_the_last_before_the_cache_is_ready(lab: Lab) -> None:
    ready_too_soon: list[bool] = []
    lab.on(
        "GET",
        answer(200, listing(7, pod("a", 1), token="two")),
        after(lambda: ready_too_soon.append(made.has_synced), answer(200, listing(7, pod("b", 2), token="three"))),
        answer(200, listing(7, pod("c", 3))),
    )
    lab.on("watch", then=watch(end="silence"))
    made = lab.informer(page_size=1, label_selector="framework", field_selector="metadata.name=a")
    assert not made.has_synced
    lab.run(made.run())
    await made.synced.wait()
    assert ready_too_soon == [False]
    assert lab.seen == ["+a/uid-a", "+b/uid-b", "+c/uid-c"]
    assert (len(made), made.resource_version, made.lists) == (3, "7", 1)
    selectors = {"labelSelector": "framework", "fieldSelector": "metadata.name=a"}
    assert [request.query for request in lab.of("GET")] == [
        selectors | {"limit": "1"},
        selectors | {"limit": "1", "continue": "two"},
        selectors | {"limit": "1", "continue": "three"},
    ]
    await lab.eventually(lambda: lab.of("watch"))
    assert lab.of("watch")[0].query == selectors | {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
    }


async def test_events_move_the_cache_and_the_version(lab: Lab) -> None:
    lab.on("GET", answer(200, listing(5, pod("a", 1))))
    stream = watch(
        added("b", 6), modified("a", 7, phase="Running"), deleted("b", 8), added("c", 9), bookmark(20), end="silence"
    )
    lab.on("watch", stream)
    made = lab.follow()
    await lab.eventually(lambda: made.resource_version == "20")
    assert lab.seen == ["+a/uid-a", "+b/uid-b", "~a/uid-a:Running", "-b/uid-b", "+c/uid-c"]
    assert made.get("default", "a").status.phase == "Running"
    assert made.get("default", "b") is None
    assert made.get("default", "c") is not None
    assert len(made) == 2


async def test_the_servers_timeout_is_random_between_five_and_ten_minutes(lab: Lab) -> None:
    lab.on("GET", answer(200, listing(5)))
    lab.on("watch", then=watch(end="silence"))
    lab.follow(draw=0.999)
    await lab.eventually(lambda: lab.of("watch"))
    assert lab.of("watch")[0].query["timeoutSeconds"] == "599"


async def test_a_watch_that_ended_in_order_is_resumed_from_the_last_version_at_once(lab: Lab) -> None:
    def five_minutes() -> None:
        lab.time.now += 300

    lab.on("GET", answer(200, listing(5)))
    lab.on("watch", after(five_minutes, watch(added("a", 6), bookmark(9))), then=watch(added("b", 10), end="silence"))
    lab.follow()
    await lab.eventually(lambda: len(lab.seen) == 2)
    assert [request.query["resourceVersion"] for request in lab.of("watch")] == ["5", "9"]
    assert len(lab.of("GET")) == 1
    assert not lab.time.slept


async def test_old_and_repeated_events_change_nothing(lab: Lab) -> None:
    lab.on("GET", answer(200, listing(5, pod("a", 5))))
    stream = watch(
        modified("a", 4, phase="Old"),
        added("a", 5),
        deleted("a", 6),
        modified("a", 5, phase="Ghost"),
        deleted("a", 6),
        added("a", 7, uid="second"),
        deleted("a", 6),
        bookmark(8),
        added("b", 7),
        end="silence",
    )
    lab.on("watch", stream)
    made = lab.follow()
    await lab.eventually(lambda: len(lab.seen) == 4)
    assert lab.seen == ["+a/uid-a", "-a/uid-a", "+a/second", "+b/uid-b"]
    assert made.resource_version == "8"


async def test_an_undecodable_object_does_not_fail_the_list_and_is_logged_once_by_name(lab: Lab) -> None:
    undecodable = pod("undecodable", 3)
    undecodable["status"] = {"phase": 7}
    lab.on("GET", answer(200, listing(5, pod("a", 1), undecodable, pod("b", 2))))
    again = {"type": "MODIFIED", "object": undecodable}
    lab.on("watch", watch(again, again, {"type": "ADDED", "object": 3}, added("c", 6), end="silence"))
    with capture_logs() as logs:
        lab.follow()
        await lab.eventually(lambda: "+c/uid-c" in lab.seen)
    assert lab.seen == ["+a/uid-a", "+b/uid-b", "+c/uid-c"]
    named = [entry for entry in logs if entry.get("name") == "undecodable"]
    assert len(named) == 1
    assert named[0]["namespace"] == "default"
    assert "$.status.phase" in named[0]["error"]


async def test_an_object_that_becomes_undecodable_stays_cached_until_it_is_deleted(lab: Lab) -> None:
    undecodable = pod("a", 6)
    undecodable["status"] = {"phase": 7}
    lab.on("GET", answer(200, listing(5, pod("a", 5))))
    lab.on("watch", watch({"type": "MODIFIED", "object": undecodable}, bookmark(8), end="silence"))
    made = lab.follow(inactivity_seconds=0.2)
    await lab.eventually(lambda: made.resource_version == "8")
    assert lab.seen == ["+a/uid-a"]
    lab.on("watch", watch({"type": "DELETED", "object": undecodable}, end="silence"))
    await lab.eventually(lambda: len(lab.seen) == 2)
    assert lab.seen == ["+a/uid-a", "-a/uid-a"]


async def test_unknown_events_empty_lines_and_byte_order_marks_are_passed_over(lab: Lab) -> None:
    lab.on("GET", answer(200, listing(5)))
    stream = watch(
        b"\xef\xbb\xbf" + json.dumps(added("a", 6)).encode(),
        b"",
        b"  \r",
        {"type": "SYNC", "object": {}},
        {"type": "SYNC", "object": {}},
        added("b", 7),
        end="silence",
    )
    lab.on("watch", stream)
    with capture_logs() as logs:
        lab.follow()
        await lab.eventually(lambda: len(lab.seen) == 2)
    assert lab.seen == ["+a/uid-a", "+b/uid-b"]
    assert [entry["type"] for entry in logs if "unknown type" in entry["event"]] == ["SYNC"]


async def test_a_handler_that_raises_is_counted_and_stops_nothing(lab: Lab) -> None:
    seen: list[str] = []

    def fragile(old: Pod | None, new: Pod | None) -> None:
        seen.append((new or old).metadata.name)
        if len(seen) == 1:
            raise RuntimeError("no")

    lab.on("GET", answer(200, listing(5, pod("a", 1), pod("b", 2))))
    lab.on("watch", watch(added("c", 6), end="silence"))
    with capture_logs() as logs:
        made = lab.follow(on_change=fragile)
        await lab.eventually(lambda: len(seen) == 3)
    assert made.failures == 1
    assert len(made) == 3
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["handler failed"]


async def test_metadata_only_is_requested_of_lists_and_watches_by_their_own_media_types(lab: Lab) -> None:
    lab.on("GET", answer(200, listing(5)))
    lab.on("watch", then=watch(end="silence"))
    lab.follow(accept=PARTIAL_METADATA)
    await lab.eventually(lambda: lab.of("watch"))
    assert lab.of("GET")[0].headers["accept"] == PARTIAL_METADATA_LIST
    assert lab.of("watch")[0].headers["accept"] == PARTIAL_METADATA


async def test_last_activity_is_when_the_server_last_sent_anything(lab: Lab) -> None:
    lab.on("GET", answer(200, listing(5)))

    def later() -> None:
        lab.time.now += 40

    # A watch that opens without any event counts too.
    lab.on("watch", after(later, watch(end="silence")))
    made = lab.follow()
    await lab.eventually(lambda: made.last_activity > 1000)
    assert made.last_activity == lab.time.now == 1040


def test_silence_is_noticed_within_70_seconds_by_default() -> None:
    from frameworkkube.http.client import INACTIVITY_TIMEOUT_SECONDS

    assert pytest.approx(70) == INACTIVITY_TIMEOUT_SECONDS
