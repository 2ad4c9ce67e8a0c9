"""A gang of Pods behind an API server that is faulty for a minute: then the gang is complete, and no request too many.

The minute is the test's own: a sleep moves its clock, and so does a healthy watch without events.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from frameworkbarrier import settings
from frameworkbarrier.gate.gang import Gang
from frameworkbarrier.gate.gate import Observation
from frameworkbarrier.source import follow
from frameworkbarrier.source.access import Access
from frameworkbarrier.source.api import Api
from frameworkbarrier.source.follow import Follower
from frameworkbarrier.source.views import PodsView
from tests.barrier.documents import pod
from tests.barrier.source.faulty_server import FaultyServer, Reply, Request, Script, Serve, answers, status

HEALED_SEC = 60.0
GIVEN_UP_SEC = 600.0
WATCH_SEC = 45.0
BEFORE, AFTER = 10, 20
"""Versions of the list: at first the last Pod has no address, then it has."""
PAGES = {"": (0, 1), "second": (2, 3)}


def a_pod(index: int, *, ready: bool = True) -> dict[str, Any]:
    version = {"resourceVersion": str(AFTER if ready else BEFORE)}
    return pod(f"web-{index}", metadata=version, status={"podIP": f"10.0.0.{index + 1}" if ready else None})


class FaultyForAMinute:
    """An API server with four Pods on two pages that answers some requests wrongly for the first minute."""

    def __init__(self, fault: Script, hits: Callable[[Request], bool]) -> None:
        self.now = 0.0
        self.during: list[tuple[float, Request]] = []
        """What was asked in that minute, and when by the test's clock."""
        self._fault, self._hits = fault, hits

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        assert self.now < GIVEN_UP_SEC, "no complete gang"
        assert len(self.during) < 1000, "too many requests"  # which need not move the clock
        return self.now

    def __call__(self, request: Request, reply: Reply) -> None:
        healed, page = self.now >= HEALED_SEC, request.query.get("continue", "")
        if not healed:
            self.during.append((self.now, request))
        if not healed and self._hits(request):
            self._fault(request, reply)
        elif request.watches:
            is_old = int(request.query["resourceVersion"]) < AFTER
            self.now += WATCH_SEC
            answers(404, *[("MODIFIED", a_pod(3))] * (healed and is_old), then=Reply.end)(request, reply)
        else:
            metadata = {"resourceVersion": str(AFTER if healed else BEFORE)} | ({} if page else {"continue": "second"})
            items = [a_pod(index, ready=healed or index != 3) for index in PAGES[page]]
            reply.answer(200, {"kind": "PodList", "metadata": metadata, "items": items})


def hangs_up(request: Request, reply: Reply) -> None:
    raise ConnectionAbortedError  # by which the server closes the connection


def is_cut_short(request: Request, reply: Reply) -> None:
    reply.stream()
    reply.chunk(b'{"type":"MODIFIED","object":{"metadata":')
    raise ConnectionAbortedError


def is_no_http(request: Request, reply: Reply) -> None:
    reply.chunk(b"SSH-2.0-OpenSSH_9.6")
    raise ConnectionAbortedError


def page(code: int, html: bytes) -> Script:
    return lambda request, reply: reply.answer(code, html, Content_Type="text/html")


def sends(*events: tuple[str, object]) -> Script:
    """A watch with these events, then its end."""
    return answers(404, *events, then=Reply.end)


def a_watch(request: Request) -> bool:
    return request.watches


def a_second_page(request: Request) -> bool:
    return "continue" in request.query


def anything(request: Request) -> bool:
    return True


@dataclass(frozen=True)
class Fault:
    answer: Script
    at_most: int
    """Requests in the minute, pages of lists included."""
    hits: Callable[[Request], bool] = a_watch
    pause: float = 0.0
    """Seconds between two watches at least, and a second more at most; 0.0: the series backs off."""


