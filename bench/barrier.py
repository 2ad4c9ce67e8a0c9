"""What the barrier costs: its start, and how fast a gang of 1,000 is released, next to polling as FC's barrier does it.

    python bench/barrier.py [--tasks 1000] [--processes 50] [--runs 20] [--poll-seconds 30] [--json FILE]

Runs on a local control plane, kept for the next run; everything shares this machine's cores, so the processes' release
is a ceiling. Targets: first request within 150 ms, 32 MiB, 0.25 s of CPU; p99 under 300 ms from the roster's write.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

import localcluster
from frameworkbarrier.gang import Gang, Role, Task
from frameworkbarrier.roster import encode
from localcluster import Cluster, Depth
from support.raw import Raw, RefusedError

NAMESPACE = "bench-barrier"
ROOT = Path(__file__).parent.parent
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
FRAMEWORKS = f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/{NAMESPACE}/frameworks"
POLL_SECONDS = 10.0


@dataclass
class Start:
    """One way to start; medians. Milliseconds, seconds, MiB."""

    what: str
    total_ms: float = 0.0
    cpu_s: float = 0.0
    peak_mib: float = 0.0


@dataclass
class Release:
    """How long after the last Task was ready; milliseconds, and what each barrier cost the API server."""

    what: str
    count: int
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    requests_each: float = 0.0
    kilobytes_each: float = 0.0
    note: str = ""


@dataclass
class Figures:
    """All of a run."""

    starts: list[Start] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)


def environment(index: int, folder: str, account: Path, **more: str) -> dict[str, str]:
    """A worker's environment as the controller and the injector make it."""
    return {
        "PATH": os.environ["PATH"],
        "FC_FRAMEWORK_NAMESPACE": NAMESPACE,
        "FC_FRAMEWORK_NAME": "mnist",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": str(index),
        "FC_POD_UID": uid("worker", index),
        "FB_OUTPUT_DIR": folder,
        "FB_TOKEN_DIR": str(account),
        "FB_PRESET": "tensorflow",
        "FB_FRAMEWORK_JSON": "never",
        **more,
    }


def uid(kind: str, index: int) -> str:
    """A UID whose first eight characters differ for each index."""
    return f"{index:08x}-{kind:0<4.4}-4000-8000-000000000000"


def ip(number: int) -> str:
    """An address for each number."""
    return f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"


def roster(tasks: int, *, ready: int | None = None, generation: int = 1) -> str:
    """A roster of so many workers as the controller writes it; complete unless `ready` says less."""
    members = tuple(
        Task(index, ip(index + 1), uid("worker", index)[:8], 0, "node-1", "192.0.2.1", "") for index in range(tasks)
    )
    complete = ready is None
    return encode(
        Gang(
            NAMESPACE,
            "mnist",
            "uid",
            0,
            "0_uid",
            generation,
            tasks if ready is None else ready,
            tasks,
            complete,
            (),
            (Role("worker", members),) if complete else (),
        )
    )


