"""Fresh namespaces, a nested Framework, and a second API server for tests of what depends on its arguments."""

import contextlib
import dataclasses
import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import urllib3

from localcluster import Cluster
from localcluster.client import ApiStatusError, Json, RawClient
from localcluster.processes.ports import free_port
from localcluster.processes.supervisor import Supervisor
from testkit.frameworks import Frameworks, framework, role
from testkit.waiting import eventually, patience


@contextlib.contextmanager
def fresh_namespace(raw: RawClient, prefix: str) -> Iterator[str]:
    """Create a namespace, ready for Pods, whose name begins so; the block ends when its deletion has begun."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    raw.create("/api/v1/namespaces", {"metadata": {"name": name}})

    def has_service_account() -> None:
        accounts = raw.get(f"/api/v1/namespaces/{name}/serviceaccounts")["items"]
        assert "default" in [account["metadata"]["name"] for account in accounts]

    try:
        # Without the service account the API server refuses Pods.
        eventually(has_service_account, timeout=30)
        yield name
    finally:
        # The test may have deleted the namespace.
        with contextlib.suppress(ApiStatusError):
            raw.delete(f"/api/v1/namespaces/{name}")


def create_nested(cluster: Cluster, frameworks: Frameworks, name: str, depth: int) -> None:
    """Create a Framework whose template has so many nested arrays, which no JSON library of this process can write."""
    pod: Json = {"spec": {"containers": [{"name": "main", "image": "none"}], "nested": "HERE"}}
    body = json.dumps(framework(frameworks.namespace, name, role("worker", 1, pod=pod)))
    body = body.replace('"HERE"', "[" * depth + "]" * depth)
    pool = urllib3.PoolManager(ca_certs=str(cluster.ca_file), retries=False)
    headers = {"Authorization": f"Bearer {cluster.admin_token}", "Content-Type": "application/json"}
    answer = pool.request("POST", cluster.server + frameworks.path, body=body, headers=headers)
    assert answer.status == 201, answer.data[:300]


@contextlib.contextmanager
def beside(cluster: Cluster, folder: Path, *arguments: str) -> Iterator[Cluster]:
    """Yield the cluster by a second API server.

    Args:
        cluster: The cluster.
        folder: For the server's log.
        arguments: Of the server, beside those of the cluster's own.
    """
    pid = Supervisor(cluster.state).running("kube-apiserver")
    own = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    other = dataclasses.replace(cluster, api_port=free_port())
    log = folder / "kube-apiserver.log"
    with log.open("wb") as output:
        # Of an argument that is given twice, the last one counts.
        process = subprocess.Popen([*own, f"--secure-port={other.api_port}", *arguments], stdout=output, stderr=output)
    try:

        def is_ready() -> None:
            assert process.poll() is None, log.read_text()[-2000:]
            # Not only answering: until its caches are full, it knows no role and forbids everything.
            with contextlib.closing(RawClient(other)) as raw:
                ready = raw.check_ready()
            assert ready is True, ready

        eventually(is_ready, timeout=60, interval=0.5)
        yield other
    finally:
        process.terminate()
        process.wait(patience(30))
