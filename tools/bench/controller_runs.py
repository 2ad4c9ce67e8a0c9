"""The figures of the controller, which runs in a process of its own with the permissions that users give it."""

from __future__ import annotations

import asyncio
import contextlib
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
import prometheus
from controller_observer import Observer
from controller_scene import NAMESPACE, Meter, arrivals
from controller_shapes import Kind
from proc import memory_mib

from frameworkcontroller.api import names
from frameworkkube.rest import resource_path
from localcluster.client import RawClient
from localcluster.ports import free_port
from testkit.frameworks import ControllerProcess, Frameworks, framework, role
from testkit.large_life import LargeLife

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from controller_scene import Scene
    from controller_shapes import Shape

    from localcluster import Cluster

GANG = 2
STEADY_TTL_SECONDS = 5
_LOOK_SECONDS = 0.5


@dataclass
class Controller:
    """The controller's process, seen from outside.

    Attributes:
        pid: Its PID.
        port: Of its metrics.
        memory: Its resident set in MiB, with the time in monotonic seconds, once a second.
    """

    pid: int
    port: int
    memory: list[tuple[float, float]] = field(default_factory=list)

    def metrics(self) -> str:
        """Return the text of its metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            return str(answer.read().decode())

    def growth_mib(self, begin: float, end: float) -> float | None:
        """Return by how much its resident set grew from the second third of a time to the last sixth of it."""
        third = begin + (end - begin) / 3
        early = [mib for at, mib in self.memory if third <= at < third + (end - begin) / 6]
        late = [mib for at, mib in self.memory if end - (end - begin) / 6 <= at < end]
        return median(late) - median(early) if early and late else None

    async def watch_memory(self) -> None:
        """Look at its memory once a second, until cancelled."""
        while True:
            self.memory.append((time.monotonic(), memory_mib(self.pid, "VmRSS")))
            await asyncio.sleep(1)


@contextlib.asynccontextmanager
async def running_controller(cluster: Cluster) -> AsyncIterator[Controller]:
    """Run a controller for the block."""
    with TemporaryDirectory() as folder:
        port = free_port()
        process = ControllerProcess(cluster, Path(folder), {}, health_port=port)
        await asyncio.to_thread(process.start)
        assert process.process is not None
        made = Controller(process.process.pid, port)
        watching = asyncio.ensure_future(made.watch_memory())
        try:
            yield made
        finally:
            watching.cancel()
            await asyncio.to_thread(process.stop)


class ControllerRun:
    """Makes the figures of one shape.

    Args:
        scene: The scene.
        shape: The shape.
        controller: The controller, which has done nothing yet.
    """

    def __init__(self, scene: Scene, shape: Shape, controller: Controller) -> None:
        self._scene, self._shape, self._controller = scene, shape, controller
        self._path = resource_path(names.API_VERSION, names.PLURAL, namespace=NAMESPACE)
        self._watch = Observer(shape.tasks, shape.limit_seconds)

    async def run(self) -> dict[str, float | str | None]:
        """Create the Frameworks and measure; return columns."""
        shape, controller = self._shape, self._controller
        async with self._watch.watching(self._scene.client, NAMESPACE):
            meter = await Meter.begin(self._scene, controller.pid)
            match shape.kind:
                case Kind.START | Kind.STEADY:
                    figures = await self._start(meter)
                case Kind.BESIDE:
                    figures = await self._beside(meter)
                case Kind.LIFE:
                    phases = await asyncio.to_thread(self._live)
                    figures = {f"life: {phase} s": seconds for phase, seconds in phases.items()}
            cost = await meter.read(shape.total)
            metrics = await asyncio.to_thread(controller.metrics)
            waits = prometheus.samples(metrics, "workqueue_queue_duration_seconds_bucket")
            waited = prometheus.quantile_bound(waits, 0.99)
            return {
                **cost,
                **figures,
                **self._watch.start_quantiles(),
                "queue p99 s, at most": None if waited is None else f"{waited:g}",
                "sent by the controller": int(prometheus.total(metrics, "rest_client_requests_total")),
                "peak MiB": round(memory_mib(controller.pid, "VmHWM")),
            }

    async def _start(self, meter: Meter) -> dict[str, Any]:
        shape, watch = self._shape, self._watch
        spec = {"ttlSecondsAfterFinished": STEADY_TTL_SECONDS} if shape.kind is Kind.STEADY else {}
        async with asyncio.TaskGroup() as group:
            async for number in arrivals(shape):
                group.create_task(self._create(f"fw{number}", shape.tasks, **spec))
        arrived = time.monotonic()
        figures: dict[str, Any] = {
            "all created s": await watch.until(lambda: watch.created >= shape.total, meter.start),
            "all run s": await watch.until(lambda: len(watch.ran) >= shape.total, meter.start),
        }
        meter.note_running()
        completed = await watch.until(lambda: len(watch.completed) >= shape.frameworks, meter.start)
        figures["completed s"] = completed - (shape.run_seconds or 0)
        if shape.kind is Kind.STEADY:
            figures["memory growth MiB"] = self._controller.growth_mib(meter.start, arrived)
        return figures

    async def _beside(self, meter: Meter) -> dict[str, Any]:
        shape, watch = self._shape, self._watch
        await self._create("large", shape.tasks)
        await watch.until(lambda: watch.created >= shape.tasks // 2, meter.start)
        begun = time.monotonic()
        await self._create("small", GANG)
        steps = {
            "Pods exist s": await watch.until(lambda: watch.created_of("small") == GANG, begun),
            "have addresses s": await watch.until(lambda: watch.addressed_of("small") == GANG, begun),
            "gate opens s": await watch.until(lambda: "small" in watch.opened, begun),
        }
        # The scheduler and the nodes work on the large Framework's Pods first.
        waited_for_nodes = steps["have addresses s"] - steps["Pods exist s"]
        steps["of these by the controller s"] = steps["gate opens s"] - waited_for_nodes
        total = shape.tasks + GANG
        created = await watch.until(lambda: watch.created >= total, meter.start)
        running = await watch.until(lambda: len(watch.ran) >= total, meter.start)
        meter.note_running()
        return {**steps, "all created s": created, "all run s": running}

    def _live(self) -> dict[str, float]:
        with contextlib.closing(RawClient(self._scene.cluster)) as raw:
            life = LargeLife(Frameworks(raw, NAMESPACE), self._shape.tasks)
            phases = {}
            for phase in life.phases():
                phase.begin()
                phases[phase.name] = life.wait(phase.is_over, interval=_LOOK_SECONDS)
            return phases

    async def _create(self, name: str, tasks: int, **spec: Any) -> None:
        self._watch.submits(name)
        manifest = framework(NAMESPACE, name, role("worker", tasks, pod=self._scene.pod_template(self._shape)), **spec)
        await self._scene.client.create(self._path, msgspec.json.encode(manifest))
