"""The ways in which a gang of three starts again after a crash, on a real node with the three programs."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frameworkcontroller.api import names
from frameworkdemo import cluster as access
from frameworkdemo import deploy, manifests
from localcluster import LocalClusterError, images
from localcluster.client import ApiStatusError
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import Json, RawClient

NAMESPACE = "bench-restart"
RANKS = 3
EXIT_CODE = 17
_SECONDS = 180.0
_LOOK_SECONDS = 0.1
_CLAIM = "runs"
_PREFIX = "barrier.frameworkcontroller.microsoft.com/"
# Writes when it starts to run, and when it exits because the file `crash` is there. It obeys SIGTERM.
_PROGRAM = """
import json, os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
def note(what):
    with open("/runs/" + os.environ["FC_FRAMEWORK_NAME"], "a") as file:
        file.write(json.dumps([what, int(os.environ["FC_TASK_INDEX"]), time.time()]) + "\\n")
note("runs")
while not os.path.exists("/tmp/crash"):
    time.sleep(0.02)
note("crash")
sys.exit(17)
"""


@dataclass(frozen=True)
class Way:
    """How the gang starts again.

    Attributes:
        title: In the table.
        annotations: Of the Pods.
        task_retries: `maxRetryCount` of the Tasks.
        framework_retries: `maxRetryCount` of the Framework.
        deletes: Whether all Pods are deleted as soon as one has failed, as JobSet does it.
        all_again: Whether all ranks start again, or the one that crashed alone.
    """

    title: str
    annotations: dict[str, str]
    task_retries: int = 0
    framework_retries: int = 0
    deletes: bool = False
    all_again: bool = True


WAYS = {
    "in-place": Way("in-place restart", {"restart": "in-place", "restart-limit": "0"}),
    "task-retry": Way("Task retry: the crashed rank alone, with a new Pod", {}, task_retries=-2, all_again=False),
    "framework-retry": Way("Framework retry: all with new Pods", {}, framework_retries=-2),
    "recreate": Way("all Pods deleted and created again, as JobSet does it", {}, task_retries=-2, deletes=True),
}


@dataclass(frozen=True)
class Node:
    """A node with the three programs, and a volume for what the ranks write.

    Attributes:
        cluster: The cluster.
        raw: A client of its API server.
    """

    cluster: Cluster
    raw: RawClient

    @classmethod
    def prepare(cls, cluster: Cluster, raw: RawClient) -> Node:
        """Load the images and install the programs."""
        for archive in images.build_all(manifests.PROGRAM_IMAGES).values():
            cluster.load(archive)
        connection = access.connect(os.fspath(cluster.kubeconfig), None)
        programs = manifests.programs(manifests.ImageNames())
        (config,) = (one["data"] for one in programs if one["kind"] == "ConfigMap")
        config["frameworkcontroller.yaml"] += "\ncrashLoopPause: false\n"  # the ranks run for seconds
        deploy.deploy(connection, programs, print)
        connection.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *_volume()])
        return cls(cluster, raw)


class Crashes:
    """A gang whose rank 1 crashes again and again.

    Args:
        node: Where it runs.
        way: How it starts again, of `WAYS`.
    """

    def __init__(self, node: Node, way: str) -> None:
        self._node, self._name, self._way = node, way.replace("-", ""), WAYS[way]
        self._frameworks = Frameworks(node.raw, NAMESPACE)
        self._pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    def measure(self, crashes: int) -> list[float]:
        """Return the seconds of each crash."""
        policy = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
        retry = {"fancyRetryPolicy": False, "maxRetryCount": self._way.task_retries}
        worker = role("worker", RANKS, pod=self._template(), retry=retry, completion=policy)
        retry = {"fancyRetryPolicy": False, "maxRetryCount": self._way.framework_retries}
        self._frameworks.create(self._name, worker, retryPolicy=retry)
        try:
            self._wait_for(set(range(RANKS)), 0.0)
            found = []
            for number in range(crashes):
                found.append(self._crash())
                print(f"{self._name}: crash {number + 1}: {found[-1]:.1f} s", flush=True)
            return found
        finally:
            self._node.raw.delete(f"{self._frameworks.path}/{self._name}")
            eventually(self._is_empty, _SECONDS, 0.5)

    def _crash(self) -> float:
        """Let rank 1 exit, and return the seconds until all run again."""
        pod = self._node.raw.get(f"{self._pods}/{names.pod_name(self._name, 'worker', 1)}")
        before = time.time()
        self._execute(1, "touch /tmp/crash")
        if self._way.deletes:
            self._delete_all(pod["metadata"]["uid"])
        after = eventually(lambda: self._crashed(before), _SECONDS, _LOOK_SECONDS)
        return self._wait_for(set(range(RANKS)) if self._way.all_again else {1}, after) - after

    def _wait_for(self, ranks: set[int], after: float) -> float:
        """Wait until these ranks have begun to run after a time; return when the last of them did."""

        def check() -> float:
            starts = {index: at for what, index, at in self._noted() if what == "runs" and at > after}
            assert ranks <= starts.keys(), f"only {sorted(starts)} run"
            return max(starts[index] for index in ranks)

        return eventually(check, _SECONDS, _LOOK_SECONDS)

    def _crashed(self, before: float) -> float:
        """Return when rank 1 has exited."""
        times = [at for what, _, at in self._noted() if what == "crash" and at > before]
        assert times, "rank 1 has not exited"
        return times[0]

    def _noted(self) -> list[tuple[str, int, float]]:
        """Return what the ranks have written; AssertionError while none of them runs."""
        lines = self._execute(0, f"cat /runs/{self._name}").splitlines()
        return [tuple(json.loads(line)) for line in lines]

    def _execute(self, index: int, command: str) -> str:
        pod = names.pod_name(self._name, "worker", index)
        try:
            return self._node.cluster.kubectl("exec", pod, "-c", "main", "-n", NAMESPACE, "--", "sh", "-c", command)
        except LocalClusterError as error:
            raise AssertionError(error) from error

    def _delete_all(self, crashed: str) -> None:
        """Delete all Pods when that of this UID has failed, or is gone already since its Task is retried."""
        deadline = time.monotonic() + _SECONDS
        while True:
            found = self._node.raw.get(self._pods)["items"]
            if not any(pod["metadata"]["uid"] == crashed and pod["status"]["phase"] != "Failed" for pod in found):
                break
            assert time.monotonic() < deadline, "no Pod has failed"
            time.sleep(_LOOK_SECONDS)
        for pod in found:
            try:
                self._node.raw.delete(f"{self._pods}/{pod['metadata']['name']}")
            except ApiStatusError as error:
                if error.status != 404:
                    raise

    def _is_empty(self) -> None:
        assert not self._node.raw.get(self._pods)["items"]

    def _template(self) -> Json:
        mount = {"name": _CLAIM, "mountPath": "/runs"}
        return {
            "metadata": {
                "labels": {names.BARRIER_LABEL: "enabled"},
                "annotations": {f"{_PREFIX}{name}": value for name, value in self._way.annotations.items()},
            },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "securityContext": {"fsGroup": 2000},
                "containers": [
                    {
                        "name": "main",
                        "image": images.reference("barrier"),
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["python3", "-uc", _PROGRAM],
                        "volumeMounts": [mount],
                    }
                ],
                "volumes": [{"name": _CLAIM, "persistentVolumeClaim": {"claimName": _CLAIM}}],
            },
        }


def _volume() -> list[dict[str, Any]]:
    """Return a volume on the node, and its claim."""
    size, mode = {"storage": "1Gi"}, ["ReadWriteMany"]
    anywhere = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}]
    volume = {
        "capacity": size,
        "accessModes": mode,
        "storageClassName": NAMESPACE,
        "local": {"path": "/var/local/volumes"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": anywhere}},
    }
    claim = {"accessModes": mode, "storageClassName": NAMESPACE, "resources": {"requests": size}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": NAMESPACE}, "spec": volume},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": _CLAIM, "namespace": NAMESPACE},
            "spec": claim,
        },
    ]
