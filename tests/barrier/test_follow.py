"""The client against faulty servers: it notices, waits, recovers, and never floods them."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trustme
from tenacity import RetryCallState, Retrying

from frameworkbarrier.errors import StillForbiddenError
from frameworkbarrier.gate.gate import Fault
from frameworkbarrier.source import api as kube
from frameworkbarrier.source import follow
from frameworkbarrier.source.access import Access, Token
from frameworkbarrier.source.follow import Follower
from testkit.waiting import eventually
from tests.barrier.faulty_server import FaultyServer, Reply, Request, Script

Serve = Callable[[Script], FaultyServer]


class Counter:
    """A view of one object whose value is the field `n`; -1 when it is absent.

    Attributes:
        taken: The values that have been read.
    """

    read_path = "/api/v1/namespaces/lab/configmaps/x"
    read_params: ClassVar[dict[str, str]] = {}
    watch_path = "/api/v1/namespaces/lab/configmaps"
    watch_params: ClassVar[dict[str, str]] = {"fieldSelector": "metadata.name=x"}
    what = "ConfigMap lab/x"
    rule = "{resources: [configmaps], resourceNames: [x], verbs: [get, watch]}"
    is_to_come = False

    def __init__(self) -> None:
        self.taken: list[int] = []

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> int:
        self.taken.append(int(document["n"]))
        return self.taken[-1]

    def has_taken(self, value: int) -> None:
        """Wait until a value has been read: a reset makes the kernel drop what was not read yet."""

        def check() -> None:
            assert value in self.taken

        eventually(check)

    def absent(self) -> int:
        return -1

    def changed(self, kind: str, document: dict[str, Any]) -> int:
        return -1 if kind == "DELETED" else self.loaded(document)


def thing(n: int) -> dict[str, Any]:
    return {"kind": "ConfigMap", "metadata": {"name": "x", "resourceVersion": str(n)}, "n": n}


def run(
    server: FaultyServer,
    *,
    until: int | None = None,
    seconds: float = 100.0,
    access: Access | None = None,
    view: Counter | None = None,
    **options: Any,
) -> list[int | Fault]:
    """What a follower yields until it has seen the value `until`, or for some seconds."""
    items: list[int | Fault] = []
    api = kube.Api(access or Access(server.url))
    started = time.monotonic()
    follower: Iterator[int | Fault] = iter(Follower(api, view or Counter(), **({"poll_sec": 0.2} | options)))
    for item in follower:
        items.append(item)
        if item == until or time.monotonic() - started > seconds:
            break
    return items


class Hours:
    """A clock that only a sleep moves, so that a minute of a faulty server is short, and the same on any machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < 3600, "it waits for ever"

    def clock(self) -> float:
        return self.now


def seen(items: list[int | Fault]) -> list[int]:
    return [item for item in items if isinstance(item, int)]


def faults(items: list[int | Fault]) -> list[str]:
    return [item.text for item in items if isinstance(item, Fault)]


def scripted(*steps: Callable[[Request, Reply], None]) -> Script:
    """Step i answers request i; the last one answers all further ones."""
    count = iter(range(10_000))

    def script(request: Request, reply: Reply) -> None:
        steps[min(next(count), len(steps) - 1)](request, reply)

    return script


def get(n: int) -> Script:
    def step(request: Request, reply: Reply) -> None:
        assert not request.watches
        reply.answer(200, thing(n))

    return step


def watch(*numbers: int, then: Callable[[Reply], None] = Reply.hang) -> Script:
    def step(request: Request, reply: Reply) -> None:
        assert request.watches
        reply.stream()
        for n in numbers:
            reply.event("MODIFIED", thing(n))
        then(reply)

    return step


def test_a_quiet_server_is_asked_twice(serve: Serve) -> None:
    server = serve(scripted(get(1), watch(2, 3)))
    assert seen(run(server, until=3)) == [1, 2, 3]
    assert len(server.requests) == 2
    assert server.requests[1].query["resourceVersion"] == "1"


def test_a_watch_that_ends_is_resumed_from_the_last_version_without_reading_again(serve: Serve) -> None:
    server = serve(scripted(get(1), watch(2, then=Reply.end), watch(3)))
    assert seen(run(server, until=3)) == [1, 2, 3]
    assert [request.watches for request in server.requests] == [False, True, True]
    assert server.requests[2].query["resourceVersion"] == "2"


def test_a_bookmark_moves_the_version_and_is_not_a_change(serve: Serve) -> None:
    def bookmark(request: Request, reply: Reply) -> None:
        reply.stream()
        reply.event("BOOKMARK", {"metadata": {"resourceVersion": "40"}})
        reply.end()

    server = serve(scripted(get(1), bookmark, watch(41)))
    assert seen(run(server, until=41)) == [1, 41]
    assert server.requests[2].query["resourceVersion"] == "40"


