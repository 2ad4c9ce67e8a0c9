"""Pod templates for gangs of real Pods, and what a test asks about such Pods."""

import contextlib
import json
from typing import Any

from localcluster import Cluster
from localcluster.client import Json, RawClient
from localcluster.errors import LocalClusterError
from localcluster.images import images
from testkit.frameworks import Frameworks
from testkit.waiting import eventually

PREFIX = "barrier.frameworkcontroller.microsoft.com/"
TRAINING = "training"
"""The image with PyTorch, JAX and MPI; it is on the node where a test uses the fixture `training_image`."""
DEBIANS_PYTHON = "/usr/bin/python3"
"""In that image; it has the libraries of Debian's packages."""
# What a program sees is its termination message, which the controller keeps when it deletes the finished Pod.
REPORT = """
import json
def report(seen):
    with open("/dev/termination-log", "w") as log:
        json.dump(seen, log)
"""


def reports(frameworks: Frameworks, timeout: float = 90) -> dict[str, Any]:
    """Wait until `fw` has succeeded, and return what its Tasks have reported, by `<role>-<index>`."""
    completion = frameworks.wait("fw", "Completed", timeout)["attemptStatus"]["completionStatus"]
    assert completion["code"] == 0, completion
    found: dict[str, Any] = {}
    for key, task in frameworks.tasks("fw").items():
        ends = ((task["attemptStatus"]["completionStatus"] or {}).get("pod") or {}).get("containers") or []
        for end in ends:
            if end["name"] == "main" and end.get("message"):
                found[key] = json.loads(end["message"])
    return found


def pod(command: list[str], *, image: str = "barrier", requests: Json | None = None, **annotations: str) -> Json:
    """Return a template with one container and the label that requests a barrier.

    Annotations of the barrier have no prefix, and `_` for `-`. Of the images, the barrier's has Python and is always on
    the node.
    """
    main = {"name": "main", "image": images.reference(image), "imagePullPolicy": "IfNotPresent", "command": command}
    return {
        "metadata": {
            "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"},
            "annotations": {PREFIX + name.replace("_", "-"): value for name, value in annotations.items()},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [{**main, "resources": {"requests": requests or {"cpu": "10m"}}}],
        },
    }


def python(program: str) -> list[str]:
    """Return the command that runs a program with the image's Python."""
    return ["python3", "-uc", program]


def touch(cluster: Cluster, namespace: str, name: str, container: str, path: str) -> None:
    """Make a file in a container whose program waits for it and then ends.

    The program may end before the command does, and end it, too; the test sees what became of the program.
    """
    with contextlib.suppress(LocalClusterError):
        cluster.kubectl("exec", name, "-c", container, "-n", namespace, "--", "touch", path)


def events_of(raw: RawClient, frameworks: Frameworks, reason: str) -> list[str]:
    """Return the messages of the Events with this reason in the test's namespace."""
    found = raw.get(f"/api/v1/namespaces/{frameworks.namespace}/events")["items"]
    return [str(event.get("message") or event.get("note")) for event in found if event["reason"] == reason]


def all_run(frameworks: Frameworks, number: int) -> dict[str, str]:
    """Wait until there are so many Pods that run their application, and return their UIDs by name."""

    def check() -> dict[str, str]:
        pods = frameworks.pods()
        assert len(pods) == number, list(pods)
        for each in pods.values():
            states = each["status"].get("containerStatuses") or [{}]
            assert states[0].get("started"), each["status"]
        return {name: each["metadata"]["uid"] for name, each in pods.items()}

    return eventually(check, 120, 0.3)


def log_of(cluster: Cluster, namespace: str, name: str, container: str = "frameworkbarrier") -> str:
    """Return what a container, by default the barrier, has written; AssertionError while that cannot be read."""
    try:
        return cluster.kubectl("logs", name, "-c", container, "-n", namespace)
    except LocalClusterError as error:
        raise AssertionError(error) from error


def printed(cluster: Cluster, namespace: str, name: str, container: str = "main") -> list[dict[str, Any]]:
    """Return the JSON that an application has printed, a line each; AssertionError while that cannot be read."""
    try:
        return [json.loads(line) for line in log_of(cluster, namespace, name, container).splitlines()]
    except json.JSONDecodeError as error:
        # While containers are removed, the kubelet answers with a line of its own: `rpc error: ...`.
        raise AssertionError(error) from error
