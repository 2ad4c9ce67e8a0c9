"""The bare loop beside the controller: it does the same to Pods as fast as one process can, and nothing else."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec
from controller_observer import Observer
from controller_scene import IN_FLIGHT, NAMESPACE, Meter, arrivals
from controller_shapes import Kind

from frameworkcontroller.api import names
from frameworkcontroller.core.template import PodTemplate, RoleAttempt
from frameworkkube.rest import PARTIAL_METADATA, resource_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controller_scene import Scene
    from controller_shapes import Shape

    from frameworkcontroller.api.pod import Pod

ROLE = "worker"
GANG = 2


class BareLoop:
    """Makes the figures of one shape.

    Args:
        scene: The scene.
        shape: The shape.
    """

    def __init__(self, scene: Scene, shape: Shape) -> None:
        self._scene, self._shape = scene, shape
        self._template = msgspec.json.encode(scene.pod_template(shape))
        self._path = resource_path("v1", "pods", namespace=NAMESPACE)
        self._in_flight = asyncio.Semaphore(IN_FLIGHT)
        self._watch = Observer(shape.tasks, shape.limit_seconds)

    async def run(self) -> dict[str, float]:
        """Make the Pods and measure; return columns."""
        async with self._watch.watching(self._scene.client, NAMESPACE, frameworks=False):
            meter = await Meter.begin(self._scene)
            match self._shape.kind:
                case Kind.START:
                    figures = await self._start(meter)
                case Kind.STEADY:
                    figures = await self._steady(meter)
                case Kind.BESIDE:
                    figures = await self._beside(meter)
                case Kind.LIFE:
                    figures = {f"life: {phase} s": seconds for phase, seconds in (await self._live()).items()}
            return self._watch.start_quantiles() | figures | await meter.read(self._shape.total)

    async def _start(self, meter: Meter) -> dict[str, float]:
        async with asyncio.TaskGroup() as group:
            async for number in arrivals(self._shape):
                self._submit(group, f"bare{number}", self._shape.tasks)
        return await self._started(meter)

    async def _started(self, meter: Meter) -> dict[str, float]:
        total = self._shape.total
        created = await self._watch.until(lambda: self._watch.created >= total, meter.start)
        running = await self._watch.until(lambda: len(self._watch.ran) >= total, meter.start)
        meter.note_running()
        return {"all created s": created, "all run s": running}

    async def _steady(self, meter: Meter) -> dict[str, float]:
        async with asyncio.TaskGroup() as group:

            def on_end(pod: Pod) -> None:
                group.create_task(self._delete(pod.metadata.name))

            self._watch.on_end = on_end
            async for number in arrivals(self._shape):
                self._submit(group, f"bare{number}", self._shape.tasks)
            figures = await self._started(meter)
            await self._watch.until(lambda: self._watch.gone >= self._shape.total, meter.start)
        return figures

    async def _beside(self, meter: Meter) -> dict[str, float]:
        async with asyncio.TaskGroup() as group:
            self._submit(group, "large", self._shape.tasks)
            await self._watch.until(lambda: self._watch.created >= self._shape.tasks // 2, meter.start)
            begun = time.monotonic()
            for body in self._bodies("small", GANG):
                # Not behind the others: a controller of the small gang alone would not be, either.
                group.create_task(self._scene.client.create(self._path, body, accept=PARTIAL_METADATA))
            steps = {
                "Pods exist s": await self._watch.until(lambda: self._watch.created_of("small") == GANG, begun),
                "have addresses s": await self._watch.until(lambda: self._watch.addressed_of("small") == GANG, begun),
            }
        return steps | await self._started(meter)

    async def _live(self) -> dict[str, float]:
        """Do to Pods what happens in the phases of `testkit.large_life`, under their names."""
        tasks, watch = self._shape.tasks, self._watch
        half, tenth = tasks // 2, tasks // 10
        phases: dict[str, float] = {}
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            self._submit(group, "first", tasks)
        phases["created"] = await watch.until(lambda: watch.created >= tasks, begun)
        begun = time.monotonic()
        phases["running, with a complete roster"] = await watch.until(lambda: len(watch.ran) >= tasks, begun)
        begun = time.monotonic()
        await self._delete_all("first", range(half))
        async with asyncio.TaskGroup() as group:
            self._submit(group, "second", half)
        phases["half of them retried"] = await watch.until(lambda: len(watch.ran) >= tasks + half, begun)
        begun = time.monotonic()
        await self._delete_all("first", range(half, half + tenth))
        phases["scaled down"] = await watch.until(lambda: watch.gone >= half + tenth, begun)
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            self._submit(group, "third", tenth)
        phases["scaled up"] = await watch.until(lambda: len(watch.ran) >= tasks + half + tenth, begun)
        begun = time.monotonic()
        await self._delete_all("first", range(half + tenth, tasks))
        await self._delete_all("second", range(half))
        await self._delete_all("third", range(tenth))
        phases["completed"] = await watch.until(lambda: watch.gone >= tasks + half + tenth, begun)
        return phases

    def _submit(self, group: asyncio.TaskGroup, name: str, tasks: int) -> None:
        self._watch.submits(name)
        for body in self._bodies(name, tasks):
            group.create_task(self._create(body))

    def _bodies(self, name: str, tasks: int) -> Iterator[bytes]:
        rendered = PodTemplate(self._template, RoleAttempt(NAMESPACE, name, "u", 0, "c", ROLE, "r"))
        for index in range(tasks):
            document = msgspec.json.decode(rendered.render(index, "t", 0))
            del document["metadata"]["ownerReferences"]
            yield msgspec.json.encode(document)

    async def _create(self, body: bytes) -> None:
        async with self._in_flight:
            await self._scene.client.create(self._path, body, accept=PARTIAL_METADATA)

    async def _delete(self, pod: str) -> None:
        async with self._in_flight:
            await self._scene.client.delete(f"{self._path}/{pod}", accept=PARTIAL_METADATA)

    async def _delete_all(self, name: str, indices: Iterable[int]) -> None:
        async with asyncio.TaskGroup() as group:
            for index in indices:
                group.create_task(self._delete(names.pod_name(name, ROLE, index)))
