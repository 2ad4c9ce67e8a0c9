"""Installed by the real helm on a real node: the life of a release beside a gang that runs.

The suite has a cluster of its own, because a release owns the definition of Frameworks and the names of the programs.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from frameworkrelease.chart import CHART, NAMESPACE, RELEASE, helm
from frameworkrelease.commands import ReleaseError
from frameworkrelease.generate import plain
from localcluster import Cluster
from localcluster.client import RawClient
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.e2e.onenamespace import chart_node, release_for
from tests.e2e.pods import all_run, pod, python, touch
from tests.support.pages import commands_of, typed

pytestmark = [pytest.mark.node, pytest.mark.chart]

HERE = f"--namespace={NAMESPACE}"
# Holds the gang open until the file appears, which outlives an upgrade of the programs.
RUN = "import os, time\nwhile not os.path.exists('/tmp/end'): time.sleep(0.1)"


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A node with the images under the names that the chart gives them, and nothing installed."""
    with chart_node(pytestconfig, "helm") as node:
        yield node


@pytest.fixture
def frameworks(raw: RawClient, namespace: str) -> Frameworks:
    return Frameworks(raw, namespace)


@pytest.fixture
def clean(cluster: Cluster, raw: RawClient) -> Iterator[None]:
    """Removes every release, the definition and what kubectl has installed at the end of the test."""
    yield
    for release in yaml.safe_load(helm("list", "--all-namespaces", "--output=yaml", kubeconfig=cluster.kubeconfig)):
        where = f"--namespace={release['namespace']}"
        helm("uninstall", release["name"], where, "--wait", kubeconfig=cluster.kubeconfig)
    cluster.kubectl("delete", "--ignore-not-found", "-f", str(plain.FILE))


def running_gang(frameworks: Frameworks) -> dict[str, Any]:
    """Start a gang whose programs run until `end_gang`, and return what an upgrade must leave alone."""
    frameworks.create("live", role("chief", 1, pod=pod(python(RUN))), role("worker", 2, pod=pod(python(RUN))))
    all_run(frameworks, 3)
    return state_of(frameworks)


def state_of(frameworks: Frameworks) -> dict[str, Any]:
    """The identities of the gang's Pods, with their restarts, its roster and its attempts."""
    pods = frameworks.pods()
    states = [one["status"]["initContainerStatuses"] + one["status"]["containerStatuses"] for one in pods.values()]
    return {
        "pods": {name: found["metadata"]["uid"] for name, found in pods.items()},
        "restarts": [one["restartCount"] for found in states for one in found],
        "roster": frameworks.config_map("live")["data"],
        "attempt": frameworks.status("live")["attemptStatus"]["id"],
        "tasks": {name: task["attemptStatus"]["id"] for name, task in frameworks.tasks("live").items()},
    }


def end_gang(cluster: Cluster, frameworks: Frameworks) -> None:
    """Let the gang's programs end, and check that it succeeds."""
    for name in frameworks.pods():
        touch(cluster, frameworks.namespace, name, "main", "/tmp/end")
    assert frameworks.wait("live", "Completed", 60)["attemptStatus"]["completionStatus"]["code"] == 0


def programs(raw: RawClient) -> set[str]:
    """The UIDs of the Pods of the programs that are not being deleted."""
    pods = Frameworks(raw, NAMESPACE).pods().values()
    return {found["metadata"]["uid"] for found in pods if "deletionTimestamp" not in found["metadata"]}


