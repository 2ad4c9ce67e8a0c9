"""The cost of the barrier: its start, and the release of a gang of 1,000.

The gangs are Frameworks that the real controller runs on a local control plane; the benchmark gives Pods their
addresses. Times count from just before the last Task gets its address: the controller observes it, persists it in the
Framework's status, and writes the roster, which the API server sends to all watches. All processes share this machine's
cores, so the times for many barrier processes are an upper bound. Targets: first request within 0.15 s, 32 MiB, 0.25 s
of CPU; p99 under 0.3 s.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from barrier_clients import Barriers, arrivals, bare_watches
from barrier_gang import Gang, stage
from barrier_start import TASKS, measure_starts
from results import Results, flags, quantile

if TYPE_CHECKING:
    from barrier_gang import Stage


SETTLE_SECONDS = 2.0
Columns = dict[str, float]


def main() -> int:
    """Measure and print tables."""
    parser = flags(__doc__, "barrier")
    parser.add_argument(
        "--only",
        default="starts,4,50",
        help="what to measure; a number: a gang with that many barriers as processes (%(default)s)",
    )
    parser.add_argument("--tasks", type=int, default=1000, help="of the gang that is released (%(default)s)")
    parser.add_argument("--runs", type=int, default=20, help="of the start (%(default)s)")
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8 * arguments.tasks), hard), hard))
    results = Results(arguments.csv)
    with stage() as here:
        for part in arguments.only.split(","):
            print(f"{part} ...", flush=True)
            if part == "starts":
                shape, found = f"run:{TASKS}", measure_starts(here, arguments.runs)
            else:
                shape, found = f"release:{arguments.tasks}", measure_release(here, arguments.tasks, int(part))
            for by, figures in found.items():
                results.add(shape, f"barrier, {by}", figures, here.cluster.version)
    results.show()
    return 0


def measure_release(stage: Stage, tasks: int, processes: int) -> dict[str, Columns]:
    """Release a gang once; return columns by what they are about.

    Args:
        stage: The environment.
        tasks: The Tasks of the gang.
        processes: How many of its barriers are processes; all others are bare watches.
    """
    gang = Gang(stage, tasks)
    bare = tasks - processes
    # With it each barrier begins; the bare watches here do not read it.
    roster = len(json.dumps(stage.frameworks.config_map(gang.name), separators=(",", ":")))
    with (
        TemporaryDirectory() as folder,
        contextlib.closing(Barriers(gang, processes, Path(folder))) as barriers,
        bare_watches(stage, gang, bare) as watches,
        ThreadPoolExecutor(1) as beside,
    ):
        arriving = beside.submit(arrivals, watches)
        time.sleep(SETTLE_SECONDS)
        barriers.note()
        at = gang.release()
        times, received = arriving.result()
        ends = barriers.ends()
    arrived, exits = [one - at for one in times], [end["at"] - at for end in ends]
    cpu_ms = median(end["cpu_ms"] for end in ends)
    return {
        f"arrival at {bare} watches": {**_times(arrived), "kB each": (roster + received / bare) / 1e3},
        f"exit of {processes} processes": {**_times(exits), "CPU ms each": cpu_ms},
        f"all, {processes} of them processes": _times(arrived + exits),
    }


def _times(seconds: list[float]) -> Columns:
    """Return the first, the median and the 99th percentile of some durations, as columns."""
    return {"first s": min(seconds), "p50 s": median(seconds), "p99 s": quantile(seconds, 0.99)}


if __name__ == "__main__":
    sys.exit(main())
