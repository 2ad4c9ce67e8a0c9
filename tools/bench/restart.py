"""How long a gang is away after a rank has crashed: in-place restart beside a Framework retry, which makes new Pods.

Three ranks on a real node with the three programs, one of which exits again and again. Measured is the time from its
exit until all ranks run again. Then a gang of 1,000 on a control plane alone, of which no kubelet runs the Pods: what a
restart costs at the API server, and the time until the gate is open.
"""

import time
from statistics import median

from bench.metrics import counted, since
from bench.results import Results, flags
from bench.scene import controller, new_cluster
from frameworkcontroller.api import names
from frameworkdemo import deploy, manifests
from frameworkdemo.cluster import local_cluster
from localcluster import Cluster, Depth, LocalClusterError
from localcluster.client import Json, RawClient
from localcluster.images import images
from testkit.frameworks import Frameworks, role
from testkit.restarting_gang import RestartingGang
from testkit.waiting import eventually

NODE_NAMESPACE, NAMESPACE = "bench-restart", "gang"
RANKS = 3
TASKS = 1000
"""Of the gang that no kubelet runs."""
IN_PLACE, FRAMEWORK_RETRY = "inplace", "frameworkretry"
WAYS = {IN_PLACE: "in-place restart", FRAMEWORK_RETRY: "Framework retry"}
"""How the gang of three starts again: the names of the Frameworks, and those of the ways in the table."""
_SECONDS = 600.0
_CRASH_SECONDS = 180.0
_LOOK_SECONDS = 0.1
# Writes when it starts to run, and exits when the file is there. It obeys SIGTERM.
_PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print(time.time())
while not os.path.exists("/tmp/crash"):
    time.sleep(0.02)
sys.exit(17)
"""
_CRASH = "import pathlib, time; print(time.time()); pathlib.Path('/tmp/crash').touch()"


def main() -> None:
    """Measure and print tables."""
    parser = flags(__doc__)
    parser.add_argument("--crashes", type=int, default=10, help="of each way, 0 for none (%(default)s)")
    arguments = parser.parse_args()
    results = Results("restart")
    if arguments.crashes:
        with new_cluster("bench-node", Depth.NODE, NODE_NAMESPACE) as (cluster, raw):
            install(cluster)
            for way, name in WAYS.items():
                seconds = crashes(cluster, Frameworks(raw, NODE_NAMESPACE), way, arguments.crashes)
                figures = {"all run again p50 s": median(seconds), "least s": min(seconds), "most s": max(seconds)}
                results.add(f"crash:{RANKS}", name, figures, cluster.version)
    with new_cluster("bench-restart", Depth.CONTROL_PLANE, NAMESPACE) as (cluster, raw), controller(cluster):
        results.add(f"crash:{TASKS}", "in-place restart, simulated", restart(raw), cluster.version)
    results.show()


def install(cluster: Cluster) -> None:
    """Install the three programs on a node."""
    for archive in images.build_all(manifests.PROGRAM_IMAGES).values():
        cluster.load(archive)
    programs = manifests.programs(manifests.ImageNames())
    (config,) = (one["data"] for one in programs if one["kind"] == "ConfigMap")
    config["frameworkcontroller.yaml"] += "\ncrashLoopPause: false\n"  # the ranks run for seconds
    deploy.install(local_cluster(cluster), programs)


def crashes(cluster: Cluster, frameworks: Frameworks, way: str, number: int) -> list[float]:
    """Let rank 1 of a gang crash so often; return the seconds of each time until all run again."""
    policy = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
    worker = role("worker", RANKS, pod=_template(way), completion=policy)
    retry = {"fancyRetryPolicy": False, "maxRetryCount": -2 if way == FRAMEWORK_RETRY else 0}
    frameworks.create(way, worker, retryPolicy=retry)
    try:
        _all_run(cluster, way, 0.0)
        found = []
        for crash in range(number):
            after = float(_kubectl(cluster, way, "exec", 1, "--", "python3", "-c", _CRASH))
            found.append(_all_run(cluster, way, after) - after)
            print(f"{WAYS[way]}: crash {crash + 1}: {found[-1]:.1f} s", flush=True)
        return found
    finally:
        frameworks.raw.delete(f"{frameworks.path}/{way}")
        frameworks.created()  # none is left


def _all_run(cluster: Cluster, gang: str, after: float) -> float:
    """Wait until all ranks have begun to run after a time; return when the last of them did."""

    def check() -> float:
        starts = [float(_kubectl(cluster, gang, "logs", index)) for index in range(RANKS)]
        assert min(starts) > after, f"{sum(start > after for start in starts)} of {RANKS} run"
        return max(starts)

    return eventually(check, _CRASH_SECONDS, _LOOK_SECONDS)


def _kubectl(cluster: Cluster, gang: str, verb: str, index: int, *more: str) -> str:
    """Run kubectl on the Pod of a rank; AssertionError while the rank does not run."""
    try:
        found = cluster.kubectl(verb, names.pod_name(gang, "worker", index), "-c", "main", "-n", NODE_NAMESPACE, *more)
    except LocalClusterError as error:
        raise AssertionError(error) from error
    # The kubelet says as a log that a container which was replaced just now has none.
    assert found, f"rank {index} has written nothing yet"
    assert not found.startswith("unable to retrieve"), found
    return found


def _template(way: str) -> Json:
    annotations = {names.RESTART_ANNOTATION: names.IN_PLACE, names.RESTART_LIMIT_ANNOTATION: "0"}
    main = {
        "name": "main",
        "image": images.reference("barrier"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-uc", _PROGRAM],
    }
    labels = {names.BARRIER_LABEL: "enabled"}
    return {
        "metadata": {"labels": labels, "annotations": annotations if way == IN_PLACE else {}},
        "spec": {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [main]},
    }


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
    main()
