"""What a start of the controller costs in a cluster that is full: the time until it works, memory, and requests.

    python tools/bench/start.py [--pods 100000] [--completed 10000] [--tasks 100] [--lists streamed,pages] [--csv FILE]

The cluster is a control plane of its own, which is removed at the end. One Framework with Pods that run and one that is
Completed are real; all others are copies of them, written into etcd. Then the controller is started, once for each way
of filling its caches. `--pods` and `--completed` may be lists, of one length: a cluster for each.

The figures are also written to build/bench/start.csv; `make scale` takes them over into docs/performance.csv and
docs/scale.md, which says what they mean.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import prometheus
from controller_scene import pid_of
from newcluster import new_cluster
from proc import cpu_seconds, memory_mib
from start_etcd import Etcd
from start_fill import Filling, copies

from frameworkcontroller.api import names
from frameworkrelease.performance import MEASURED, Row, of_page, origin, row, write
from localcluster import Depth, ports
from localcluster.client import ApiStatusError, RawClient
from testkit.frameworks import ControllerProcess, Frameworks, role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcluster import Cluster

CLUSTER = "bench-start"
NAMESPACE = "full"
TASKS_OF_A_COMPLETED = 10
WAYS = {"streamed": ("-m", "frameworkcontroller"), "in pages": (str(Path(__file__).with_name("start_in_pages.py")),)}
MEMORY_STEP_MIB = 32
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


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=_numbers, default=[100_000], help="of running Frameworks (100000)")
    parser.add_argument("--completed", type=_numbers, default=[10_000], help="completed Frameworks (10000)")
    parser.add_argument("--tasks", type=int, default=100, help="of each running Framework, at most 400 (%(default)s)")
    parser.add_argument("--lists", default="streamed,in pages", help="ways of filling caches (%(default)s)")
    parser.add_argument("--csv", type=Path, default=MEASURED / "start.csv", help="the file of the figures")
    arguments = parser.parse_args()
    if len(arguments.pods) != len(arguments.completed):
        parser.error("--pods and --completed: give as many numbers of one as of the other")
    ways = arguments.lists.split(",")
    if not set(ways) <= set(WAYS):
        parser.error(f"--lists: {arguments.lists!r} is not a list of {' and '.join(map(repr, WAYS))}")
    found: list[Row] = []
    for pods, completed in zip(arguments.pods, arguments.completed, strict=True):
        found += measure(Content(pods, completed, min(arguments.tasks, pods)), ways)
        write(found, arguments.csv)
    print(*of_page(found), sep="\n")
    return 0


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def measure(content: Content, ways: list[str]) -> list[Row]:
    """Fill a cluster, and start a controller in each of these ways."""
    with new_cluster(CLUSTER, Depth.CONTROL_PLANE, NAMESPACE) as (cluster, raw), TemporaryDirectory() as folder:
        where = origin(cluster.version)
        fill(cluster, raw, content, Path(folder))
        found = []
        for number, lists in enumerate(ways):
            print(f"a start with {content.pods} Pods, {lists} ...", flush=True)
            found.append(start(cluster, raw, content, lists, where, f"probe{number}", Path(folder)))
        return found


def fill(cluster: Cluster, raw: RawClient, content: Content, folder: Path) -> None:
    """Make one Framework of each kind by the controller, and all others by copying."""
    filling = Filling(raw, NAMESPACE)
    controller = ControllerProcess(cluster, folder, {})
    controller.start()
    try:
        running = filling.run_one(content.tasks)
        completed = filling.complete_one(TASKS_OF_A_COMPLETED) if content.completed else []
    finally:
        controller.stop()
    etcd = Etcd(ports.recorded(cluster.state / "ports.json", "etcd"))
    begun = time.monotonic()
    written = etcd.put(copies(running, 1, content.frameworks))
    if completed:
        written += etcd.put(copies(completed, 1, content.completed))

    def all_there() -> None:
        assert filling.count("pods") == content.frameworks * content.tasks
        assert filling.count(names.PLURAL) == content.frameworks + content.completed

    eventually(all_there, _LIMIT_SECONDS, 1.0)
    for component in ("kube-apiserver", "kube-controller-manager"):
        eventually(functools.partial(_is_quiet, pid_of(cluster, component)), _LIMIT_SECONDS)
    print(
        f"{written} objects were written, {time.monotonic() - begun:.0f} s until the API server was quiet", flush=True
    )


def start(
    cluster: Cluster, raw: RawClient, content: Content, lists: str, where: dict[str, str], probe: str, folder: Path
) -> Row:
    """Start a controller, and look at it until it has nothing left to do."""
    server, port = pid_of(cluster, "kube-apiserver"), ports.free_port()
    frameworks = Frameworks(raw, NAMESPACE)
    frameworks.create(probe, role("probe", 1))
    controller = ControllerProcess(cluster, folder, {}, health_port=port, program=WAYS[lists])
    before, server_cpu = _traffic(raw), cpu_seconds(server)
    begun = time.monotonic()
    controller.spawn()
    assert controller.process is not None
    pid = controller.process.pid
    try:
        full = _until(lambda: _metrics(port, "readyz") is not None, begun)
        working = _until(lambda: _exists(raw, names.pod_name(probe, "probe", 0)), begun)
        settled = _settled(port) - begun
        after, pods, peak = _traffic(raw), content.frameworks * content.tasks, memory_mib(pid, "VmHWM")
        asked = math.ceil(1.25 * peak / MEMORY_STEP_MIB) * MEMORY_STEP_MIB
        figures = {
            "Pods": pods,
            "Frameworks": content.frameworks,
            "completed Frameworks": content.completed,
            "caches full s": full,
            "working s": working,
            "settled s": settled,
            "peak MiB": round(peak),
            "then MiB": round(memory_mib(pid, "VmRSS")),
            "requests": int(prometheus.total(_metrics(port) or "", "rest_client_requests_total")),
            "MB received": (after[0] - before[0]) / 1e6,
            "MB written": (after[1] - before[1]) / 1e6,
            "CPU s": cpu_seconds(pid),
            "API server CPU s": cpu_seconds(server) - server_cpu,
            "memory request": f"{asked}Mi",
            "memory limit": f"{2 * asked}Mi",
        }
        return row(f"full:{pods}+{content.completed}", f"controller, lists {lists}", figures | where)
    finally:
        controller.stop()
        raw.delete(f"{frameworks.path}/{probe}")


def _until(done: Callable[[], bool], begun: float) -> float:
    """Wait until something holds, and return the seconds since `begun`."""
    while not done():
        assert time.monotonic() - begun < _LIMIT_SECONDS, "the controller does not get to work: see its log"
        time.sleep(_LOOK_SECONDS)
    return time.monotonic() - begun


def _settled(port: int) -> float:
    """Wait until the controller has sent nothing for some seconds; return since when, in monotonic seconds."""
    last, sent = time.monotonic(), -1.0
    while time.monotonic() - last < _QUIET_SECONDS:
        text = _metrics(port) or ""
        now = prometheus.total(text, "rest_client_requests_total")
        if now != sent or prometheus.total(text, "workqueue_depth"):
            last, sent = time.monotonic(), now
        time.sleep(5 * _LOOK_SECONDS)
    return last


def _metrics(port: int, path: str = "metrics") -> str | None:
    """Return what the controller answers, None if it is not there or not ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def _exists(raw: RawClient, pod: str) -> bool:
    try:
        raw.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}")
    except ApiStatusError:
        return False
    return True


def _traffic(raw: RawClient) -> tuple[float, float]:
    """Return the bytes that the API server has sent in answers and events, and received in bodies, of all clients."""
    text = raw.text("/metrics")
    sent = sum(prometheus.total(text, f"apiserver_{name}_sum") for name in ("response_sizes", "watch_events_sizes"))
    return sent, prometheus.total(text, "apiserver_request_body_size_bytes_sum")


def _is_quiet(pid: int) -> None:
    before, begun = cpu_seconds(pid), time.monotonic()
    time.sleep(2)
    share = (cpu_seconds(pid) - before) / (time.monotonic() - begun)
    assert share < _QUIET_CPU, f"{share:.2f} cores"


if __name__ == "__main__":
    sys.exit(main())
