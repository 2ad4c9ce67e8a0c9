"""What happens to the Frameworks of an example: a line for each change, their logs, and when their gate opened.

`Example` connects a `frameworkdemo.watch.Watcher` of each Framework to a listener, and reads the logs.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from frameworkclient.text import sanitize
from frameworkdemo.picture import events
from frameworkdemo.picture.objects import ContainerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkdemo.picture.objects import FrameworkInfo, PodInfo

_RELEASED = "open after "
"""What the barrier's last line contains when it has released its Pod."""


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
        """Return what the first container of a Pod of this name wrote so far, that of its predecessors included."""
        with self._lock:
            return list(self._logs.get(pod, ()))

    def listener(self, framework: str) -> Callable[[events.Event], None]:
        """Return the function that takes the events of a `Watcher` of this Framework, from any thread."""

        def listen(event: events.Event) -> None:
            with self._lock:
                match event:
                    case events.FrameworkObserved():
                        self._place(f"Framework {framework}", _describe(event.framework))
                    case events.PodObserved():
                        self._pod(event.pod)
                    case events.PodDeleted():
                        self._closed.discard(event.pod.uid)
                        self._place(event.pod.name, "gone")
                    case events.LogLine():
                        self._line(f"{framework}-{event.key}", event)

        return listen

    def _pod(self, pod: PodInfo) -> None:
        if pod.uid not in self._pods:
            self._pods.add(pod.uid)
            if pod.barrier is not ContainerState.ABSENT:
                self._closed.add(pod.uid)
        if pod.barrier is ContainerState.SUCCEEDED:
            self._released(pod.uid, time.time())
        where = f", {pod.ip}" if pod.ip else ""
        self._place(pod.name, "ending" if pod.deleting else f"{_stage(pod)}{where}")

    def _line(self, pod: str, event: events.LogLine) -> None:
        if not event.barrier:
            self._logs.setdefault(pod, []).append(event.text)
            self.say(f"{pod} | {event.text}")
        elif _RELEASED in event.text:
            self._released(event.uid, event.at)

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


def _describe(framework: FrameworkInfo) -> str:
    attempt = f", attempt {framework.attempt + 1}" if framework.attempt else ""
    if framework.state == "Completed" and framework.completion:
        return f"Completed, {framework.completion.phrase} ({framework.completion.code}){attempt}"
    return f"{framework.state or 'applied'}{attempt}"


def _stage(pod: PodInfo) -> str:
    if pod.application is not ContainerState.WAITING:
        return str(pod.application.value)
    if pod.barrier is ContainerState.RUNNING:
        return "waits in the barrier"
    if pod.barrier is ContainerState.SUCCEEDED:
        return "released"
    return f"waiting ({pod.reason})" if pod.reason else "starting"
