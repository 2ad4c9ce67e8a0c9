"""How fast a gang is released: watches of many barriers in one process, barriers as processes, and pollers as FC's."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import http.client
import json
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode, urlsplit

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barrier_gang import Gang, Stage

POLL_SECONDS = 10.0
SETTLE_SECONDS = 2.0
# Nobody can write 1,000 watches at once; in a real gang, too, they open over some seconds.
OPENING_AT_A_TIME = 50


@dataclass
class Release:
    """How long after the last Task had an address; milliseconds, and what each barrier cost the API server."""

    what: str
    count: int
    first_ms: float
    p50_ms: float
    p99_ms: float
    last_ms: float
    requests_each: float = 0.0
    kilobytes_each: float = 0.0
    note: str = ""


def summary(what: str, seconds: list[float]) -> Release:
    """First, median, 99th percentile (nearest rank) and last."""
    ordered = sorted(second * 1e3 for second in seconds)
    rank = max(-(-len(ordered) * 99 // 100), 1)
    return Release(what, len(ordered), ordered[0], statistics.median(ordered), ordered[rank - 1], ordered[-1])


class Watches:
    """Barriers as bare as can be, many in one process: one thread that does no more than to see the roster arrive.

    They stand for barriers of other machines, so what they cost here must be little.
    """

    def __init__(self, stage: Stage, gang: Gang, count: int) -> None:
        server = urlsplit(stage.cluster.server)
        self._address = (server.hostname or "", server.port or 443)
        self._tls = ssl.create_default_context(cafile=str(stage.cluster.ca_file))
        self._token = stage.token
        self._path = f"/api/v1/namespaces/{gang.namespace}/configmaps"
        self._name = gang.config_map
        self.bytes = 0
        self.requests = 0
        with ThreadPoolExecutor(OPENING_AT_A_TIME) as opening:
            self._sockets = list(opening.map(lambda _: self._open(), range(count)))

    def _open(self) -> ssl.SSLSocket:
        """Read the roster, and watch it from there."""
        found = self._tls.wrap_socket(socket.create_connection(self._address), server_hostname=self._address[0])
        answer = http.client.HTTPResponse(self._ask(found, f"{self._path}/{self._name}"))
        answer.begin()
        first = answer.read()
        params = {
            "watch": "1",
            "fieldSelector": f"metadata.name={self._name}",
            "resourceVersion": json.loads(first)["metadata"]["resourceVersion"],
            "allowWatchBookmarks": "true",
        }
        head = b""
        self._ask(found, f"{self._path}?{urlencode(params)}")
        while not head.endswith(b"\r\n\r\n"):
            head += found.recv(1)
        assert head.startswith(b"HTTP/1.1 200 "), head
        self.requests += 2
        self.bytes += len(first)
        found.setblocking(False)  # noqa: FBT003
        return found

    def _ask(self, found: ssl.SSLSocket, path: str) -> ssl.SSLSocket:
        found.sendall(f"GET {path} HTTP/1.1\r\nHost: server\r\nAuthorization: Bearer {self._token}\r\n\r\n".encode())
        return found

    def released(self) -> list[float]:
        """Wait until all have the complete roster; when each had it (monotonic seconds)."""
        times: list[float] = []
        received = {found: bytearray() for found in self._sockets}
        with selectors.DefaultSelector() as ready:
            for found in received:
                ready.register(found, selectors.EVENT_READ)
            while ready.get_map():
                for key, _ in ready.select():
                    found = cast("ssl.SSLSocket", key.fileobj)
                    if self._read(found, received[found]):
                        times.append(time.monotonic())
                        ready.unregister(found)
        self.bytes += sum(map(len, received.values()))
        return times

    def _read(self, found: ssl.SSLSocket, received: bytearray) -> bool:
        """Take what is there; whether that ends the event with the complete roster."""
        with contextlib.suppress(ssl.SSLWantReadError):
            while data := found.recv(2**16):
                received += data
            raise AssertionError("the watch has ended")
        return received.endswith(b"}\n\r\n") and (rb"\"complete\":true" in received or b'"roster.gz"' in received)

    def close(self) -> None:
        """End the connections."""
        for found in self._sockets:
            found.close()


class Pollers:
    """Barriers of FC's kind, which read the Framework object again and again."""

    def __init__(self, stage: Stage, gang: Gang) -> None:
        self._server = stage.cluster.server
        self._tls = ssl.create_default_context(cafile=str(stage.cluster.ca_file))
        self._headers = {"Authorization": f"Bearer {stage.token}"}
        self._gang = gang
        self.bytes = 0
        self.requests = 0
        self.refused = 0
        self.released: list[float] = []

    def session(self) -> aiohttp.ClientSession:
        """A session without limits, which counts bytes as they were sent."""
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        return aiohttp.ClientSession(
            self._server, connector=connector, headers=self._headers, read_bufsize=2**20, auto_decompress=False
        )

    async def poll(self, session: aiohttp.ClientSession, delay: float, until: float) -> None:
        """One of FC's kind: the whole Framework, again and again."""
        await asyncio.sleep(delay)
        path = f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/{self._gang.namespace}/frameworks"
        while True:
            async with session.get(f"{path}/{self._gang.name}") as answer:
                data = await answer.read()
            self.requests += 1
            self.bytes += len(data)
            if answer.status == 429:
                self.refused += 1
                await asyncio.sleep(1)
                continue
            answer.raise_for_status()
            if answer.headers.get("Content-Encoding") == "gzip":
                data = gzip.decompress(data)
            if _shows(data, self._gang.last_ip):
                self.released.append(time.monotonic())
                return
            if time.monotonic() > until:
                return
            await asyncio.sleep(POLL_SECONDS)


