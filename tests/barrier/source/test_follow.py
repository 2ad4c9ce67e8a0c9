"""The client against faulty servers: it notices, waits, recovers, and never floods them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme

from frameworkbarrier import settings
from frameworkbarrier.errors import StillForbiddenError
from frameworkbarrier.gate.gate import Fault, Observation
from frameworkbarrier.source import follow
from frameworkbarrier.source.access import Access, Token
from frameworkbarrier.source.api import Api, UnavailableError
from frameworkbarrier.source.follow import Follower
from frameworkbarrier.source.views import RosterView
from tests.barrier.gangs import configmap, environment, roster
from tests.barrier.source.faulty_server import FaultyServer, Reply, Request, Script, Serve, answers, in_turn, status
from tests.support.waiting import becomes


def thing(n: int) -> dict[str, Any]:
    """The ConfigMap whose roster has generation `n`, in version `n`."""
    return configmap(roster({"worker": 1}, generation=n), n)


Item = Observation | Fault | None


def followed(server: FaultyServer, access: Access | None = None, **options: Any) -> Iterator[Item]:
    """What a follower of the roster yields. It pauses as the options say, otherwise not at all."""
    view = RosterView(settings.parse(environment(FB_ROSTER=options.pop("to_come", ""))))
    given: dict[str, Any] = {"poll_sec": 10.0, "sleep": lambda _: None} | options
    return iter(Follower(Api(access or Access(server.url)), view, **given))


def run(server: FaultyServer, until: int | None, items: list[Item] | None = None, **options: Any) -> list[Item]:
    """What a follower yields until it has seen a generation; `items` has it at any time."""
    items = [] if items is None else items
    for item in followed(server, **options):
        items.append(item)
        if seen([item]) == [until]:
            break
    return items


class Hours:
    """A clock that only a sleep moves, so that a minute of a faulty server is short, and the same on any machine."""

    def __init__(self) -> None:
        self.now = 0.0
        self.options: dict[str, Any] = {"sleep": self._sleep, "clock": lambda: self.now}
        """What makes a follower use it."""

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < 3600, "it waits for ever"


def seen(items: list[Item]) -> list[int]:
    """The generations that were seen."""
    return [item.gang.generation for item in items if isinstance(item, Observation)]


def faults(items: list[Item]) -> list[str]:
    return [item.text for item in items if isinstance(item, Fault)]


def resets(items: list[Item], after: bytes = b"") -> Callable[[Reply], None]:
    """Reset a watch once generation 2 has been seen, because the kernel then drops what was not read yet."""

    def then(reply: Reply) -> None:
        if after:
            reply.chunk(after)
        becomes(lambda: 2 in seen(items), wanted=True)
        reply.reset()

    return then


def requests(server: FaultyServer) -> list[str]:
    """What it was asked for: `get`, or `watch` and from which version."""
    return [f"watch {each.query['resourceVersion']}" if each.watches else "get" for each in server.requests]


def get(n: int) -> Script:
    return answers(thing(n))


def watch(*numbers: int, then: Callable[[Reply], None] = Reply.hang) -> Script:
    return answers(404, *(("MODIFIED", thing(n)) for n in numbers), then=then)


def event(kind: str, body: object) -> Script:
    """A watch that ends with one event."""
    return answers(404, (kind, body), then=Reply.end)


def byte_by_byte(reply: Reply) -> None:
    for byte in json.dumps({"type": "MODIFIED", "object": thing(2)}).encode() + b"\n":
        reply.chunk(bytes([byte]))
    reply.hang()


@dataclass(frozen=True)
class Flow:
    """What a server answers one by one, what it is asked for, which values are seen, and which faults."""

    steps: list[Script]
    asked: list[str]
    values: list[int]
    faults: list[str] = field(default_factory=list)


FORBIDDEN = status(403, "configmaps is forbidden")
NOT_YET = "may not read ConfigMap lab/mnist-attempt yet (HTTP 403: configmaps is forbidden)"
NO_MORE = "may not read ConfigMap lab/mnist-attempt any more (HTTP 403: configmaps is forbidden)"
POLLS = "may read but not watch ConfigMap lab/mnist-attempt: looking every 10 s instead"
UNUSABLE = "the API server's answer for ConfigMap lab/mnist-attempt cannot be used:"
NO_METADATA = f"{UNUSABLE} metadata: [] is not an object"
NO_NAMESPACE = f"{UNUSABLE} metadata.namespace: is None, not 'lab'"
BOOKMARK = event("BOOKMARK", {"metadata": {"resourceVersion": "40"}})
EXPIRED = event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
READ_AGAIN = ["get", "watch 1", "get", "watch 5"]
FLOWS = {
    "a quiet server is asked twice": Flow([get(1), watch(2, 3)], ["get", "watch 1"], [1, 2, 3]),
    "a watch that ends is resumed from the last version without reading again": Flow(
        [get(1), watch(2, then=Reply.end), watch(3)], ["get", "watch 1", "watch 2"], [1, 2, 3]
    ),
    "a bookmark moves the version and is not a change": Flow(
        [get(1), BOOKMARK, watch(41)], ["get", "watch 1", "watch 40"], [1, 41]
    ),
    "an event split over many chunks is one event": Flow(
        [get(1), watch(then=byte_by_byte)], ["get", "watch 1"], [1, 2]
    ),
    "the answer 410 reads again and watches from there": Flow(
        [get(1), status(410, "too old"), get(5), watch(6)], READ_AGAIN, [1, 5, 6]
    ),
    "an event 410 reads again and watches from there": Flow([get(1), EXPIRED, get(5), watch(6)], READ_AGAIN, [1, 5, 6]),
    "403 is waited out while the Role is being made": Flow(
        [FORBIDDEN, FORBIDDEN, get(1), watch(2)], ["get", "get", "get", "watch 1"], [1, 2], [NOT_YET, NOT_YET]
    ),
    "an answer of a wrong shape counts for nothing": Flow(
        [answers({"metadata": []}), get(1)], ["get", "get"], [1], [NO_METADATA]
    ),
    "an event of a wrong shape counts for nothing, and all is read again": Flow(
        [get(1), event("MODIFIED", {}), get(2)], ["get", "watch 1", "get"], [1, 2], [NO_NAMESPACE]
    ),
    "a permission that was revoked is waited for": Flow(
        [get(1), *[FORBIDDEN] * 4, get(2)], ["get", "watch 1", *["get"] * 4], [1, 2], [POLLS, *[NO_MORE] * 3]
    ),
}
JUNK = {
    "html": b"<html>sorry</html>\n",
    "a string": b'"text"\n',
    "no object": b'{"type": 5}\n',
    "a list": b'{"type":"MODIFIED","object":[]}\n',
    "deep nesting": b"[" * 5000 + b"\n",
}


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_what_a_server_answers_decides_what_is_seen_and_asked_next(serve: Serve, flow: Flow) -> None:
    server = serve(in_turn(*flow.steps))
    items = run(server, until=flow.values[-1])
    assert (requests(server), seen(items), faults(items)) == (flow.asked, flow.values, flow.faults)


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
def test_junk_in_a_stream_is_a_fault_and_not_an_event(serve: Serve, junk: bytes) -> None:
    items = run(serve(in_turn(get(1), watch(then=lambda reply: reply.chunk(junk)), watch(2))), until=2)
    assert seen(items) == [1, 2]
    assert faults(items) == ["the watch sent something that is not an event"]


def test_a_watch_is_of_one_object_and_lives_shorter_than_the_silence_that_would_end_it(serve: Serve) -> None:
    server = serve(in_turn(get(1), watch(2)))
    run(server, until=2)
    query = server.requests[1].query
    assert (query["fieldSelector"], query["allowWatchBookmarks"]) == ("metadata.name=mnist-attempt", "true")
    assert int(query["timeoutSeconds"]) < follow.SILENCE_SEC < 60


def test_a_half_open_connection_is_noticed_and_the_watch_resumed(serve: Serve) -> None:
    items = run(serve(in_turn(get(1), watch(), watch(2))), until=2, silence_sec=0.5)
    # Where the answer took longer than half a second, it says so again.
    assert set(faults(items)) == {"the watch is silent"}
    assert seen(items)[-1] == 2


@pytest.mark.parametrize(
    "after",
    [b"", b'{"type":"MODIFIED","object":{"n":', b"\n\n"],
    ids=["reset", "cut off inside an event", "blank lines"],
)
def test_a_broken_stream_loses_nothing_that_was_whole(serve: Serve, after: bytes) -> None:
    items: list[Item] = []
    server = serve(in_turn(get(1), watch(2, then=resets(items, after)), watch(3)))
    assert seen(run(server, until=3, items=items)) == [1, 2, 3]
    assert requests(server)[-1] == "watch 2"


def test_pauses_grow_to_30_seconds_and_are_spread() -> None:
    failure = UnavailableError("HTTP 503")
    firsts = [follow.pause_after(failure, 1) for _ in range(200)]
    assert max(firsts) <= 0.8
    assert max(firsts) - min(firsts) > 0.3
    later = [follow.pause_after(failure, 21 + number) for number in range(200)]
    assert 25 < max(later) <= 30
    assert min(later) < 10


def test_the_server_sets_the_pause_and_a_second_at_most_is_added(serve: Serve) -> None:
    asked = [follow.pause_after(UnavailableError("HTTP 429", 7.0), 20) for _ in range(50)]
    assert 7 <= min(asked) < max(asked) <= 8
    assert max(follow.pause_after(UnavailableError("HTTP 429", 0.0), 1) for _ in range(50)) > 0
    slept: list[float] = []
    items = run(serve(in_turn(status(429, "slow down", Retry_After="2"), get(1))), until=1, sleep=slept.append)
    assert 2 <= slept[0] <= 3
    assert faults(items) == ["the API server answers HTTP 429: slow down"]


def test_after_a_success_the_pauses_begin_again(serve: Serve) -> None:
    """Nine failures, an event, a failure: the last pause is that of a first failure."""
    slept: list[float] = []
    items: list[Item] = []
    fail, event_and_reset = status(503), watch(2, then=resets(items))
    nine = [*[fail] * 5, *[get(1), fail] * 2, fail, fail]  # every third one reads again
    server = serve(in_turn(get(1), *nine, get(1), event_and_reset, watch(3)))
    assert seen(run(server, until=3, items=items, sleep=slept.append))[-1] == 3
    assert len(slept) > 8
    assert slept[-1] <= 0.8


def test_still_403_after_30_seconds_names_the_role_to_create(serve: Serve) -> None:
    message = 'configmaps "mnist-attempt" is forbidden: User "system:serviceaccount:lab:default" cannot get resource'
    hours = Hours()
    with pytest.raises(StillForbiddenError) as caught:
        run(serve(status(403, message)), until=None, **hours.options)
    assert 30 <= hours.now < 36
    assert "resourceNames: [mnist-attempt], verbs: [get, watch]" in str(caught.value)
    assert "bind it to system:serviceaccount:lab:default" in str(caught.value)


def test_what_is_to_come_may_be_forbidden_for_as_long_as_the_barrier_waits(serve: Serve) -> None:
    hours = Hours()

    def script(request: Request, reply: Reply) -> None:
        (FORBIDDEN if hours.now < 300 else get(1))(request, reply)

    items = run(serve(script), until=1, to_come="mnist-attempt", **hours.options)
    assert 300 <= hours.now < 306
    assert set(faults(items)) == {NOT_YET}


def test_where_only_the_watch_is_forbidden_it_polls_and_tries_to_watch_again_after_a_minute(serve: Serve) -> None:
    hours, numbers = Hours(), iter(range(1, 100))

    def script(request: Request, reply: Reply) -> None:
        if not request.watches:
            get(next(numbers))(request, reply)
        elif hours.now < 30:
            FORBIDDEN(request, reply)
        else:
            watch(100)(request, reply)

    server = serve(script)
    items = run(server, until=100, **hours.options)
    assert (seen(items), hours.now) == ([1, 2, 3, 4, 5, 6, 100], 60)
    assert requests(server) == ["get", "watch 1", *["get"] * 5, "watch 6"]
    assert faults(items) == [POLLS]


def test_a_rotated_token_is_read_again(serve_tls: Serve, token_dir: Path) -> None:
    def script(request: Request, reply: Reply) -> None:
        if request.headers["authorization"] != "Bearer second":
            (token_dir / "token").write_text("second\n")
            reply.status(401, "Unauthorized")
        else:
            (watch(2) if request.watches else get(1))(request, reply)

    server = serve_tls(script)
    access = Access(server.url, Token(str(token_dir / "token")), str(token_dir / "ca.crt"))
    items = run(server, until=2, access=access)
    assert seen(items) == [1, 2]
    assert server.requests[0].headers["authorization"] == "Bearer first"
    assert len(faults(items)) == 1


def test_a_token_file_that_is_empty_for_a_moment_keeps_the_last_token(token_dir: Path) -> None:
    token = Token(str(token_dir / "token"))
    assert token.read() == "first"
    (token_dir / "token").write_text("")
    assert token.read() == "first"
    (token_dir / "token").unlink()
    assert token.read() == "first"


def test_a_server_that_cannot_be_reached_or_trusted_is_a_fault(serve_tls: Serve, tmp_path: Path) -> None:
    other = tmp_path / "other.crt"
    trustme.CA().cert_pem.write_to_path(str(other))
    server = serve_tls(get(1))
    for why in ("certificate verify failed", "refused"):
        hours = Hours()
        items = followed(server, access=Access(server.url, None, str(other)), **hours.options)
        found = [next(items)]
        while hours.now < 60:
            found.append(next(items))
        assert why in faults(found)[0]
        assert 3 < len(found) < 60
        server.close()
    assert server.requests == []
