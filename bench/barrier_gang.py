"""Gangs for the barrier's benchmark: real Frameworks, run by the real controller; the node's part is played here."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from support import eventually
from support.definition import apply_definition
from support.frameworks import ControllerProcess, Frameworks, apply_rights, role
from support.raw import Json, Raw, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster

# A node that nobody has: the Pods are scheduled, and no kubelet runs them.
NODE = "bench-node"
HOST_IP = "192.0.2.1"
WRITERS = 16
PREPARE_SECONDS = 300.0


def ip(number: int) -> str:
    """An address for each number."""
    return f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"


@dataclass
class Gang:
    """A Framework of one role, `worker`, in a namespace of the run's own.

    Attributes:
        raw: The API server.
        namespace: Its namespace.
        name: Its name.
        tasks: How many Tasks it has.
        pods: By index, once it is held.
    """

    raw: Raw
    namespace: str
    name: str
    tasks: int
    pods: list[Json] = field(default_factory=list)

    @property
    def config_map(self) -> str:
        """The name of the ConfigMap with the roster."""
        return f"{self.name}-attempt"

    @property
    def last_ip(self) -> str:
        """The address that the last Task will have."""
        return ip(self.tasks)

    def hold(self) -> None:
        """Create it and give all Tasks but the last an address; returns when the controller's roster says so."""
        template = {
            "spec": {
                "restartPolicy": "Never",
                "nodeName": NODE,
                "containers": [{"name": "main", "image": "none"}],
            }
        }
        Frameworks(self.raw, self.namespace).create(self.name, role("worker", self.tasks, pod=template))
        eventually(self._find_pods, PREPARE_SECONDS, 0.5)
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(self._address, range(self.tasks - 1)))
        eventually(self._all_but_one_ready, PREPARE_SECONDS, 0.5)

    def release(self) -> float:
        """Give the last Task its address; returns the time just before (monotonic seconds)."""
        at = time.monotonic()
        self._address(self.tasks - 1)
        return at

    def environment(self, index: int) -> dict[str, str]:
        """What the controller gives to the Pod's containers, for a barrier outside of it."""
        pod = self.pods[index]
        given = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
        return {name: value for name, value in given.items() if value is not None} | {
            "FC_POD_UID": pod["metadata"]["uid"]
        }

    def _find_pods(self) -> None:
        found = self.raw.get(f"{self._pods}?labelSelector=FC_FRAMEWORK_NAME%3D{self.name}")["items"]
        assert len(found) == self.tasks
        self.pods = sorted(found, key=lambda pod: int(pod["metadata"]["name"].rpartition("-")[2]))

    def _address(self, index: int) -> None:
        address = ip(index + 1)
        status: dict[str, Any] = {"phase": "Pending", "hostIP": HOST_IP, "hostIPs": [{"ip": HOST_IP}]}
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
        self.raw.merge(f"{self._pods}/{self.pods[index]['metadata']['name']}/status", {"status": status})

    def _all_but_one_ready(self) -> None:
        roster = json.loads(self.raw.get(self._config_map)["data"]["roster"])
        assert (roster["ready"], roster["total"], roster["complete"]) == (self.tasks - 1, self.tasks, False)

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def _config_map(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{self.config_map}"


@dataclass
class Stage:
    """Where gangs live: a namespace, a running controller, and a service account's folder as a Pod has it."""

    cluster: Cluster
    raw: Raw
    namespace: str
    account: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def token(self) -> str:
        """The service account's."""
        return (self.account / "token").read_text()

    def gang(self, tasks: int) -> Gang:
        """Another gang, held."""
        gang = Gang(self.raw, self.namespace, f"gang{next(self.numbers)}", tasks)
        gang.hold()
        return gang

    def environment(self, gang: Gang, index: int, output: str) -> dict[str, str]:
        """The whole environment of one Task's barrier as a process of this machine."""
        return gang.environment(index) | {
            "PATH": os.environ["PATH"],
            "KUBE_APISERVER_ADDRESS": self.cluster.server,
            "FB_TOKEN_DIR": str(self.account),
            "FB_OUTPUT_DIR": output,
            "FB_TERMINATION_LOG": f"{output}/termination-log",
            "FB_PRESET": "tensorflow",
            "FB_FRAMEWORK_JSON": "never",
        }


@contextlib.contextmanager
def stage(cluster: Cluster, folder: Path) -> Iterator[Stage]:
    """Definition, rights, namespace and controller; the controller ends with the block, the namespace is deleted."""
    namespace = f"bench-barrier-{os.getpid()}"
    with contextlib.closing(Raw(cluster)) as raw:
        apply_definition(raw)
        apply_rights(cluster)
        raw.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        _let_read_frameworks(raw, namespace)
        account = folder / "account"
        account.mkdir()
        eventually(lambda: _write_account(cluster, namespace, account), 30, 0.2)
        controller = ControllerProcess(cluster, folder, {"namespace": namespace})
        try:
            controller.start()
            yield Stage(cluster, raw, namespace, account)
        finally:
            if controller.process:
                controller.stop()
            raw.delete(f"/api/v1/namespaces/{namespace}")


def _write_account(cluster: Cluster, namespace: str, folder: Path) -> None:
    try:
        token = cluster.token(namespace, "default")
    except Exception as absent:
        raise AssertionError("the service account is not there yet") from absent
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(cluster.ca_file.read_bytes())
    (folder / "namespace").write_text(namespace)


def _let_read_frameworks(raw: Raw, namespace: str) -> None:
    """What the pollers need; the barriers' own right is the controller's business."""
    documents = yaml.safe_load_all(
        f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: poller}}
rules: [{{apiGroups: [frameworkcontroller.microsoft.com], resources: [frameworks], verbs: [get]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: poller}}
subjects: [{{kind: ServiceAccount, name: default, namespace: {namespace}}}]
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: poller}}
"""
    )
    for document in documents:
        kind = document["kind"].lower() + "s"
        with contextlib.suppress(RefusedError):
            raw.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{kind}", document)
