"""Kueue as a process: its chart, with its webhooks and the permissions of its service account, on a real API server.

Beside the addresses, which a cluster without its Deployment needs, its configuration is the chart's. The visibility
server, an API of its own, is off.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from localcluster import kubeconfigs
from localcluster.ports import free_port
from localcluster.programs import pinned_version
from testkit import go_modules
from testkit.waiting import eventually, patience

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import Json, RawClient

API = "/apis/kueue.x-k8s.io/v1beta2"
_CHART = Path(__file__).parents[2] / "charts" / "frameworkcontroller"
OUR_SYSTEM = "frameworkcontroller-system"
SYSTEM = "kueue-system"
ACCOUNT = "kueue-controller-manager"
# What runs it in a cluster, and what a control plane without nodes cannot reach.
_LEFT_OUT = ("Deployment", "Service", "APIService", "Secret")
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
# Kueue reads the certificate of its metrics from a fixed path.
_IN_ITS_OWN_ETC = ("unshare", "--mount", "--", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"')


@dataclass
class Kueue:
    """Kueue on one cluster; `install`, then `start`."""

    cluster: Cluster
    folder: Path
    """Of its configuration, certificates and log."""
    process: subprocess.Popen[bytes] | None = None
    """The process that runs, or the last one that ran."""
    is_installed: bool = False

    def __post_init__(self) -> None:
        """Choose its ports."""
        self._port, self._health = free_port(), free_port()

    @property
    def log(self) -> str:
        """The log of all starts."""
        return (self.folder / "kueue.log").read_text()

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
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
        hooks = [one for one in documents if one["kind"] in _WEBHOOKS]
        self._apply([namespace, *(one for one in documents if one not in hooks)])
        self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        self._apply(hooks)
        self.is_installed = True

    def start(self, **changes: Any) -> None:
        """Start it, for the first time or again, and wait until it and its webhooks answer.

        Args:
            changes: Fields of its configuration.
        """
        etc, certificates = self.folder / "etc", self.folder / "certificates"
        files = self.cluster.pki.server("kueue", hosts=["127.0.0.1"])
        for folder in (etc / "kueue" / "metrics" / "certs", certificates):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(files.certificate, folder / "tls.crt")
            shutil.copy(files.key, folder / "tls.key")
        config = self.configuration() | {
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(certificates)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
        }
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config | changes))
        token = self.cluster.token(SYSTEM, ACCOUNT)
        access = kubeconfigs.with_token(self.cluster.server, self.cluster.ca_file, token)
        command = [
            str(self.cluster.binary("kueue")),
            f"--kubeconfig={kubeconfigs.write(self.folder / 'kubeconfig', access)}",
            f"--config={self.folder / 'config.yaml'}",
            "--feature-gates=VisibilityOnDemand=false",
        ]
        with (self.folder / "kueue.log").open("ab") as log:
            self.process = subprocess.Popen([*_IN_ITS_OWN_ETC, str(etc), *command], stdout=log, stderr=log)
        eventually(self._is_ready, 60)

    def kill(self) -> None:
        """Kill the process, if there is one."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the process, if there is one, with SIGTERM."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.process:
            self.process.send_signal(how)
            self.process.wait(patience(30))

    def _is_ready(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, self.log[-3000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health}/readyz", timeout=5):
                pass  # an answer that is not 200 is raised
            # Its webhooks begin later.
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError as error:
            raise AssertionError(str(error)) from error

    def _apply(self, documents: list[Json]) -> None:
        text = yaml.safe_dump_all(documents)
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)

    def configuration(self) -> dict[str, Any]:
        """Return the configuration of its chart."""
        found = next(one for one in self._chart() if one["kind"] == "ConfigMap")
        loaded: dict[str, Any] = yaml.safe_load(found["data"]["controller_manager_config.yaml"])
        return loaded

    def _chart(self) -> list[Json]:
        assert go_modules.KUEUE.version == pinned_version("kueue"), "the chart is not that of the program"
        module = go_modules.folder_of(go_modules.KUEUE)
        command = [
            str(self.cluster.binary("helm")),
            "template",
            "kueue",
            f"{module}/charts/kueue",
            f"--namespace={SYSTEM}",
        ]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return [document for document in yaml.safe_load_all(text) if document]


def our_chart(cluster: Cluster) -> list[Json]:
    """Return what our own chart installs with `kueue.enabled`."""
    options = [f"--namespace={OUR_SYSTEM}", "--set=kueue.enabled=true"]
    command = [str(cluster.binary("helm")), "template", "frameworkcontroller", str(_CHART), *options]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [document for document in yaml.safe_load_all(text) if document]


def grant(cluster: Cluster) -> None:
    """Apply what our chart adds to permissions with `kueue.enabled`."""
    rules = [one for one in our_chart(cluster) if one["kind"] in {"ClusterRole", "ClusterRoleBinding"}]
    text = yaml.safe_dump_all(one for one in rules if "injector" not in one["metadata"]["name"])
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)


def quota(raw: RawClient, namespace: str, *, local: str = "main", cpu: str = "4", **spec: Any) -> None:
    """Give a namespace a LocalQueue with a ClusterQueue of its own that has this quota in one flavor."""
    flavor(raw, "pool-a")
    cluster_queue(raw, namespace, {"pool-a": cpu}, **spec)
    local_queue(raw, namespace, local, namespace)


def flavor(raw: RawClient, name: str, **spec: Any) -> None:
    """Apply a ResourceFlavor."""
    apply(raw, "ResourceFlavor", name, spec)


def cluster_queue(raw: RawClient, name: str, cpus: dict[str, str], **spec: Any) -> None:
    """Apply a ClusterQueue with so many CPUs of each flavor."""
    flavors = [{"name": one, "resources": [{"name": "cpu", "nominalQuota": cpu}]} for one, cpu in cpus.items()]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    apply(raw, "ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **spec})


def local_queue(raw: RawClient, namespace: str, name: str, cluster_queue: str) -> None:
    """Apply a LocalQueue of a ClusterQueue."""
    apply(raw, "LocalQueue", name, {"clusterQueue": cluster_queue}, namespace)


def apply(raw: RawClient, kind: str, name: str, spec: Json, namespace: str = "") -> None:
    """Apply an object of Kueue; one of a WorkloadPriorityClass has no spec."""
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
    body |= spec if kind == "WorkloadPriorityClass" else {"spec": spec}
    lower = kind.lower()
    plural = f"{lower}es" if lower.endswith("ss") else f"{lower[:-1]}ies" if lower.endswith("gy") else f"{lower}s"
    where = f"namespaces/{namespace}/" if namespace else ""
    raw.apply(f"{API}/{where}{plural}/{name}", body)