def test_a_release_lives_beside_a_gang_that_runs(
    cluster: Cluster, raw: RawClient, frameworks: Frameworks, clean: None, tmp_path: Path
) -> None:
    def run(*arguments: str) -> str:
        return helm(*arguments, HERE, kubeconfig=cluster.kubeconfig)

    # Two commands of the README, as typed: nothing but the registry, here the default, and a gang that completes.
    (commands,) = commands_of("README.md", "Install")
    assert [line.split()[0] for line in commands.splitlines()] == ["helm", "sed"]
    shown = typed(cluster, commands.replace("REGISTRY", "docker.io"), tmp_path)
    assert f"kubectl --namespace {NAMESPACE} wait --for=condition=Available" in shown
    assert "pod-security.kubernetes.io/enforce=restricted" in shown
    assert "WARNING" not in shown
    cluster.kubectl("wait", "--for=condition=Complete", "framework/hello", "--timeout=120s", "--namespace=default")

    before = running_gang(frameworks)
    old = programs(raw)
    settings = ["--set=controller.config.concurrentRequests=32", "--set=injector.logLevel=debug"]
    run("upgrade", RELEASE, str(CHART), "--reset-then-reuse-values", "--wait", "--timeout=3m", *settings)
    upgraded = eventually(lambda: replaced(raw, old), 60)
    assert state_of(frameworks) == before
    certificate = raw.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/frameworkinjector-tls")["data"]
    assert certificate, "an upgrade keeps what the injector wrote"

    run("rollback", RELEASE, "1", "--wait", "--timeout=3m")
    eventually(lambda: replaced(raw, upgraded), 60)
    assert state_of(frameworks) == before
    assert raw.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/frameworkinjector-tls")["data"] == certificate
    end_gang(cluster, frameworks)

    # Without the release the definition stays, with all Frameworks; the next release takes it over.
    run("uninstall", RELEASE, "--wait")
    assert frameworks.status("live")["state"] == "Completed"
    for left in ("mutatingwebhookconfigurations", "validatingadmissionpolicies"):
        assert "framework" not in cluster.kubectl("get", left)
    assert "frameworkcontroller" not in cluster.kubectl("get", "clusterroles,clusterrolebindings")
    run("install", RELEASE, str(CHART), "--set=crds.keep=false", "--wait", "--timeout=3m")
    assert frameworks.status("live")["state"] == "Completed"
    run("uninstall", RELEASE, "--wait")
    cluster.kubectl("wait", "--for=delete", "crd/frameworks.frameworkcontroller.microsoft.com", "--timeout=600s")


def replaced(raw: RawClient, old: set[str]) -> set[str]:
    """Check that all four Pods of the programs are new, and return their UIDs."""
    found = programs(raw)
    assert len(found) == 4
    assert not found & old
    return found


def test_for_one_namespace_roles_are_enough(
    cluster: Cluster, raw: RawClient, frameworks: Frameworks, clean: None, tmp_path: Path
) -> None:
    """With a certificate of the operator's own the injector needs no permission, and the controller has two Roles."""
    with release_for(cluster, frameworks.namespace, tmp_path) as shown:
        assert "WARNING" not in shown
        typed(cluster, shown[shown.index(f"kubectl --namespace {frameworks.namespace} apply") :], tmp_path)
        assert "framework" not in cluster.kubectl("get", "clusterroles,clusterrolebindings")

        before = running_gang(frameworks)
        assert len(before["pods"]) == 3
        elsewhere = Frameworks(raw, "default")
        elsewhere.create("ignored", role("worker", 1, pod=pod(["true"])))
        end_gang(cluster, frameworks)
        assert "status" not in elsewhere.get("ignored")
        assert elsewhere.pods() == {}
        raw.delete(f"{elsewhere.path}/ignored")


def test_helm_takes_over_what_kubectl_has_installed(
    cluster: Cluster, raw: RawClient, frameworks: Frameworks, clean: None, tmp_path: Path
) -> None:
    """The plain manifests, as typed, and then the release of the same objects: not even the programs' Pods change."""
    typed(cluster, commands_of("docs/operate/install.md", "With kubectl")[0], tmp_path)
    before, installed = running_gang(frameworks), programs(raw)
    with pytest.raises(ReleaseError, match="exists and cannot be imported"):
        helm("install", RELEASE, str(CHART), HERE, kubeconfig=cluster.kubeconfig)
    taking = ("--take-ownership", "--force-conflicts", "--wait", "--timeout=3m")
    helm("install", RELEASE, str(CHART), HERE, *taking, kubeconfig=cluster.kubeconfig)
    assert state_of(frameworks) == before
    assert programs(raw) == installed
    end_gang(cluster, frameworks)
