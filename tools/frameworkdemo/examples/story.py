"""What happens to the Frameworks of an example: a line for each change, their logs, and when their gate opened.

It is the listener of the `Follower` that `Example` uses, and keeps the logs in which `Example` looks.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from frameworkclient.pods import Stage
from frameworkclient.text import sanitize
from frameworkcontroller.api.names import BARRIER_CONTAINER

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkclient import FrameworkView, LogLine
    from frameworkclient.moments import Moment
    from frameworkclient.pods import TaskPod

_RELEASED: Final = "open after "
"""What the barrier's last line contains when it has released its Pod."""
_PAST_THE_GATE: Final = frozenset({Stage.RELEASED, Stage.RUNNING, Stage.SUCCEEDED})


class Story:
    """The story of one example.

    Args:
        write: Takes each line, in the order of the events.

    Attributes:
        gate_seconds: The seconds until all Pods that had been seen and not deleted were released; None before.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._lock = threading.RLock()
        self.gate_seconds: float | None = None
        self._write = write
        self._began = time.time()
        self._logs: dict[str, list[str]] = {}
        self._places: dict[str, str] = {}
        self._present: dict[str, dict[str, TaskPod]] = {}
        self._pods: set[str] = set()
        self._closed: set[str] = set()

    @property
    def pods(self) -> int:
        """The number of Pods that were seen, those of retries included."""
        return len(self._pods)

    def seconds(self) -> float:
        """Return the seconds since the beginning."""
        return time.time() - self._began

    def say(self, text: str) -> None:
        """Write a line with its time."""
        with self._lock:
            self._write(f"[{self.seconds():6.1f} s] {sanitize(text)}")

    def log(self, pod: str) -> list[str]:
        """Return what the program of a Pod of this name wrote so far, that of its predecessors included."""
        with self._lock:
            return list(self._logs.get(pod, ()))

    def changed(self, moment: Moment) -> None:
        """Tell what is new about a Framework and its Pods."""
        with self._lock:
            name = moment.view.name
            self._place(f"Framework {name}", _describe(moment.view))
            before = self._present.get(name, {})
            self._present[name] = {pod.metadata.name: pod for pod in moment.pods.values()}
            remain = {pod.metadata.uid for pod in moment.pods.values()}
            for pod in before.values():
                if pod.metadata.uid not in remain:
                    self._closed.discard(pod.metadata.uid)
                    self._place(pod.metadata.name, "gone")
            for pod in moment.pods.values():
                self._pod(pod)

    def logged(self, line: LogLine) -> None:
        """Tell a line of a program, or what a barrier says about the gate."""
        with self._lock:
            source = line.source
            if source.container != BARRIER_CONTAINER:
                self._logs.setdefault(source.pod, []).append(line.text)
                self.say(f"{source.pod} | {line.text}")
            elif _RELEASED in line.text:
                self._released(source.uid, line.time.timestamp())

    def _pod(self, pod: TaskPod) -> None:
        uid = pod.metadata.uid
        if uid not in self._pods:
            self._pods.add(uid)
            if pod.has_barrier:
                self._closed.add(uid)
        if pod.stage in _PAST_THE_GATE:
            self._released(uid, time.time())
        where = f", {pod.status.pod_ip}" if pod.status.pod_ip else ""
        self._place(pod.metadata.name, pod.stage if pod.stage is Stage.ENDING else f"{_stage(pod)}{where}")

    def _released(self, uid: str, at: float) -> None:
        """Note that a Pod's barrier is open: by its log at once, or by the status of the Pod up to a second later."""
        if uid in self._closed:
            self._closed.discard(uid)
            if self.gate_seconds is None and not self._closed:
                self.gate_seconds = at - self._began
                self.say(f"the gate is open, after {self.gate_seconds:.1f} s")

    def _place(self, what: str, place: str) -> None:
        if self._places.get(what) != place:
            self._places[what] = place
            self.say(f"{what}: {place}")


def _describe(view: FrameworkView) -> str:
    attempt = f", attempt {view.attempts}" if view.attempts > 1 else ""
    if view.result is not None:
        return f"Completed, {view.result.phrase} ({view.result.code}){attempt}"
    return f"{view.state or 'applied'}{attempt}"


def _stage(pod: TaskPod) -> str:
    match pod.stage:
        case Stage.NOT_SCHEDULED | Stage.STARTING:
            return f"waiting ({pod.reason})" if pod.reason else "starting"
        case Stage.RUNNING:
            # A program that has ended may be started again in its Pod, which runs all the time.
            ends = [one.state.terminated for one in pod.status.container_statuses]
            if any(end is not None and end.exit_code != 0 for end in ends):
                return Stage.FAILED
            return Stage.SUCCEEDED if all(ends) else Stage.RUNNING
        case stage:
            return stage