# Backing off with full jitter makes about nine failures a minute, and every third one lists both pages again: 13 to 20
# requests were counted, 7 to 12 where the first page fails too. The rest is room for the jitter.
BACKED_OFF = 30
BACKED_OFF_FROM_THE_START = 20
AT_THE_FLOOR = 2 + int(HEALED_SEC / follow.WATCH_FLOOR_SEC)
# The server is waited for as long as it asks, and up to a second more: some 40 failures, and every third one lists.
ASKS_FOR_A_SECOND = status(429, "slow down", Retry_After="1")
REFUSALS: dict[str, Script] = {
    "429": status(429, "slow down"),
    "429 with Retry-After 0": status(429, "slow down", Retry_After="0"),
    "500": status(500, "etcdserver: leader changed"),
    "503 with HTML": page(503, b"<html>" + b"x" * 4000),
    "200 with HTML": page(200, b"<html>\n<body>Sign in</body>\n</html>\n"),
    "lasting 401": status(401, "Unauthorized"),
    "a redirect": lambda request, reply: reply.answer(302, Location="/elsewhere"),
    "a reset": lambda request, reply: reply.reset(),
    "a hang-up without an answer": hangs_up,
    "a truncated answer": is_cut_short,
    "garbage instead of HTTP": is_no_http,
}
FAULTS = {
    **{name: Fault(answer, BACKED_OFF) for name, answer in REFUSALS.items()},
    **{f"{name}, to all": Fault(answer, BACKED_OFF_FROM_THE_START, anything) for name, answer in REFUSALS.items()},
    "429 with Retry-After 1": Fault(ASKS_FOR_A_SECOND, 85),
    "429 with Retry-After 1, to all": Fault(ASKS_FOR_A_SECOND, 60, anything),
    "410, to all": Fault(status(410, "gone"), BACKED_OFF_FROM_THE_START, anything),
    "a watch that ends at once": Fault(sends(), BACKED_OFF),
    "an error event 500": Fault(sends(("ERROR", {"kind": "Status", "code": 500, "message": "boom"})), BACKED_OFF),
    # Each one lists both pages again: 24 to 36 requests were counted.
    "404": Fault(status(404, "the server could not find the requested resource"), 60),
    "410": Fault(status(410, "gone"), 60),
    # It sent something, so it counts as healthy and only the floor between two watches holds.
    "a bookmark and then the end": Fault(
        sends(("BOOKMARK", {"metadata": {"resourceVersion": str(BEFORE)}})), AT_THE_FLOOR, pause=follow.WATCH_FLOOR_SEC
    ),
    "an event and then the end": Fault(
        sends(("MODIFIED", a_pod(3, ready=False))), AT_THE_FLOOR, pause=follow.WATCH_FLOOR_SEC
    ),
    # The list, ten watches at most, and the list again after each third of them; a list takes two requests.
    "an error event 429 that asks for 6 seconds": Fault(
        sends(("ERROR", {"code": 429, "details": {"retryAfterSeconds": 6}})), 2 + 10 + 6, pause=6.0
    ),
    "an error event without a shape": Fault(sends(("ERROR", {})), BACKED_OFF),
    "an Expired error without a code": Fault(
        sends(("ERROR", {"kind": "Status", "reason": "Expired", "message": "too old resource version"})), BACKED_OFF
    ),
    "an expired continue token": Fault(status(410, "The provided continue parameter is too old"), 40, a_second_page),
}


def gangs_until_complete(server: FaultyServer, faulty: FaultyForAMinute) -> list[Gang]:
    """Every observed gang, up to the first complete one."""
    view = PodsView(settings.parse({"FB_SELECTOR": "app=web", "FB_ROLES": "worker=4"}), "lab")
    gangs = []
    for item in Follower(Api(Access(server.url)), view, poll_sec=10, sleep=faulty.sleep, clock=faulty.clock):
        if isinstance(item, Observation):
            gangs.append(item.gang)
            if gangs[-1].complete:
                break
    return gangs


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_after_a_faulty_minute_the_gang_is_complete_and_the_server_got_few_requests(serve: Serve, fault: Fault) -> None:
    faulty = FaultyForAMinute(fault.answer, fault.hits)
    gangs = gangs_until_complete(serve(faulty), faulty)
    assert [task.pod for task in gangs[-1].roles[0].tasks] == ["web-0", "web-1", "web-2", "web-3"]
    # What was observed before was the truth: both pages, and the last Pod not ready.
    assert {gang.ready for gang in gangs[:-1]} <= {3}
    assert 3 < len(faulty.during) <= fault.at_most
    watched = [at for at, request in faulty.during if request.watches]
    assert all(later - earlier >= fault.pause for earlier, later in itertools.pairwise(watched))
    assert not fault.pause or HEALED_SEC / (fault.pause + 1) < len(watched)
    assert fault.pause != follow.WATCH_FLOOR_SEC or len(watched) == HEALED_SEC / follow.WATCH_FLOOR_SEC


def once(hits: Callable[[Request], bool]) -> Callable[[Request], bool]:
    """The first of such requests."""
    hit = itertools.count()
    return lambda request: hits(request) and next(hit) == 0


def test_an_expired_continue_token_lists_again_from_the_first_page(serve: Serve) -> None:
    faulty = FaultyForAMinute(status(410, "The provided continue parameter is too old"), once(a_second_page))
    server = serve(faulty)
    gangs_until_complete(server, faulty)
    asked = ["watch" if each.watches else each.query.get("continue", "first") for each in server.requests]
    assert asked[:5] == ["first", "second", "first", "second", "watch"]
    # Each page is asked for with the same selector: a token alone would not do.
    assert {request.query["labelSelector"] for request in server.requests} == {"app=web"}


@pytest.mark.parametrize("answer", ["500", "429", "a hang-up without an answer", "403", "404"])
def test_a_page_that_fails_once_is_not_left_out_of_the_gang(serve: Serve, answer: str) -> None:
    faulty = FaultyForAMinute(REFUSALS.get(answer) or status(int(answer)), once(a_second_page))
    assert gangs_until_complete(serve(faulty), faulty)[-1].complete
