"""Gangs for the benchmarks of the barrier: real Frameworks and the real controller, with Pods that no kubelet runs."""

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

from localcluster.client import ApiStatusError, Json, RawClient
from testkit.frameworks import ControllerProcess, Frameworks, apply_definition, apply_permissions, role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster

# There is no such node: the Pods are scheduled, and no kubelet runs them.
NODE = "bench-node"
HOST_IP = "192.0.2.1"
WRITERS = 16
PREPARE_SECONDS = 300.0


def ip(number: int) -> str:
    """Return an address for each number."""
    return f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"


@dataclass
class Gang:
    """A Framework of one role, `worker`, in the namespace of the run.

    Attributes:
        raw: The client of the API server.
        namespace: Its namespace.
        name: Its name.
        tasks: Its number of Tasks.
        pods: Its Pods by index, after `hold`.
    """

    raw: RawClient
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
        """The address that `release` gives to the last Task."""
        return ip(self.tasks)

    def hold(self) -> None:
        """Create the Framework, give all Tasks but the last an address, and wait until the roster has them."""
        template = {
            # So that the controller lets the Pods read the roster.
            "metadata": {"labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"}},
            "spec": {
                "restartPolicy": "Never",
                "nodeName": NODE,
                "containers": [{"name": "main", "image": "none"}],
            },
        }
        Frameworks(self.raw, self.namespace).create(self.name, role("worker", self.tasks, pod=template))
        eventually(self._find_pods, PREPARE_SECONDS, 0.5)
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(self._address, range(self.tasks - 1)))
        eventually(self._all_but_one_ready, PREPARE_SECONDS, 0.5)

    def release(self) -> float:
        """Give the last Task its address; return the time just before, in monotonic seconds."""
        at = time.monotonic()
        self._address(self.tasks - 1)
        return at

    def environment(self, index: int) -> dict[str, str]:
        """Return the environment that the controller gives to the Pod's containers, for a barrier outside the Pod."""
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
    """The environment of gangs: a namespace with a running controller.

    Attributes:
        cluster: The cluster.
        raw: The client of the API server.
        namespace: The namespace.
        account: The folder of the service account's token, as a Pod has it.
        numbers: Numbers the gangs.
    """

    cluster: Cluster
    raw: RawClient
    namespace: str
    account: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def token(self) -> str:
        """The token of the service account."""
        return (self.account / "token").read_text()

    def gang(self, tasks: int) -> Gang:
        """Create another gang, and hold it."""
        gang = Gang(self.raw, self.namespace, f"gang{next(self.numbers)}", tasks)
        gang.hold()
        return gang

    def environment(self, gang: Gang, index: int, output: str) -> dict[str, str]:
        """Return the whole environment of one Task's barrier as a process of this machine."""
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
    """Apply the CRD and the permissions, create a namespace, and run a controller in it until the block ends."""
    namespace = f"bench-barrier-{os.getpid()}"
    with contextlib.closing(RawClient(cluster)) as raw:
        apply_definition(raw)
        apply_permissions(cluster)
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
        raise AssertionError("the service account does not exist yet") from absent
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(cluster.ca_file.read_bytes())
    (folder / "namespace").write_text(namespace)


def _let_read_frameworks(raw: RawClient, namespace: str) -> None:
    """Grant the permission that the pollers need; the controller grants those of the barriers."""
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
        with contextlib.suppress(ApiStatusError):
            raw.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{kind}", document)
