"""The bodies of Pods: prepared templates of small ones are kept, large ones are made beside the event loop."""

import asyncio
from collections import OrderedDict
from typing import Final

from msgspec import Raw

from frameworkcontroller.core.effects import CreatePod
from frameworkcontroller.core.pods.facts import LARGE_BYTES
from frameworkcontroller.core.pods.template import PodSource, PodTemplate, RoleAttempt

CAPACITY: Final = 8 * 1024 * 1024
"""Bytes of prepared templates that are kept, with those that they were made of."""
AT_ONCE_BYTES: Final = 4 * 1024
"""Of a template that is prepared in a turn of the event loop: 64 at once take a few milliseconds."""


class PodBodies:
    """Renders Pods, and keeps the prepared templates that were used last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[RoleAttempt, tuple[Raw, PodTemplate]] = OrderedDict()
        self._bytes = 0
        self._begun: dict[tuple[RoleAttempt, bytes], asyncio.Task[PodTemplate]] = {}

    async def render(self, effect: CreatePod) -> bytes:
        """Return the Pod as JSON.

        Raises:
            TemplateError: there can be no Pod.
        """
        source = effect.source
        if source.size > LARGE_BYTES:
            # So is its template prepared each time: that takes less than the API server needs for such a Pod.
            return await asyncio.to_thread(effect.body)
        if (prepared := self._take(source)) is None:
            is_small = memoryview(source.template).nbytes <= AT_ONCE_BYTES
            prepared = source.prepare() if is_small else await self._prepare_beside(source)
            self._keep(source.attempt, (source.template, prepared))
        return effect.body(prepared)

    async def _prepare_beside(self, source: PodSource) -> PodTemplate:
        """Prepare a template beside the event loop, once for all Tasks of its role that wait for it."""
        key = source.attempt, bytes(source.template)
        if key not in self._begun:
            self._begun[key] = asyncio.create_task(asyncio.to_thread(source.prepare))
            self._begun[key].add_done_callback(lambda _: self._begun.pop(key))
        return await self._begun[key]

    def _take(self, source: PodSource) -> PodTemplate | None:
        """Return what is kept for this template, as the one that was used last."""
        template, prepared = self._kept.get(source.attempt, (None, None))
        if template != source.template or source.problem:
            return None
        self._kept.move_to_end(source.attempt)
        return prepared

    def _keep(self, attempt: RoleAttempt, kept: tuple[Raw, PodTemplate]) -> None:
        if (before := self._kept.pop(attempt, None)) is not None:
            self._bytes -= _size(before)
        self._kept[attempt] = kept
        self._bytes += _size(kept)
        while self._bytes > CAPACITY:
            self._bytes -= _size(self._kept.popitem(last=False)[1])


def _size(kept: tuple[Raw, PodTemplate]) -> int:
    return memoryview(kept[0]).nbytes + kept[1].size
