"""The bodies of Pods: prepared templates of small ones are kept, large ones are made beside the event loop."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from frameworkcontroller.core.facts import LARGE_BYTES

if TYPE_CHECKING:
    from msgspec import Raw

    from frameworkcontroller.core.effects import CreatePod
    from frameworkcontroller.core.template import PodTemplate, RoleAttempt

CAPACITY: Final = 8 * 1024 * 1024
"""Bytes of prepared templates that are kept, with those that they were made of."""


class PodBodies:
    """Renders Pods, and keeps the prepared templates that were used last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[RoleAttempt, tuple[Raw, PodTemplate]] = OrderedDict()
        self._bytes = 0

    async def render(self, effect: CreatePod) -> bytes:
        """Return the Pod as JSON.

        Raises:
            TemplateError: there can be no Pod.
        """
        source = effect.source
        if source.size > LARGE_BYTES:
            # So is its template prepared each time: that takes less than the API server needs for such a Pod.
            return await asyncio.to_thread(effect.body)
        kept = self._kept.pop(source.attempt, None)
        if kept is not None:
            self._bytes -= _size(kept)
        if kept is None or kept[0] != source.template or source.problem:
            # A copy: the original keeps the whole Framework.
            kept = source.template.copy(), source.prepare()
        self._kept[source.attempt] = kept
        self._bytes += _size(kept)
        while self._bytes > CAPACITY:
            self._bytes -= _size(self._kept.popitem(last=False)[1])
        return effect.body(kept[1])


def _size(kept: tuple[Raw, PodTemplate]) -> int:
    return memoryview(kept[0]).nbytes + kept[1].size
