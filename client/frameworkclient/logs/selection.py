"""Whose logs are wanted, and which part of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frameworkclient.logs.lines import LogSource
from frameworkcontroller.api import names

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from frameworkclient.logs.lines import LogLine
    from frameworkclient.pods import ContainerStatus, TaskPod


WINDOW: Final = 2048
"""Characters of a longer line that a pattern is searched in at a time; a window begins in the middle of the last one.
Python's regular expressions take more than linear time: a container must not choose how long."""


@dataclass(frozen=True)
class LogSelection:
    """Whose logs are wanted.

    Attributes:
        role: Of this role; "" for all.
        task: Of this Task, such as `worker-0`; "" for all.
        barrier: Of the barrier instead of the application.
        since_seconds: Only lines that are not older; None for all. It does not limit what starts later.
        tail: Only so many last lines of each container; None for all. It does not limit what starts later.
        previous: Of the run before the last restart of each container.
        pattern: Only lines in which it is found, in a window of `WINDOW` characters; None for all.
    """

    role: str = ""
    task: str = ""
    barrier: bool = False
    since_seconds: int | None = None
    tail: int | None = None
    previous: bool = False
    pattern: re.Pattern[str] | None = None

    def sources(self, pod: TaskPod) -> Iterator[tuple[LogSource, ContainerStatus]]:
        """Yield the containers of a Pod that are wanted and have started, as they are now."""
        if (self.role and pod.role != self.role) or (self.task and pod.task != self.task):
            return
        wanted = (names.BARRIER_CONTAINER,) if self.barrier else pod.application
        for name in wanted:
            status = pod.container(name)
            if status is not None and (status.has_started or status.restart_count):
                several = self.barrier or len(pod.application) > 1
                yield _source(pod, name, status.restart_count, several=several), status

    def matching(self, lines: list[LogLine]) -> list[LogLine]:
        """Return the lines in which the pattern is found."""
        if self.pattern is None:
            return lines
        found, step = self.pattern.search, WINDOW // 2
        return [
            line
            for line in lines
            if any(found(line.text, at, at + WINDOW) for at in range(0, max(1, len(line.text) - step), step))
        ]


def _source(pod: TaskPod, container: str, restart: int, *, several: bool) -> LogSource:
    label = f"{pod.task}/{container}" if several else pod.task
    return LogSource(pod.task, pod.attempt, pod.metadata.name, pod.metadata.uid, container, restart, label)
