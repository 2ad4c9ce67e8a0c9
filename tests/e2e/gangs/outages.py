"""Parts of a cluster that are away for a while."""

import contextlib
from collections.abc import Iterator

import localcluster
from localcluster import Cluster
from localcluster.processes.supervisor import Supervisor

SYSTEM = "frameworkcontroller-system"


@contextlib.contextmanager
def without(cluster: Cluster, *components: str) -> Iterator[None]:
    """Stop components of the cluster, and start them again at the end."""
    processes = Supervisor(cluster.state)
    for component in components:
        assert processes.stop(component, grace_seconds=0)
    try:
        yield
    finally:
        localcluster.up(cluster.name, cluster.depth, kubernetes=cluster.version)


@contextlib.contextmanager
def without_replicas(cluster: Cluster, deployment: str) -> Iterator[None]:
    """Scale a Deployment of the project to nothing, and back at the end."""

    def scale(replicas: int) -> None:
        cluster.kubectl("scale", "-n", SYSTEM, f"deployment/{deployment}", f"--replicas={replicas}")
        cluster.kubectl("rollout", "status", "-n", SYSTEM, f"deployment/{deployment}", "--timeout=300s")

    scale(0)
    # A replica that ends serves the API server's open connections to their end.
    labels = f"app.kubernetes.io/name={deployment}"
    cluster.kubectl("wait", "-n", SYSTEM, "pod", "-l", labels, "--for=delete", "--timeout=300s")
    try:
        yield
    finally:
        scale(2)
