"""How fast the controller starts and ends Frameworks, compared with a bare concurrent loop that creates the same Pods.

The benchmark runs on a local cluster with simulated nodes (kwok), which is kept for the next run. Times are in seconds
from the create call. Both sides run in one session on the same API server, so compare their ratio, not the figures.

    python bench/controller.py [--shapes 1x100,1x1000,...] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml
from controller_observer import ObservedFramework, Observer, counted
from proc import cpu_seconds, memory_mib

import localcluster
from frameworkcontroller.api import names
from frameworkcontroller.api.pod import POD_DECODER
from frameworkcontroller.core.template import PodTemplate, RoleAttempt
from frameworkkube.credentials import from_kubeconfig
from frameworkkube.informer import Informer
from frameworkkube.rest import PARTIAL_METADATA, KubeClient, resource_path
from localcluster import Cluster, Depth
from localcluster.client import RawClient
from localcluster.frameworks import apply_definition
from localcluster.kwok import RUN_SECONDS

NAMESPACE = "bench"
IN_FLIGHT = 64
SHAPES = "1x100,1x1000,1x5000,200x10"


@dataclass
class Figures:
    """The figures of one run: seconds, counts, MB written, MiB."""

    shape: str
    who: str
    created: float = 0.0
    running: float = 0.0
    completed: float | None = None
    status_writes: int = 0
    requests: int = 0
    written_mb: float = 0.0
    controller_cpu: float = 0.0
    apiserver_cpu: float = 0.0
    peak_mib: float = 0.0


def pid_of(cluster: Cluster, component: str) -> int:
    """Return the PID of a component of the cluster."""
    status = localcluster.status(cluster.name)
    pid = status and status.processes.get(component)
    assert pid, f"{component} of cluster {cluster.name} is not running"
    return pid


def pod_template(seconds: int) -> dict[str, Any]:
    """Return a Pod template of a usual size whose Pods run for `seconds`."""
    return {
        "metadata": {"annotations": {RUN_SECONDS: str(seconds)}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "command": ["python3", "train.py", "--index", "{{FC_TASK_INDEX}}"],
                    "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
                }
            ],
        },
    }


async def with_bare_loop(cluster: Cluster, client: KubeClient, frameworks: int, tasks: int, seconds: int) -> Figures:
    """Create the same Pods as fast as one process can, and nothing else."""
    figures = Figures(f"{frameworks}x{tasks}", "bare loop")
    watch = Observer()
    informer = Informer(client, resource_path("v1", "pods", namespace=NAMESPACE), POD_DECODER, on_change=watch.on_pod)
    watching = asyncio.create_task(informer.run())
    await informer.synced.wait()
    template = msgspec.json.encode(pod_template(seconds))
    server = pid_of(cluster, "kube-apiserver")
    before = await counted(client)
    cpu, own, start = cpu_seconds(server), resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    in_flight = asyncio.Semaphore(IN_FLIGHT)
    path = resource_path("v1", "pods", namespace=NAMESPACE)

    async def create(body: bytes) -> None:
        async with in_flight:
            await client.create(path, body, accept=PARTIAL_METADATA, timeout_seconds=60)

    async with asyncio.TaskGroup() as group:
        for number in range(frameworks):
            shared = RoleAttempt(NAMESPACE, f"bare{number}", "u", 0, "c", "worker", "r")
            rendered = PodTemplate(template, shared)
            for index in range(tasks):
                document = msgspec.json.decode(rendered.render(index, "t", 0))
                del document["metadata"]["ownerReferences"]
                group.create_task(create(msgspec.json.encode(document)))
    await watch.until(lambda: watch.created >= frameworks * tasks, start)
    figures.created = time.monotonic() - start
    figures.running = await watch.until(lambda: len(watch.ran) >= frameworks * tasks, start)
    after = resource.getrusage(resource.RUSAGE_SELF)
    figures.controller_cpu = after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime
    figures.apiserver_cpu = cpu_seconds(server) - cpu
    counts = (await counted(client)).since(before)
    figures.requests, figures.written_mb = counts.requests, counts.written / 1e6
    watching.cancel()
    return figures


async def with_controller(
    cluster: Cluster, client: KubeClient, controller: int, frameworks: int, tasks: int, seconds: int
) -> Figures:
    """Create Frameworks of one role and wait until all are Completed."""
    figures = Figures(f"{frameworks}x{tasks}", "controller")
    watch = Observer()
    pods = Informer(client, resource_path("v1", "pods", namespace=NAMESPACE), POD_DECODER, on_change=watch.on_pod)
    path = resource_path(names.API_VERSION, names.PLURAL, namespace=NAMESPACE)
    seen = Informer(client, path, msgspec.json.Decoder(ObservedFramework), on_change=watch.on_framework)
    watching = [asyncio.create_task(informer.run()) for informer in (pods, seen)]
    await pods.synced.wait()
    await seen.synced.wait()
    server = pid_of(cluster, "kube-apiserver")
    before = await counted(client)
    cpu, own, start = cpu_seconds(server), cpu_seconds(controller), time.monotonic()

    async def create(number: int) -> None:
        manifest = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": f"fw{tasks}x{number}"},
            "spec": {"taskRoles": [{"name": "worker", "taskNumber": tasks, "task": {"pod": pod_template(seconds)}}]},
        }
        await client.create(path, msgspec.json.encode(manifest), timeout_seconds=60)

    async with asyncio.TaskGroup() as group:
        for number in range(frameworks):
            group.create_task(create(number))
    total = frameworks * tasks
    figures.created = await watch.until(lambda: watch.created >= total, start)
    figures.running = await watch.until(lambda: len(watch.ran) >= total, start)
    figures.completed = await watch.until(lambda: len(watch.completed) >= frameworks, start) - seconds
    figures.controller_cpu = cpu_seconds(controller) - own
    figures.apiserver_cpu = cpu_seconds(server) - cpu
    figures.peak_mib = memory_mib(controller, "VmHWM")
    counts = (await counted(client)).since(before)
    figures.status_writes, figures.requests = counts.status_writes, counts.requests
    figures.written_mb = counts.written / 1e6
    for task in watching:
        task.cancel()
    return figures


async def clean(cluster: Cluster) -> None:
    """Remove everything of an earlier run."""
    await asyncio.to_thread(
        cluster.kubectl, "delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true", "--timeout=600s"
    )
    await asyncio.to_thread(cluster.kubectl, "create", "namespace", NAMESPACE)
    await asyncio.sleep(2)


def start_controller(cluster: Cluster, folder: Path) -> subprocess.Popen[bytes]:
    """Start a controller in a process of its own."""
    config = folder / "frameworkcontroller.yaml"
    alone = {"kubeConfigFilePath": str(cluster.kubeconfig), "leaderElection": {"enabled": False}}
    config.write_text(yaml.safe_dump(alone))
    with (folder / "controller.log").open("wb") as log:
        command = [sys.executable, "-m", "frameworkcontroller", "--config", str(config), "--health-port", "0"]
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)


def table(rows: list[Figures]) -> str:
    """Return the figures as a Markdown table."""
    head = (
        "| shape | who | all created s | all running s | completed s | status writes | requests | MB written "
        "| CPU s (ms/Task) | API server CPU s | peak MiB |"
    )
    lines = [head, "|" + " --- |" * 11]
    for row in rows:
        frameworks, tasks = map(int, row.shape.split("x"))
        each = 1000 * row.controller_cpu / (frameworks * tasks)
        completed = "-" if row.completed is None else f"{row.completed:.1f}"
        lines.append(
            f"| {row.shape} | {row.who} | {row.created:.1f} | {row.running:.1f} | {completed} | {row.status_writes} | "
            f"{row.requests} | {row.written_mb:.1f} | {row.controller_cpu:.1f} ({each:.2f}) | "
            f"{row.apiserver_cpu:.1f} | {row.peak_mib:.0f} |"
        )
    return "\n".join(lines)


async def run(shapes: list[str]) -> list[Figures]:
    """Measure each shape, with the bare loop and with the controller."""
    cluster = localcluster.up("bench", Depth.KWOK)
    with contextlib.closing(RawClient(cluster)) as raw:
        apply_definition(raw)
    rows = []
    client = KubeClient(from_kubeconfig(cluster.kubeconfig), max_connections=2 * IN_FLIGHT)
    for shape in shapes:
        frameworks, tasks = map(int, shape.split("x"))
        # Pods run longer than the start of the whole gang takes.
        seconds = max(10, frameworks * tasks // 40)
        await clean(cluster)
        rows.append(await with_bare_loop(cluster, client, frameworks, tasks, seconds))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
        await clean(cluster)
        with tempfile.TemporaryDirectory() as folder:
            process = start_controller(cluster, Path(folder))
            try:
                await asyncio.sleep(2)
                rows.append(await with_controller(cluster, client, process.pid, frameworks, tasks, seconds))
            finally:
                process.terminate()
                process.wait(10)
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    await clean(cluster)
    await client.close()
    return rows


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default=SHAPES, help="FRAMEWORKSxTASKS, comma separated (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    rows = asyncio.run(run(arguments.shapes.split(",")))
    print(table(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
