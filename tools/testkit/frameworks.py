"""Frameworks on a local cluster: their CRD, their objects, and the controller as a process with its own permissions.

The fixtures of `tests/apiserver` and `tests/e2e` and the benchmarks use it. The checks of `Frameworks` raise
AssertionError, so that they fit into `waiting.eventually`.
"""

import base64
import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from frameworkcontroller.api import names
from localcluster import Cluster, kubeconfigs
from localcluster.client import ApiStatusError, Json, RawClient
from localcluster.processes.logs import complete_lines
from testkit.waiting import eventually, patience

MANIFESTS = Path(__file__).parents[2] / "deploy" / "install.yaml"
_PERMISSIONS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
POD: Json = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}


def role(name: str, number: int, **more: Any) -> Json:
    """Return a TaskRole of a spec.

    `retry` is the retry policy of the Tasks, `completion` the completion policy of the TaskRole, `pod` the Pod
    template; everything else goes into `task`.
    """
    retry, completion, pod = more.pop("retry", None), more.pop("completion", None), more.pop("pod", POD)
    entry: Json = {"name": name, "taskNumber": number, "task": {"pod": pod, **more}}
    if retry:
        entry["task"]["retryPolicy"] = retry
    if completion:
        entry["frameworkAttemptCompletionPolicy"] = completion
    return entry


