"""What one barrier costs: a whole run of the program against an open gang."""

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

# As in the image, without docstrings and assertions. A child's peak memory counts what its parent had when it forked,
# so the parent is a bare interpreter; it goes into a control group first if one is given. Its clock is ours.
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
    """One way to start: medians, of the memory the largest. Milliseconds, seconds, MiB."""

    what: str
    first_request_ms: float
    total_ms: float
    cpu_s: float
    peak_mib: float


@dataclass
class Run:
    """One run; monotonic seconds, seconds, seconds, MiB."""

    code: int
    begun: float
    seconds: float
    cpu: float
    peak_mib: float


def measure_starts(stage: Stage, runs: int) -> list[Start]:
    """Whole runs, at full speed and at a tenth of a core."""
    gang = stage.gang(TASKS)
    gang.release()
    found = []
    for what, quota in (("a whole core", None), ("cpu: 100m", 0.1)):
        with _limited(quota) as group:
            if group is None:
                print(f"no cgroup may be made here: {what} is left out")
                continue
            # The first one may write bytecode.
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
    """One run of the first Task's barrier."""
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
    """Seconds from the start of the process until an API server hears its first bytes."""
    heard: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hear() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                heard.append(time.monotonic())

        listener = threading.Thread(target=hear)
        listener.start()
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        run = _run(stage, gang, group, KUBE_APISERVER_ADDRESS=address, BARRIER_CHECK_TIMEOUT_SEC="3")
        listener.join()
    return heard[0] - run.begun


@contextlib.contextmanager
def _limited(cores: float | None) -> Iterator[str | None]:
    """The file that takes processes into a CPU limit as the kubelet sets it; "" without one, None if none can be."""
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
