"""The chart on a real API server of each version: what kubectl applies, and the life of a release; no Pod runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from frameworkrelease.chart import CHART, helm
from tests.release.test_chart_schemas import FOREIGN
from tests.release.values import MATRIX

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import RawClient
    from tests.release.conftest import Manifests

pytestmark = [pytest.mark.chart, pytest.mark.apiserver, pytest.mark.turns("crds")]
KINDS = (
    "clusterroles,clusterrolebindings,configmaps,deployments,mutatingwebhookconfigurations,networkpolicies,"
    "poddisruptionbudgets,rolebindings,roles,serviceaccounts,services,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings"
)


def test_kubectl_applies_the_manifests_on_the_servers_side(
    cluster: Cluster, raw: RawClient, render: Callable[..., Manifests], namespace: str, tmp_path: Path
) -> None:
    # Most objects are the same in most cases.
    known = {
        json.dumps(one): one
        for case in MATRIX
        for one in render(case, namespace=namespace, kubernetes=cluster.version)
        if one["kind"] not in FOREIGN.split(",")
    }
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(known.values()))
    others = {one["metadata"].get("namespace", namespace) for one in known.values()} - {namespace}
    for other in others:
        raw.apply(f"/api/v1/namespaces/{other}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    applied = cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", f"--filename={tmp_path}"
    )
    assert len(applied.splitlines()) == len(known)


def test_helm_installs_changes_and_removes_a_release(cluster: Cluster, namespace: str) -> None:
    """The definition of Frameworks is that of the session, and the webhook is called for one namespace only."""

    release = f"r{namespace[-8:]}"

    def run(command: str, *arguments: str) -> str:
        return helm(command, release, *arguments, f"--namespace={namespace}", kubeconfig=cluster.kubeconfig)

    def objects() -> list[str]:
        label = f"app.kubernetes.io/instance={release}"
        return cluster.kubectl("get", KINDS, f"--namespace={namespace}", f"--selector={label}", "--output=name").split()

    values = (f"--set=watchNamespaces={{{namespace}}}", "--set=crds.enabled=false")
    run("install", str(CHART), *values)
    installed = objects()
    assert [name for name in installed if name.startswith("mutatingwebhookconfiguration")]
    assert [name for name in installed if name.startswith("validatingadmissionpolicy.")]
    run("upgrade", str(CHART), *values, "--set=networkPolicy.enabled=false")
    assert {name for name in {*installed} - {*objects()} if not name.startswith("networkpolicy")} == set()
    assert len(objects()) < len(installed)
    run("rollback", "1")
    assert objects() == installed
    run("uninstall")
    assert objects() == []


def test_the_notes_warn_of_what_is_missing(cluster: Cluster, raw: RawClient, namespace: str) -> None:
    fixed = (f"--namespace={namespace}", "--set=crds.enabled=false", "--set=certificates.source=secret")

    def notes(dry_run: str) -> str:
        own = (f"--dry-run={dry_run}", "--set=certificates.secretName=own", f"--set=watchNamespaces={{{namespace}}}")
        shown = helm("install", "notes", str(CHART), *fixed, *own, kubeconfig=cluster.kubeconfig)
        return " ".join(shown.partition("NOTES:")[2].split())

    # Without a server helm knows of no definition.
    assert "WARNING: the CustomResourceDefinition of Frameworks is missing" in notes("client")
    found = notes("server")
    assert "CustomResourceDefinition" not in found
    assert f"WARNING: there is no Secret own in namespace {namespace}" in found
    raw.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "own"}})
    assert "WARNING" not in notes("server")
