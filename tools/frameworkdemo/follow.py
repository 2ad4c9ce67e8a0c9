"""Follows Frameworks by the SDK: their states, their Pods, and the logs of both programs and barriers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol, Self

from frameworkclient import AsyncClient, ClientError, DeletedError, NotFoundError
from frameworkclient.errors import UnreachableError
from frameworkclient.logs.selection import LogSelection
from frameworkclient.moments import moments
from frameworkdemo.errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from frameworkclient import LogLine
    from frameworkclient.moments import Moment
    from frameworkdemo.cluster import Cluster

_PAUSE_SECONDS = 0.1
_STOP_SECONDS = 60.0


class Listener(Protocol):
    """Takes what a `Follower` sees, in the thread of the follower."""

    def changed(self, moment: Moment) -> None:
        """Take the newest state of a Framework and its Pods."""

    def logged(self, line: LogLine) -> None:
        """Take a line of the log of a program or of a barrier."""


class Follower:
    """Follows Frameworks of one namespace in a thread of its own, each until its end, by watches that resume.

    Args:
        cluster: Access to the cluster.
        namespace: The namespace.
        listener: Takes what happens.
        warn: Takes a sentence if a Framework cannot be followed any more, for another reason than its deletion.

    Raises:
        DemoError: The kubeconfig has no usable credentials.
    """

    def __init__(self, cluster: Cluster, namespace: str, listener: Listener, warn: Callable[[str], None]) -> None:
        try:
            self._client = AsyncClient(kubeconfig=cluster.kubeconfig, context=cluster.context, namespace=namespace)
        except ClientError as error:
            raise DemoError(str(error)) from error
        self._listener = listener
        self._warn = warn
        self._following: list[concurrent.futures.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="demo-follower", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def follow(self, framework: str) -> None:
        """Follow a Framework, from when it exists."""
        self._following.append(asyncio.run_coroutine_threadsafe(self._follow(framework), self._loop))

    def settle(self, seconds: float) -> None:
        """Wait for the last lines of logs of Frameworks that have ended, at most for so long."""
        concurrent.futures.wait(self._following, seconds)

    def close(self) -> None:
        """Stop; the listener is called no more."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)
        self._loop.close()
        for future in self._following:
            if not future.cancelled():
                # Raises what only a defect of the listener can have raised.
                future.result()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    async def _follow(self, framework: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        try:
            await self._exists(framework)
            # The logs of a Framework that is deleted are read to their ends, so no part ends the others.
            parts = self._states(framework), self._logs(framework, barrier=False), self._logs(framework, barrier=True)
            for error in await asyncio.gather(*parts, return_exceptions=True):
                if error is not None and not isinstance(error, (DeletedError, NotFoundError)):
                    raise error
        except ClientError as error:
            self._warn(f"Framework {framework} is not followed any more: {error}")

    async def _exists(self, framework: str) -> None:
        while True:
            try:
                await self._client.get(framework)
            except (NotFoundError, UnreachableError):
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return

    async def _states(self, framework: str) -> None:
        async with aclosing(moments(self._client, framework)) as found:
            async for moment in found:
                self._listener.changed(moment)

    async def _logs(self, framework: str, *, barrier: bool) -> None:
        batches = self._client.log_batches(framework, LogSelection(barrier=barrier), follow=True)
        async with aclosing(batches):
            async for batch in batches:
                for line in batch.lines:
                    self._listener.logged(line)
