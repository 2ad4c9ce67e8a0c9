"""How long a gang is away after a rank has crashed: in-place restart beside the ways that make new Pods.

Three ranks on a real node, one of which exits again and again. Measured is the time from its exit until all ranks run
again, or until it alone runs again where its Task alone is retried. Then a gang of 1,000 on a control plane alone, of
which no kubelet runs the Pods: what a restart costs at the API server, and the time until the gate is open.

    python tools/bench/restart.py [--crashes 10] [--tasks 1000] [--ways in-place,task-retry,framework-retry,recreate]
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from statistics import median

from restart_simulated import simulate
from restart_ways import WAYS, Crashes, Node

import localcluster
from localcluster import Depth
from localcluster.client import RawClient

CLUSTER = "bench-node"
_HEAD = ("| after a crash | seconds until all ranks run: median | least | most |", "| --- | --- | --- | --- |")


def main() -> int:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crashes", type=int, default=10, help="of each way (%(default)s)")
    parser.add_argument("--tasks", type=int, default=1000, help="of the simulated gang, 0 for none (%(default)s)")
    parser.add_argument("--ways", default=",".join(WAYS), help="of starting again (%(default)s)")
    arguments = parser.parse_args()
    ways = [way for way in arguments.ways.split(",") if way]
    if not set(ways) <= set(WAYS):
        parser.error(f"--ways: {arguments.ways!r} is not a list of {', '.join(WAYS)}")
    if ways:
        rows = [_row(way, seconds) for way, seconds in _measured(ways, arguments.crashes).items()]
        print("", *_HEAD, *rows, "", sep="\n", flush=True)
    if arguments.tasks:
        print(*simulate(arguments.tasks), sep="\n")
    return 0


def _measured(ways: list[str], crashes: int) -> dict[str, list[float]]:
    cluster = localcluster.up(CLUSTER, Depth.NODE)
    try:
        with contextlib.closing(RawClient(cluster)) as raw:
            node = Node.prepare(cluster, raw)
            return {way: Crashes(node, way).measure(crashes) for way in ways}
    finally:
        localcluster.down(CLUSTER)


def _row(way: str, seconds: list[float]) -> str:
    return f"| {WAYS[way].title} | {median(seconds):.1f} | {min(seconds):.1f} | {max(seconds):.1f} |"


if __name__ == "__main__":
    sys.exit(main())
