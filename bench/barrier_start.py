"""What one barrier costs: a whole run of the program against an open gang."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barrier_gang import Gang, Stage

TASKS = 10

# As in the image, without docstrings and assertions. A child's peak memory counts what its parent had when it forked,
# so the parent is a bare interpreter.
SPAWN = """
import os, sys, time
begun = time.monotonic()
pid = os.posix_spawn(sys.executable, [sys.executable, "-OO", "-m", "frameworkbarrier"], os.environ)
_, status, used = os.wait4(pid, 0)
print(time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@dataclass
class Start:
    """One way to start; medians. Milliseconds, seconds, MiB."""

    what: str
    total_ms: float
    cpu_s: float
    peak_mib: float


def measure_starts(stage: Stage, runs: int) -> list[Start]:
    """Whole runs, at full speed and at a tenth of a core."""
    gang = stage.gang("open", TASKS)
    gang.release()
    found = []
    for what, quota in (("a whole core", None), ("cpu: 100m", 0.1)):
        with _limited(quota) as enter:
            if enter is None:
                print(f"no cgroup may be made here: {what} is left out")
                continue
            # The first one may write bytecode.
            _one_start(stage, gang, enter)
            rows = [_one_start(stage, gang, enter) for _ in range(runs if quota is None else max(runs // 4, 3))]
        total, cpu, peak = map(statistics.median, zip(*rows, strict=True))
        found.append(Start(what, total * 1e3, cpu, peak))
    return found


def _one_start(stage: Stage, gang: Gang, enter: Callable[[], object]) -> tuple[float, ...]:
    """Seconds, CPU seconds and MiB of one run."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-I", "-S", "-c", SPAWN],
            env=stage.environment(gang, 0, folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=enter,
            check=True,
        )
    return tuple(map(float, run.stdout.split()))


@contextlib.contextmanager
def _limited(cores: float | None) -> Iterator[Callable[[], object] | None]:
    """What a child calls to live under a CPU limit as the kubelet sets it; None if none can be made."""
    if cores is None:
        yield lambda: None
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
        members = str(group / "cgroup.procs")
        yield lambda: Path(members).write_text("0")
    except OSError:
        yield None
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()
