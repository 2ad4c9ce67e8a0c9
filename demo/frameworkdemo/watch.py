"""Follow one Framework, and post events: watches of its objects, and logs of its containers.

`run` starts a `Watcher` before it applies the Framework. Each watch and each log has a thread. A watch that breaks is
opened again after a pause and begins with the existing objects, so only a deletion in between can be missed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from frameworkcontroller.api.names import BARRIER_CONTAINER
from frameworkdemo.cluster import API_ERRORS
from frameworkdemo.picture import events
from frameworkdemo.picture.objects import ContainerState, read_framework, read_pod, read_roster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frameworkdemo.cluster import Cluster
    from frameworkdemo.picture.objects import JsonObject, PodInfo
    from frameworkdemo.progress import PostEvent

SERVER_SECONDS = 240
CONNECT_SECONDS = 5.0
READ_SECONDS = 300.0
STOP_SECONDS = 3.0
PAUSE_SECONDS = 0.5
LOG_TRIES = 10
CLOCKS_AGREE_SECONDS = 5.0
_STARTED = frozenset({ContainerState.RUNNING, ContainerState.SUCCEEDED, ContainerState.FAILED})


class Watcher:
    """Follows one Framework.

    Args:
        cluster: Access to the cluster.
        namespace: The namespace of the Framework.
        framework: The name of the Framework.
        post: Takes the events.
    """

    def __init__(self, cluster: Cluster, namespace: str, framework: str, post: PostEvent) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._framework = framework
        self._post = post
        self._followed: set[tuple[str, str, int]] = set()
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._responses: set[Any] = set()

    def start(self) -> None:
        """Start the watches, each in a thread."""
        core, custom, name = self._cluster.core, self._cluster.custom, self._framework
        place = (self._namespace,)
        frameworks = ("frameworkcontroller.microsoft.com", "v1", self._namespace, "frameworks")
        own, attempt = {"field_selector": f"metadata.name={name}"}, {"field_selector": f"metadata.name={name}-attempt"}
        mine = {"label_selector": f"FC_FRAMEWORK_NAME={name}"}
        watch = self._watch
        self._thread(watch, custom.list_namespaced_custom_object, frameworks, own, self._on_framework)
        self._thread(watch, core.list_namespaced_config_map, place, attempt, self._on_config_map)
        self._thread(watch, core.list_namespaced_pod, place, mine, self._on_pod)

    def stop(self) -> None:
        """Post no more events and end the threads; one that reads while the interpreter shuts down could abort it."""
        self._over.set()
        with self._lock:
            responses, threads = list(self._responses), list(self._threads)
        for response in responses:
            # A response that is closed, or has no socket, blocks no thread.
            with contextlib.suppress(ValueError, RuntimeError, OSError):
                response.shutdown()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _thread(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True, name="demo-follower")
        with self._lock:
            if self._over.is_set():
                return
            self._threads.append(thread)
            thread.start()

    def _lines(self, call: Callable[..., Any], *place: str, **options: Any) -> Iterator[bytes]:
        """Yield the lines of a stream as they arrive; none if the API server refuses the call."""
        response = call(*place, **options, _preload_content=False, _request_timeout=(CONNECT_SECONDS, READ_SECONDS))
        with self._lock:
            self._responses.add(response)
        try:
            if response.status == HTTPStatus.OK and not self._over.is_set():
                yield from iter_lines(response)
        finally:
            with self._lock:
                self._responses.discard(response)
            response.close()

    def _post_unless_stopped(self, event: events.Event) -> None:
        if not self._over.is_set():
            self._post(event)

    def _watch(
        self,
        call: Callable[..., Any],
        place: tuple[str, ...],
        selector: dict[str, str],
        seen: Callable[[str, JsonObject], None],
    ) -> None:
        while not self._over.is_set():
            try:
                for line in self._lines(call, *place, **selector, watch=True, timeout_seconds=SERVER_SECONDS):
                    event = json.loads(line)
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        seen(event["type"], event["object"])
            except (*API_ERRORS, ValueError):
                # Broken, refused, or an incomplete line: the next watch begins with the existing objects.
                pass
            self._over.wait(PAUSE_SECONDS)

    def _on_framework(self, kind: str, framework: JsonObject) -> None:
        if kind != "DELETED":
            self._post_unless_stopped(events.FrameworkObserved(time.time(), read_framework(framework)))

    def _on_config_map(self, kind: str, config_map: JsonObject) -> None:
        roster = read_roster(config_map)
        if roster is not None and kind != "DELETED":
            self._post_unless_stopped(events.RosterObserved(time.time(), roster))

    def _on_pod(self, kind: str, pod: JsonObject) -> None:
        info = read_pod(pod)
        if info is None:
            return
        if kind == "DELETED":
            self._post_unless_stopped(events.PodDeleted(time.time(), info))
            return
        self._post_unless_stopped(events.PodObserved(time.time(), info))
        for container, state in ((BARRIER_CONTAINER, info.barrier), (info.application_name, info.application)):
            start = (info.uid, container, info.restarts.get(container, 0))
            if state in _STARTED and start not in self._followed:
                self._followed.add(start)
                self._thread(self._follow_log, info, container)

    def _follow_log(self, pod: PodInfo, container: str) -> None:
        read = self._cluster.core.read_namespaced_pod_log
        place, options = (pod.name, self._namespace), {"container": container, "follow": True, "timestamps": True}
        for _ in range(LOG_TRIES):
            seen = False
            # The container may be gone, and so is its log; the lines that were read are shown.
            with contextlib.suppress(*API_ERRORS):
                for line in self._lines(read, *place, **options):
                    seen = True
                    at, text = split_timestamp(line.decode(errors="replace"), time.time())
                    barrier = container == BARRIER_CONTAINER
                    self._post_unless_stopped(events.LogLine(at, pod.key, pod.uid, barrier=barrier, text=text))
            # Without any line, a busy kubelet may have refused the call.
            if seen or self._over.wait(PAUSE_SECONDS):
                return


def iter_lines(response: Any) -> Iterator[bytes]:
    """Yield the lines of a response as they arrive."""
    rest = b""
    for chunk in response.stream(amt=None, decode_content=False):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest


def split_timestamp(line: str, arrival: float) -> tuple[float, str]:
    """Split a line of a log into its timestamp and its text.

    Args:
        line: A line as the API server gives it with `timestamps=true`: RFC 3339 with nanoseconds, a space, the text.
        arrival: When the line was read, in seconds since the epoch.

    Returns:
        The timestamp, or the arrival if there is none or the node's clock differs from ours; and the text.
    """
    stamp, _, text = line.partition(" ")
    try:
        at = dt.datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return arrival, line
    return (at if abs(arrival - at) <= CLOCKS_AGREE_SECONDS else arrival), text
