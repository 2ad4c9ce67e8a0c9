"""Reads the log of one run of a container: once, or for as long as it runs, over every connection that breaks."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from frameworkclient.errors import translated
from frameworkclient.logs.lines import LineCutter, LogBatch, LogLine, LogSource, Position
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.pods import TASK_POD_DECODER, TaskPod
from frameworkkube.backoff import pause_seconds
from frameworkkube.errors import ApiStatusError, ForbiddenError, KubeError, NotFoundError, UnauthorizedError
from frameworkkube.http.client import KubeClient
from frameworkkube.paths import resource_path

CONNECT_SECONDS: Final = 30.0
PIECE_BYTES: Final = 16 * 1024
LAST_TRIES: Final = 3
"""Of a log whose container has ended, when the connection breaks."""
LOST: Final = "its log was gone before it could be read"
REST_LOST: Final = "the end of its log may be missing: its Pod is gone"
MOST: Final = 1024


def most_connections() -> int:
    """Return how many logs may be open at a time: half of the files that this process may open."""
    try:
        import resource
    except ImportError:  # on Windows, where no limit is so low
        return MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else min(soft // 2, MOST)


class Connections:
    """Shared by logs that are followed: most connections stay open, and by the others all other logs take turns."""

    def __init__(self) -> None:
        most = most_connections()
        self.turns = asyncio.Semaphore(most // 4)
        self.lasting = asyncio.Semaphore(most - most // 4)


class ContainerLog:
    """The log of one run of a container, or the part of it that is wanted."""

    def __init__(self, kube: KubeClient, namespace: str, source: LogSource, selection: LogSelection) -> None:
        self._kube = kube
        self._source = source
        self._selection = selection
        self._pod_path = resource_path("v1", "pods", namespace=namespace, name=source.pod)
        self._what = f"read the log of {namespace}/{source.pod}"
        self._position = Position()
        self._superseded = False

    async def read(self, *, previous: bool) -> AsyncGenerator[LogBatch, None]:
        """Yield what there is now, or what the run before has written; if it is gone or cannot be read, a note.

        Raises:
            ClientError: The user may not read it.
        """
        try:
            async for batch in self._answer(follow=False, previous=previous):
                yield batch
        except KubeError as error:
            yield LogBatch(note=self._reason(error) or LOST, source=self._source)

    async def follow(
        self, pod_of: Callable[[], TaskPod | None], sleep: Callable[[float], Awaitable[None]], connections: Connections
    ) -> AsyncGenerator[LogBatch, None]:
        """Yield all lines until the run is over and nothing is left to read.

        An answer that ends early, for example because a log was rotated or an API server restarts, is asked for again
        from the last line on. `pod_of` returns the newest state of the Pod, None if it is gone.

        Raises:
            ClientError: The user may not read it.
        """
        failures, note = 0, ""
        while True:
            takes_turns = connections.lasting.locked()
            async with connections.turns if takes_turns else connections.lasting:
                known, previous = self._position.stamp, self._has_successor(pod_of())
                # What is written after a turn needs another one.
                was_over = takes_turns and self._is_over(pod_of())
                try:
                    async for batch in self._answer(
                        follow=not (previous or takes_turns), previous=previous, whole=was_over or not takes_turns
                    ):
                        yield batch
                    note = ""
                except NotFoundError:
                    # A kubelet that has just started knows no Pods yet.
                    if self._is_over(pod_of()):
                        note = REST_LOST if self._position.stamp and (note or takes_turns) else ""
                        break
                except KubeError as error:
                    note = self._reason(error, failures)
                if takes_turns and not note and not self._position.stamp and self._selection.tail:
                    # There was nothing before.
                    self._selection = replace(self._selection, tail=None)
                if self._superseded and not previous:
                    continue
                failures = 0 if self._position.stamp != known else failures + 1
                is_over = was_over if takes_turns else self._is_over(pod_of())
                if is_over and (not note or failures >= LAST_TRIES):
                    break
                await sleep(pause_seconds(1 if takes_turns else max(failures, 1), random.random))
        if note or not self._position.stamp:
            yield LogBatch(note=note or LOST, source=self._source)

    def _reason(self, error: KubeError, failures: int = LAST_TRIES) -> str:
        """Return why it could not be read, "" if it is not there: its container has not started, or is gone.

        An API server that has just started refuses what it allows a moment later: after lines were read, a refusal
        counts only after some failures.

        Raises:
            ClientError: The user may not read it.
        """
        is_refused = isinstance(error, ForbiddenError | UnauthorizedError)
        if is_refused and (failures + 1 >= LAST_TRIES or not self._position.stamp):
            with translated(self._what):
                raise error
        is_absent = isinstance(error, ApiStatusError) and error.code in {400, 404}
        return "" if is_absent else f"its log could not be read: {error}"

    def _has_successor(self, pod: TaskPod | None) -> bool:
        """Report whether the kubelet has restarted the container since: this run is then the previous one."""
        self._superseded |= self._runs(pod) > self._source.restart
        return self._superseded

    def _runs(self, pod: TaskPod | None) -> int:
        """Return how often the kubelet has restarted the container; -1 if it is not known, or is another Pod's."""
        status = None if pod is None else pod.container(self._source.container)
        return status.restart_count if pod and status and pod.metadata.uid == self._source.uid else -1

    def _is_over(self, pod: TaskPod | None) -> bool:
        """Report whether this run of the container has ended."""
        if pod is None or pod.metadata.uid != self._source.uid or self._has_successor(pod):
            return True
        status = pod.container(self._source.container)
        return status is not None and status.state.terminated is not None

    async def _answer(self, *, follow: bool, previous: bool, whole: bool = True) -> AsyncGenerator[LogBatch, None]:
        cutter, checked = LineCutter(self._source), False
        self._position.resume()
        chunks = self._kube.chunks(
            f"{self._pod_path}/log",
            self._query(follow=follow, previous=previous),
            accept="*/*",
            connect_timeout_seconds=CONNECT_SECONDS,
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                if not (previous or checked) and not await self._is_meant():
                    return
                checked = True
                # A piece at a time: as objects, lines take several times the memory of their bytes.
                for start in range(0, len(chunk), PIECE_BYTES):
                    if lines := self._wanted(cutter.feed(chunk[start : start + PIECE_BYTES])):
                        yield LogBatch(lines)
        if whole and (lines := self._wanted(cutter.rest())):
            yield LogBatch(lines)

    def _query(self, *, follow: bool, previous: bool) -> dict[str, str]:
        query = {"container": self._source.container, "timestamps": "true"}
        query |= {name: "true" for name, wanted in (("follow", follow), ("previous", previous)) if wanted}
        if self._position.stamp:
            return query | {"sinceTime": self._position.stamp}
        first = {"sinceSeconds": self._selection.since_seconds, "tailLines": self._selection.tail}
        return query | {name: str(number) for name, number in first.items() if number is not None}

    def _wanted(self, lines: list[LogLine]) -> list[LogLine]:
        return self._selection.matching(self._position.fresh(lines))

    async def _is_meant(self) -> bool:
        """Report whether the answer is of the run that is meant: a log is asked for by names, not by UID.

        A Pod that is gone by now was there when its log was opened.
        """
        try:
            answer = await self._kube.get(self._pod_path)
        except KubeError:
            return True
        with translated(self._what):
            pod = TASK_POD_DECODER.decode(answer)
        return pod.metadata.uid == self._source.uid and not self._has_successor(pod)
