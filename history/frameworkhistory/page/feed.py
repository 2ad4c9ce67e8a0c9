"""Tells pages that something has changed: when, not what, so that each reads it with the rights of its person."""

import asyncio
from typing import Final

from aiohttp import web

from frameworkhistory.page.people import PageError

SUBSCRIBERS: Final = 512  # pages that are told; others are as they were loaded
PAUSE_SECONDS: Final = 1.0  # changes within this time are told as one
BEAT_SECONDS: Final = 15.0
MOST_SECONDS: Final = 300.0  # after this time a page asks anew, and what its person may see is looked up again


class Feed:
    """Passes on that Frameworks have changed; whoever is slow misses repetitions alone."""

    def __init__(self) -> None:
        self._subscribers: dict[asyncio.Event, tuple[frozenset[str] | None, str]] = {}
        self._is_closed = False

    async def close(self, _app: web.Application) -> None:
        """End all answers."""
        self._is_closed = True
        for changed in self._subscribers:
            changed.set()

    def publish(self, namespace: str, uid: str) -> None:
        """Tell that a Framework has changed. Call it in the event loop."""
        for changed, (namespaces, wanted) in self._subscribers.items():
            if wanted in {"", uid} and (namespaces is None or namespace in namespaces):
                changed.set()

    async def answer(self, request: web.Request, namespaces: frozenset[str] | None, uid: str) -> web.StreamResponse:
        """Answer with an event whenever something has changed in these namespaces, or of one Framework alone."""
        if len(self._subscribers) >= SUBSCRIBERS:
            raise PageError(503, "Too many pages are open to follow what changes.")
        changed = asyncio.Event()
        self._subscribers[changed] = namespaces, uid
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        try:
            async with asyncio.timeout(MOST_SECONDS):
                await response.prepare(request)
                await response.write(b":\n\n")
                while not self._is_closed:
                    try:
                        await asyncio.wait_for(changed.wait(), BEAT_SECONDS)
                    except TimeoutError:
                        await response.write(b":\n\n")
                        continue
                    changed.clear()
                    await response.write(b"data: changed\n\n")
                    await asyncio.sleep(PAUSE_SECONDS)
        except (TimeoutError, ConnectionResetError):
            pass  # its time is over, or nobody listens any more
        finally:
            del self._subscribers[changed]
        return response
