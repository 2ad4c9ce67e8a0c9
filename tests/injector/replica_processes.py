"""Replicas of the injector as processes, with the shipped permissions and manifests, on a real API server.

Only `clientConfig` differs: a control plane without nodes has no Service to call, so the API server calls a URL on
loopback.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from localcluster import Cluster, kubeconfigs
from localcluster.client import RawClient
from localcluster.processes.ports import free_port
from testkit.frameworks import manifests_of
from testkit.waiting import eventually, patience
from tests.injector.golden_pods import JSON, pod_of
from tests.support.http import fetch
from tests.support.waiting import answered

ROOT = Path(__file__).parents[2]
SYSTEM = "frameworkcontroller-system"
LABEL = "frameworkcontroller.microsoft.com/barrier"
PREFIX = "barrier.frameworkcontroller.microsoft.com/"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/frameworkinjector"
SECRET = f"/api/v1/namespaces/{SYSTEM}/secrets/frameworkinjector-tls"


def manifests() -> list[JSON]:
    """Return what users install of the injector, in the order of the creation."""
    return manifests_of("frameworkinjector")


def path_of(document: JSON) -> str:
    """Return the path of a manifest's object at the API server."""
    version, kind, metadata = document["apiVersion"], document["kind"].lower(), document["metadata"]
    place = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
    plural = f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"
    return f"/{'apis' if '/' in version else 'api'}/{version}/{place}{plural}/{metadata['name']}"


@dataclass
class Replica:
    """One injector process: `health_port` is that of `/healthz`, `/readyz` and `/metrics`, `log` a file."""

    process: subprocess.Popen[bytes]
    port: int
    health_port: int
    log: Path

    def health(self, path: str) -> tuple[int, str]:
        return fetch(self.health_port, path)

    def wait_until_ready(self) -> None:
        """Wait until `/readyz` answers ok; fail if the process exits."""

        def ready() -> None:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                assert self.health("/readyz") == (200, "ok\n")
            except OSError as error:
                raise AssertionError(str(error)) from error

        eventually(ready, timeout=30)

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience(15))


@contextlib.contextmanager
def installed_on(raw: RawClient) -> Iterator[None]:
    """Apply all manifests; the webhook configuration calls a free port until `call` sets another."""
    documents = manifests()
    for document in documents:
        if document["kind"] == "MutatingWebhookConfiguration":
            point_to(document, free_port())
        raw.apply(path_of(document), document)
    yield
    for document in reversed(documents):
        # The namespace stays: other tests may use it, and its deletion would race with them.
        if document["kind"] != "Namespace":
            raw.delete(path_of(document))


def point_to(configuration: JSON, port: int) -> None:
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}/mutate"}


def identity_of(cluster: Cluster, raw: RawClient, folder: Path) -> Path:
    """Write a kubeconfig with the token of the injector's service account, and so with its permissions only."""
    path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/frameworkinjector/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    token = raw.create(path, request)["status"]["token"]
    return kubeconfigs.write(folder / "kubeconfig", cluster.server, cluster.ca_file, {"token": token})


def spawn(folder: Path, *arguments: str, port: int | None = None) -> Replica:
    """Start a replica that listens on loopback; its log goes into the folder."""
    port, health_port = port or free_port(), free_port()
    log = folder / f"injector-{port}.log"
    command = [sys.executable, "-m", "frameworkinjector", "serve", f"--namespace={SYSTEM}", "--host=127.0.0.1"]
    command += [f"--port={port}", f"--health-port={health_port}", *arguments]
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr, env={**os.environ, "PYTHONWARNINGS": "error"})
    return Replica(process, port, health_port, log)


def start(identity: Path, folder: Path, *arguments: str, port: int | None = None) -> Replica:
    return spawn(folder, f"--kubeconfig={identity}", "--extra-name=127.0.0.1", *arguments, port=port)


@contextlib.contextmanager
def called(raw: RawClient, identity: Path, folder: Path, *arguments: str) -> Iterator[Replica]:
    """Start a replica that is ready and called by the API server; in the end it must stop cleanly."""
    replica = start(identity, folder, *arguments)
    try:
        replica.wait_until_ready()
        call(raw, replica.port)
        yield replica
    finally:
        assert replica.stop() == 0


def call(raw: RawClient, port: int) -> None:
    """Let the API server call this port, and wait until it trusts the replica there."""
    found = raw.get(CONFIGURATION)
    webhooks = [
        {"name": one["name"], "clientConfig": {"url": f"https://127.0.0.1:{port}/mutate"}} for one in found["webhooks"]
    ]
    raw.request("PATCH", CONFIGURATION, {"webhooks": webhooks}, "application/strategic-merge-patch+json")
    answered(lambda: raw.create("/api/v1/namespaces/default/pods?dryRun=All", framework_pod("default")), 30)


def framework_pod(namespace: str, name: str = "mnist-worker-1", **settings: str) -> JSON:
    """Return a Pod of a Framework that asks for the barrier; `settings` become annotations."""
    pod = pod_of("preset-tensorflow-file")
    pod["metadata"].update(name=name, namespace=namespace)
    pod["metadata"].pop("ownerReferences")
    pod["metadata"]["annotations"].update({PREFIX + key.replace("_", "-"): value for key, value in settings.items()})
    return pod


def create(raw: RawClient, namespace: str, pod: JSON) -> JSON:
    return raw.create(f"/api/v1/namespaces/{namespace}/pods", pod)
