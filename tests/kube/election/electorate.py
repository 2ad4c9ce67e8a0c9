"""A server that keeps one Lease as an API server does, candidates with clocks of their own, and a log of writes."""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from frameworkkube.election.election import LeaderElection
from frameworkkube.errors import KubeError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from tests.kube.scripted import Connection, ScriptedServer, Step, answer, refusal, reset_connection, silence

COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/system/leases"
PATH = f"{COLLECTION}/boss"
WORK_EVERY_SECONDS = 0.5
POLL = 2.2
"""Seconds between two attempts of a candidate whose draw is 0.5; the holder renews every 1.8 s."""
ROUND_TRIP = 0.1
Fault = Callable[[Step, Connection], Awaitable[None]]
"""What happens to a request that would have been answered with the step; calling the step is its effect."""


@dataclass
class _Held(Connection):
    """Keeps an answer."""

    answer: bytes = b""

    async def send(self, data: bytes) -> None:
        self.answer += data


def before(step: Step) -> Fault:
    """The request has no effect."""
    return lambda _effect, connection: step(connection)


def afterwards(step: Step) -> Fault:
    """The request has its effect, and then its answer goes wrong."""

    async def fault(effect: Step, connection: Connection) -> None:
        await effect(_Held(connection.writer, connection.request))
        await step(connection)

    return fault


def late(effect: float = 0, answer: float = 0) -> Fault:
    """The request has its effect so many seconds later, and its answer comes after that, if anybody still waits."""

    async def fault(step: Step, connection: Connection) -> None:
        held = _Held(connection.writer, connection.request)
        await asyncio.sleep(effect)
        await step(held)
        await asyncio.sleep(answer)
        await connection.send(held.answer)

    return fault


HANG = before(silence)
FAULTS: dict[str, Fault] = {
    "hang": HANG,
    "hang after": afterwards(silence),
    "reset": before(reset_connection),
    "reset after": afterwards(reset_connection),
    "error": before(refusal(500, "InternalError")),
    "error after": afterwards(refusal(500, "InternalError")),
    "forbidden": before(refusal(403, "Forbidden", "leases is forbidden")),
    "conflict": before(refusal(409, "Conflict")),
    "html": before(answer(200, b"<html>sign in</html>", content_type="text/html")),
    "late by 3 s": late(3),
    "late by 7 s": late(7),
}


class Death(BaseException):
    """The process no longer exists."""


@dataclass(frozen=True)
class Seen:
    """A write as it reached the server, `by` whose request, and who held the Lease after it."""

    at: float
    by: str
    what: str
    holder: str | None


