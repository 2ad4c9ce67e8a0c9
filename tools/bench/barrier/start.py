"""The cost of one barrier: whole runs of the program for a gang whose gate is open."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.barrier.gang import Gang, Stage, of_framework

TASKS = 10
_PERIOD = 100_000
"""Of a limit of the CPU, in microseconds, as the kubelet sets it."""

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


@dataclass(frozen=True)
class Ended:
    """One run: its exit code, start (monotonic), duration and CPU time in seconds, peak memory in MiB."""

    code: float
    begun: float
    seconds: float
    cpu: float
    peak_mib: float


def measure_starts(stage: Stage, runs: int) -> dict[str, dict[str, float]]:
    """Measure whole runs with a whole core and with a tenth of one; return columns by the limit of the CPU."""
    gang = of_framework(stage, TASKS)
    gang.release()
    found = {}
    for what, cores in (("a whole core", None), ("cpu: 100m", 0.1)):
        with _limited(cores) as group:
            if group is None:
                print(f"{what} is skipped: this user cannot make a cgroup")
                continue
            # The first run may write bytecode.
            _run(gang, group)
            number = runs if cores is None else max(runs // 4, 3)
            rows = [_run(gang, group) for _ in range(number)]
            first = [_first_request(gang, group) for _ in range(number)]
        assert all(row.code == 0 for row in rows)
        found[what] = {
            "first request s": median(first),
            "whole run s": median(row.seconds for row in rows),
            "CPU s": median(row.cpu for row in rows),
            "peak MiB": max(row.peak_mib for row in rows),
        }
    return found


def _run(gang: Gang, group: str, **environ: str) -> Ended:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", SPAWN, group],
            env=gang.environment(0, folder) | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    return Ended(*map(float, done.stdout.split()))


def _first_request(gang: Gang, group: str) -> float:
    """Return the seconds from the start of the process until its first bytes reach the API server."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as beside:

        def accept() -> float:
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                return time.monotonic()

        arrival = beside.submit(accept)
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        run = _run(gang, group, KUBE_APISERVER_ADDRESS=address, BARRIER_CHECK_TIMEOUT_SEC="3")
        return arrival.result() - run.begun


@contextlib.contextmanager
def _limited(cores: float | None) -> Iterator[str | None]:
    """Limit the CPU as the kubelet does, and yield the `cgroup.procs` to join; "" without limit, None if impossible."""
    if cores is None:
        yield ""
        return
    version1, version2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    quota = str(int(cores * _PERIOD))
    files = {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": quota}
    if not version1.is_dir():
        files = {"cpu.max": f"{quota} {_PERIOD}"}
    group = (version1 if version1.is_dir() else version2) / f"bench-barrier-{os.getpid()}"
    try:
        group.mkdir()
        for name, text in files.items():
            (group / name).write_text(text)
    except OSError:
        yield None
    else:
        yield str(group / "cgroup.procs")
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()
