"""See what happens to one Framework, and post it: watches for its objects, followed logs for its containers.

Each follower is a thread. A watch that breaks is opened again after a pause, and starts with what is there, so nothing
but a deletion in between can be missed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from demo import events
from demo.cluster import TROUBLE
from demo.facts import BARRIER, Stage, framework_fact, pod_fact, roster_fact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demo.cluster import Cluster
    from demo.facts import PodFact, Wire
    from demo.parts import Post

SERVER_SECONDS = 240
CONNECT_SECONDS = 5.0
READ_SECONDS = 300.0
STOP_SECONDS = 3.0
PAUSE_SECONDS = 0.5
CLOCKS_AGREE_SECONDS = 5.0


class Watcher:
    """Follows one Framework from now on."""

    def __init__(self, cluster: Cluster, namespace: str, framework: str, post: Post) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._framework = framework
        self._post = post
        self._followed: set[tuple[str, str]] = set()
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._responses: set[Any] = set()

    def start(self) -> None:
        """Open all watches."""
        core, custom, name = self._cluster.core, self._cluster.custom, self._framework
        place = (self._namespace,)
        frameworks = ("frameworkcontroller.microsoft.com", "v1", self._namespace, "frameworks")
        own, attempt = {"field_selector": f"metadata.name={name}"}, {"field_selector": f"metadata.name={name}-attempt"}
        mine = {"label_selector": f"FC_FRAMEWORK_NAME={name}"}
        watch = self._watch
        self._thread(watch, custom.list_namespaced_custom_object, frameworks, own, self._framework_seen)
        self._thread(watch, core.list_namespaced_config_map, place, attempt, self._config_map_seen)
        self._thread(watch, core.list_namespaced_pod, place, mine, self._pod_seen)

    def stop(self) -> None:
        """Post nothing any more, and end the threads: one that still reads when the interpreter ends can abort it."""
        self._over.set()
        with self._lock:
            responses, threads = list(self._responses), list(self._threads)
        for response in responses:
            # Not there any more, or not a socket: then nobody is blocked in it.
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
        """Give the lines of a stream as they come; none if the API server refuses it."""
        response = call(*place, **options, _preload_content=False, _request_timeout=(CONNECT_SECONDS, READ_SECONDS))
        with self._lock:
            self._responses.add(response)
        try:
            if response.status == HTTPStatus.OK and not self._over.is_set():
                yield from lines_of(response)
        finally:
            with self._lock:
                self._responses.discard(response)
            response.close()

    def _tell(self, event: events.Event) -> None:
        if not self._over.is_set():
            self._post(event)

    def _watch(
        self,
        call: Callable[..., Any],
        place: tuple[str, ...],
        selector: dict[str, str],
        seen: Callable[[str, Wire], None],
    ) -> None:
        while not self._over.is_set():
            try:
                for line in self._lines(call, *place, **selector, watch=True, timeout_seconds=SERVER_SECONDS):
                    event = json.loads(line)
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        seen(event["type"], event["object"])
            except (*TROUBLE, ValueError):
                # Broken, refused or half a line: what is missed now comes with the next watch's first events.
                pass
            self._over.wait(PAUSE_SECONDS)

    def _framework_seen(self, kind: str, framework: Wire) -> None:
        if kind != "DELETED":
            self._tell(events.FrameworkSeen(time.time(), framework_fact(framework)))

    def _config_map_seen(self, kind: str, config_map: Wire) -> None:
        fact = roster_fact(config_map)
        if fact is not None and kind != "DELETED":
            self._tell(events.RosterSeen(time.time(), fact))

    def _pod_seen(self, kind: str, pod: Wire) -> None:
        fact = pod_fact(pod)
        if fact is None:
            return
        make = events.PodGone if kind == "DELETED" else events.PodSeen
        self._tell(make(time.time(), fact))
        if kind != "DELETED":
            for container, stage in ((BARRIER, fact.barrier), (fact.application_name, fact.application)):
                if stage in (Stage.RUNNING, Stage.DONE, Stage.FAILED) and (fact.uid, container) not in self._followed:
                    self._followed.add((fact.uid, container))
                    self._thread(self._follow_log, fact, container)

    def _follow_log(self, fact: PodFact, container: str) -> None:
        try:
            read = self._cluster.core.read_namespaced_pod_log
            place, options = (fact.name, self._namespace), {"container": container, "follow": True, "timestamps": True}
            for line in self._lines(read, *place, **options):
                at, text = stamped(line.decode(errors="replace"), time.time())
                self._tell(events.Logged(at, fact.key, fact.uid, barrier=container == BARRIER, text=text))
        except TROUBLE:
            # The container is gone, and its log with it; what was read is shown.
            pass


def lines_of(response: Any) -> Iterator[bytes]:
    """Give the lines of a response as they come."""
    rest = b""
    for chunk in response.stream(amt=None, decode_content=False):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest


def stamped(line: str, arrival: float) -> tuple[float, str]:
    """Split the node's time stamp from a line of a log.

    Args:
        line: As the API server gives it with `timestamps=true`: RFC 3339 with nanoseconds, a space, the text.
        arrival: When it was read, in seconds since the epoch.

    Returns:
        The stamp if there is one and the node's clock agrees with ours, else the arrival; and the text.
    """
    stamp, _, text = line.partition(" ")
    try:
        at = dt.datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return arrival, line
    return (at if abs(arrival - at) <= CLOCKS_AGREE_SECONDS else arrival), text