def _shows(framework: bytes, address: str) -> bool:
    """Whether the status has this address, plainly or in its compressed form."""
    wanted = f'"podIP":"{address}"'.encode()
    if wanted in framework or b'"taskRoleStatusesCompressed"' not in framework:
        return wanted in framework
    packed = json.loads(framework)["status"]["attemptStatus"]["taskRoleStatusesCompressed"]
    return wanted in gzip.decompress(base64.b64decode(packed))


# One thread and nothing else, so that an end is noted when it is. Its clock is the same as ours. Barriers run on other
# nodes than the API server and the controller, so here they yield to these.
HERD = """
import json, os, sys, time
os.nice(19)
barriers = {}
for environment in json.loads(sys.stdin.readline()):
    reading, writing = os.pipe()
    output = [(os.POSIX_SPAWN_DUP2, writing, 2)]
    command = [sys.executable, "-OO", "-m", "frameworkbarrier"]
    barriers[os.posix_spawn(command[0], command, environment, file_actions=output)] = reading
    os.close(writing)
for reading in barriers.values():
    os.read(reading, 4096)
print("waiting", flush=True)
sys.stdin.readline()
def used(pid):
    threads = (open(f"/proc/{pid}/task/{thread}/schedstat") for thread in os.listdir(f"/proc/{pid}/task"))
    return sum(int(file.read().split()[0]) for file in threads) / 1e6
waited = {pid: used(pid) for pid in barriers}
print("noted", flush=True)
while barriers:
    pid, status, usage = os.wait4(-1, 0)
    at = time.monotonic()
    log = os.read(barriers.pop(pid), 65536).decode(errors="replace")
    cpu_ms = (usage.ru_utime + usage.ru_stime) * 1e3 - waited[pid]
    row = {"at": at, "cpu_ms": cpu_ms, "code": os.waitstatus_to_exitcode(status), "log": log}
    print(json.dumps(row), flush=True)
"""


@dataclass(frozen=True)
class End:
    """When a barrier ended (monotonic seconds), and what it used since `Herd.note`."""

    at: float
    cpu_ms: float


class Herd:
    """Real barriers of the first Tasks of a gang, as processes."""

    def __init__(self, stage: Stage, gang: Gang, count: int) -> None:
        self._folders = contextlib.ExitStack()
        outputs = [self._folders.enter_context(tempfile.TemporaryDirectory()) for _ in range(count)]
        environments = [stage.environment(gang, index, output) for index, output in enumerate(outputs)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", HERD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self._input = self._process.stdin
        self._say(json.dumps(environments), answer="waiting")

    def _say(self, line: str, *, answer: str) -> None:
        self._input.write(line + "\n")
        self._input.flush()
        said = self._output.readline()
        assert said == answer + "\n", said

    def note(self) -> None:
        """From here on it is counted what each uses."""
        self._say("", answer="noted")

    def ends(self) -> list[End]:
        """How each ended."""
        rows = [json.loads(line) for line in self._output]
        self._process.wait()
        for row in rows:
            assert row["code"] == 0, row
        return [End(row["at"], row["cpu_ms"]) for row in rows]

    def close(self) -> None:
        """Remove what they wrote."""
        self._process.kill()
        self._process.wait()
        self._folders.close()


@contextlib.contextmanager
def _herd(stage: Stage, gang: Gang, count: int) -> Iterator[Herd]:
    herd = Herd(stage, gang, count)
    try:
        yield herd
    finally:
        herd.close()


def measure_watches(stage: Stage, tasks: int, processes: int) -> list[Release]:
    """A whole gang: so many barriers as processes, all others as bare watches; from the last Task's address on."""
    gang = stage.gang(tasks)
    bare = tasks - processes
    with (
        _herd(stage, gang, processes) as herd,
        contextlib.closing(Watches(stage, gang, bare)) as watches,
        ThreadPoolExecutor(1) as beside,
    ):
        arriving = beside.submit(watches.released)
        time.sleep(SETTLE_SECONDS)
        herd.note()
        at = gang.release()
        arrivals = [end - at for end in arriving.result()]
        ends = herd.ends()
    exits = [end.at - at for end in ends]
    arrival = summary(f"arrival at {bare} watches, beside {processes} barriers", arrivals)
    arrival.requests_each = watches.requests / bare
    arrival.kilobytes_each = watches.bytes / bare / 1e3
    arrival.note = "a wait of any length costs one more request per 40 to 52 s"
    exit_of = summary(f"exit of {processes} barriers, beside {bare} watches", exits)
    exit_of.note = f"{statistics.median(end.cpu_ms for end in ends):.1f} ms of CPU each from there on"
    return [arrival, exit_of, summary(f"all {tasks}", arrivals + exits)]


async def measure_polls(stage: Stage, tasks: int, seconds: float) -> Release:
    """The same gang with pollers of the Framework object, after so many seconds of waiting."""
    gang = await asyncio.to_thread(stage.gang, tasks)
    clients = Pollers(stage, gang)
    async with clients.session() as session, asyncio.TaskGroup() as group:
        until = time.monotonic() + seconds + 10 * POLL_SECONDS
        for index in range(tasks):
            group.create_task(clients.poll(session, index * POLL_SECONDS / tasks, until))
        await asyncio.sleep(seconds)
        at = await asyncio.to_thread(gang.release)
    found = summary(
        f"{tasks} pollers of the Framework every {POLL_SECONDS:g} s, after {seconds:g} s of waiting",
        [end - at for end in clients.released],
    )
    found.requests_each = clients.requests / tasks
    found.kilobytes_each = clients.bytes / tasks / 1e3
    found.note = f"grows with the wait; {clients.refused} answers were 429, {tasks - found.count} never saw it"
    return found
