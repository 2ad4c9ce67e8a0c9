"""Fixtures of the barrier's tests on a real API server; a test module imports what it uses."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster import Cluster
from localcluster.client import Json, RawClient
from testkit.frameworks import POD, role
from tests.barrier.process import Barrier


@pytest.fixture
def account(cluster: Cluster, namespace: str, tmp_path: Path) -> Path:
    """A folder as the projected token volume of the namespace's default service account."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text(cluster.token(namespace, "default"))
    (folder / "ca.crt").write_bytes(cluster.ca_file.read_bytes())
    (folder / "namespace").write_text(namespace)
    return folder


@pytest.fixture
def start(cluster: Cluster, account: Path, tmp_path: Path) -> Iterator[Callable[..., Barrier]]:
    """Start the barrier of a Pod, with the environment that its first container has."""
    started: list[Barrier] = []

    def run(pod: Json, **environ: str) -> Barrier:
        folder = tmp_path / f"{pod['metadata']['uid']}-{len(started)}" / "frameworkbarrier"
        folder.mkdir(parents=True)
        entries = pod["spec"]["containers"][0].get("env", [])
        given = {entry["name"]: entry["value"] for entry in entries if "value" in entry}
        given |= {"FC_POD_UID": pod["metadata"]["uid"], "FB_TOKEN_DIR": str(account)}
        started.append(Barrier(folder, cluster.server, given | environ))
        return started[-1]

    yield run
    for barrier in started:
        barrier.stop()


def waiting(name: str, number: int) -> Json:
    """A TaskRole whose Pods say that they have a barrier, so that the controller lets them read the roster."""
    labels = {"frameworkcontroller.microsoft.com/barrier": "enabled"}
    return role(name, number, pod=POD | {"metadata": {"labels": labels}})


def exported(barrier: Barrier, *names: str) -> list[str]:
    """The values in a shell that sources `injector.sh`."""
    printing = "".join(f'printf "%s\\n" "${name}";' for name in names)
    command = ["dash", "-euc", f". ./injector.sh; {printing}"]
    return subprocess.run(command, cwd=barrier.folder, capture_output=True, text=True, check=True).stdout.splitlines()


def grant(raw: RawClient, namespace: str, group: str, resource: str, *verbs: str) -> None:
    """Give the namespace's default service account these permissions."""
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    name = f"barrier-{resource}"
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}]
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    raw.create(f"{base}/roles", {**kind, "kind": "Role", "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    raw.create(f"{base}/rolebindings", {**kind, "kind": "RoleBinding", "subjects": [subject], "roleRef": reference})
