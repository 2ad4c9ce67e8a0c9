"""The demo against a real API server: apply, wait, run a gang, remove."""

from pathlib import Path
from typing import Any

import pytest

from frameworkdemo import deploy, manifests
from frameworkdemo.cluster import Cluster, local_cluster
from frameworkdemo.errors import DemoError
from frameworkdemo.gang import Gang
from frameworkdemo.manifests import ImageNames
from frameworkdemo.steps import Steps
from frameworkdemo.target import ContextTarget
from localcluster import Cluster as LocalCluster
from localcluster import Depth
from localcluster.client import RawClient
from testkit.waiting import eventually, patience
from tests.support.beside.kubelet import Kubelet
from tests.support.clusters import own_cluster

pytestmark = pytest.mark.apiserver
IMAGE = "registry.example/nothing:v1"


@pytest.fixture(scope="module")
def demo_cluster(control_plane: LocalCluster) -> Cluster:
    return local_cluster(control_plane)


def config_map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def task_pod(name: str, **labels: str) -> dict[str, Any]:
    framework, role, index = name.split("-")
    labels |= {"FC_FRAMEWORK_NAME": framework, "FC_TASKROLE_NAME": role, "FC_TASK_INDEX": index}
    spec = {"containers": [{"name": "tensorflow", "image": IMAGE}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def no_image(container: str, reason: str) -> dict[str, Any]:
    """Return a Pod's status in which the image of a container cannot be pulled."""
    waiting = {"reason": reason, "message": "it is not present"}
    status = {"name": container, "state": {"waiting": waiting}, "ready": False, "restartCount": 0}
    return {"status": {"containerStatuses": [{**status, "image": "x", "imageID": ""}]}}


def test_an_object_is_applied_over_what_it_was_or_refused_and_deleting_an_absent_one_is_not_an_error(
    demo_cluster: Cluster, namespace: str, raw: RawClient
) -> None:
    demo_cluster.apply([config_map("settings", namespace, a="1", b="2")])
    demo_cluster.apply([config_map("settings", namespace, a="3")])
    assert raw.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")["data"] == {"a": "3"}
    for _ in range(2):
        demo_cluster.delete("configmap/settings", f"-n={namespace}")
    assert "settings" not in demo_cluster.kubectl("get", "configmaps", f"-n={namespace}")
    with pytest.raises(DemoError, match=r'`kubectl apply .*"UPPER" is invalid: .*lowercase'):
        demo_cluster.apply([config_map("UPPER", namespace)])


def test_an_api_server_that_does_not_answer_is_a_demo_error(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        '{"apiVersion": "v1", "kind": "Config",'
        ' "contexts": [{"name": "dead", "context": {"cluster": "dead", "user": "dead"}}],'
        ' "clusters": [{"name": "dead", "cluster": {"server": "http://127.0.0.1:1"}}],'
        ' "users": [{"name": "dead", "user": {}}]}'
    )
    target = ContextTarget("dead", manifests.PREFIX, manifests.TAG, str(file))
    with pytest.raises(DemoError, match=r"127\.0\.0\.1:1 was refused"):
        target.prepare(Steps(lambda _: None))


def test_a_deployment_that_is_not_ready_in_time_or_whose_image_cannot_be_pulled_is_named(
    demo_cluster: Cluster, namespace: str, raw: RawClient, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploy, "IMAGE_SECONDS", 0.0)
    labels = {"app": "broken"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": IMAGE}]}}
    metadata = {"name": "broken", "namespace": namespace}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    broken = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    with pytest.raises(DemoError, match=r"broken is not ready after 1 s: .*timed out"):
        deploy.install(demo_cluster, [broken], seconds=1)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod = eventually(lambda: raw.get(pods)["items"][0], timeout=20)
    kubelet.bind(pod)
    raw.merge(f"{pods}/{pod['metadata']['name']}/status", no_image("main", "ImagePullBackOff"))
    with pytest.raises(DemoError, match=r"broken-.*: main: ImagePullBackOff: it is not present"):
        deploy.install(demo_cluster, [broken], seconds=3 * patience(60))


def ends(
    cluster: Cluster, namespace: str, message: str, file: Path = manifests.FRAMEWORK, *images: str, **options: float
) -> list[str]:
    """Run a gang without a controller until it fails so, and return the lines that are shown."""
    lines: list[str] = []
    seconds = options.pop("seconds", patience(60))
    with pytest.raises(DemoError, match=message):
        Gang(cluster, namespace, Steps(lines.append), **options).run(file, ImageNames(*images), seconds)
    return lines


def test_a_gang_is_submitted_watched_and_explained_by_the_commands_that_are_shown(
    demo_cluster: Cluster, namespace: str, raw: RawClient, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ends(demo_cluster, namespace, "spirals was not Completed within 0 s", seconds=0) == [
        f"$ export KUBECONFIG={demo_cluster.kubeconfig}",
        f"$ frameworkctl submit -f {manifests.FRAMEWORK.relative_to(Path.cwd())} -n {namespace}",
        f"$ frameworkctl watch spirals -n {namespace}",
        f"$ frameworkctl why spirals -n {namespace}",
        f"$ frameworkctl describe spirals -n {namespace}",
        f"$ frameworkctl events spirals -n {namespace}",
        f"$ frameworkctl logs --tail=25 spirals -n {namespace}",
    ]
    output = capfd.readouterr().out
    assert "framework.frameworkcontroller.microsoft.com/spirals created" in output
    assert f"{namespace}/spirals" in output
    # With other images than its file it is submitted on standard input, after the removal of the first.
    lines = ends(demo_cluster, namespace, "not Completed", manifests.FRAMEWORK, "registry.example", "v7", seconds=0)
    assert f"$ frameworkctl submit -f - -n {namespace}" in lines
    stored = raw.get(f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/{namespace}/frameworks/spirals")
    assert "registry.example/tensorflow-example:v7" in str(stored["spec"])


def test_a_pod_without_its_barrier_or_without_its_image_ends_the_demo_before_its_time(
    demo_cluster: Cluster, namespace: str, raw: RawClient, kubelet: Kubelet
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    raw.create(pods, task_pod("spirals-worker-0"))
    kubelet.bind("spirals-worker-0")
    raw.merge(f"{pods}/spirals-worker-0/status", no_image("tensorflow", "ErrImageNeverPull"))
    reason = "spirals-worker-0: tensorflow: ErrImageNeverPull: it is not present"
    ends(demo_cluster, namespace, reason, image_seconds=0.0)
    raw.create(pods, task_pod("spirals-chief-0", **{"frameworkcontroller.microsoft.com/barrier": "enabled"}))
    ends(demo_cluster, namespace, "no barrier was injected")


def test_a_framework_that_is_refused_ends_the_demo_with_the_reason(
    demo_cluster: Cluster, namespace: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "framework.yaml"
    file.write_text(manifests.FRAMEWORK.read_text().replace("taskNumber: 1", "taskNumber: -1"))
    lines = ends(demo_cluster, namespace, "spirals could not be submitted", file)
    assert lines[-1] == f"$ frameworkctl submit -f {file} -n {namespace}"
    assert "taskNumber" in capfd.readouterr().err


def test_the_removal_leaves_nothing_of_the_demo_and_can_be_repeated(pytestconfig: pytest.Config) -> None:
    kinds = "namespaces,crds,clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingadmissionpolicies"
    with own_cluster(pytestconfig, Depth.CONTROL_PLANE, "demo") as disposable:
        cluster = local_cluster(disposable)
        (context,) = cluster.kubectl("config", "get-contexts", "--output=name").split()
        target = ContextTarget(context, manifests.PREFIX, manifests.TAG, cluster.kubeconfig)
        cluster.apply([*manifests.programs(target.image_names), manifests.namespace("demo")])
        for _ in range(2):
            target.remove("demo")
        left = cluster.kubectl("get", kinds, "--output=name").split()
    assert [name for name in left if "framework" in name or name == "namespace/demo"] == []
