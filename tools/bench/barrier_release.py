"""The release of a gang: bare watches in one process beside barriers as processes, and pollers for comparison."""

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
    """The milliseconds from the last address to the release, and each barrier's load on the API server."""

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
    """Return the first, the median, the 99th percentile (nearest rank) and the last of some durations."""
    ordered = sorted(second * 1e3 for second in seconds)
    rank = max(-(-len(ordered) * 99 // 100), 1)
    return Release(what, len(ordered), ordered[0], statistics.median(ordered), ordered[rank - 1], ordered[-1])


# A single thread that does nothing else, so that it notes the end of a process at once, by the same clock as ours. In a
# cluster barriers run on other nodes than the API server and the controller, so here they have the lowest priority.
PROCESSES_SCRIPT = """
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
    """The end of a barrier, in monotonic seconds, and its CPU time since `BarrierProcesses.note`."""

    at: float
    cpu_ms: float


class BarrierProcesses:
    """Real barriers of the first Tasks of a gang, as processes.

    Args:
        stage: The environment of the gang.
        gang: The gang.
        count: The number of barriers.
    """

    def __init__(self, stage: Stage, gang: Gang, count: int) -> None:
        self._folders = contextlib.ExitStack()
        outputs = [self._folders.enter_context(tempfile.TemporaryDirectory()) for _ in range(count)]
        environments = [stage.environment(gang, index, output) for index, output in enumerate(outputs)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PROCESSES_SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self._input = self._process.stdin
        self._say(json.dumps(environments), answer="waiting")

    def _say(self, line: str, *, answer: str) -> None:
        self._input.write(line + "\n")
        self._input.flush()
        received = self._output.readline()
        assert received == answer + "\n", received

    def note(self) -> None:
        """Start to count the CPU time of each barrier."""
        self._say("", answer="noted")

    def ends(self) -> list[End]:
        """Wait until all barriers have ended, and return their ends."""
        rows = [json.loads(line) for line in self._output]
        self._process.wait()
        for row in rows:
            assert row["code"] == 0, row
        return [End(row["at"], row["cpu_ms"]) for row in rows]

    def close(self) -> None:
        """Kill the processes and remove their files."""
        self._process.kill()
        self._process.wait()
        self._folders.close()


@contextlib.contextmanager
def _barrier_processes(stage: Stage, gang: Gang, count: int) -> Iterator[BarrierProcesses]:
    barriers = BarrierProcesses(stage, gang, count)
    try:
        yield barriers
    finally:
        barriers.close()


def measure_watches(stage: Stage, tasks: int, processes: int) -> list[Release]:
    """Measure the release of a gang: `processes` barriers are processes, all others are bare watches."""
    gang = stage.gang(tasks)
    bare = tasks - processes
    with (
        _barrier_processes(stage, gang, processes) as barriers,
        contextlib.closing(Watches(stage, gang, bare)) as watches,
        ThreadPoolExecutor(1) as beside,
    ):
        arriving = beside.submit(watches.released)
        time.sleep(SETTLE_SECONDS)
        barriers.note()
        at = gang.release()
        arrivals = [end - at for end in arriving.result()]
        ends = barriers.ends()
    exits = [end.at - at for end in ends]
    arrival = summary(f"arrival at {bare} watches, beside {processes} barriers", arrivals)
    arrival.requests_each = watches.requests / bare
    arrival.kilobytes_each = watches.bytes / bare / 1e3
    arrival.note = "a wait of any length costs one more request per 40 to 52 s"
    exit_of = summary(f"exit of {processes} barriers, beside {bare} watches", exits)
    exit_of.note = f"{statistics.median(end.cpu_ms for end in ends):.1f} ms of CPU each from there on"
    return [arrival, exit_of, summary(f"all {tasks}", arrivals + exits)]


async def measure_polls(stage: Stage, tasks: int, seconds: float) -> Release:
    """Measure the release of a gang of pollers after some seconds of waiting."""
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
