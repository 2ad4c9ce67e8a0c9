"""Controllers of others as processes: charts, with their webhooks and service accounts, on a real API server.

Beside the addresses, which a cluster without their Deployments needs, their configurations are those of the charts.
"""

import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml

from localcluster import Cluster, kubeconfigs
from localcluster.client import Json
from localcluster.processes.health import check_health
from localcluster.processes.ports import free_port
from localcluster.processes.supervisor import Supervisor
from testkit import go_modules
from testkit.frameworks import apply_all
from testkit.waiting import patience

# What runs them in a cluster, and what a control plane without nodes cannot reach.
_LEFT_OUT = ("Deployment", "Service", "APIService", "Secret")
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@dataclass
class Operator:
    """One on one cluster; `install`, then `start`."""

    name: ClassVar[str]
    """Of its program, its chart and its release."""
    namespace: ClassVar[str]
    account: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()
    """Of its command line, beside its files."""

    cluster: Cluster
    folder: Path
    """Of its configuration, certificates and log."""
    is_installed: bool = False

    def __post_init__(self) -> None:
        """Choose its ports."""
        self._port, self._health = free_port(), free_port()
        self._processes = Supervisor(self.folder)

    def install(self) -> None:
        """Apply what its chart has; the webhooks call a port on loopback."""
        trusted = kubeconfigs.encoded(self.cluster.ca_file)
        documents = [one for one in self._chart() if one["kind"] not in _LEFT_OUT]
        for webhook in (hook for one in documents if one["kind"] in _WEBHOOKS for hook in one["webhooks"]):
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": trusted}
        for definition in (one for one in documents if one["kind"] == "CustomResourceDefinition"):
            # Objects are written in the version that is stored.
            definition["spec"].pop("conversion", None)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        hooks = [one for one in documents if one["kind"] in _WEBHOOKS]
        apply_all(self.cluster, [namespace, *(one for one in documents if one not in hooks)])
        self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        apply_all(self.cluster, hooks)
        self.is_installed = True

    def start(self, **changes: Any) -> None:
        """Start it with changes of its configuration, for the first time or again; wait until its webhooks answer."""
        access, user = self.folder / "kubeconfig", {"token": self.cluster.token(self.namespace, self.account)}
        command = [
            *self._around(),
            str(self.cluster.binary(self.name)),
            f"--kubeconfig={kubeconfigs.write(access, self.cluster.server, self.cluster.ca_file, user)}",
            *self._configured(changes),
            *self.options,
        ]
        self._processes.start(self.name, command, ready=self._is_ready, timeout_seconds=patience(60))

    def kill(self) -> None:
        """Kill the process, if there is one."""
        self._processes.stop(self.name, grace_seconds=0)

    def stop(self) -> None:
        """Stop the process, if there is one, with SIGTERM."""
        self._processes.stop(self.name, grace_seconds=patience(30))

    def configuration(self) -> dict[str, Any]:
        """Return the configuration of its chart."""
        found = next(one for one in self._chart() if one["kind"] == "ConfigMap")
        loaded: dict[str, Any] = yaml.safe_load(found["data"]["controller_manager_config.yaml"])
        return loaded

    def _configured(self, changes: dict[str, Any]) -> list[str]:
        """Write its configuration with these fields, and return the flags that say where it is."""
        config = self.configuration() | {
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": self._certified("certificates")},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
        }
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config | changes))
        return [f"--config={self.folder / 'config.yaml'}"]

    def _around(self) -> list[str]:
        return []

    def _certified(self, name: str) -> str:
        files, folder = self.cluster.pki.server(self.name, hosts=["127.0.0.1"]), self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(files.certificate, folder / "tls.crt")
        shutil.copy(files.key, folder / "tls.key")
        return str(folder)

    def _is_ready(self) -> bool | str:
        # Its webhooks begin later than its health.
        socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        return check_health(f"http://127.0.0.1:{self._health}/readyz")

    def _chart(self) -> list[Json]:
        folder = go_modules.folder_of(*go_modules.of_program(self.name)) / "charts" / self.name
        return rendered(self.cluster, self.name, folder, self.namespace, "--include-crds")


class JobSet(Operator):
    """The controller of JobSets."""

    name = "jobset"
    namespace = "jobset-system"
    account = "jobset-controller"


class LeaderWorkerSet(Operator):
    """The controller of LeaderWorkerSets."""

    name = "lws"
    namespace = "lws-system"
    account = "lws-controller-manager"


class Trainer(Operator):
    """The controller of Kubeflow's TrainJobs, without its webhooks, which only judge: they call a Service."""

    name = "trainer"
    namespace = "kubeflow-system"
    account = "kubeflow-trainer-controller-manager"

    def install(self) -> None:
        """Apply what its manifests have, and an empty Secret, which it fills with certificates."""
        super().install()
        head = {"name": "kubeflow-trainer-webhook-cert", "namespace": self.namespace}
        apply_all(self.cluster, [{"apiVersion": "v1", "kind": "Secret", "metadata": head}])

    def _configured(self, changes: dict[str, Any]) -> list[str]:
        assert not changes, "it has flags alone"
        self._certified("serving-certs")
        return [f"--health-probe-bind-address=127.0.0.1:{self._health}", f"--webhook-server-port={self._port}"]

    def _around(self) -> list[str]:
        # It reads its certificate from a fixed path.
        fixed = "/tmp/k8s-webhook-server"  # noqa: S108 -- a mount of its own
        script = f'mkdir -p {fixed} && mount --bind "$0" {fixed} && exec "$@"'
        return ["unshare", "--mount", "--", "sh", "-c", script, str(self.folder)]

    def _chart(self) -> list[Json]:
        base = go_modules.folder_of(*go_modules.of_program(self.name)) / "manifests" / "base"
        files = (*base.glob("crds/trainer*.yaml"), base / "rbac/role.yaml", base / "rbac/role_binding.yaml")
        found = [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]
        for binding in (one for one in found if one["kind"] == "ClusterRoleBinding"):
            binding["subjects"][0]["namespace"] = self.namespace
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        hooks = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        return [
            *found,
            account | {"metadata": {"name": self.account, "namespace": self.namespace}},
            hooks | {"metadata": {"name": "validator.trainer.kubeflow.org"}, "webhooks": []},
        ]


def rendered(cluster: Cluster, release: str, chart: Path, namespace: str, *options: str) -> list[Json]:
    """Return what a chart installs."""
    command = [str(cluster.binary("helm")), "template", release, str(chart), f"--namespace={namespace}", *options]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [document for document in yaml.safe_load_all(text) if document]