def test_a_watch_lives_shorter_than_the_silence_that_would_end_it(serve: Serve) -> None:
    server = serve(scripted(get(1), watch(2)))
    run(server, until=2)
    assert int(server.requests[1].query["timeoutSeconds"]) < follow.SILENCE_SEC < 60


def test_a_half_open_connection_is_noticed_and_the_watch_resumed(serve: Serve) -> None:
    server = serve(scripted(get(1), watch(), watch(2)))
    items = run(server, until=2, silence_sec=0.5)
    # Where the answer took longer than half a second, it says so again.
    assert set(faults(items)) == {"the watch is silent"}
    assert seen(items)[-1] == 2


@pytest.mark.parametrize(
    "step",
    [
        watch(2, then=lambda reply: None),
        watch(2, then=lambda reply: reply.chunk(b'{"type":"MODIFIED","object":{"n":')),
        watch(2, then=lambda reply: reply.chunk(b"\n\n")),
    ],
    ids=["reset", "cut off inside an event", "blank lines"],
)
def test_a_broken_stream_loses_nothing_that_was_whole(serve: Serve, step: Script) -> None:
    view = Counter()

    def broken(request: Request, reply: Reply) -> None:
        step(request, reply)
        view.has_taken(2)
        reply.reset()

    server = serve(scripted(get(1), broken, watch(3)))
    assert seen(run(server, until=3, view=view)) == [1, 2, 3]
    assert server.requests[-1].query["resourceVersion"] == "2"


@pytest.mark.parametrize(
    "junk",
    [b"<html>sorry</html>\n", b'"text"\n', b'{"type": 5}\n', b'{"type":"MODIFIED","object":[]}\n', b"[" * 5000 + b"\n"],
    ids=["html", "a string", "no object", "a list", "deep nesting"],
)
def test_junk_in_a_stream_is_a_fault_and_not_an_event(serve: Serve, junk: bytes) -> None:
    server = serve(scripted(get(1), watch(then=lambda reply: reply.chunk(junk)), watch(2)))
    items = run(server, until=2)
    assert seen(items) == [1, 2]
    assert faults(items) == ["the watch sent something that is not an event"]


def test_an_event_split_over_many_chunks_is_one_event(serve: Serve) -> None:
    def dribble(request: Request, reply: Reply) -> None:
        reply.stream()
        for byte in b'{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"2"},"n":2}}\n':
            reply.chunk(bytes([byte]))
        reply.hang()

    assert seen(run(serve(scripted(get(1), dribble)), until=2)) == [1, 2]


@pytest.mark.parametrize("way", ["status", "event"])
def test_410_reads_again_and_watches_from_there(serve: Serve, way: str) -> None:
    def expired(request: Request, reply: Reply) -> None:
        if way == "status":
            reply.status(410, "too old resource version")
        else:
            reply.stream()
            reply.event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})

    server = serve(scripted(get(1), expired, get(5), watch(6)))
    items = run(server, until=6)
    assert seen(items) == [1, 5, 6]
    assert faults(items) == []


def test_retry_after_is_honoured(serve: Serve) -> None:
    server = serve(scripted(lambda request, reply: reply.status(429, "slow down", Retry_After="2"), get(1)))
    items = run(server, until=1)
    assert server.pauses[0] >= 2
    assert faults(items) == ["the API server answers HTTP 429: slow down"]


def test_a_refused_connection_is_reported_and_tried_again(serve: Serve) -> None:
    server = serve(get(1))
    server.close()
    hours = Hours()
    items = iter(Follower(kube.Api(Access(server.url)), Counter(), poll_sec=10, sleep=hours.sleep, clock=hours.clock))
    found = [next(items)]
    while hours.now < 60:
        found.append(next(items))
    assert "refused" in faults(found)[0]
    assert 3 < len(found) < 60


def pause(number: int, failure: Exception) -> float:
    """What the wait strategy says after a number of failures in a row."""
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = number
    state.set_exception((type(failure), failure, None))
    return follow.pause_after(state)


def test_pauses_grow_to_30_seconds_and_are_spread() -> None:
    failure = kube.UnavailableError("HTTP 503")
    firsts = [pause(1, failure) for _ in range(200)]
    assert max(firsts) <= 0.8
    assert max(firsts) - min(firsts) > 0.3
    later = [pause(21 + number, failure) for number in range(200)]
    assert 25 < max(later) <= 30
    assert min(later) < 10


