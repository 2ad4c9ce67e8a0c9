"""Measure what a gang of another controller costs, beside a Framework of the same size.

`make bench-others`: the Pods of a JobSet, made by the real controller of JobSets, and those of a Framework, 1,000 each,
which no kubelet runs. All but the last get addresses, some real barriers wait, and the last address opens the gate.
Requests are those about rosters that the API server has counted.
"""

import contextlib
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.barrier.clients import Barriers
from bench.barrier.gang import LABELS, NAMESPACE, Gang, Stage, write_account
from bench.metrics import samples
from bench.results import Results, flags
from bench.scene import Controller, controller, cpu_seconds, new_cluster, resident_mib
from frameworkcontroller.api import foreign, names
from localcluster import Depth
from localcluster.client import Json
from testkit import absent_pods, kueue
from testkit.frameworks import Frameworks
from testkit.operators import JobSet
from testkit.waiting import eventually

BARRIERS = 20
JOBSETS = f"/apis/{foreign.JOBSET.api_version}/namespaces/{NAMESPACE}/{foreign.JOBSET.plural}"
_SECONDS, _SETTLE_SECONDS = 600.0, 2.0
_ROSTERS = frozenset({"configmaps", "roles", "rolebindings"})
_READS, _WRITES = ("GET", "WATCH"), ("POST", "PATCH", "PUT", "APPLY", "DELETE")


def main() -> None:
    """Run from the command line."""
    parser = flags(__doc__)
    parser.add_argument("--pods", type=int, default=1000)
    number = parser.parse_args().pods
    results = Results("others")
    with (
        new_cluster("bench-others", Depth.CONTROL_PLANE, NAMESPACE) as (cluster, raw),
        TemporaryDirectory() as folder,
        contextlib.ExitStack() as ends,
    ):
        jobsets = JobSet(cluster, Path(folder))
        ends.callback(jobsets.stop)
        jobsets.install()
        jobsets.start()
        kueue.grant(cluster, "foreignGangs.enabled=true", f"--api-versions={foreign.JOBSET.api_version}")
        eventually(partial(write_account, cluster, Path(folder)), 30, 0.2)
        stage = Stage(cluster, Frameworks(raw, NAMESPACE), Path(folder))
        for by, create in (("warming", of_framework), ("a Framework", of_framework), ("a JobSet", of_jobset)):
            with controller(cluster, settings={"foreignGangs": {"enabled": True}}) as ours:
                figures = measure(stage, ours, partial(create, stage, by.split()[-1].lower(), number))
                for path in (stage.frameworks.path, JOBSETS, stage.frameworks.pods_path):
                    raw.delete(path, {"gracePeriodSeconds": 0})  # the next controller begins with empty caches
                eventually(lambda: _is_clear(stage), _SECONDS, 1)
            if by != "warming":
                results.add(f"others:{number}", by, figures, cluster.version)
            print(by, figures, flush=True)
    results.show()


def _is_clear(stage: Stage) -> None:
    assert not stage.frameworks.raw.get(f"{stage.frameworks.pods_path}?limit=1")["items"]


def of_framework(stage: Stage, name: str, number: int) -> tuple[str, list[Json]]:
    """Create a Framework, and return the name of its gang and its Pods by index."""
    return name, absent_pods.create(stage.frameworks, name, number, **LABELS)


def of_jobset(stage: Stage, name: str, number: int) -> tuple[str, list[Json]]:
    """Create a JobSet of one Job, and return the same."""
    container = {"name": "main", "image": "none", "command": ["python3", "train.py"]}
    pod = {"restartPolicy": "Never", "nodeName": absent_pods.NODE, "containers": [container]}
    job = {"parallelism": number, "completions": number, "template": {"metadata": {"labels": LABELS}, "spec": pod}}
    spec = {"replicatedJobs": [{"name": "worker", "replicas": 1, "template": {"spec": job}}]}
    head = {"apiVersion": foreign.JOBSET.api_version, "kind": foreign.JOBSET.kind, "metadata": {"name": name}}
    made = stage.frameworks.raw.create(JOBSETS, head | {"spec": spec})
    gang = foreign.gang_name(foreign.JOBSET, (name, made["metadata"]["uid"], "0"))
    return gang, absent_pods.find(stage.frameworks, name, number, foreign.JOBSET.name)


class Waiting(Gang):
    """A gang whose barriers find it by its roster alone, that of a Framework, too."""

    def environment(self, index: int, output: str) -> dict[str, str]:
        """Return the whole environment of one Pod's barrier."""
        pod = self._pods[index]
        return self._stage.environment(pod, output) | {
            "FB_ROSTER": names.config_map_name(self.name),
            "FC_POD_NAME": pod["metadata"]["name"],
            "FC_FRAMEWORK_NAMESPACE": NAMESPACE,
        }


def measure(stage: Stage, ours: Controller, create: Callable[[], tuple[str, list[Json]]]) -> dict[str, float]:
    """Let a gang start, and return columns."""

    def asked(verbs: Collection[str]) -> int:
        """Return how many requests of these verbs about rosters there were; a watch counts when it ends."""
        found = samples(stage.frameworks.raw.text("/metrics"), "apiserver_request_total")
        return int(sum(n for labels, n in found if labels.get("resource") in _ROSTERS and labels["verb"] in verbs))

    memory, cpu, written = resident_mib(ours.process), cpu_seconds(ours.process), asked(_WRITES)
    name, pods = create()
    gang = Waiting(stage, name, pods)
    read = asked(_READS)
    with TemporaryDirectory() as folder, contextlib.closing(Barriers(gang, BARRIERS, Path(folder))) as barriers:
        time.sleep(_SETTLE_SECONDS)
        barriers.note()
        begun = gang.release()
        open_after = max(one["at"] for one in barriers.ends()) - begun
        time.sleep(_SETTLE_SECONDS)
        return {
            "controller CPU s": round(cpu_seconds(ours.process) - cpu, 2),
            "KiB a Pod": round((resident_mib(ours.process) - memory) * 1024 / len(pods), 1),
            "writes of rosters": asked(_WRITES) - written,
            "requests of a barrier": (asked(_READS) - read) / BARRIERS,
            "open after s": round(open_after, 2),
        }


if __name__ == "__main__":
    main()
