"""Names of what is to be looked at: each at most once in the queue, now or at a time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")


class WorkQueue(Generic[K]):
    """A queue without duplicates, with one timer a key: the earliest wins, and being queued makes it void.

    Attributes:
        on_add: called when a key is queued.
        on_take: called with the seconds that a key waited.
    """

    def __init__(self) -> None:
        self._keys: dict[K, float] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._filled = asyncio.Event()
        self.on_add: Callable[[], None] = lambda: None
        self.on_take: Callable[[float], None] = lambda _seconds: None

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def oldest_seconds(self) -> float:
        """How long the key that waits longest has waited, 0 if none waits."""
        return time.monotonic() - next(iter(self._keys.values())) if self._keys else 0.0

    def add(self, key: K) -> None:
        """Look at it as soon as it is its turn."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key not in self._keys:
            self._keys[key] = time.monotonic()
            self.on_add()
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
        self.on_take(time.monotonic() - self._keys.pop(key))
        return key
