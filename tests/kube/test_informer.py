"""A cache that follows a healthy server, and one whose objects do not always decode."""

from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from frameworkkube.http.client import PARTIAL_METADATA, PARTIAL_METADATA_LIST
from frameworkkube.informer.informer import Informer
from tests.kube.faketime import FakeTime
from tests.kube.pods import Changes, Pod, added, bookmark, deleted, listing, modified, pod
from tests.kube.scripted import ScriptedServer, after, answer, watch

Make = Callable[..., Informer[Pod]]
Run = Callable[[Awaitable[object]], object]
Eventually = Callable[[Callable[[], object]], Awaitable[None]]


async def test_pages_are_followed_to_the_last_before_the_cache_is_ready(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    ready_too_soon: list[bool] = []
    server.on(
        "GET",
        answer(200, listing(7, pod("a", 1), token="two")),
        after(lambda: ready_too_soon.append(made.has_synced), answer(200, listing(7, pod("b", 2), token="three"))),
        answer(200, listing(7, pod("c", 3))),
    )
    server.on("watch", then=watch(end="silence"))
    made = informer(page_size=1, label_selector="framework", field_selector="metadata.name=a")
    assert not made.has_synced
    run(made.run())
    await made.synced.wait()
    assert ready_too_soon == [False]
    assert changes.seen == ["+a/uid-a", "+b/uid-b", "+c/uid-c"]
    assert (len(made), made.resource_version, made.lists) == (3, "7", 1)
    selectors = {"labelSelector": "framework", "fieldSelector": "metadata.name=a"}
    assert [request.query for request in server.of("GET")] == [
        selectors | {"limit": "1"},
        selectors | {"limit": "1", "continue": "two"},
        selectors | {"limit": "1", "continue": "three"},
    ]
    await eventually(lambda: server.of("watch"))
    assert server.of("watch")[0].query == selectors | {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
    }


async def test_events_move_the_cache_and_the_version(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    server.on("GET", answer(200, listing(5, pod("a", 1))))
    stream = watch(
        added("b", 6), modified("a", 7, phase="Running"), deleted("b", 8), added("c", 9), bookmark(20), end="silence"
    )
    server.on("watch", stream)
    made = informer()
    run(made.run())
    await eventually(lambda: made.resource_version == "20")
    assert changes.seen == ["+a/uid-a", "+b/uid-b", "~a/uid-a:Running", "-b/uid-b", "+c/uid-c"]
    assert made.get("default", "a").status.phase == "Running"
    assert made.get("default", "b") is None
    assert made.get("default", "c") is not None
    assert len(made) == 2


async def test_the_servers_timeout_is_random_between_five_and_ten_minutes(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually
) -> None:
    server.on("GET", answer(200, listing(5)))
    server.on("watch", then=watch(end="silence"))
    run(informer(draw=0.999).run())
    await eventually(lambda: server.of("watch"))
    assert server.of("watch")[0].query["timeoutSeconds"] == "599"


async def test_a_watch_that_ended_in_order_is_resumed_from_the_last_version_at_once(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, time: FakeTime, changes: Changes
) -> None:
    def five_minutes() -> None:
        time.now += 300

    server.on("GET", answer(200, listing(5)))
    server.on(
        "watch", after(five_minutes, watch(added("a", 6), bookmark(9))), then=watch(added("b", 10), end="silence")
    )
    run(informer().run())
    await eventually(lambda: len(changes.seen) == 2)
    assert [request.query["resourceVersion"] for request in server.of("watch")] == ["5", "9"]
    assert len(server.of("GET")) == 1
    assert not time.slept


async def test_old_and_repeated_events_change_nothing(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    server.on("GET", answer(200, listing(5, pod("a", 5))))
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
    server.on("watch", stream)
    made = informer()
    run(made.run())
    await eventually(lambda: len(changes.seen) == 4)
    assert changes.seen == ["+a/uid-a", "-a/uid-a", "+a/second", "+b/uid-b"]
    assert made.resource_version == "8"


async def test_a_new_instance_under_the_same_name_is_an_end_and_a_beginning(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    server.on("GET", answer(200, listing(5, pod("a", 5, uid="one"))))
    server.on("watch", watch(modified("a", 7, uid="two"), end="silence"))
    run(informer().run())
    await eventually(lambda: len(changes.seen) == 3)
    assert changes.seen == ["+a/one", "-a/one", "+a/two"]


async def test_an_undecodable_object_does_not_fail_the_list_and_is_logged_once_by_name(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    undecodable = pod("undecodable", 3)
    undecodable["status"] = {"phase": 7}
    server.on("GET", answer(200, listing(5, pod("a", 1), undecodable, pod("b", 2))))
    again = {"type": "MODIFIED", "object": undecodable}
    server.on("watch", watch(again, again, {"type": "ADDED", "object": 3}, added("c", 6), end="silence"))
    with capture_logs() as logs:
        run(informer().run())
        await eventually(lambda: "+c/uid-c" in changes.seen)
    assert changes.seen == ["+a/uid-a", "+b/uid-b", "+c/uid-c"]
    named = [entry for entry in logs if entry.get("name") == "undecodable"]
    assert len(named) == 1
    assert named[0]["namespace"] == "default"
    assert "$.status.phase" in named[0]["error"]


async def test_an_object_that_becomes_undecodable_stays_cached_until_it_is_deleted(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    undecodable = pod("a", 6)
    undecodable["status"] = {"phase": 7}
    server.on("GET", answer(200, listing(5, pod("a", 5))))
    server.on("watch", watch({"type": "MODIFIED", "object": undecodable}, bookmark(8), end="silence"))
    made = informer(inactivity_seconds=0.2)
    run(made.run())
    await eventually(lambda: made.resource_version == "8")
    assert changes.seen == ["+a/uid-a"]
    server.on("watch", watch({"type": "DELETED", "object": undecodable}, end="silence"))
    await eventually(lambda: len(changes.seen) == 2)
    assert changes.seen == ["+a/uid-a", "-a/uid-a"]


async def test_unknown_events_empty_lines_and_byte_order_marks_are_passed_over(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    import json

    server.on("GET", answer(200, listing(5)))
    stream = watch(
        b"\xef\xbb\xbf" + json.dumps(added("a", 6)).encode(),
        b"",
        b"  \r",
        {"type": "SYNC", "object": {}},
        {"type": "SYNC", "object": {}},
        added("b", 7),
        end="silence",
    )
    server.on("watch", stream)
    with capture_logs() as logs:
        run(informer().run())
        await eventually(lambda: len(changes.seen) == 2)
    assert changes.seen == ["+a/uid-a", "+b/uid-b"]
    assert [entry["type"] for entry in logs if "unknown type" in entry["event"]] == ["SYNC"]


async def test_a_handler_that_raises_is_counted_and_stops_nothing(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually
) -> None:
    seen: list[str] = []

    def fragile(old: Pod | None, new: Pod | None) -> None:
        seen.append((new or old).metadata.name)
        if len(seen) == 1:
            raise RuntimeError("no")

    server.on("GET", answer(200, listing(5, pod("a", 1), pod("b", 2))))
    server.on("watch", watch(added("c", 6), end="silence"))
    made = informer(on_change=fragile)
    with capture_logs() as logs:
        run(made.run())
        await eventually(lambda: len(seen) == 3)
    assert made.failures == 1
    assert len(made) == 3
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["handler failed"]


async def test_metadata_only_is_requested_of_lists_and_watches_by_their_own_media_types(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually
) -> None:
    server.on("GET", answer(200, listing(5)))
    server.on("watch", then=watch(end="silence"))
    run(informer(accept=PARTIAL_METADATA).run())
    await eventually(lambda: server.of("watch"))
    assert server.of("GET")[0].headers["accept"] == PARTIAL_METADATA_LIST
    assert server.of("watch")[0].headers["accept"] == PARTIAL_METADATA


async def test_a_line_of_five_mebibytes_is_one_event(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, changes: Changes
) -> None:
    large = pod("large", 6)
    large["metadata"]["annotations"] = {"a": "x" * (5 << 20)}
    server.on("GET", answer(200, listing(5)))
    server.on("watch", watch({"type": "ADDED", "object": large}, added("b", 7), end="silence"))
    run(informer().run())
    await eventually(lambda: len(changes.seen) == 2)


async def test_last_activity_is_when_the_server_last_sent_anything(
    server: ScriptedServer, informer: Make, run: Run, eventually: Eventually, time: FakeTime
) -> None:
    server.on("GET", answer(200, listing(5)))

    def later() -> None:
        time.now += 40

    # A watch that opens without any event counts too.
    server.on("watch", after(later, watch(end="silence")))
    made = informer()
    run(made.run())
    await eventually(lambda: made.last_activity > 1000)
    assert made.last_activity == time.now == 1040


def test_silence_is_noticed_within_70_seconds_by_default() -> None:
    from frameworkkube.http.client import INACTIVITY_TIMEOUT_SECONDS

    assert pytest.approx(70) == INACTIVITY_TIMEOUT_SECONDS
