"""Whose logs are wanted, and which part of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Self, TypedDict

from frameworkclient.errors import ArgumentError
from frameworkclient.logs.lines import LogLine, LogSource
from frameworkclient.views.pods import ContainerStatus, TaskPod
from frameworkcontroller.api import names


class Wanted(TypedDict, total=False):
    """What `Client.logs` and `AsyncClient.logs` take to choose lines; all is optional.

    Attributes:
        role: Only of this role.
        task: Only of this Task, such as `worker-0`.
        since: Only lines that are not older: a `timedelta`, or seconds.
        tail: Only so many last lines of each container.
        barrier: Of the barrier instead of the application.
        previous: Of the run before the last restart of each container.
        grep: Only lines in which this regular expression is found. Its syntax is that of RE2.
        grep_text: Only lines that contain this text. With `grep`, only lines that have both.
    """

    role: str
    task: str
    since: timedelta | float | None
    tail: int | None
    barrier: bool
    previous: bool
    grep: str
    grep_text: str


@dataclass(frozen=True)
class LogSelection:
    """Whose logs are wanted, as `Wanted` has it: those of all Tasks, or of one role or Task.

    `since_seconds` and `tail` do not limit what starts later; None for all.

    Raises:
        ArgumentError: `grep` is not a regular expression, or RE2 is not installed.
    """

    role: str = ""
    task: str = ""
    barrier: bool = False
    since_seconds: int | None = None
    tail: int | None = None
    previous: bool = False
    grep: str = ""
    grep_text: str = ""

    def __post_init__(self) -> None:
        if self.grep:
            _compiled(self.grep)

    @classmethod
    def of(cls, wanted: Wanted) -> Self:
        """Return the selection of what was asked for."""
        since = wanted.get("since")
        seconds = since.total_seconds() if isinstance(since, timedelta) else since
        others: Any = {key: value for key, value in wanted.items() if key != "since"}
        return cls(since_seconds=None if seconds is None else max(1, round(seconds)), **others)

    def takes(self, role: str, task: str) -> bool:
        """Report whether the logs of a Task are wanted."""
        return self.role in {"", role} and self.task in {"", task}

    def sources(self, pod: TaskPod) -> Iterator[tuple[LogSource, ContainerStatus]]:
        """Yield the containers of a Pod that are wanted and have started, as they are now."""
        if not self.takes(pod.role, pod.task):
            return
        wanted = (names.BARRIER_CONTAINER,) if self.barrier else pod.application
        for name in wanted:
            status = pod.container(name)
            if status is not None and (status.has_started or status.restart_count):
                label = f"{pod.task}/{name}" if self.barrier or len(pod.application) > 1 else pod.task
                restart, meta = status.restart_count, pod.metadata
                yield LogSource(pod.task, pod.attempt, meta.name, meta.uid, name, restart, label), status

    def matching(self, lines: list[LogLine]) -> list[LogLine]:
        """Return the lines that have what is looked for: both where there are an expression and a text."""
        if self.grep_text:
            lines = [line for line in lines if self.grep_text in line.text]
        if self.grep:
            search = _compiled(self.grep).search
            lines = [line for line in lines if search(line.text)]
        return lines


@lru_cache
def _compiled(grep: str) -> Any:
    """Return a pattern that takes linear time, as containers choose the text: Python's `re` does not."""
    try:
        import re2
    except ImportError as error:
        instead = "pip install 'frameworkcontroller[client]', or use grep_text (--grep-text) for plain text"
        raise ArgumentError(f"grep: needs the package google-re2: {instead}") from error
    options = re2.Options()
    options.log_errors, options.never_capture = False, True  # RE2 would print a line of its own
    try:
        return re2.compile(grep, options)
    except (re2.error, UnicodeError) as error:
        # The library reports the reason as bytes.
        why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise ArgumentError(f"grep {grep}: not a regular expression in RE2 syntax: {why}") from error
