"""Nodes for the chart, and the chart for one namespace without any permission beyond it: no ClusterRole is bound."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
import yaml

from frameworkrelease.chart import CHART, NAMESPACE, RELEASE, helm
from localcluster import Cluster, Depth
from localcluster.images import images
from tests.support.clusters import own_cluster, require_node

PROGRAMS = ("barrier", "controller", "injector")
TEAM = "team"
SYSTEM = "team-system"


@contextlib.contextmanager
def chart_node(config: pytest.Config, name: str, *more: str) -> Iterator[Cluster]:
    """A node with the images of the programs under the names that the chart gives them, and nothing installed."""
    require_node()
    archives = images.build_all((*PROGRAMS, *more))
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    with own_cluster(config, Depth.NODE, name) as node:
        for program, archive in archives.items():
            node.load(archive)
            node.tag(images.reference(program), images.reference(program, version))
        yield node


def install_chart(cluster: Cluster, *values: str) -> None:
    """Install a release for all namespaces."""
    flags = (f"--namespace={NAMESPACE}", "--create-namespace", "--wait", "--timeout=5m", *values)
    helm("install", RELEASE, str(CHART), *flags, kubeconfig=cluster.kubeconfig)


@contextlib.contextmanager
def release_for(cluster: Cluster, namespace: str, folder: Path, *arguments: str) -> Iterator[str]:
    """Install a release for one namespace, with a certificate of the operator's own in `folder`, until the block ends.

    Gives what helm printed.
    """
    authority = trustme.CA()
    issued = authority.issue_cert(f"{TEAM}-frameworkinjector.{SYSTEM}.svc")
    (folder / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    (folder / "tls.key").write_bytes(issued.private_key_pem.bytes())
    (folder / "ca.crt").write_bytes(authority.cert_pem.bytes())
    cluster.kubectl("create", "namespace", SYSTEM)
    try:
        cluster.kubectl("label", "namespace", SYSTEM, "pod-security.kubernetes.io/enforce=restricted")
        pair = (f"--cert={folder}/tls.crt", f"--key={folder}/tls.key")
        cluster.kubectl("create", "secret", "tls", "mine", f"--namespace={SYSTEM}", *pair)
        yield helm(
            "install", TEAM, str(CHART), f"--namespace={SYSTEM}", "--wait", "--timeout=3m",
            f"--set=watchNamespaces={{{namespace}}}", "--set=rbac.aggregate=false",
            "--set=certificates.source=secret", "--set=certificates.secretName=mine",
            f"--set-file=certificates.caBundle={folder}/ca.crt", *arguments,
            kubeconfig=cluster.kubeconfig,
        )  # fmt: skip
        helm("uninstall", TEAM, f"--namespace={SYSTEM}", "--wait", kubeconfig=cluster.kubeconfig)
    finally:
        cluster.kubectl("delete", "namespace", SYSTEM)
