"""A fake kubelet for tests on a control plane without nodes: Pods run and end as the test says.

The fixture `kubelet` of `tests/conftest.py` gives it to tests in `tests/apiserver`, `tests/demo` and
`tests/localcluster`.

It writes the statuses that a kubelet writes, through the API server, with the Pod's UID as a precondition, so that a
test never changes the successor of the Pod that it means.
"""

import contextlib
import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Any

from localcluster.client import ApiStatusError, Json, RawClient
from tests.support.background import in_background

NODE = "played-node"
HOST_IP = "192.0.2.1"


class Kubelet:
    """The kubelet of all Pods of one namespace.

    Methods take a Pod by its name, or as an object; then the API server's Pod must have the same UID.
    """

    def __init__(self, raw: RawClient, namespace: str) -> None:
        self._raw = raw
        self._namespace = namespace
        self._numbers = itertools.count(1)

    def get(self, pod: str | Json) -> Json:
        """Return the Pod as the API server has it.

        Raises:
            ApiStatusError: There is no such Pod (404), or only one with another UID (409).
        """
        name, uid = _identity(pod)
        found = self._raw.get(self._path(name))
        if uid is not None and found["metadata"]["uid"] != uid:
            reason = f"the Pod has the UID {found['metadata']['uid']}, not {uid}"
            raise ApiStatusError("GET", self._path(name), 409, reason)
        return found

    def bind(self, pod: str | Json) -> Json:
        """Bind a Pod to a node, as the scheduler would, unless it has one."""
        found = self.get(pod)
        if found["spec"].get("nodeName"):
            return found
        name, uid = _identity(found)
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid}, "target": target}
        self._raw.create(self._path(name) + "/binding", binding)
        return self.get(found)

    def run(self, pod: str | Json, ip: str | None = None) -> Json:
        """Bind a Pod and report all containers and sidecars as running, other init containers as completed.

        Without an IP it has the one that it had, or one that no Pod of this kubelet has had.
        """
        found = self.bind(pod)
        now = _now()
        runs = {"running": {"startedAt": now}}
        number = next(self._numbers)
        address = ip or found["status"].get("podIP") or f"10.255.{number // 250}.{number % 250 + 1}"
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
                _container(item, runs if item.get("restartPolicy") == "Always" else _terminated(0, now, now))
                for item in found["spec"].get("initContainers", [])
            ],
            containerStatuses=[_container(item, runs) for item in found["spec"]["containers"]],
        )

    def succeed(self, pod: str | Json) -> Json:
        """Report that all containers exited with 0, and the Pod as Succeeded."""
        return self._end(pod, "Succeeded", 0)

    def fail(self, pod: str | Json, code: int = 1) -> Json:
        """Report that the first container exited with a code and the others with 0, and the Pod as Failed."""
        return self._end(pod, "Failed", code)

    def lose(self, pod: str | Json) -> Json:
        """Report the Pod of a lost node: Failed with a reason of its own, the containers in their last known states."""
        found = self.get(pod)
        conditions = _conditions(found, ContainersReady="False", Ready="False")
        message = "Node which was running the pod is gone"
        return self._write(found, phase="Failed", reason="NodeLost", message=message, conditions=conditions)

    def pending(self, pod: str | Json, reason: str = "Unschedulable", message: str = "0/1 nodes are available") -> Json:
        """Report a Pod that cannot be scheduled: its condition PodScheduled is False."""
        found = self.get(pod)
        conditions = [entry for entry in found["status"].get("conditions", []) if entry["type"] != "PodScheduled"]
        refusal = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        conditions.append({**refusal, "lastTransitionTime": _now()})
        return self._write(found, phase="Pending", conditions=conditions)

    def finish_deletion(self, pod: str | Json) -> None:
        """Remove a Pod whose containers have ended (grace period 0), if it still exists."""
        name, uid = _identity(pod)
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        with ignore_vanished():
            self._raw.delete(self._path(name), options)

    @contextlib.contextmanager
    def autopilot(self) -> Iterator[None]:
        """Run every new Pod with a fresh IP, and finish every deletion, in the background until the block ends.

        An error in the background is raised at the end of the block. A Pod that vanishes is not an error.
        """
        with in_background(self._steer, every=0.1):
            yield

    def _steer(self) -> None:
        for pod in self._raw.get(self._path())["items"]:
            with ignore_vanished():
                if pod["metadata"].get("deletionTimestamp"):
                    self.finish_deletion(pod)
                elif pod["status"].get("phase") == "Pending" and not pod["status"].get("podIP"):
                    self.run(pod)

    def _end(self, pod: str | Json, phase: str, code: int) -> Json:
        found = self.get(pod)
        now = _now()
        begun = found["status"].get("startTime", now)
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        good, first = _terminated(0, begun, now), _terminated(code, begun, now)
        main, *others = found["spec"]["containers"]
        return self._write(
            found,
            phase=phase,
            conditions=_conditions(found, reason, ContainersReady="False", Ready="False"),
            initContainerStatuses=[_container(item, good) for item in found["spec"].get("initContainers", [])],
            containerStatuses=[_container(main, first), *(_container(item, good) for item in others)],
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


def _identity(pod: str | Json) -> tuple[str, str | None]:
    """Return the name and the UID of a Pod; the UID of a mere name is None."""
    return (pod, None) if isinstance(pod, str) else (pod["metadata"]["name"], pod["metadata"].get("uid"))


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _conditions(pod: Json, reason: str | None = None, **values: str) -> list[Json]:
    """Return the Pod's conditions with these values; its other conditions stay as they are."""
    kept = [entry for entry in pod["status"].get("conditions", []) if entry["type"] not in values]
    common = {"lastTransitionTime": _now(), **({"reason": reason} if reason else {})}
    return [*kept, *({"type": kind, "status": value, **common} for kind, value in values.items())]


def _container(item: Json, state: Json) -> Json:
    running = "running" in state
    common = {"name": item["name"], "image": item["image"], "imageID": "", "restartCount": 0}
    ready = running or state["terminated"]["exitCode"] == 0
    return {**common, "ready": ready, "started": running, "state": state}


def _terminated(code: int, begun: str, now: str) -> Json:
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": begun, "finishedAt": now}}
