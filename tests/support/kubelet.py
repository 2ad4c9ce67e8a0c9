"""A fake kubelet for tests on a control plane without nodes: Pods run and end as the test says.

The fixture `kubelet` of `tests/conftest.py` gives it to tests in `tests/apiserver`, `tests/demo` and
`tests/localcluster`.

It writes the statuses that a kubelet writes, through the API server, with the Pod's UID as a precondition, so that a
test never changes the successor of the Pod that it means.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import threading
from typing import TYPE_CHECKING, Any

from localcluster.client import ApiStatusError, Json, RawClient
from tests.support.background import in_background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NODE = "played-node"
HOST_IP = "192.0.2.1"
_WATCH_SECONDS = 5


class Kubelet:
    """The kubelet of all Pods of one namespace.

    Methods take a Pod by its name, or as a dict or object with its metadata; then the API server's Pod must have the
    same UID.

    Args:
        raw: The client of the API server.
        namespace: The namespace.
    """

    def __init__(self, raw: RawClient, namespace: str) -> None:
        self._raw = raw
        self._namespace = namespace
        self._numbers = itertools.count(1)

    def fresh_ip(self) -> str:
        """Return an IP that no Pod of this kubelet has had."""
        number = next(self._numbers)
        return f"10.255.{number // 250}.{number % 250 + 1}"

    def get(self, pod: object) -> Json:
        """Return the Pod as the API server has it.

        Raises:
            ApiStatusError: There is no such Pod (404), or only one with another UID (409).
        """
        name, uid = _identity(pod)
        found = self._raw.get(self._path(name))
        if uid is not None and found["metadata"]["uid"] != uid:
            raise ApiStatusError(
                "GET", self._path(name), 409, f"the Pod has the UID {found['metadata']['uid']}, not {uid}"
            )
        return found

    def bind(self, pod: object, node: str = NODE) -> Json:
        """Bind a Pod to a node, as the scheduler would, unless it has one."""
        found = self.get(pod)
        if found["spec"].get("nodeName"):
            return found
        name, uid = _identity(found)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid}, "target": target}
        self._raw.create(self._path(name) + "/binding", binding)
        return self.get(found)

    def run(self, pod: object, ip: str | None = None) -> Json:
        """Bind a Pod and report all containers and sidecars as running, other init containers as completed.

        Args:
            pod: The Pod.
            ip: Its IP; None means the one that it has, or a fresh one.
        """
        found = self.bind(pod)
        now = _now()
        address = ip or found["status"].get("podIP") or self.fresh_ip()
        return self._write(
            found,
            phase="Running",
            startTime=now,
            hostIP=HOST_IP,
            hostIPs=[{"ip": HOST_IP}],
            podIP=address,
            podIPs=[{"ip": address}],
            conditions=_conditions(found, Initialized="True", ContainersReady="True", Ready="True"),
            initContainerStatuses=[
                _container(item, _running(now) if _is_sidecar(item) else _terminated(0, now, now, "Completed"))
                for item in found["spec"].get("initContainers", [])
            ],
            containerStatuses=[_container(item, _running(now)) for item in found["spec"]["containers"]],
        )

    def succeed(self, pod: object) -> Json:
        """Report that all containers exited with 0, and the Pod as Succeeded."""
        return self._end(pod, "Succeeded", {})

    def fail(
        self,
        pod: object,
        code: int = 1,
        *,
        reason: str = "Error",
        message: str | None = None,
        container: str | None = None,
        signal: int | None = None,
        pod_reason: str | None = None,
        pod_message: str | None = None,
    ) -> Json:
        """Report that a container exited with a code and the others with 0, and the Pod as Failed.

        Args:
            pod: The Pod.
            code: The exit code.
            reason: The reason in the container's termination state.
            message: The termination message of the container.
            container: The name of the container or init container; None means the first container.
            signal: The signal in the container's termination state.
            pod_reason: The Pod's own reason, such as `Evicted` or `DeadlineExceeded`.
            pod_message: The Pod's own message.
        """
        found = self.get(pod)
        name = container or found["spec"]["containers"][0]["name"]
        known = [item["name"] for item in [*found["spec"].get("initContainers", []), *found["spec"]["containers"]]]
        assert name in known, f"the Pod has no container {name!r}, only {known}"
        detail = {"exitCode": code, "reason": reason, "message": message, "signal": signal}
        own = {"reason": pod_reason, "message": pod_message}
        return self._end(found, "Failed", {name: detail}, **{key: value for key, value in own.items() if value})

    def lose(
        self, pod: object, reason: str = "NodeLost", message: str = "Node which was running the pod is gone"
    ) -> Json:
        """Report the Pod of a lost node: Failed with a reason of its own, the containers in their last known states."""
        found = self.get(pod)
        conditions = _conditions(found, ContainersReady="False", Ready="False")
        return self._write(found, phase="Failed", reason=reason, message=message, conditions=conditions)

    def pending(self, pod: object, reason: str = "Unschedulable", message: str = "0/1 nodes are available") -> Json:
        """Report a Pod that cannot be scheduled: its condition PodScheduled is False."""
        found = self.get(pod)
        conditions = [entry for entry in found["status"].get("conditions", []) if entry["type"] != "PodScheduled"]
        refusal = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        conditions.append({**refusal, "lastTransitionTime": _now()})
        return self._write(found, phase="Pending", conditions=conditions)

    def finish_deletion(self, pod: object) -> None:
        """Remove a Pod whose containers have ended (grace period 0), if it still exists."""
        name, uid = _identity(pod)
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        with ignore_vanished():
            self._raw.delete(self._path(name), options)

    @contextlib.contextmanager
    def autopilot(self, runs: Callable[[Json], bool] = lambda _: True) -> Iterator[None]:
        """Run every new Pod with a fresh IP, and finish every deletion, in the background until the block ends.

        An error in the background is raised at the end of the block. A Pod that vanishes is not an error.

        Args:
            runs: Decides by a Pod's JSON whether to run the Pod; it may be called several times for one Pod.
        """
        over = threading.Event()
        with in_background(lambda: self._fly(runs, over)):
            try:
                yield
            finally:
                over.set()
                # A change wakes the watch; without one it ends after some seconds.
                self._touch()

    def _fly(self, runs: Callable[[Json], bool], over: threading.Event) -> None:
        if over.is_set():
            return
        pods = self._raw.get(self._path())
        for pod in pods["items"]:
            self._steer(pod, runs)
        version = pods["metadata"]["resourceVersion"]
        for event in self._raw.watch(self._path(), version, _WATCH_SECONDS):
            if over.is_set() or event["type"] == "ERROR":
                return
            if event["type"] in {"ADDED", "MODIFIED"}:
                self._steer(event["object"], runs)

    def _steer(self, pod: Json, runs: Callable[[Json], bool]) -> None:
        with ignore_vanished():
            if pod["metadata"].get("deletionTimestamp"):
                self.finish_deletion(pod)
            elif pod["status"].get("phase") == "Pending" and not pod["status"].get("podIP") and runs(pod):
                self.run(pod)

    def _touch(self) -> None:
        """Create and delete a Pod that is never scheduled, so that watches of this namespace get an event."""
        probe = {"name": "wakes-the-kubelet"}
        spec = {"schedulerName": "nobody", "containers": [{"name": "none", "image": "none"}]}
        with contextlib.suppress(ApiStatusError):
            made = self._raw.create(self._path(), {"apiVersion": "v1", "kind": "Pod", "metadata": probe, "spec": spec})
            self.finish_deletion(made)

    def _end(self, pod: object, phase: str, ends: dict[str, Json], **own: str) -> Json:
        found = self.get(pod)
        now = _now()
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"

        def ended(item: Json) -> Json:
            given = {"exitCode": 0, "reason": "Completed", **ends.get(item["name"], {})}
            begun = found["status"].get("startTime", now)
            return _container(item, _terminated(given.pop("exitCode"), begun, now, **given))

        return self._write(
            found,
            phase=phase,
            conditions=_conditions(found, reason, ContainersReady="False", Ready="False"),
            initContainerStatuses=[ended(item) for item in found["spec"].get("initContainers", [])],
            containerStatuses=[ended(item) for item in found["spec"]["containers"]],
            **own,
        )

    def _write(self, pod: Json, **status: Any) -> Json:
        name, uid = _identity(pod)
        body = {"metadata": {"uid": uid}, "status": status}
        return self._raw.merge(self._path(name) + "/status", body)

    def _path(self, name: str | None = None) -> str:
        pods = f"/api/v1/namespaces/{self._namespace}/pods"
        return pods if name is None else f"{pods}/{name}"


@contextlib.contextmanager
def ignore_vanished() -> Iterator[None]:
    """Ignore the answers 404 and 409, by which the API server says that a Pod is gone or was replaced."""
    try:
        yield
    except ApiStatusError as error:
        if error.status not in {404, 409}:
            raise


def _identity(pod: object) -> tuple[str, str | None]:
    """Return the name and the UID of a dict, a model of a client, or a struct; the UID of a mere name is None."""
    if isinstance(pod, str):
        return pod, None
    metadata = pod["metadata"] if isinstance(pod, dict) else getattr(pod, "metadata", None)
    if isinstance(metadata, dict):
        return metadata["name"], metadata.get("uid")
    assert metadata is not None, f"{pod!r} is neither a Pod's name nor a Pod"
    return metadata.name, metadata.uid


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _conditions(pod: Json, reason: str | None = None, **values: str) -> list[Json]:
    """Return the Pod's conditions with these values; its other conditions stay as they are."""
    kept = [entry for entry in pod["status"].get("conditions", []) if entry["type"] not in values]
    extra = {"reason": reason} if reason else {}
    now = _now()
    return [
        *kept,
        *({"type": kind, "status": value, "lastTransitionTime": now, **extra} for kind, value in values.items()),
    ]


def _container(item: Json, state: Json) -> Json:
    running = "running" in state
    common = {"name": item["name"], "image": item["image"], "imageID": "", "restartCount": 0}
    return {**common, "ready": running or _succeeded(state), "started": running, "state": state}


def _succeeded(state: Json) -> bool:
    return bool(state.get("terminated", {}).get("exitCode") == 0)


def _running(now: str) -> Json:
    return {"running": {"startedAt": now}}


def _terminated(
    code: int, begun: str, now: str, reason: str, message: str | None = None, signal: int | None = None
) -> Json:
    detail = {"exitCode": code, "reason": reason, "message": message, "signal": signal}
    given = {key: value for key, value in detail.items() if value is not None}
    return {"terminated": {**given, "startedAt": begun, "finishedAt": now}}


def _is_sidecar(item: Json) -> bool:
    return item.get("restartPolicy") == "Always"
