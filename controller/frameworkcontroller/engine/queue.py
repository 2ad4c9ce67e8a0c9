"""Names of what is to be looked at: each at most once in the queue, now or at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

K = TypeVar("K", bound="Hashable")


class WorkQueue(Generic[K]):
    """A queue without duplicates, with one timer a key: the earliest wins, and being queued makes it void."""

    def __init__(self) -> None:
        self._keys: dict[K, None] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: K) -> None:
        """Look at it as soon as it is its turn."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._keys[key] = None
        self._filled.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Look at it in so many seconds, unless that happens earlier anyway."""
        if key in self._keys:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + max(seconds, 0.0)
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self.add, key)

    def forget(self, key: K) -> None:
        """It is not to be looked at any more."""
        self._keys.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def take(self) -> K:
        """The key that waited longest."""
        while not self._keys:
            self._filled.clear()
            await self._filled.wait()
        key = next(iter(self._keys))
        del self._keys[key]
        return key
