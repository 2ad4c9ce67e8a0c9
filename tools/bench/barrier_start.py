"""The cost of one barrier: whole runs of the program for a gang whose gate is open."""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barrier_gang import Gang, Stage

TASKS = 10

# The barrier runs as in the image, without docstrings and assertions. The peak memory of a child includes that of its
# parent at the fork, so the parent is a bare interpreter. It joins a control group first if one is given.
SPAWN = """
import os, sys, time
if sys.argv[1]:
    with open(sys.argv[1], "w") as group:
        group.write("0")
begun = time.monotonic()
pid = os.posix_spawn(sys.executable, [sys.executable, "-OO", "-m", "frameworkbarrier"], os.environ)
_, status, used = os.wait4(pid, 0)
seconds, cpu = time.monotonic() - begun, used.ru_utime + used.ru_stime
print(os.waitstatus_to_exitcode(status), begun, seconds, cpu, used.ru_maxrss / 1024)
"""


@dataclass
class Start:
    """The figures of one CPU limit: medians in milliseconds and seconds, and the largest peak memory in MiB."""

    what: str
    first_request_ms: float
    total_ms: float
    cpu_s: float
    peak_mib: float


@dataclass
class Run:
    """One run: its exit code, start (monotonic), duration and CPU time in seconds, peak memory in MiB."""

    code: int
    begun: float
    seconds: float
    cpu: float
    peak_mib: float


def measure_starts(stage: Stage, runs: int) -> list[Start]:
    """Measure whole runs with a whole core and with a tenth of one."""
    gang = stage.gang(TASKS)
    gang.release()
    found = []
    for what, quota in (("a whole core", None), ("cpu: 100m", 0.1)):
        with _limited(quota) as group:
            if group is None:
                print(f"{what} is skipped: this user cannot make a cgroup")
                continue
            # The first run may write bytecode.
            _run(stage, gang, group)
            number = runs if quota is None else max(runs // 4, 3)
            rows = [_run(stage, gang, group) for _ in range(number)]
            first = [_first_request(stage, gang, group) for _ in range(number)]
        assert all(row.code == 0 for row in rows)
        found.append(
            Start(
                what,
                first_request_ms=statistics.median(first) * 1e3,
                total_ms=statistics.median(row.seconds for row in rows) * 1e3,
                cpu_s=statistics.median(row.cpu for row in rows),
                peak_mib=max(row.peak_mib for row in rows),
            )
        )
    return found


def _run(stage: Stage, gang: Gang, group: str, **environ: str) -> Run:
    """Run the first Task's barrier once."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", SPAWN, group],
            env=stage.environment(gang, 0, folder) | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    code, *figures = done.stdout.split()
    return Run(int(code), *map(float, figures))


def _first_request(stage: Stage, gang: Gang, group: str) -> float:
    """Return the seconds from the start of the process until its first bytes reach the API server."""
    arrivals: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                arrivals.append(time.monotonic())

        listener = threading.Thread(target=accept)
        listener.start()
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        run = _run(stage, gang, group, KUBE_APISERVER_ADDRESS=address, BARRIER_CHECK_TIMEOUT_SEC="3")
        listener.join()
    return arrivals[0] - run.begun


@contextlib.contextmanager
def _limited(cores: float | None) -> Iterator[str | None]:
    """Limit the CPU as the kubelet does, and yield the `cgroup.procs` to join; "" without limit, None if impossible."""
    if cores is None:
        yield ""
        return
    version1, version2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    group = (version1 if version1.is_dir() else version2) / f"bench-barrier-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        if version1.is_dir():
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text(str(int(cores * 100_000)))
        else:
            (group / "cpu.max").write_text(f"{int(cores * 100_000)} 100000")
    except OSError:
        yield None
    else:
        yield str(group / "cgroup.procs")
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()
