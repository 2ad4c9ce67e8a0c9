"""The cost of the barrier: its start, and the release of a gang of 1,000, compared with pollers like FC's barrier.

    python tools/bench/barrier.py [--only starts,4,50,polls] [--tasks 1000] [--runs 20] [--poll-seconds 30] [--json F]

The gangs are Frameworks that the real controller runs on a local control plane; the benchmark gives Pods their
addresses. Times count from just before the last Task gets its address: the controller observes it, persists it in the
Framework's status, and writes the roster, which the API server sends to all watches. All processes share this machine's
cores, so the times for many barrier processes are an upper bound. Targets: first request within 150 ms, 32 MiB, 0.25 s
of CPU; p99 under 300 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from barrier_gang import stage
from barrier_release import Release, measure_polls, measure_watches
from barrier_start import Start, measure_starts

import localcluster
from localcluster import Depth


@dataclass
class Figures:
    """The figures of a run."""

    starts: list[Start] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        default="starts,4,50,polls",
        help="what to measure; a number: a gang with that many barriers as processes (%(default)s)",
    )
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--poll-seconds", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8 * options.tasks), hard), hard))
    cluster = localcluster.up("bench-cp", Depth.CONTROL_PLANE)
    figures = Figures()
    with tempfile.TemporaryDirectory() as scratch, stage(cluster, Path(scratch)) as here:
        for part in options.only.split(","):
            print(f"{part} ...", flush=True)
            if part == "starts":
                figures.starts = measure_starts(here, options.runs)
            elif part == "polls":
                figures.releases.append(asyncio.run(measure_polls(here, options.tasks, options.poll_seconds)))
            else:
                figures.releases += measure_watches(here, options.tasks, int(part))
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")


def show(figures: Figures) -> None:
    """Print both tables."""
    print("\na whole run against an open gang of 10   first request ms   total ms   CPU s   peak MiB")
    for start in figures.starts:
        figures_of = f"{start.first_request_ms:16.0f} {start.total_ms:10.0f} {start.cpu_s:7.3f} {start.peak_mib:10.1f}"
        print(f"{start.what:40} {figures_of}")
    print(f"\n{'from the last address on':66} first ms   p50 ms   p99 ms  last ms  requests  kB each")
    for each in figures.releases:
        cost = f"{each.requests_each:9.1f} {each.kilobytes_each:8.1f}" if each.requests_each else " " * 18
        times = f"{each.first_ms:8.0f} {each.p50_ms:8.0f} {each.p99_ms:8.0f} {each.last_ms:8.0f}"
        print(f"{each.what:66} {times} {cost}  {each.note}")


if __name__ == "__main__":
    main()
