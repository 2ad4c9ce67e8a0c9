"""The cost of the barrier: its start, and the release of a gang of 1,000.

The gangs are Frameworks that the real controller runs on a local control plane; the benchmark gives Pods their
addresses. Times count from just before the last Task gets its address: the controller observes it, persists it in the
Framework's status, and writes the roster, which the API server sends to all watches. All processes share this machine's
cores, so the times for many barrier processes are an upper bound. Targets: first request within 0.15 s, 32 MiB, 0.25 s
of CPU; p99 under 0.3 s.
"""

import contextlib
import json
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.barrier.clients import Barriers, arrivals, bare_watches
from bench.barrier.gang import Stage, of_framework, stage
from bench.barrier.start import TASKS, measure_starts
from bench.results import Results, flags, quantile

SETTLE_SECONDS = 2.0
RUNS = 20
"""Of the start."""
RELEASED = 1000
"""The Tasks of the gang that is released."""
PROCESSES = (4, 50)
"""How many of its barriers are processes, one measurement each; all others are bare watches."""
Columns = dict[str, float]


def main() -> None:
    """Measure and print tables."""
    flags(__doc__).parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8 * RELEASED), hard), hard))
    results = Results("barrier")
    with stage() as here:
        print("starts ...", flush=True)
        for by, figures in measure_starts(here, RUNS).items():
            results.add(f"run:{TASKS}", f"barrier, {by}", figures, here.cluster.version)
        for processes in PROCESSES:
            print(f"a release, with {processes} processes ...", flush=True)
            for by, figures in measure_release(here, processes).items():
                results.add(f"release:{RELEASED}", f"barrier, {by}", figures, here.cluster.version)
    results.show()


def measure_release(stage: Stage, processes: int) -> dict[str, Columns]:
    """Release a gang once; return columns by what they are about."""
    gang = of_framework(stage, RELEASED)
    bare = RELEASED - processes
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
    return {"first s": min(seconds), "p50 s": median(seconds), "p99 s": quantile(seconds, 0.99)}


if __name__ == "__main__":
    main()
