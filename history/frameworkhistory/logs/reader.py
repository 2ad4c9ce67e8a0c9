"""Reads the log of one run of a container from the API server: what there is of it, or all until the run is over."""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from frameworkclient.views.pods import TASK_POD_DECODER, TaskPod
from frameworkhistory.logs.runs import Run, is_final
from frameworkhistory.logs.tail import Tail
from frameworkkube.backoff import pause_seconds
from frameworkkube.errors import ApiStatusError, KubeError, NotFoundError
from frameworkkube.http.client import KubeClient
from frameworkkube.paths import resource_path
from frameworkkube.slots import Slots

LOST: Final = "its log was gone before it could be read"
SNAPSHOT: Final = "its Pod was being deleted; what it wrote after this is missing"
_SILENT_SECONDS: Final = 60.0
"""A log that is followed and silent for so long is asked for again: the connection may be dead."""
_ANSWER_SECONDS: Final = 15.0
"""Of silence of one that is over: those of nodes that are gone hold up all others for so long."""
_DATE: Final = "2006-01-02"
_OF_ONE: Final = 0.8
"""Of the bytes, what one namespace may have."""
_MOST_POD_BYTES: Final = 4 << 20


class GoneError(KubeError):
    """There is no such log any more."""


class Reader:
    """Reads logs, and no more than so many bytes per second, of which one second may come at once.

    A namespace has four fifths of them at most, so that many logs of one hold up none of another.

    Args:
        at_once: Logs of runs that are over are read at a time, of one namespace, and a quarter more of all, so that it
            leaves turns to others; those that are followed are not counted.
        patience: How many seconds a log is tried that cannot be read.

    Attributes:
        bytes: What has come.
    """

    def __init__(self, client: KubeClient, at_once: int, bytes_per_second: int, patience: float) -> None:
        self.bytes = 0
        self._client, self._rate, self._patience = client, bytes_per_second, patience
        self._turns = Slots(at_once, at_once + at_once // 4)
        self._free_at: dict[str, float] = {}
        """When the next bytes may come, by namespace, and of all by ""."""

    async def read(
        self, run: Run, tail: Tail, newest: Callable[[], TaskPod | None], lines: int | None, *, follows: bool
    ) -> str:
        """Read a log, over every connection that breaks; return what is missing of it, "" if nothing is.

        Args:
            run: Whose log.
            tail: Is fed with it.
            newest: Returns the newest state of the Pod, None if it is gone.
            lines: The most last lines to ask for, None for all.
            follows: Whether a run that is not over is read until it is, or what there is of it now.
        """
        failures, failing_since = 0, time.monotonic()
        error: KubeError | None = GoneError(LOST)
        while (pod := newest()) is not None:
            seen, is_running = tail.seen, _is_running(run, pod)
            is_last = not (is_running and follows)
            try:
                if is_last:
                    await self._read_once(run, tail, pod, lines)
                    return SNAPSHOT if is_running else ""
                await self._answer(run, tail, lines, {"follow": "true"})
                error = None
            except KubeError as found:
                if is_last and error is None and _is_gone(found):
                    break  # it was followed to its end; else that may have been the end of a connection
                error = found
                if is_last and (_is_gone(found) or time.monotonic() - failing_since > self._patience):
                    break
            if error is None or tail.seen != seen:
                failures, failing_since = 0, time.monotonic()
            # After its end, too: the next state of the Pod says whether the run is over.
            failures += 1
            await asyncio.sleep(pause_seconds(failures, random.random))
        if error is None:
            return ""
        reason = LOST if _is_gone(error) else f"its log could not be read: {error}"
        return f"the end of its log may be missing: {error}" if tail.seen else reason

    async def _read_once(self, run: Run, tail: Tail, pod: TaskPod, lines: int | None) -> None:
        later = _restarts(run, pod) - run.restart
        if later not in {0, 1}:
            raise GoneError(LOST)
        async with self._turns.of(run.namespace):
            await self._answer(run, tail, lines, {"previous": "true"} if later else {}, is_sure=is_final(pod))

    async def _answer(
        self, run: Run, tail: Tail, lines: int | None, query: dict[str, str], *, is_sure: bool = False
    ) -> None:
        path, restart = resource_path("v1", "pods", namespace=run.namespace, name=run.pod), run.restart
        restart += "previous" in query
        query |= {"container": run.container, "timestamps": "true"}
        if since := tail.since:
            query["sinceTime"] = since
        elif lines is not None:
            query["tailLines"] = str(lines)
        silent = _SILENT_SECONDS if "follow" in query else _ANSWER_SECONDS
        chunks = self._client.chunks(f"{path}/log", query, accept="*/*", inactivity_timeout_seconds=silent)
        begun, has_begun = b"", False
        async with aclosing(chunks):
            async for chunk in chunks:
                await self._count(run.namespace, len(chunk))
                if has_begun:
                    tail.feed(chunk)
                    continue
                begun += chunk
                if has_begun := len(begun) > len(_DATE):
                    # Of a log that is gone, the kubelet answers with a sentence.
                    if (begun[4:5], begun[10:11]) != (b"-", b"T"):
                        raise GoneError(LOST)
                    if not is_sure:
                        await self._check(run, path, restart)
                    tail.rewind(since)
                    tail.feed(begun)
        if begun and not has_begun:
            raise GoneError(LOST)

    async def _check(self, run: Run, path: str, restart: int) -> None:
        """Check that an answer is of the run that is meant: a log is asked for by names, not by UID."""
        try:
            found = TASK_POD_DECODER.decode(await self._client.get(path, max_bytes=_MOST_POD_BYTES))
        except NotFoundError:
            return  # it was there when the answer began
        if _restarts(run, found) != restart:
            raise KubeError("the container has restarted")

    async def _count(self, namespace: str, number: int) -> None:
        self.bytes += number
        # In this order: what waits for its turn in its namespace takes none among all.
        for whose, rate in ((namespace, _OF_ONE * self._rate), ("", self._rate)):
            now = asyncio.get_running_loop().time()
            free_at = max(self._free_at.pop(whose, 0.0), now - 1) + number / rate
            self._free_at[whose] = free_at
            # That of which something came least recently is first.
            while self._free_at[first := next(iter(self._free_at))] < now - 1:
                del self._free_at[first]
            if free_at > now:
                await asyncio.sleep(free_at - now)


def _is_gone(error: KubeError) -> bool:
    return isinstance(error, GoneError | NotFoundError) or (isinstance(error, ApiStatusError) and error.code == 400)


def _restarts(run: Run, pod: TaskPod) -> int:
    """Return how often the kubelet has restarted the container; -1 if that is not known, or it is another Pod."""
    status = pod.container(run.container)
    return status.restart_count if status and pod.metadata.uid == run.pod_uid else -1


def _is_running(run: Run, pod: TaskPod) -> bool:
    status = pod.container(run.container)
    return status is not None and status.state.running is not None and _restarts(run, pod) == run.restart