def framework(namespace: str, name: str, *roles: Json, **spec: Any) -> Json:
    """Return the manifest of a Framework."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"taskRoles": list(roles), **spec},
    }


@dataclass
class Frameworks:
    """The Frameworks of one namespace."""

    raw: RawClient
    namespace: str

    @property
    def path(self) -> str:
        """The path of the collection."""
        return f"/apis/{names.API_VERSION}/namespaces/{self.namespace}/frameworks"

    @property
    def pods_path(self) -> str:
        """The path of the collection of their Pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def count(self, path: str) -> int:
        """Return how many objects a collection has."""
        page = self.raw.get(f"{path}?limit=1")
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))

    def create(self, name: str, *roles: Json, **spec: Any) -> Json:
        """Create a Framework and return it."""
        return self.raw.create(self.path, framework(self.namespace, name, *roles, **spec))

    def get(self, name: str) -> Json:
        """Return a Framework."""
        return self.raw.get(f"{self.path}/{name}")

    def merge(self, name: str, **spec: Any) -> Json:
        """Change fields of the spec and return the Framework."""
        return self.raw.merge(f"{self.path}/{name}", {"spec": spec})

    def status(self, name: str) -> Json:
        """Return the status of a Framework, if the controller has written one."""
        status = self.get(name).get("status")
        assert status, f"the controller has written no status for Framework {name}"
        assert isinstance(status, dict)
        return status

    def tasks(self, name: str) -> dict[str, Json]:
        """Return the statuses of the Tasks by `<role>-<index>`."""
        roles = self.status(name)["attemptStatus"]["taskRoleStatuses"] or []
        return {f"{entry['name']}-{task['index']}": task for entry in roles for task in entry["taskStatuses"]}

    def wait(self, name: str, state: str, timeout: float = 30.0) -> Json:
        """Wait until a Framework is in this state, and return its status; see `eventually` for `timeout`."""

        def check() -> Json:
            status = self.status(name)
            assert status["state"] == state, status["state"]
            return status

        return eventually(check, timeout)

    def conditions(self, name: str) -> dict[str, Json]:
        """Return the conditions of a Framework by type."""
        return {condition["type"]: condition for condition in self.status(name)["conditions"]}

    def events(self, name: str) -> list[Json]:
        """Return the Events about a Framework."""
        found = self.raw.get(f"/api/v1/namespaces/{self.namespace}/events")["items"]
        about = {"kind": names.KIND, "name": name}
        return [event for event in found if about.items() <= event["involvedObject"].items()]

    def pods(self) -> dict[str, Json]:
        """Return the Pods of the namespace by name."""
        found = self.raw.get(self.pods_path)["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def created(self, *names: str) -> dict[str, Json]:
        """Wait until the namespace has Pods of these names and no others, and return them."""

        def check() -> dict[str, Json]:
            found = self.pods()
            assert set(found) == set(names), sorted(found)
            return found

        return eventually(check, 30)

    def config_map(self, name: str) -> Json:
        """Return the ConfigMap of a Framework's attempt, which holds the roster."""
        return self.raw.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{name}-attempt")

    def roster(self, name: str) -> Json:
        """Return the roster of a Framework's attempt."""
        try:
            config_map = self.config_map(name)
        except ApiStatusError as error:
            raise AssertionError(error) from error
        packed = (config_map.get("binaryData") or {}).get(names.ROSTER_GZIP_KEY)
        text = gzip.decompress(base64.b64decode(packed)) if packed else config_map["data"][names.ROSTER_KEY]
        roster: Json = json.loads(text)
        return roster


@dataclass
class ControllerProcess:
    """A controller in a process of its own, with the permissions of its service account and no others."""

    cluster: Cluster
    folder: Path
    """Of its configuration, kubeconfig and log."""
    settings: Json
    """The fields of its configuration file."""
    process: subprocess.Popen[bytes] | None = None
    """The process that runs, or the last one that ran."""
    starts: int = 0
    """How often it was started."""
    health_port: int = 0
    """0 turns its health endpoints off."""
    server: str = ""
    """The URL of the API server if not the cluster's, for example that of a proxy."""
    program: tuple[str, ...] = ("-m", "frameworkcontroller")
    """What Python runs."""
    account: tuple[str, str] = ("frameworkcontroller-system", "frameworkcontroller")
    """Namespace and name of the service account that it uses."""

    def start(self, *, works: bool = True) -> None:
        """Start the controller, for the first time or again.

        Args:
            works: Wait until its caches are full; else only until the process logs that it starts.
        """
        self.spawn()

        def is_working() -> None:
            assert self.log.count("caches are full" if works else "starting") >= self.starts, self.log[-2000:]

        eventually(is_working, 30)

    def spawn(self) -> None:
        """Start the process and do not wait for it."""
        config, kubeconfig = self.folder / "frameworkcontroller.yaml", self.folder / "kubeconfig"
        alone = {"kubeConfigFilePath": str(kubeconfig), "leaderElection": {"enabled": False}}
        config.write_text(yaml.safe_dump(alone | self.settings))
        user, server = {"token": self.cluster.token(*self.account)}, self.server or self.cluster.server
        kubeconfigs.write(kubeconfig, server, self.cluster.ca_file, user)
        self.starts += 1
        with (self.folder / "controller.log").open("ab") as log:
            command = [sys.executable, *self.program, "--config", str(config), "--health-port", str(self.health_port)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    @property
    def log(self) -> str:
        """The complete lines of the log of all starts."""
        return "\n".join(complete_lines(self.folder / "controller.log"))

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(patience(10))

    def stop(self) -> int:
        """Stop the process with SIGTERM if it runs, and return its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience(10))


def two_controllers(cluster: Cluster, folder: Path, settings: Json) -> tuple[ControllerProcess, ControllerProcess]:
    """Return two controllers with the same settings, each with a folder of its own; neither is started."""
    first, second = folder / "0", folder / "1"
    for each in (first, second):
        each.mkdir()
    return ControllerProcess(cluster, first, settings), ControllerProcess(cluster, second, settings)


def manifests_of(program: str) -> list[Json]:
    """Return what users install of `frameworkcontroller` or `frameworkinjector`, and its namespace, in their order."""
    return [
        document
        for document in _installed()
        if document["kind"] == "Namespace" or document["metadata"]["labels"].get("app.kubernetes.io/name") == program
    ]


def _installed() -> list[Json]:
    return [document for document in yaml.safe_load_all(MANIFESTS.read_text()) if document]


def apply_definition(raw: RawClient) -> None:
    """Apply the CRD of Frameworks, and wait until the API server serves it."""
    for definition in (one for one in _installed() if one["kind"] == "CustomResourceDefinition"):
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"
        raw.apply(path, definition)

        def is_established(path: str = path) -> None:
            conditions = raw.get(path).get("status", {}).get("conditions") or []
            values = {condition["type"]: condition["status"] for condition in conditions}
            assert values.get("Established") == "True", conditions

        eventually(is_established, timeout=30)


def apply_permissions(cluster: Cluster) -> None:
    """Apply the controller's namespace, service account and ClusterRole as users install them."""
    apply_all(cluster, (one for one in manifests_of("frameworkcontroller") if one["kind"] in _PERMISSIONS))


def apply_all(cluster: Cluster, documents: Iterable[Json]) -> None:
    """Apply these objects."""
    text = yaml.safe_dump_all(documents)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
