"""The bare loop beside the controller: it does the same to Pods as fast as one process can, and nothing else."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from bench.controller.runs import Columns, Run
from bench.controller.scene import IN_FLIGHT, NAMESPACE, Scene
from bench.controller.shapes import Kind, Shape
from frameworkcontroller.api import names
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.core.pods.template import PodTemplate, RoleAttempt
from frameworkkube.http.client import PARTIAL_METADATA
from frameworkkube.paths import resource_path

ROLE = "worker"
_Phase: TypeAlias = "tuple[str, Sequence[tuple[str, Iterable[int]]], Sequence[tuple[str, int]], Callable[[], bool]]"
"""Its name, the indices of the Pods that are deleted and how many are created, by gang, and whether it is over."""


class BareLoop(Run):
    """Makes the figures of one shape by creating the Pods itself."""

    def __init__(self, scene: Scene, shape: Shape) -> None:
        super().__init__(scene, shape)
        self._path = resource_path("v1", "pods", namespace=NAMESPACE)
        self._in_flight = asyncio.Semaphore(IN_FLIGHT)

    async def _start(self, group: asyncio.TaskGroup) -> Columns:
        if self._shape.kind is Kind.STEADY:

            def on_end(pod: Pod) -> None:
                group.create_task(self._delete(pod.metadata.name))

            self._watch.on_end = on_end
        return await super()._start(group)

    async def _end(self) -> Columns:
        if self._shape.kind is Kind.STEADY:
            await self._watch.until(lambda: self._watch.gone >= self._shape.total, self._begun)
        return {}

    async def _live(self) -> dict[str, float]:
        """Do to Pods what happens in the phases of `testkit.large_life`, under their names."""
        tasks, watch = self._shape.tasks, self._watch
        half, tenth = tasks // 2, tasks // 10
        retried = tasks + half
        all_pods = retried + tenth
        phases: tuple[_Phase, ...] = (
            ("created", [], [("first", tasks)], lambda: watch.created >= tasks),
            ("running, with a complete roster", [], [], lambda: len(watch.ran) >= tasks),
            ("half of them retried", [("first", range(half))], [("second", half)], lambda: len(watch.ran) >= retried),
            ("scaled down", [("first", range(half, half + tenth))], [], lambda: watch.gone >= half + tenth),
            ("scaled up", [], [("third", tenth)], lambda: len(watch.ran) >= all_pods),
            (
                "completed",
                [("first", range(half + tenth, tasks)), ("second", range(half)), ("third", range(tenth))],
                [],
                lambda: watch.gone >= all_pods,
            ),
        )
        found = {}
        for name, deleted, created, is_over in phases:
            begun = time.monotonic()
            for gang, indices in deleted:
                async with asyncio.TaskGroup() as group:
                    for index in indices:
                        group.create_task(self._delete(names.pod_name(gang, ROLE, index)))
            async with asyncio.TaskGroup() as group:
                for gang, number in created:
                    self._submit(group, gang, number)
            found[name] = await watch.until(is_over, begun)
        return found

    def _submit(self, group: asyncio.TaskGroup, name: str, tasks: int, *, at_once: bool = False) -> None:
        self._watch.submits(name)
        limit = contextlib.nullcontext() if at_once else self._in_flight
        for body in self._bodies(name, tasks):
            group.create_task(self._create(body, limit))

    def _bodies(self, name: str, tasks: int) -> Iterator[bytes]:
        template = msgspec.json.encode(self._template)
        rendered = PodTemplate(template, RoleAttempt(NAMESPACE, name, "u", 0, "c", ROLE, "r"))
        for index in range(tasks):
            document = msgspec.json.decode(rendered.render(index, "t", 0))
            del document["metadata"]["ownerReferences"]
            yield msgspec.json.encode(document)

    async def _create(self, body: bytes, limit: contextlib.AbstractAsyncContextManager[None]) -> None:
        async with limit:
            await self._scene.client.create(self._path, body, accept=PARTIAL_METADATA)

    async def _delete(self, pod: str) -> None:
        async with self._in_flight:
            await self._scene.client.delete(f"{self._path}/{pod}", accept=PARTIAL_METADATA)
