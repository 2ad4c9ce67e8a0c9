"""How long a gang is away after a rank has crashed: in-place restart beside a Framework retry, which makes new Pods.

Three ranks on a real node, one of which exits again and again. Measured is the time from its exit until all ranks run
again. Then a gang of 1,000 on a control plane alone, of which no kubelet runs the Pods: what a restart costs at the API
server, and the time until the gate is open.
"""

import sys
import time
from statistics import median

from bench.metrics import counted, since
from bench.restart_ways import RANKS, WAYS, crashes
from bench.results import Results, flags
from bench.scene import controller, new_cluster
from localcluster import Depth
from localcluster.client import RawClient
from testkit.frameworks import Frameworks
from testkit.restarting_gang import RestartingGang
from testkit.waiting import eventually

NAMESPACE = "gang"
TASKS = 1000
"""Of the gang that no kubelet runs."""
_SECONDS = 600.0


def main() -> int:
    """Measure and print tables."""
    parser = flags(__doc__)
    parser.add_argument("--crashes", type=int, default=10, help="of each way, 0 for none (%(default)s)")
    arguments = parser.parse_args()
    results = Results("restart")
    if arguments.crashes:
        with new_cluster("bench-node", Depth.NODE, "bench-restart") as (cluster, raw):
            for way, seconds in crashes(cluster, raw, arguments.crashes):
                figures = {"all run again p50 s": median(seconds), "least s": min(seconds), "most s": max(seconds)}
                results.add(f"crash:{RANKS}", WAYS[way], figures, cluster.version)
    with new_cluster("bench-restart", Depth.CONTROL_PLANE, NAMESPACE) as (cluster, raw), controller(cluster):
        results.add(f"crash:{TASKS}", "in-place restart, simulated", restart(raw), cluster.version)
    results.show()
    return 0


def restart(raw: RawClient) -> dict[str, float]:
    """Start a gang without a kubelet, end one instance, and start all again; return columns."""
    gang = RestartingGang(Frameworks(raw, NAMESPACE), "gang", TASKS)
    gang.create()
    eventually(gang.has_pods, _SECONDS, 0.5)
    gang.report_all(0)
    eventually(lambda: gang.is_open(0), _SECONDS, 0.2)
    before, begun = counted(raw.text("/metrics")), time.monotonic()
    gang.report(0, 0, restarting=True)
    eventually(lambda: gang.is_closed(1), _SECONDS, 0.02)
    closed = time.monotonic()
    gang.report_all(1)
    reported = time.monotonic()
    eventually(lambda: gang.is_open(1), _SECONDS, 0.02)
    opened = time.monotonic()
    print(f"{closed - begun:.2f} s from the end of an instance until the gate is closed", flush=True)
    cost = since(before, counted(raw.text("/metrics")))
    return {
        "gate opens after the last report s": opened - reported,
        "all reported s": reported - begun,
        **{name: cost[name] for name in ("ConfigMaps", "status writes", "Events")},
    }


if __name__ == "__main__":
    sys.exit(main())
