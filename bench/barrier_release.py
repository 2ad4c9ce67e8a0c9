"""How fast a gang is released: watches of many barriers in one process, barriers as processes, and pollers as FC's."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


class Clients:
    """Barriers as bare as can be, many in one process: what they cost is what the API server adds."""

    def __init__(self, stage: Stage, gang: Gang) -> None:
        self._server = stage.cluster.server
        self._tls = ssl.create_default_context(cafile=str(stage.cluster.ca_file))
        self._headers = {"Authorization": f"Bearer {stage.token}"}
        self._gang = gang
        self._opening = asyncio.Semaphore(OPENING_AT_A_TIME)
        self.bytes = 0
        self.requests = 0
        self.refused = 0
        self.opened: asyncio.Queue[None] = asyncio.Queue()
        self.released: list[float] = []

    def session(self) -> aiohttp.ClientSession:
        """A session without limits, which counts bytes as they were sent."""
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        return aiohttp.ClientSession(
            self._server, connector=connector, headers=self._headers, read_bufsize=2**20, auto_decompress=False
        )

    async def watch(self, session: aiohttp.ClientSession) -> None:
        """One of our barriers: read the roster, watch it, be released by the complete one."""
        path = f"/api/v1/namespaces/{self._gang.namespace}/configmaps"
        async with self._opening, session.get(f"{path}/{self._gang.config_map}") as answer:
            answer.raise_for_status()
            first = await answer.read()
        params = {
            "watch": "1",
            "fieldSelector": f"metadata.name={self._gang.config_map}",
            "resourceVersion": json.loads(first)["metadata"]["resourceVersion"],
            "allowWatchBookmarks": "true",
        }
        self.requests += 2
        self.bytes += len(first)
        plain = {"Accept-Encoding": "identity"}
        async with session.get(path, params=params, headers=plain, timeout=aiohttp.ClientTimeout(None)) as answer:
            answer.raise_for_status()
            self.opened.put_nowait(None)
            async for line in answer.content:
                self.bytes += len(line)
                if rb"\"complete\":true" in line or b'"roster.gz"' in line:
                    self.released.append(time.monotonic())
                    return

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


# One thread and nothing else, so that an end is noted when it is. Its clock is the same as ours.
HERD = """
import json, os, sys, time
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
while barriers:
    pid, status = os.wait()
    at = time.monotonic()
    log = os.read(barriers.pop(pid), 65536).decode(errors="replace")
    print(json.dumps({"at": at, "code": os.waitstatus_to_exitcode(status), "log": log}), flush=True)
"""


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
        self._process.stdin.write(json.dumps(environments) + "\n")
        self._process.stdin.flush()
        said = self._output.readline()
        assert said == "waiting\n", said

    def ends(self) -> list[float]:
        """When each ended (monotonic seconds)."""
        rows = [json.loads(line) for line in self._output]
        self._process.wait()
        for row in rows:
            assert row["code"] == 0, row
        return [row["at"] for row in rows]

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


async def measure_watches(stage: Stage, tasks: int, processes: int) -> list[Release]:
    """A whole gang: so many barriers as processes, all others as bare watches; from the last Task's address on."""
    gang = await asyncio.to_thread(stage.gang, f"watched{processes}", tasks)
    clients = Clients(stage, gang)
    bare = tasks - processes
    with _herd(stage, gang, processes) as herd:
        async with clients.session() as session, asyncio.TaskGroup() as group:
            for _ in range(bare):
                group.create_task(clients.watch(session))
            for _ in range(bare):
                await clients.opened.get()
            await asyncio.sleep(SETTLE_SECONDS)
            at = await asyncio.to_thread(gang.release)
        ends = await asyncio.to_thread(herd.ends)
    arrival = summary(f"arrival at {bare} watches, beside {processes} barriers", [end - at for end in clients.released])
    arrival.requests_each = clients.requests / bare
    arrival.kilobytes_each = clients.bytes / bare / 1e3
    arrival.note = "a wait of any length costs one more request per 40 to 52 s"
    return [arrival, summary(f"exit of {processes} barriers, beside {bare} watches", [end - at for end in ends])]


async def measure_polls(stage: Stage, tasks: int, seconds: float) -> Release:
    """The same gang with pollers of the Framework object, after so many seconds of waiting."""
    gang = await asyncio.to_thread(stage.gang, "polled", tasks)
    clients = Clients(stage, gang)
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
