"""How fast a gang is released: watches of many barriers in one process beside barriers as processes, and pollers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barrier_clients import POLL_SECONDS, Pollers, Watches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barrier_gang import Gang, Stage

SETTLE_SECONDS = 2.0


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
