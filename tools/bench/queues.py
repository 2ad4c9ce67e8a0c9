"""Measure what a queue of Kueue costs: Frameworks with its label, and without, on simulated nodes.

`make bench-queue`: 200 Frameworks of 10 Tasks run without a queue; as many Workloads of the same size, which nobody's
jobs are, are admitted by Kueue; then as many Frameworks are queued. What the last one takes longer than Kueue itself is
the price of the controller's part.
"""

import functools
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.results import Results, flags
from bench.scene import controller, cpu_seconds, new_cluster
from frameworkcontroller.api import names
from frameworkcontroller.api.workload import KUEUE_API, QUEUE_LABEL, WORKLOADS
from frameworkkube.paths import resource_path
from localcluster import Cluster, Depth
from localcluster.client import Json, RawClient
from testkit import kueue
from testkit.absent_pods import WRITERS
from testkit.frameworks import framework, role

NAMESPACE = "queues"
FRAMEWORKS = resource_path(names.API_VERSION, names.PLURAL, namespace=NAMESPACE)
ALL_WORKLOADS = resource_path(KUEUE_API, WORKLOADS, namespace=NAMESPACE)
_LIMIT_SECONDS = 900.0
_LOOK_SECONDS = 0.2


def main() -> None:
    """Run from the command line."""
    parser = flags(__doc__)
    parser.add_argument("--frameworks", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=10)
    arguments = parser.parse_args()
    with new_cluster("bench-queue", Depth.KWOK, NAMESPACE) as (cluster, raw), TemporaryDirectory() as folder:
        process = kueue.Kueue(cluster, Path(folder))
        process.install()
        kueue.grant(cluster)
        integrations = process.configuration()["integrations"] | {"externalFrameworks": ["ConfigMap.v1."]}
        process.start(integrations=integrations)
        try:
            kueue.quota(raw, NAMESPACE, cpu="100000")
            measure(cluster, raw, arguments.frameworks, arguments.tasks)
        finally:
            process.stop()


def measure(cluster: Cluster, raw: RawClient, number: int, tasks: int) -> None:
    """Measure the three, one after the other."""
    results, shape = Results("queue"), f"{number}x{tasks}"
    spec = {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1m"}}}]}
    pod_set = {"name": "worker", "count": tasks, "template": {"spec": spec}}

    def of(name: str, labels: dict[str, str]) -> Json:
        made = framework(NAMESPACE, name, role("worker", tasks, pod={"spec": spec}))
        made["metadata"]["labels"] = labels
        return made

    def workload(name: str) -> Json:
        body = {"queueName": "main", "podSets": [pod_set]}
        return {"apiVersion": KUEUE_API, "kind": "Workload", "metadata": {"name": name}, "spec": body}

    with controller(cluster, settings={"kueue": {"enabled": True}}) as ours:
        rows: dict[str, tuple[str, list[Json]]] = {
            # The watches of a new API server are slow, see `controller.scene`.
            "warm-up": (FRAMEWORKS, [of(f"w{one}", {}) for one in range(number)]),
            "no queue": (FRAMEWORKS, [of(f"a{one}", {}) for one in range(number)]),
            "Kueue alone": (ALL_WORKLOADS, [workload(f"b{one}") for one in range(number)]),
            "a queue": (FRAMEWORKS, [of(f"c{one}", {QUEUE_LABEL: "main"}) for one in range(number)]),
        }
        seconds = {}
        for by, (path, bodies) in rows.items():
            before, begun = cpu_seconds(ours.process), time.monotonic()
            with ThreadPoolExecutor(WRITERS) as writers:
                list(writers.map(functools.partial(raw.create, path), bodies))
            first, is_done = bodies[0]["metadata"]["name"][0], _is_whole if path == FRAMEWORKS else _is_admitted
            # What is left of the row before does not count.
            while sum(is_done(one) for one in raw.get(path)["items"] if one["metadata"]["name"][0] == first) < number:
                assert time.monotonic() - begun < _LIMIT_SECONDS, f"{by}: not over"
                time.sleep(_LOOK_SECONDS)
            seconds[by] = time.monotonic() - begun
            figures = {"s": round(seconds[by], 1), "CPU s": round(cpu_seconds(ours.process) - before, 2)}
            if by == "a queue":
                figures["ratio"] = round((seconds[by] - seconds["Kueue alone"]) / seconds["no queue"], 2)
            results.add(f"queue:{shape}", by, figures, cluster.version)
            print(by, figures, flush=True)
            raw.delete(path)


def _is_whole(framework: Json) -> bool:
    ready, _, total = str((framework.get("status") or {}).get("ready", "0/1")).partition("/")
    return ready == total


def _is_admitted(workload: Json) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Admitted" and one["status"] == "True" for one in conditions)


if __name__ == "__main__":
    main()
