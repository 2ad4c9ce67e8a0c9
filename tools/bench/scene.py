"""Where benchmarks measure: a new cluster, a controller as users install it, and what their processes have used.

Each measurement has a cluster of its own, because what one leaves in the memory of the API server slows down the next.
"""

import contextlib
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

import localcluster
from localcluster import Cluster, Depth
from localcluster.client import Json, RawClient
from localcluster.processes.health import check_health
from localcluster.processes.ports import free_port
from localcluster.processes.supervisor import Supervisor
from testkit.frameworks import ControllerProcess, apply_definition, apply_permissions

# With a hundred thousand Pods an API server needs more than localcluster gives it, and collects garbage all the time.
_API_SERVER_MEMORY = "8GiB"
PROGRAM = ("-m", "frameworkcontroller")


@contextlib.contextmanager
def new_cluster(name: str, depth: Depth, namespace: str) -> Iterator[tuple[Cluster, RawClient]]:
    """Make a cluster for the block, in the place of one of this name; the value is the cluster and a client of it.

    It has the Framework definition, the permissions of the controller, and the namespace.
    """
    os.environ.setdefault("GOMEMLIMIT", _API_SERVER_MEMORY)
    localcluster.down(name)
    try:
        cluster = localcluster.up(name, depth)
        with contextlib.closing(RawClient(cluster)) as raw:
            apply_definition(raw)
            apply_permissions(cluster)
            raw.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            yield cluster, raw
    finally:
        localcluster.down(name)


def component(cluster: Cluster, name: str) -> psutil.Process:
    """Return the process of a component of the cluster, by the name that `localcluster` gives it."""
    pid = cluster.processes.running(name)
    assert pid, f"{name} of cluster {cluster.name} is not running"
    return psutil.Process(pid)


def cpu_seconds(process: psutil.Process) -> float:
    """Return the user and system time of a process so far."""
    times = process.cpu_times()
    return times.user + times.system


def resident_mib(process: psutil.Process) -> float:
    """Return the resident set of a process now, in MiB."""
    return process.memory_info().rss / 2**20


def peak_mib(process: psutil.Process) -> float:
    """Return the peak of the resident set of a process in MiB, which psutil does not read."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


@contextlib.contextmanager
def program(name: str, folder: Path, health_port: int, *flags: str, **environ: str) -> Iterator[psutil.Process]:
    """Run another of our programs for the block, which begins when it is ready; its log is in the folder."""
    processes, command, url = Supervisor(folder), [sys.executable, "-m", name], f"http://127.0.0.1:{health_port}/readyz"
    pid = processes.start(name, [*command, *flags], env=os.environ | environ, ready=lambda: check_health(url))
    try:
        yield psutil.Process(pid)
    finally:
        processes.stop(name)


@dataclass(frozen=True)
class Controller:
    """The controller, seen from outside: its process, and the port of its metrics and of its health."""

    process: psutil.Process
    port: int

    def answer(self, path: str = "metrics") -> str | None:
        """Return what it answers, None if it is not there or not ready."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=60) as found:
                return str(found.read().decode())
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None


@contextlib.contextmanager
def controller(
    cluster: Cluster, program: tuple[str, ...] = PROGRAM, *, works: bool = True, settings: Json | None = None
) -> Iterator[Controller]:
    """Run a controller for the block, in a process of its own with the permissions that users give it.

    The block begins when its caches are full, unless `works` is False.
    """
    with TemporaryDirectory() as folder:
        made = ControllerProcess(cluster, Path(folder), settings or {}, health_port=free_port(), program=program)
        try:
            (made.start if works else made.spawn)()
            assert made.process is not None
            yield Controller(psutil.Process(made.process.pid), made.health_port)
        finally:
            if made.process:
                made.stop()
