"""A scripted server and the informers of its Pods that a test follows."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from frameworkkube.http.client import KubeClient
from frameworkkube.informer.informer import Informer
from testkit.waiting import patience
from tests.kube.faketime import FakeTime
from tests.kube.pods import DECODER, PATH, Changes, Pod
from tests.kube.scripted import ScriptedServer


class Lab:
    """What the tests of informers need, in fake time.

    Attributes:
        seen: The changes that informers reported, as `Changes` writes them.
    """

    def __init__(self, server: ScriptedServer, client: KubeClient, time: FakeTime) -> None:
        self.server, self.client, self.time = server, client, time
        self.on, self.of, self.requests = server.on, server.of, server.requests
        self._changes = Changes([])
        self.seen = self._changes.seen
        self._tasks: list[asyncio.Future[object]] = []

    def informer(self, draw: float = 0.0, **settings: Any) -> Informer[Pod]:
        """An informer of Pods; `draw=0` means the shortest waits that the jitter may give."""
        time = self.time
        defaults = {"on_change": self._changes, "clock": time.clock, "sleep": time.sleep, "draw": lambda: draw}
        return Informer(self.client, PATH, DECODER, **(defaults | settings))

    def follow(self, draw: float = 0.0, **settings: Any) -> Informer[Pod]:
        """An informer that runs until the test ends."""
        made = self.informer(draw, **settings)
        self.run(made.run())
        return made

    def run(self, work: Awaitable[object]) -> None:
        """Start something endless; it is stopped after the test, and a crash of it fails the test."""
        self._tasks.append(asyncio.ensure_future(work))

    async def run_for(self, seconds: float, *works: Awaitable[object]) -> None:
        """Run something endless for some seconds of the fake time, and then cancel it."""
        self.time.until = self.time.now + seconds
        tasks = [asyncio.ensure_future(work) for work in works]
        await asyncio.wait_for(self.time.ended.wait(), patience(20))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.time.until = float("inf")

    async def eventually(self, condition: Callable[[], object]) -> None:
        """Wait in real time until the condition holds."""
        async with asyncio.timeout(patience(5)):
            while not condition():  # noqa: ASYNC110 -- any condition, not only one with an event
                await asyncio.sleep(0.002)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
