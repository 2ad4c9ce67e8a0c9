"""What happens to the Frameworks of an example: a line for each change, and their logs.

It keeps the logs, in which `Example` looks.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable

from frameworkclient import Client, ClientError, DeletedError, FrameworkView, NotFoundError, UnreachableError
from frameworkclient.views.pods import Stage, TaskPod
from frameworkclient.views.text import sanitize

_LOOK_SECONDS = 0.5
_END_SECONDS = 60.0


class Story:
    """The story of one example, by a client for its namespace; `write` takes each line."""

    def __init__(self, client: Client, write: Callable[[str], None]) -> None:
        self._client = client
        self._write = write
        self._began = time.monotonic()
        self._lock = threading.RLock()
        self._logs: dict[str, list[str]] = {}
        self._changes: dict[str, threading.Thread] = {}
        self._reading: list[threading.Thread] = []

    def seconds(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Write a line with its time."""
        with self._lock:
            self._write(f"[{self.seconds():6.1f} s] {sanitize(text)}")

    def log(self, pod: str) -> list[str]:
        """Return what the program of a Pod of this name wrote so far, that of its predecessors included."""
        with self._lock:
            return list(self._logs.get(pod, ()))

    def follow(self, framework: str) -> None:
        """Tell what happens to a Framework that exists, until it is Completed or deleted."""
        self._changes[framework] = self._begin(self._tell_changes, framework)
        self._reading.append(self._begin(self._tell_log, framework))

    def tell_end(self, framework: str) -> None:
        """Return when the end of a Framework, which is Completed or deleted, is told."""
        self._changes[framework].join(_END_SECONDS)

    def end(self) -> None:
        """Return when the last lines of the Frameworks, which are deleted, are told."""
        deadline = time.monotonic() + _END_SECONDS
        for thread in (*self._changes.values(), *self._reading):
            thread.join(max(0.0, deadline - time.monotonic()))

    def _begin(self, tell: Callable[[str], None], framework: str) -> threading.Thread:
        thread = threading.Thread(target=self._until_end, args=(tell, framework), daemon=True)
        thread.start()
        return thread

    def _until_end(self, tell: Callable[[str], None], framework: str) -> None:
        try:
            tell(framework)
        except (DeletedError, NotFoundError):
            return
        except ClientError as error:
            self.say(f"Framework {framework} is not followed any more: {error}")

    def _tell_changes(self, framework: str) -> None:
        told: dict[str, str] = {}
        finished = False
        while not finished:
            with contextlib.suppress(UnreachableError):
                view = self._client.get(framework)
                places = places_of(view, self._client.pods(framework))
                for line in changes(told, places):
                    self.say(line)
                told, finished = places, view.finished
            time.sleep(_LOOK_SECONDS)

    def _tell_log(self, framework: str) -> None:
        for line in self._client.logs(framework, follow=True):
            with self._lock:
                self._logs.setdefault(line.source.pod, []).append(line.text)
                self.say(f"{line.source.pod} | {line.text}")


def places_of(view: FrameworkView, pods: Iterable[TaskPod]) -> dict[str, str]:
    """Return how far a Framework and each of its Pods is."""
    attempt = f", attempt {view.attempts}" if view.attempts > 1 else ""
    end = f"Completed, {view.result.phrase} ({view.result.code})" if view.result else ""
    return {f"Framework {view.name}": f"{end or view.state or 'applied'}{attempt}"} | {
        pod.metadata.name: _place(pod) for pod in pods
    }


def _place(pod: TaskPod) -> str:
    if pod.stage is Stage.ENDING:
        return pod.stage
    where = f", {pod.status.pod_ip}" if pod.status.pod_ip else ""
    # Why a program has failed, its log tells.
    waits = pod.stage in {Stage.NOT_SCHEDULED, Stage.STARTING} and pod.reason
    return f"{pod.stage}{where}" + (f" ({pod.reason})" if waits else "")


def changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return a line for each difference."""
    places = dict.fromkeys(before, "gone") | now
    return [f"{name}: {place}" for name, place in places.items() if before.get(name) != place]
