"""The manifests of the chart are valid for the API servers that are promised, and their Pods are restricted ones."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from frameworkrelease import chart
from localcluster import Cluster, Depth
from localcluster.client import RawClient
from localcluster.programs import BUILDABLE
from tests.release import kubernetes_schemas
from tests.release.values import MATRIX
from tests.support.clusters import own_cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.release.conftest import Manifests

pytestmark = [pytest.mark.chart, pytest.mark.apiserver]
OLDEST = BUILDABLE[0]
# Of operators that may be installed in a cluster: its API server does not know their kinds.
FOREIGN = "PodMonitor,PrometheusRule,ServiceMonitor,Issuer,Certificate"


@pytest.fixture(scope="module")
def schemas(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schemas of the session's API server."""
    return schemas_of(cluster, tmp_path_factory.mktemp("schemas"))


def schemas_of(cluster: Cluster, folder: Path) -> Path:
    with contextlib.closing(RawClient(cluster)) as raw:
        assert kubernetes_schemas.write(raw, folder) > 50
    return folder


def check(cases: dict[str, Manifests], schemas: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run kubeconform on manifests; its output names the case."""
    for case, manifests in cases.items():
        (folder / f"{case}.yaml").write_text(yaml.safe_dump_all(manifests))
    location = f"{schemas}/{kubernetes_schemas.LOCATION}"
    command = [chart.program("kubeconform"), "-strict", f"-schema-location={location}", f"-skip={FOREIGN}", "-summary"]
    return subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)


def test_the_manifests_are_valid(
    cluster: Cluster, render: Callable[..., Manifests], schemas: Path, tmp_path: Path
) -> None:
    cases = {case: render(case, kubernetes=cluster.version) for case in MATRIX}
    done = check(cases, schemas, tmp_path)
    assert done.returncode == 0, done.stdout
    assert f"in {len(cases)} files" in done.stdout


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("spec", "replica"), 1, id="an unknown field"),
        pytest.param(("spec", "replicas"), "two", id="a wrong type"),
        pytest.param(("spec", "template", "spec", "containers", 0, "args"), "serve", id="a text for a list"),
    ],
)
def test_the_schemas_find_what_is_wrong(
    render: Callable[..., Manifests], schemas: Path, tmp_path: Path, path: tuple[str | int, ...], value: object
) -> None:
    (deployment, *_) = [one for one in render() if one["kind"] == "Deployment"]
    *groups, last = path
    place = deployment
    for group in groups:
        place = place[group]  # type: ignore[index]
    place[last] = value  # type: ignore[index]
    done = check({"wrong": [deployment]}, schemas, tmp_path)
    assert done.returncode != 0
    assert str(last) in done.stdout


@pytest.mark.long
def test_the_manifests_are_valid_for_the_oldest_supported_version(
    pytestconfig: pytest.Config,
    render: Callable[..., Manifests],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with own_cluster(pytestconfig, Depth.CONTROL_PLANE, "oldest", kubernetes=OLDEST) as cluster:
        schemas = schemas_of(cluster, tmp_path_factory.mktemp("oldest"))
    done = check({case: render(case, kubernetes=OLDEST) for case in MATRIX}, schemas, tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("case", ["defaults", "everything placed", "a certificate of cert-manager"])
def test_the_pods_meet_the_restricted_standard(
    render: Callable[..., Manifests], raw: RawClient, namespace: str, case: str
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    raw.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    for deployment in render(case):
        if deployment["kind"] == "Deployment":
            pod = deployment["spec"]["template"]
            pod["spec"]["serviceAccountName"] = "default"
            body = {"apiVersion": "v1", "kind": "Pod", **pod}
            body["metadata"]["name"] = "one"
            raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