def test_the_server_sets_the_pause_and_a_second_at_most_is_added() -> None:
    asked = [pause(20, kube.UnavailableError("HTTP 429", 7.0)) for _ in range(50)]
    assert 7 <= min(asked) < max(asked) <= 8
    assert max(pause(1, kube.UnavailableError("HTTP 429", 0.0)) for _ in range(50)) > 0


def test_after_a_success_the_pauses_begin_again(serve: Serve) -> None:
    """Ten failures, an event, a failure: the last pause is that of a first failure."""
    slept: list[float] = []
    fail = lambda request, reply: reply.status(503, "no")  # noqa: E731 -- as short as its use -- a step of a script
    view = Counter()
    event_and_reset = watch(2, then=lambda reply: (view.has_taken(2), reply.reset()))
    server = serve(scripted(get(1), *[fail] * 5, *[get(1), fail] * 3, get(1), event_and_reset, watch(3)))
    assert seen(run(server, until=3, view=view, sleep=slept.append))[-1] == 3
    assert len(slept) > 8
    assert slept[-1] <= 0.8


def test_403_is_waited_out_while_the_role_is_being_made(serve: Serve) -> None:
    refuse = lambda request, reply: reply.status(403, "configmaps is forbidden")  # noqa: E731 -- as short as its use
    server = serve(scripted(refuse, refuse, get(1), watch(2)))
    items = run(server, until=2)
    assert seen(items) == [1, 2]
    assert len(faults(items)) == 2


def test_still_403_after_30_seconds_names_the_role_to_create(serve: Serve) -> None:
    message = 'configmaps "x" is forbidden: User "system:serviceaccount:lab:default" cannot get resource'
    server = serve(lambda request, reply: reply.status(403, message))
    hours = Hours()
    with pytest.raises(StillForbiddenError) as caught:
        run(server, sleep=hours.sleep, clock=hours.clock)
    assert 30 <= hours.now < 36
    assert "resourceNames: [x], verbs: [get, watch]" in str(caught.value)
    assert "bind it to system:serviceaccount:lab:default" in str(caught.value)


def test_a_permission_that_was_revoked_is_waited_for(serve: Serve) -> None:
    hours = Hours()

    def script(request: Request, reply: Reply) -> None:
        if len(server.requests) > 1 and hours.now < 120:
            reply.status(403, "configmaps is forbidden")
        elif request.watches:
            reply.stream()
            reply.event("MODIFIED", thing(2))
            reply.hang()
        else:
            reply.answer(200, thing(1 if hours.now < 120 else 2))

    server = serve(script)
    items = run(server, until=2, sleep=hours.sleep, clock=hours.clock)
    assert seen(items) == [1, 2]
    assert any("may not read ConfigMap lab/x any more" in text for text in faults(items))
    assert len(server.requests) < 60


def test_where_only_the_watch_is_forbidden_it_polls(serve: Serve) -> None:
    count = iter(range(1, 100))

    def script(request: Request, reply: Reply) -> None:
        if request.watches:
            reply.status(403, "no watch for you")
        else:
            reply.answer(200, thing(next(count)))

    server = serve(script)
    items = run(server, until=4)
    assert seen(items) == [1, 2, 3, 4]
    assert [request.watches for request in server.requests] == [False, True, False, False, False]
    assert sum(server.pauses[1:]) > 0.19 * 3


def test_a_forbidden_watch_is_tried_again_after_a_minute(serve: Serve) -> None:
    hours = Hours()

    def script(request: Request, reply: Reply) -> None:
        if not request.watches:
            reply.answer(200, thing(1))
        elif hours.now < 30:
            reply.status(403, "no watch for you")
        else:
            watch(2)(request, reply)

    server = serve(script)
    assert seen(run(server, until=2, poll_sec=10.0, sleep=hours.sleep, clock=hours.clock))[-1] == 2
    assert [request.watches for request in server.requests].count(True) == 2


def test_a_rotated_token_is_read_again(serve_tls: Serve, token_dir: Path) -> None:
    def script(request: Request, reply: Reply) -> None:
        if request.headers["authorization"] != "Bearer second":
            (token_dir / "token").write_text("second\n")
            reply.status(401, "Unauthorized")
        elif request.watches:
            watch(2)(request, reply)
        else:
            get(1)(request, reply)

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


def test_a_server_with_another_ca_is_not_trusted(serve_tls: Serve, token_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.crt"
    trustme.CA().cert_pem.write_to_path(str(other))
    server = serve_tls(get(1))
    items = run(server, seconds=0.1, access=Access(server.url, None, str(other)))
    assert "certificate verify failed" in faults(items)[0]
    assert server.requests == []
