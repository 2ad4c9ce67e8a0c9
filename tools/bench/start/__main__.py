"""What a start of the controller costs in a cluster that is full: the time until it works, memory, and requests.

The cluster is a control plane of its own, which is removed at the end. One Framework with Pods that run and one that is
Completed are real; all others are copies of them, written into etcd. Then the controller is started, once for each way
of filling its caches. `--pods` and `--completed` may be lists, of one length: a cluster for each.
"""

import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from bench.metrics import SENT, since, total, traffic
from bench.results import Results, flags
from bench.scene import PROGRAM, Controller, component, controller, cpu_seconds, new_cluster, peak_mib, resident_mib
from bench.start.fill import complete_one, copies, put, run_one
from frameworkcontroller.api import names
from localcluster import Cluster, Depth
from localcluster.client import ApiStatusError, RawClient
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually

CLUSTER = "bench-start"
NAMESPACE = "full"
TASKS = 100
"""Of each running Framework; with more than 400 its status would be compressed, and could not be copied."""
TASKS_OF_A_COMPLETED = 10
WAYS = {"streamed": PROGRAM, "in pages": ("-m", "bench.start.in_pages")}
MEMORY_STEP_MIB = 32
_API_SERVER = "kube-apiserver"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_LIMIT_SECONDS = 900.0
_LOOK_SECONDS = 0.1
_QUIET_SECONDS = 3.0
_QUIET_CPU = 0.2
"""The share of a core below which the API server has taken in what was written."""


@dataclass(frozen=True)
class Content:
    """What a cluster is filled with: Pods of running Frameworks of so many Tasks, and completed Frameworks."""

    pods: int
    completed: int
    tasks: int

    @property
    def frameworks(self) -> int:
        """The running Frameworks."""
        return max(1, self.pods // self.tasks)


def main() -> None:
    """Measure and print a table."""
    parser = flags(__doc__)
    parser.add_argument("--pods", type=_numbers, default=[100_000], help="of running Frameworks (100000)")
    parser.add_argument("--completed", type=_numbers, default=[10_000], help="completed Frameworks (10000)")
    arguments = parser.parse_args()
    if len(arguments.pods) != len(arguments.completed):
        parser.error("--pods and --completed: give as many numbers of one as of the other")
    results = Results("start")
    for pods, completed in zip(arguments.pods, arguments.completed, strict=True):
        content = Content(pods, completed, min(TASKS, pods))
        with new_cluster(CLUSTER, Depth.CONTROL_PLANE, NAMESPACE) as (cluster, raw):
            fill(cluster, raw, content)
            for lists in WAYS:
                print(f"a start with {pods} Pods, {lists} ...", flush=True)
                measured = start(cluster, raw, content, lists)
                shape = f"full:{content.frameworks * content.tasks}+{completed}"
                results.add(shape, f"controller, lists {lists}", measured, cluster.version)
    results.show()


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def fill(cluster: Cluster, raw: RawClient, content: Content) -> None:
    """Make one Framework of each kind by the controller, and all others by copying."""
    frameworks = Frameworks(raw, NAMESPACE)
    with controller(cluster):
        running = run_one(frameworks, content.tasks)
        completed = complete_one(frameworks, TASKS_OF_A_COMPLETED) if content.completed else []
    etcd = cluster.port("etcd")
    begun = time.monotonic()
    written = put(etcd, copies(running, content.frameworks - 1))
    if completed:
        written += put(etcd, copies(completed, content.completed - 1))

    def all_there() -> None:
        assert frameworks.count(frameworks.pods_path) == content.frameworks * content.tasks
        assert frameworks.count(frameworks.path) == content.frameworks + content.completed

    eventually(all_there, _LIMIT_SECONDS, 1.0)
    for name in (_API_SERVER, "kube-controller-manager"):
        eventually(functools.partial(_is_quiet, component(cluster, name)), _LIMIT_SECONDS)
    seconds = time.monotonic() - begun
    print(f"{written} objects were written, {seconds:.0f} s until the API server was quiet", flush=True)


def start(cluster: Cluster, raw: RawClient, content: Content, lists: str) -> dict[str, object]:
    """Start a controller, and look at it until it has nothing left to do; return columns."""
    server, frameworks = component(cluster, _API_SERVER), Frameworks(raw, NAMESPACE)
    probe = f"probe{lists.replace(' ', '')}"
    frameworks.create(probe, role("probe", 1))
    before, server_cpu = traffic(raw.text("/metrics")), cpu_seconds(server)
    begun = time.monotonic()
    with controller(cluster, WAYS[lists], works=False) as ours:
        full = _until(ours, lambda: ours.answer("readyz") is not None, begun)
        working = _until(ours, lambda: _exists(raw, names.pod_name(probe, "probe", 0)), begun)
        settled = _settled(ours) - begun
        peak = peak_mib(ours.process)
        asked = math.ceil(1.25 * peak / MEMORY_STEP_MIB) * MEMORY_STEP_MIB
        figures = {
            "Pods": content.frameworks * content.tasks,
            "Frameworks": content.frameworks,
            "completed Frameworks": content.completed,
            "caches full s": full,
            "working s": working,
            "settled s": settled,
            "peak MiB": round(peak),
            "then MiB": round(resident_mib(ours.process)),
            "requests": int(total(ours.answer() or "", SENT)),
            **since(before, traffic(raw.text("/metrics"))),
            "CPU s": cpu_seconds(ours.process),
            "API server CPU s": cpu_seconds(server) - server_cpu,
            "memory request": f"{asked}Mi",
            "memory limit": f"{2 * asked}Mi",
        }
    raw.delete(f"{frameworks.path}/{probe}")
    return figures


def _until(ours: Controller, done: Callable[[], bool], begun: float) -> float:
    while not done():
        assert ours.process.status() != psutil.STATUS_ZOMBIE, "the controller has ended: see its log"
        assert time.monotonic() - begun < _LIMIT_SECONDS, "the controller does not get to work: see its log"
        time.sleep(_LOOK_SECONDS)
    return time.monotonic() - begun


def _settled(ours: Controller) -> float:
    """Wait until the controller has sent nothing for some seconds; return since when, in monotonic seconds."""
    last, sent = time.monotonic(), -1.0
    while time.monotonic() - last < _QUIET_SECONDS:
        text = ours.answer() or ""
        now = total(text, SENT)
        if now != sent or total(text, "workqueue_depth"):
            last, sent = time.monotonic(), now
        time.sleep(5 * _LOOK_SECONDS)
    return last


def _exists(raw: RawClient, pod: str) -> bool:
    try:
        raw.get(f"{_PODS}/{pod}")
    except ApiStatusError:
        return False
    return True


def _is_quiet(process: psutil.Process) -> None:
    share = process.cpu_percent(interval=2) / 100
    assert share < _QUIET_CPU, f"{share:.2f} cores"


if __name__ == "__main__":
    main()
