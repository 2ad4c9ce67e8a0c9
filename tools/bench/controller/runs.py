"""The figures of one shape: what the bare loop and the controller do in the same way, and what the controller does."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from statistics import median
from typing import Any

import msgspec
import psutil

from bench.controller.observer import Observer
from bench.controller.scene import API_SERVER, BENCHMARK, NAMESPACE, Scene
from bench.controller.shapes import GANG, Kind, Shape
from bench.metrics import SENT, quantile_bound, since, total
from bench.scene import Controller, cpu_seconds, peak_mib, resident_mib
from frameworkcontroller.api import names
from frameworkkube.paths import resource_path
from testkit.frameworks import Frameworks, framework, role
from testkit.large_life import LargeLife

Columns = dict[str, Any]
CONTROLLER = "controller"
_SPECS: dict[Kind, Columns] = {
    Kind.STEADY: {"ttlSecondsAfterFinished": 5},
    Kind.GROUPS: {"gangScheduling": {"scheduler": "kubernetes"}},
}
_LOOK_SECONDS = 0.5


class Run(ABC):
    """Makes the figures of one shape; without a controller the benchmark makes the Pods itself."""

    def __init__(self, scene: Scene, shape: Shape, controller: psutil.Process | None = None) -> None:
        self._scene, self._shape = scene, shape
        self._template = scene.pod_template(shape)
        self._watch = Observer(shape.tasks, limit=1800.0 + 4 * shape.over)
        self._processes = scene.processes()
        if controller is not None:
            self._processes[CONTROLLER] = controller
        self._begun, self._running_cpu = 0.0, dict[str, float]()

    async def run(self) -> Columns:
        """Submit what the shape says, and measure; return columns."""
        async with self._watch.watching(self._scene.client, NAMESPACE):
            counts, cpu_before = await self._scene.counted(), self._cpu()
            self._begun = time.monotonic()
            async with asyncio.TaskGroup() as group:
                match self._shape.kind:
                    case Kind.START | Kind.GROUPS | Kind.STEADY:
                        figures = await self._start(group)
                    case Kind.BESIDE:
                        figures = await self._beside(group)
                    case Kind.LIFE:
                        figures = {f"life: {phase} s": seconds for phase, seconds in (await self._live()).items()}
            spent = since(cpu_before, self._cpu())
            counts = since(counts, await self._scene.counted())
        cpu = spent.get(CONTROLLER, spent[BENCHMARK])
        cost = {"CPU ms/Task": 1000 * cpu / self._shape.total, "CPU s": cpu, "API server CPU s": spent[API_SERVER]}
        if self._running_cpu:
            running = since(cpu_before, self._running_cpu)
            cost |= {**running, "all processes": sum(running.values())}
        return {**cost, **counts, **figures, **self._watch.start_quantiles()}

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(process) for name, process in self._processes.items()}

    @abstractmethod
    def _submit(self, group: asyncio.TaskGroup, name: str, tasks: int, *, at_once: bool = False) -> None:
        """Begin to create a Framework, or its Pods; `at_once` not behind those that were submitted before."""

    @abstractmethod
    async def _end(self) -> Columns:
        """Wait until all that has started has ended; return columns."""

    @abstractmethod
    async def _live(self) -> dict[str, float]:
        """Follow a whole life; return the seconds of each phase."""

    async def _start(self, group: asyncio.TaskGroup) -> Columns:
        async for number in self._arrivals():
            self._submit(group, f"fw{number}", self._shape.tasks)
        return {**await self._started(), **await self._end()}

    async def _beside(self, group: asyncio.TaskGroup) -> Columns:
        watch, tasks = self._watch, self._shape.tasks
        self._submit(group, "large", tasks)
        await watch.until(lambda: watch.created >= tasks // 2, self._begun)
        begun = time.monotonic()
        self._submit(group, "small", GANG, at_once=True)
        exist = await watch.until(lambda: watch.created_of["small"] == GANG, begun)
        addressed = await watch.until(lambda: watch.addressed_of["small"] == GANG, begun)
        figures = {"Pods exist s": exist, "have addresses s": addressed}
        if CONTROLLER in self._processes:
            opened = await watch.until(lambda: "small" in watch.opened, begun)
            # The scheduler and the nodes work on the large Framework's Pods first.
            figures |= {"gate opens s": opened, "of these by the controller s": opened - (addressed - exist)}
        return {**figures, **await self._started()}

    async def _started(self) -> Columns:
        watch, pods = self._watch, self._shape.pods
        created = await watch.until(lambda: watch.created >= pods, self._begun)
        running = await watch.until(lambda: len(watch.ran) >= pods, self._begun)
        self._running_cpu = self._cpu()
        return {"all created s": created, "all run s": running}

    async def _arrivals(self) -> AsyncIterator[int]:
        begin = time.monotonic()
        for number in range(self._shape.frameworks):
            wait = begin + number * self._shape.over / self._shape.frameworks - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            yield number


class ControllerRun(Run):
    """Makes the figures of one shape by the controller, which has done nothing yet."""

    def __init__(self, scene: Scene, shape: Shape, controller: Controller) -> None:
        super().__init__(scene, shape, controller.process)
        self._controller = controller
        self._path = resource_path(names.API_VERSION, names.PLURAL, namespace=NAMESPACE)
        self._spec = _SPECS.get(shape.kind, {})
        self._memory: list[tuple[float, float]] = []

    async def run(self) -> Columns:
        """Submit what the shape says, and measure; return columns."""
        watching = asyncio.ensure_future(self._watch_memory())
        try:
            figures = await super().run()
        finally:
            watching.cancel()
        text = self._controller.answer() or ""
        waited = quantile_bound(text, "workqueue_queue_duration_seconds", 0.99)
        return {
            **figures,
            "queue p99 s, at most": None if waited is None else f"{waited:g}",
            "sent by the controller": int(total(text, SENT)),
            "peak MiB": round(peak_mib(self._controller.process)),
        }

    def _submit(self, group: asyncio.TaskGroup, name: str, tasks: int, *, at_once: bool = False) -> None:  # noqa: ARG002 -- one request is never behind others
        self._watch.submits(name)
        manifest = framework(NAMESPACE, name, role("worker", tasks, pod=self._template), **self._spec)
        group.create_task(self._scene.client.create(self._path, msgspec.json.encode(manifest)))

    async def _end(self) -> Columns:
        watch, shape = self._watch, self._shape
        completed = await watch.until(lambda: len(watch.completed) >= shape.frameworks, self._begun)
        growth = self._growth_mib(self._begun, self._begun + shape.over) if shape.kind is Kind.STEADY else None
        return {"completed s": completed - (shape.run_seconds or 0), "memory growth MiB": growth}

    async def _live(self) -> dict[str, float]:
        life = LargeLife(Frameworks(self._scene.raw, NAMESPACE), self._shape.tasks)
        phases = {}
        for phase in life.phases():
            await asyncio.to_thread(phase.begin)
            phases[phase.name] = await asyncio.to_thread(life.wait, phase.is_over, interval=_LOOK_SECONDS)
        return phases

    async def _watch_memory(self) -> None:
        while True:
            self._memory.append((time.monotonic(), resident_mib(self._controller.process)))
            await asyncio.sleep(1)

    def _growth_mib(self, begin: float, end: float) -> float | None:
        """Return by how much its resident set grew from the second third of a time to the last sixth of it."""
        third, sixth = begin + (end - begin) / 3, (end - begin) / 6
        early = [mib for at, mib in self._memory if third <= at < third + sixth]
        late = [mib for at, mib in self._memory if end - sixth <= at < end]
        return median(late) - median(early) if early and late else None
