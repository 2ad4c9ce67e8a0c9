"""Frameworks in tests on a real API server: manifests, a controller as a process, and somebody who plays their Pods."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from frameworkcontroller.api import names
from support.background import in_background
from support.raw import Json, Raw, RefusedError
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster import Cluster
    from support.kubelet import Kubelet

MANIFESTS = Path(__file__).parent.parent.parent / "controller" / "manifests"
POD: Json = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}


def role(name: str, number: int, **more: Any) -> Json:
    """A TaskRole; ``retry`` and ``completion`` are its policies, ``pod`` its template, the rest goes into ``task``."""
    retry, completion, pod = more.pop("retry", None), more.pop("completion", None), more.pop("pod", POD)
    entry: Json = {"name": name, "taskNumber": number, "task": {"pod": pod, **more}}
    if retry:
        entry["task"]["retryPolicy"] = retry
    if completion:
        entry["frameworkAttemptCompletionPolicy"] = completion
    return entry


def framework(namespace: str, name: str, *roles: Json, **spec: Any) -> Json:
    """A Framework's manifest."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"taskRoles": list(roles), **spec},
    }


@dataclass
class Frameworks:
    """The Frameworks of one namespace."""

    raw: Raw
    namespace: str

    @property
    def path(self) -> str:
        return f"/apis/{names.API_VERSION}/namespaces/{self.namespace}/frameworks"

    def create(self, name: str, *roles: Json, **spec: Any) -> Json:
        return self.raw.create(self.path, framework(self.namespace, name, *roles, **spec))

    def get(self, name: str) -> Json:
        return self.raw.get(f"{self.path}/{name}")

    def merge(self, name: str, **spec: Any) -> Json:
        return self.raw.merge(f"{self.path}/{name}", {"spec": spec})

    def status(self, name: str) -> Json:
        status = self.get(name).get("status")
        assert status, "nobody has looked at it yet"
        assert isinstance(status, dict)
        return status

    def tasks(self, name: str) -> dict[str, Json]:
        roles = self.status(name)["attemptStatus"]["taskRoleStatuses"] or []
        return {f"{entry['name']}-{task['index']}": task for entry in roles for task in entry["taskStatuses"]}

    def wait(self, name: str, state: str, timeout: float = 30.0) -> Json:
        def check() -> Json:
            status = self.status(name)
            assert status["state"] == state, status["state"]
            return status

        return eventually(check, timeout)

    def pods(self) -> dict[str, Json]:
        found = self.raw.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def config_map(self, name: str) -> Json:
        return self.raw.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{name}-attempt")


@dataclass
class Player:
    """Lets the Pods of a namespace live as a plan says: by ``role-index`` an exit code, or "stay", for each retry."""

    kubelet: Kubelet
    frameworks: Frameworks
    plan: dict[str, list[int | str]] = field(default_factory=dict)

    @contextlib.contextmanager
    def playing(self) -> Iterator[None]:
        """In the background; what goes wrong there is raised at the end."""
        with in_background(self._play, every=0.03):
            yield

    def _play(self) -> None:
        for pod in self.frameworks.pods().values():
            self._steer(pod)

    def _steer(self, pod: Json) -> None:
        notes = pod["metadata"].get("annotations", {})
        if names.TASK_ATTEMPT_ID not in notes:
            return
        ends = self.plan.get(f"{notes[names.TASKROLE_NAME]}-{notes[names.TASK_INDEX]}", [0])
        attempts = int(notes[names.FRAMEWORK_ATTEMPT_ID]) + int(notes[names.TASK_ATTEMPT_ID])
        end = ends[min(attempts, len(ends) - 1)]
        phase = pod["status"].get("phase")
        try:
            if pod["metadata"].get("deletionTimestamp"):
                self.kubelet.finish_deletion(pod)
            elif phase == "Pending":
                self.kubelet.run(pod)
            elif phase == "Running" and isinstance(end, int):
                if end:
                    self.kubelet.fail(pod, end)
                else:
                    self.kubelet.succeed(pod)
        except RefusedError as error:
            if error.status not in {404, 409}:
                raise


@dataclass
class ControllerProcess:
    """A controller as a process of its own, with the rights of its ClusterRole and no others."""

    cluster: Cluster
    folder: Path
    settings: Json
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    health_port: int = 0
    server: str = ""
    """Where it finds the API server, if not where the cluster says."""

    def start(self, *, works: bool = True) -> None:
        """Start it, again if it was stopped.

        Args:
            works: Wait until it does; else only until it has begun.
        """
        config, kubeconfig = self.folder / "frameworkcontroller.yaml", self.folder / "kubeconfig"
        alone = {"kubeConfigFilePath": str(kubeconfig), "leaderElection": {"enabled": False}}
        config.write_text(yaml.safe_dump(alone | self.settings))
        kubeconfig.write_text(yaml.safe_dump(self._kubeconfig()))
        self.starts += 1
        with (self.folder / "controller.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "frameworkcontroller",
                    "--config",
                    str(config),
                    "--health-port",
                    str(self.health_port),
                ],
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

        def is_working() -> None:
            assert self.log.count("caches are full" if works else "starting") >= self.starts, self.log[-2000:]

        eventually(is_working, 30)

    @property
    def log(self) -> str:
        return (self.folder / "controller.log").read_text()

    def kill(self) -> None:
        """It dies without a word."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10)

    def _kubeconfig(self) -> Json:
        token = self.cluster.token("frameworkcontroller-system", "frameworkcontroller")
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [
                {
                    "name": "it",
                    "cluster": {
                        "server": self.server or self.cluster.server,
                        "certificate-authority": str(self.cluster.ca_file),
                    },
                }
            ],
            "users": [{"name": "it", "user": {"token": token}}],
        }


def two_controllers(cluster: Cluster, folder: Path, settings: Json) -> tuple[ControllerProcess, ControllerProcess]:
    """Two with the same settings, not started, each in a folder of its own."""
    first, second = folder / "0", folder / "1"
    for each in (first, second):
        each.mkdir()
    return ControllerProcess(cluster, first, settings), ControllerProcess(cluster, second, settings)


def apply_rights(cluster: Cluster) -> None:
    """The controller's namespace, service account and ClusterRole, as users install them."""
    for manifest in ("00-namespace.yaml", "rbac.yaml"):
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(MANIFESTS / manifest))