@dataclass
class Election:
    """One Lease and everything around it."""

    server: ScriptedServer
    lease: dict[str, Any] | None = None
    log: list[Seen] = field(default_factory=list)
    faults: dict[str, deque[Fault]] = field(default_factory=dict)
    random_fault: Callable[[str], Fault | None] = lambda _name: None
    candidates: list["Candidate"] = field(default_factory=list)
    is_stolen: bool = False
    """Whether the test itself has given the Lease to somebody else."""
    _version: int = 100

    # --- what tests do -----------------------------------------------------------------------------------------------

    def candidate(self, name: str, *, rate: float = 1.0, **settings: Any) -> "Candidate":
        """A candidate with a clock of its own, `rate` times as fast as the server's."""
        made = Candidate(name, self, rate, settings)
        self.candidates.append(made)
        return made

    async def leader(self, seconds: float = 1, **settings: Any) -> "Candidate":
        """Candidate `a`, so many seconds after its start."""
        made = self.candidate("a", **settings).start()
        await asyncio.sleep(seconds)
        return made

    async def leader_and_follower(self, **settings: Any) -> tuple["Candidate", "Candidate"]:
        """Candidate `a` with these settings, a second after its start, and candidate `b`, which starts now."""
        return await self.leader(**settings), self.candidate("b").start()

    def fault(self, name: str, *faults: Fault) -> None:
        """What the next requests of a candidate about the Lease meet."""
        self.faults.setdefault(name, deque()).extend(faults)

    def cut_off(self, name: str) -> None:
        """Answer none of its requests any more."""
        self.faults[name] = deque([HANG] * 10_000)

    def delete(self) -> None:
        self.lease = None
        self._note("somebody", "delete")

    def edit(self, **spec: Any) -> None:
        """Write the Lease as another user."""
        assert self.lease is not None
        self.is_stolen |= "holderIdentity" in spec
        self._store(self.lease | {"spec": self.lease["spec"] | spec}, "somebody")

    def annotate(self, **annotations: str) -> None:
        assert self.lease is not None
        metadata = self.lease["metadata"] | {"annotations": annotations}
        self._store(self.lease | {"metadata": metadata}, "somebody")

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec = self.lease["spec"]
        assert isinstance(spec, dict)
        return spec

    @property
    def holder(self) -> str | None:
        return self.lease["spec"].get("holderIdentity") if self.lease else None

    def requests_of(self, name: str) -> list[str]:
        """Methods of its requests about the Lease."""
        return [r.method for r in self.server.requests if r.headers["user-agent"] == name and r.path != "/work"]

    def work(self, name: str | None = None) -> list[Seen]:
        return [seen for seen in self.log if seen.what == "work" and name in {None, seen.by}]

    def last_write(self, name: str | None = None) -> float:
        """When the Lease was last written, by anybody or by one candidate."""
        return max(seen.at for seen in self.log if seen.what == "write" and name in {None, seen.by})

    def assert_followed(self, after: float, within: float = POLL + ROUND_TRIP) -> None:
        """Assert that `b` began its work after a moment, within so many seconds."""
        assert after <= self.work("b")[0].at <= after + within

    def terms(self) -> list[str]:
        """The identities that became the holder, in order."""
        holders = [seen.holder for seen in self.log if seen.what != "work"]
        return [now for last, now in zip([None, *holders], holders, strict=False) if now and now != last]

    def assert_never_two(self) -> None:
        """Assert that no candidate worked while another held the Lease at the server, or after releasing it."""
        wrong = [seen for seen in self.work() if seen.holder not in {seen.by, None}]
        assert not wrong, wrong

    # --- the server's part -------------------------------------------------------------------------------------------

    async def step(self, connection: Connection) -> None:
        name = connection.request.headers["user-agent"]
        if connection.request.path == "/work":
            self._note(name, "work")
            await answer(200)(connection)
            return
        waiting = self.faults.get(name)
        fault = waiting.popleft() if waiting else self.random_fault(name)
        await (self._about_lease(connection) if fault is None else fault(self._about_lease, connection))

    async def _about_lease(self, connection: Connection) -> None:
        await self._answer(connection)(connection)

    def _answer(self, connection: Connection) -> Step:
        request = connection.request
        body = json.loads(request.body or b"{}")
        match request.method, request.path:
            case "GET", path if path == PATH:
                return refusal(404, "NotFound") if self.lease is None else answer(200, self.lease)
            case "POST", path if path == COLLECTION:
                if self.lease is not None:
                    return refusal(409, "AlreadyExists")
                body["metadata"]["uid"] = f"uid-{self._version}"
            case "PUT", path if path == PATH:
                if self.lease is None:
                    return refusal(404, "NotFound")
                for key in ("uid", "resourceVersion"):
                    if body["metadata"][key] != self.lease["metadata"][key]:
                        return refusal(409, "Conflict", f"{key} has changed")
            case _:
                return refusal(405, "MethodNotAllowed")
        self._store(body, request.headers["user-agent"])
        return answer(200, self.lease)

    def _store(self, body: dict[str, Any], by: str) -> None:
        self._version += 1
        self.lease = body | {"metadata": body["metadata"] | {"resourceVersion": str(self._version)}}
        self._note(by, "write")

    def _note(self, by: str, what: str) -> None:
        self.log.append(Seen(self.server.clock(), by, what, self.holder))


class Candidate:
    """A process: a client, an election, and work that sends a request twice a second."""

    def __init__(self, name: str, election: Election, rate: float, settings: dict[str, Any]) -> None:
        self._rate = rate
        self._loop = asyncio.get_running_loop()
        self._client = KubeClient(Endpoint(election.server.url), user_agent=name, clock=self._loop.time)
        self.alive = True
        self.terms = 0
        self.stopped_at: list[float] = []
        self.overdue_at: float | None = None
        self.stubborn_seconds = 0.0
        """How long the work goes on when it is cancelled."""
        self.election = LeaderElection(
            self,  # type: ignore[arg-type]
            "system",
            "boss",
            name,
            on_overdue=self._overdue,
            clock=lambda: self._loop.time() * rate,
            sleep=self._sleep,
            **{"draw": lambda: 0.5, **settings},
        )

    def start(self, lead: Callable[[], Any] | None = None) -> "Candidate":
        self.task = asyncio.create_task(self.election.run(lead or self.lead))
        return self

    async def request(self, *args: Any, timeout_seconds: float, **more: Any) -> bytes:
        """As the client's, in the time of this candidate's clock; a killed candidate sends nothing."""
        if not self.alive:
            raise Death
        return await self._client.request(*args, timeout_seconds=timeout_seconds / self._rate, **more)

    async def lead(self) -> None:
        self.terms += 1
        with contextlib.suppress(Death):
            try:
                await self._work(float("inf"))
            except asyncio.CancelledError:
                self.stopped_at.append(self._loop.time())
                await self._work(self.stubborn_seconds)
                raise

    async def _work(self, seconds: float) -> None:
        end = self._loop.time() + seconds
        while self._loop.time() < end:
            with contextlib.suppress(KubeError):
                await self.request("POST", "/work", timeout_seconds=1.0)
            await asyncio.sleep(WORK_EVERY_SECONDS)

    async def ended(self) -> None:
        """Waits for its end, however it comes."""
        with contextlib.suppress(asyncio.CancelledError, Death):
            await self.task

    async def stop(self) -> None:
        """SIGTERM."""
        self.task.cancel()
        await self.ended()

    def kill(self) -> None:
        """SIGKILL: it sends nothing any more."""
        self.alive = False
        self.task.cancel()

    async def close(self) -> None:
        self.kill()
        await asyncio.gather(self.task, return_exceptions=True)
        await self._client.close()

    def _overdue(self) -> None:
        self.overdue_at = self._loop.time()
        self.alive = False

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._rate)
