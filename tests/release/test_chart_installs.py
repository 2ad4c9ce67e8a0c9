"""The chart on a real API server of each version: what kubectl applies, and the life of a release; no Pod runs."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from frameworkrelease.chart import CHART, helm
from localcluster import Cluster, Depth
from localcluster.client import ApiStatusError, RawClient
from localcluster.programs.catalogue import BUILDABLE
from testkit import go_modules
from testkit.waiting import eventually
from tests.release.manifests import MATRIX, Render, only
from tests.support.beside.refusals import refusal_of
from tests.support.clusters import own_cluster

pytestmark = [pytest.mark.chart, pytest.mark.apiserver, pytest.mark.turns("crds")]
# Of operators that may be installed in a cluster: its API server does not know their kinds.
FOREIGN = ("PodMonitor", "PrometheusRule", "ServiceMonitor", "Issuer", "Certificate")
CERT_MANAGER = "/apis/cert-manager.io/v1"
KINDS = (
    "clusterroles,clusterrolebindings,configmaps,deployments,mutatingwebhookconfigurations,networkpolicies,"
    "poddisruptionbudgets,rolebindings,roles,serviceaccounts,services,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings"
)


def check_applies(cluster: Cluster, render: Render, namespace: str, folder: Path) -> None:
    """The API server accepts the manifests of every case, and knows each of their fields."""
    # Most objects are the same in most cases.
    known = {
        json.dumps(one): one
        for case in MATRIX
        for one in render(case, namespace=namespace, kubernetes=cluster.version)
        if one["kind"] not in FOREIGN
    }
    (folder / "all.yaml").write_text(yaml.safe_dump_all(known.values()))
    others = {one["metadata"].get("namespace", namespace) for one in known.values()} - {namespace}
    with contextlib.closing(RawClient(cluster)) as raw:
        for name in others:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            raw.apply(f"/api/v1/namespaces/{name}", body)
    strictly = ("--validate=strict", "--dry-run=server")
    applied = cluster.kubectl("apply", "--server-side", "--force-conflicts", *strictly, f"--filename={folder}")
    assert len(applied.splitlines()) == len(known)


def test_kubectl_applies_the_manifests_on_the_servers_side(
    cluster: Cluster, render: Render, namespace: str, tmp_path: Path
) -> None:
    check_applies(cluster, render, namespace, tmp_path)


@pytest.mark.long
def test_the_oldest_supported_version_accepts_them(pytestconfig: pytest.Config, render: Render, tmp_path: Path) -> None:
    with own_cluster(pytestconfig, Depth.CONTROL_PLANE, "oldest", kubernetes=BUILDABLE[0]) as cluster:
        check_applies(cluster, render, "default", tmp_path)


@pytest.mark.parametrize(
    "case", ["defaults", "everything placed", "a certificate of cert-manager", "the archive in a claim of yours"]
)
def test_the_pods_meet_the_restricted_standard(render: Render, raw: RawClient, namespace: str, case: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    raw.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    for deployment in render(case):
        if deployment["kind"] == "Deployment":
            pod = deployment["spec"]["template"]
            pod["spec"]["serviceAccountName"] = "default"
            body = {"apiVersion": "v1", "kind": "Pod", **pod}
            body["metadata"]["name"] = "one"
            raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)


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
    for kind in ("mutatingwebhookconfiguration", "validatingadmissionpolicy."):
        assert any(name.startswith(kind) for name in installed)
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


# --- what it makes for cert-manager, which does not run here: whether it issues the certificate is not tested -------


@pytest.fixture(scope="module")
def cert_manager(cluster: Cluster, raw: RawClient) -> Iterator[None]:
    """The definitions of cert-manager, served by the API server."""
    folder = go_modules.folder_of(*go_modules.CERT_MANAGER) / "deploy" / "crds"
    files = [f"--filename={folder}/cert-manager.io_{plural}.yaml" for plural in ("certificates", "issuers")]
    cluster.kubectl("apply", "--server-side", *files)

    def is_served() -> None:
        try:
            served = {found["name"] for found in raw.get(CERT_MANAGER)["resources"]}
        except ApiStatusError as error:
            raise AssertionError(str(error)) from error
        assert served >= {"certificates", "issuers"}

    eventually(is_served, timeout=30)
    yield
    cluster.kubectl("delete", *files)


@pytest.mark.parametrize("case", ["a certificate of cert-manager", "an issuer of cert-manager"])
def test_cert_manager_knows_what_the_chart_asks_of_it(
    render: Render, raw: RawClient, namespace: str, cert_manager: None, case: str
) -> None:
    asked = [one for one in render(case, namespace=namespace) if one["apiVersion"] == "cert-manager.io/v1"]

    def refusal(found: dict[str, Any]) -> str:
        return refusal_of(raw, f"{CERT_MANAGER}/namespaces/{namespace}/{found['kind'].lower()}s", found)

    assert [refusal(one) for one in asked] == [""] * len(asked)
    certificate = only(asked, "Certificate", "frameworkinjector")
    for field, value in {"renewBefor": "1h", "privateKey": {"algorithm": "DSA"}, "dnsNames": "one"}.items():
        assert field in refusal(certificate | {"spec": certificate["spec"] | {field: value}})
