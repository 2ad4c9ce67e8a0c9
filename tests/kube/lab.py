"""A scripted server, a client of it, and informers of its Pods that a test follows."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from frameworkkube.http.client import KubeClient
from frameworkkube.informer.informer import Informer
from tests.kube.pods import DECODER, PATH, Changes, Json, Pod, end_of_list, event, listing
from tests.kube.scripted import ScriptedServer, answer, watch

BOTH_WAYS = pytest.mark.parametrize("lab", ["in pages", "streamed"], indirect=True)
"""Of a test that holds however the server lists; it says what is listed by `Lab.listed`."""


class Lab:
    """What the tests of clients and informers need.

    Attributes:
        streamed: Whether `listed` makes a list in one stream, or in pages.
        seen: The changes that informers reported, as `Changes` writes them.
        slept: The pauses of informers, in seconds.
    """

    def __init__(self, server: ScriptedServer, client: KubeClient, *, streamed: bool) -> None:
        self.server, self.client, self.streamed = server, client, streamed
        self.on, self.of, self.requests = server.on, server.of, server.requests
        self._changes = Changes([])
        self.seen = self._changes.seen
        self.slept: list[float] = []
        self._tasks: list[asyncio.Future[object]] = []

    def listed(
        self, version: int, *items: Json | bytes, then: Iterable[bytes] = (), end: str = "silence", lasts: float = 0
    ) -> None:
        """Script one list, and the lines and the end of the watch that follows it: in a stream both are one answer."""
        if self.streamed:
            lines = [*(event("ADDED", item) for item in items), end_of_list(version), *then]
            self.on("stream", watch(*lines, end=end, lasts=lasts))
        else:
            self.on("GET", answer(200, listing(version, *items)))
            self.on("watch", watch(*then, end=end, lasts=lasts))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(seconds)

    def informer(self, draw: float = 0.0, **settings: Any) -> Informer[Pod]:
        """An informer of Pods; `draw=0` means the shortest waits that the jitter may give."""
        time = {"clock": self.server.clock, "sleep": self.sleep, "draw": lambda: draw}
        return Informer(self.client, PATH, DECODER, **({"on_change": self._changes} | time | settings))

    def follow(self, draw: float = 0.0, **settings: Any) -> Informer[Pod]:
        """An informer that runs until the test ends."""
        made = self.informer(draw, **settings)
        self.run(made.run())
        return made

    def run(self, work: Awaitable[object]) -> None:
        """Start something endless; it is stopped after the test, and a crash of it fails the test."""
        self._tasks.append(asyncio.ensure_future(work))

    async def run_for(self, seconds: float, work: Awaitable[object]) -> None:
        """Run something endless for some seconds, and then cancel it."""
        await asyncio.wait({task := asyncio.ensure_future(work)}, timeout=seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def eventually(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds; time goes on in small steps, also while a thread works."""
        async with asyncio.timeout(6000):
            while not condition():  # noqa: ASYNC110 -- any condition, not only one with an event
                await asyncio.sleep(0.2)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