def put_roster(raw: Raw, text: str) -> float:
    """Write the roster; returns when the API server had it (monotonic seconds)."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "mnist-attempt"},
        "data": {"roster": text},
    }
    raw.apply(f"{CONFIG_MAPS}/mnist-attempt", body)
    return time.monotonic()


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """Median and 99th percentile in milliseconds."""
    ordered = sorted(seconds)
    return statistics.median(ordered) * 1e3, ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3


def measure_starts(cluster: Cluster, raw: Raw, account: Path, runs: int) -> list[Start]:
    """Whole runs of the program against an open gang of 10, at full speed and at a tenth of a core."""
    put_roster(raw, roster(10))
    found = []
    for what, quota in (("a whole core", None), ("cpu: 100m", 0.1)):
        with limited(quota) as enter:
            if enter is None:
                print(f"no cgroup may be made here: {what} is left out")
                continue
            rows = [one_start(cluster, account, enter) for _ in range(runs if quota is None else max(runs // 4, 3))]
        total, cpu, peak = map(statistics.median, zip(*rows, strict=True))
        found.append(Start(what, total * 1e3, cpu, peak))
    return found


# A child's peak memory counts what its parent had when it forked, so the parent is a bare interpreter.
SPAWN = """
import os, sys, time
begun = time.monotonic()
pid = os.posix_spawn(sys.executable, [sys.executable, "-m", "frameworkbarrier"], os.environ)
_, status, used = os.wait4(pid, 0)
print(time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def one_start(cluster: Cluster, account: Path, enter: Any) -> tuple[float, ...]:
    """Seconds, CPU seconds and MiB of one run."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-I", "-S", "-c", SPAWN],
            env=environment(0, folder, account, KUBE_APISERVER_ADDRESS=cluster.server),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=enter,
            check=True,
        )
    return tuple(map(float, run.stdout.split()))


@contextlib.contextmanager
def limited(cores: float | None) -> Any:
    """What a child calls to live under a CPU limit as the kubelet sets it; None if none can be made."""
    if cores is None:
        yield lambda: None
        return
    version1, version2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    group = (version1 if version1.is_dir() else version2) / f"bench-barrier-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        if version1.is_dir():
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text(str(int(cores * 100_000)))
        else:
            (group / "cpu.max").write_text(f"{int(cores * 100_000)} 100000")
        members = str(group / "cgroup.procs")
        yield lambda: Path(members).write_text("0")
    except OSError:
        yield None
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


def measure_processes(cluster: Cluster, raw: Raw, account: Path, tasks: int, count: int) -> Release:
    """Real barriers of a gang, from the write of the complete roster to their exits."""
    put_roster(raw, roster(tasks, ready=tasks - 1))
    folders = [tempfile.TemporaryDirectory() for _ in range(count)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "frameworkbarrier"],
            env=environment(index, folder.name, account, KUBE_APISERVER_ADDRESS=cluster.server),
            stderr=subprocess.PIPE,
        )
        for index, folder in enumerate(folders)
    ]
    for process in processes:
        assert process.stderr is not None
        process.stderr.readline()  # it waits
    ends: list[float] = []

    def reap(process: subprocess.Popen[bytes]) -> None:
        process.communicate()
        ends.append(time.monotonic())

    threads = [threading.Thread(target=reap, args=(process,)) for process in processes]
    for thread in threads:
        thread.start()
    time.sleep(2)
    at = put_roster(raw, roster(tasks, generation=2))
    for thread in threads:
        thread.join()
    assert all(process.returncode == 0 for process in processes)
    for folder in folders:
        folder.cleanup()
    p50, p99 = percentiles([end - at for end in ends])
    return Release(f"{count} barrier processes, roster's write to exit", count, p50, p99)


class Watchers:
    """The same requests as the barrier's, many in one process, as bare as can be: what the API server adds."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        self._cluster = cluster
        self._context = ssl.create_default_context(cafile=str(cluster.ca_file))
        self._headers = {"Authorization": f"Bearer {token}"}
        self.open = 0
        self.all_open = asyncio.Event()
        self._turns = asyncio.Semaphore(50)  # they start over some seconds in a real gang, too
        self.bytes = 0
        self.requests = 0
        self.refused = 0
        self.released: list[float] = []

    def session(self) -> aiohttp.ClientSession:
        """A session without limits."""
        connector = aiohttp.TCPConnector(limit=0, ssl=self._context)
        return aiohttp.ClientSession(
            self._cluster.server, connector=connector, headers=self._headers, read_bufsize=2**20
        )

    async def watch(self, session: aiohttp.ClientSession, tasks: int) -> None:
        """One barrier: get, watch, released by the complete roster."""
        async with self._turns, session.get(f"{CONFIG_MAPS}/mnist-attempt") as answer:
            answer.raise_for_status()
            first = await answer.read()
        version = json.loads(first)["metadata"]["resourceVersion"]
        params = {
            "watch": "1",
            "fieldSelector": "metadata.name=mnist-attempt",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
        }
        self.requests += 2
        self.bytes += len(first)
        async with session.get(CONFIG_MAPS, params=params, timeout=aiohttp.ClientTimeout(None)) as answer:
            answer.raise_for_status()
            self.open += 1
            if self.open == tasks:
                self.all_open.set()
            async for line in answer.content:
                self.bytes += len(line)
                if rb"\"complete\":true" in line:
                    self.released.append(time.monotonic())
                    return

    async def poll(self, session: aiohttp.ClientSession, delay: float, until: float) -> None:
        """One barrier of FC's kind: the whole Framework every ten seconds."""
        await asyncio.sleep(delay)
        while True:
            async with session.get(f"{FRAMEWORKS}/mnist") as answer:
                data = await answer.read()
            self.requests += 1
            self.bytes += len(data)
            if answer.status == 429:
                self.refused += 1
                await asyncio.sleep(1)
                continue
            answer.raise_for_status()
            if b'"podIP":""' not in data:
                self.released.append(time.monotonic())
                return
            if time.monotonic() > until:
                return
            await asyncio.sleep(POLL_SECONDS)


async def measure_watches(cluster: Cluster, raw: Raw, token: str, tasks: int) -> Release:
    """A gang's watches, from the write of the complete roster to its arrival at each."""
    put_roster(raw, roster(tasks, ready=tasks - 1))
    watchers = Watchers(cluster, token)
    async with watchers.session() as session:
        running = [asyncio.create_task(watchers.watch(session, tasks)) for _ in range(tasks)]
        opening = asyncio.create_task(watchers.all_open.wait())
        await asyncio.wait([opening, *running], return_when=asyncio.FIRST_COMPLETED)
        assert opening.done(), [task.exception() for task in running if task.done()]
        await asyncio.sleep(2)
        at = await asyncio.to_thread(put_roster, raw, roster(tasks, generation=2))
        await asyncio.gather(*running)
    p50, p99 = percentiles([end - at for end in watchers.released])
    return Release(
        f"{tasks} watches in one process, roster's write to its arrival",
        tasks,
        p50,
        p99,
        watchers.requests / tasks,
        watchers.bytes / tasks / 1e3,
        "a wait of any length costs one more request per 40 to 52 s",
    )


def framework(tasks: int, ready: int) -> dict[str, Any]:
    """A Framework's status as FC writes it, uncompressed."""
    now = "2026-11-21T00:00:00Z"
    retry = {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None}
    statuses = []
    for index in range(tasks):
        attempt = {
            "id": 0,
            "startTime": now,
            "runTime": None,
            "completionTime": None,
            "instanceUID": f"0_{uid('worker', index)}",
            "podName": f"mnist-worker-{index}",
            "podUID": uid("worker", index),
            "podNodeName": "node-1",
            "podIP": ip(index + 1) if index < ready else "",
            "podHostIP": "192.0.2.1",
            "completionStatus": None,
        }
        statuses.append(
            {
                "index": index,
                "instanceUID": uid("task", index),
                "startTime": now,
                "runTime": None,
                "completionTime": None,
                "state": "AttemptPreparing",
                "transitionTime": now,
                "deletionPending": False,
                "retryPolicyStatus": retry,
                "attemptStatus": attempt,
            }
        )
    role = {"name": "worker", "instanceUID": "role", "podGracefulDeletionTimeoutSec": None, "taskStatuses": statuses}
    attempt = {
        "id": 0,
        "startTime": now,
        "runTime": None,
        "completionTime": None,
        "instanceUID": "0_cm",
        "configMapName": "mnist-attempt",
        "configMapUID": "cm",
        "completionStatus": None,
        "taskRoleStatuses": [role],
    }
    status = {"startTime": now, "runTime": None, "completionTime": None, "state": "AttemptPreparing"}
    return {"status": status | {"transitionTime": now, "retryPolicyStatus": retry, "attemptStatus": attempt}}


async def measure_polls(cluster: Cluster, raw: Raw, token: str, tasks: int, seconds: float) -> Release:
    """The same gang with pollers of the Framework object; they are ready after `seconds` of waiting."""
    path = f"{FRAMEWORKS}/mnist/status"
    raw.merge(path, framework(tasks, tasks - 1))
    pollers = Watchers(cluster, token)
    async with pollers.session() as session:
        begun = time.monotonic()
        until = begun + seconds + 10 * POLL_SECONDS
        delays = [index * POLL_SECONDS / tasks for index in range(tasks)]
        running = [asyncio.create_task(pollers.poll(session, delay, until)) for delay in delays]
        await asyncio.sleep(seconds)
        await asyncio.to_thread(raw.merge, path, framework(tasks, tasks))
        at = time.monotonic()
        await asyncio.gather(*running)
    p50, p99 = percentiles([end - at for end in pollers.released])
    return Release(
        f"{tasks} pollers of the Framework every {POLL_SECONDS:g} s, after {seconds:g} s of waiting",
        tasks,
        p50,
        p99,
        pollers.requests / tasks,
        pollers.bytes / tasks / 1e3,
        f"grows with the wait; {pollers.refused} answers were 429",
    )


def prepare(cluster: Cluster, raw: Raw, folder: Path) -> Path:
    """Namespace, rights and the Framework; returns the service account's folder."""
    with contextlib.suppress(RefusedError):
        raw.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for definition in filter(None, yaml.safe_load_all((ROOT / "controller/manifests/crd.yaml").read_text())):
        raw.apply(
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}", definition
        )
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
    group = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "watch"]},
        {"apiGroups": ["frameworkcontroller.microsoft.com"], "resources": ["frameworks"], "verbs": ["get", "watch"]},
    ]
    meta = {"apiVersion": f"{group}/v1", "metadata": {"name": "barrier"}}
    raw.apply(f"{base}/roles/barrier", {**meta, "kind": "Role", "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": NAMESPACE}
    reference = {"apiGroup": group, "kind": "Role", "name": "barrier"}
    raw.apply(
        f"{base}/rolebindings/barrier",
        {**meta, "kind": "RoleBinding", "subjects": [subject], "roleRef": reference},
    )
    pod = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    spec = {"executionType": "Create", "taskRoles": [{"name": "worker", "taskNumber": 1, "task": {"pod": pod}}]}
    api_version = "frameworkcontroller.microsoft.com/v1"
    for _ in range(50):
        try:
            raw.apply(
                f"{FRAMEWORKS}/mnist",
                {"apiVersion": api_version, "kind": "Framework", "metadata": {"name": "mnist"}, "spec": spec},
            )
            break
        except RefusedError:
            time.sleep(0.2)
    (folder / "token").write_text(cluster.token(NAMESPACE, "default"))
    (folder / "ca.crt").write_bytes(cluster.ca_file.read_bytes())
    (folder / "namespace").write_text(NAMESPACE)
    return folder


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=50)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--poll-seconds", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8 * options.tasks), hard), hard))
    cluster = localcluster.up("bench-cp", Depth.CONTROL_PLANE)
    raw = Raw(cluster)
    figures = Figures()
    with tempfile.TemporaryDirectory() as scratch:
        account = prepare(cluster, raw, Path(scratch))
        token = (account / "token").read_text()
        print("starts ...", flush=True)
        figures.starts = measure_starts(cluster, raw, account, options.runs)
        print(f"{options.tasks} watches ...", flush=True)
        figures.releases.append(asyncio.run(measure_watches(cluster, raw, token, options.tasks)))
        for count in dict.fromkeys((1, min(4, options.processes), options.processes)):
            print(f"{count} processes ...", flush=True)
            figures.releases.append(measure_processes(cluster, raw, account, options.tasks, count))
        figures.releases.append(asyncio.run(measure_polls(cluster, raw, token, options.tasks, options.poll_seconds)))
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")


def show(figures: Figures) -> None:
    """Two tables."""
    print("\na whole run against an open gang of 10   total ms   CPU s   peak MiB")
    for start in figures.starts:
        print(f"{start.what:40} {start.total_ms:8.0f} {start.cpu_s:7.3f} {start.peak_mib:10.1f}")
    print(f"\n{'released after':72} p50 ms   p99 ms  requests  kB each")
    for each in figures.releases:
        cost = f"{each.requests_each:9.1f} {each.kilobytes_each:8.1f}" if each.requests_each else " " * 18
        print(f"{each.what:70} {each.p50_ms:8.0f} {each.p99_ms:8.0f} {cost}  {each.note}")


if __name__ == "__main__":
    main()
