"""Tells pages that something has changed: when, not what, so that each reads it with the rights of its person."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

SUBSCRIBERS: Final = 512
"""Pages that are told; others are as they were loaded."""
PAUSE_SECONDS: Final = 1.0
"""Changes within this time are told as one."""
BEAT_SECONDS: Final = 15.0


class FullError(Exception):
    """As many pages as may be are told already."""


@dataclass(eq=False)
class _Subscriber:
    namespaces: frozenset[str] | None
    uid: str
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Feed:
    """Passes on that Frameworks have changed; whoever is slow misses repetitions alone."""

    def __init__(self) -> None:
        self._subscribers: set[_Subscriber] = set()
        self._is_closed = False

    def close(self) -> None:
        """End all subscriptions."""
        self._is_closed = True
        for one in self._subscribers:
            one.changed.set()

    def publish(self, namespace: str, uid: str) -> None:
        """Tell that a Framework has changed. Call it in the event loop."""
        for one in self._subscribers:
            if one.uid in {"", uid} and (one.namespaces is None or namespace in one.namespaces):
                one.changed.set()

    async def subscribe(self, namespaces: frozenset[str] | None, uid: str = "") -> AsyncGenerator[bool, None]:
        """Yield True when something there, or of one Framework alone, has changed; False at once and now and then.

        Raises:
            FullError: There are too many that are told.
        """
        if len(self._subscribers) >= SUBSCRIBERS:
            raise FullError
        me = _Subscriber(namespaces, uid)
        self._subscribers.add(me)
        try:
            yield False
            while not self._is_closed:
                try:
                    await asyncio.wait_for(me.changed.wait(), BEAT_SECONDS)
                except TimeoutError:
                    yield False
                    continue
                me.changed.clear()
                yield True
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._subscribers.discard(me)
