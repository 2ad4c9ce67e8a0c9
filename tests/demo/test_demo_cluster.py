"""The demo against a real API server: apply, wait, follow, run a gang, remove."""

from __future__ import annotations

import gc
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import localcluster
from frameworkclient.pods import Stage
from frameworkdemo import deploy, manifests
from frameworkdemo.cluster import Cluster, connect
from frameworkdemo.errors import DemoError
from frameworkdemo.follow import Follower
from frameworkdemo.gang import Gang
from frameworkdemo.progress import Steps
from localcluster import Depth
from testkit.waiting import eventually, patience
from tests.support.clusters import own_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frameworkclient import LogLine
    from frameworkclient.moments import Moment
    from frameworkclient.pods import TaskPod
    from localcluster.client import RawClient
    from tests.support.kubelet import Kubelet

pytestmark = pytest.mark.apiserver
FRAMEWORK = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/{}/frameworks/spirals"


@pytest.fixture(scope="module")
def demo_cluster(control_plane: localcluster.Cluster) -> Cluster:
    return connect(str(control_plane.kubeconfig), None)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(name: str, namespace: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "registry.example/nothing:v1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def task_pod(name: str) -> dict[str, Any]:
    framework, role, index = name.split("-")
    labels = {"FC_FRAMEWORK_NAME": framework, "FC_TASKROLE_NAME": role, "FC_TASK_INDEX": index}
    image = "registry.example/nothing:v1"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "initContainers": [{"name": "frameworkbarrier", "image": image}],
            "containers": [{"name": "tensorflow", "image": image}],
        },
    }


def ignore(_: str) -> None:
    """Ignore a report."""


def test_applying_an_object_again_changes_it_to_the_new_manifest(demo_cluster: Cluster, namespace: str) -> None:
    demo_cluster.apply([config_map("settings", a="1", b="2")], namespace)
    demo_cluster.apply([config_map("settings", a="3")], namespace)
    found = demo_cluster.get(config_map("settings"), namespace)
    assert found is not None
    assert found["data"] == {"a": "3"}


def test_a_deleted_object_is_gone_and_deleting_it_again_is_not_an_error(demo_cluster: Cluster, namespace: str) -> None:
    demo_cluster.apply([config_map("settings", a="1")], namespace)
    for _ in range(2):
        demo_cluster.delete([config_map("settings")], namespace)
    eventually(lambda: _absent(demo_cluster, namespace), timeout=10)


def _absent(cluster: Cluster, namespace: str) -> None:
    assert cluster.get(config_map("settings"), namespace) is None


def test_a_refused_object_is_named_with_the_api_servers_reason(demo_cluster: Cluster, namespace: str) -> None:
    with pytest.raises(DemoError, match=r"ConfigMap UPPER was not accepted: .*lowercase"):
        demo_cluster.apply([config_map("UPPER")], namespace)


def test_an_object_of_an_unknown_kind_is_absent_and_not_an_error(demo_cluster: Cluster) -> None:
    stranger = {"apiVersion": "example.com/v1", "kind": "Stranger", "metadata": {"name": "x"}}
    assert demo_cluster.get(stranger) is None
    demo_cluster.delete([stranger])


def test_an_api_server_that_does_not_answer_is_a_demo_error(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "dead",'
        ' "contexts": [{"name": "dead", "context": {"cluster": "dead", "user": "dead"}}],'
        ' "clusters": [{"name": "dead", "cluster": {"server": "http://127.0.0.1:1"}}],'
        ' "users": [{"name": "dead", "user": {}}]}'
    )
    with pytest.raises(DemoError, match="does not answer"):
        connect(str(file), None).check()


def test_the_error_for_a_deployment_that_is_not_ready_in_time_names_it(demo_cluster: Cluster, namespace: str) -> None:
    reports: list[str] = []
    with pytest.raises(DemoError, match=r"gave up after 1 s of waiting for idle: 0 of 1 ready"):
        deploy.deploy(demo_cluster, [deployment("idle", namespace)], reports.append, seconds=1)
    assert [report for report in reports if report] == ["idle: 0 of 1 ready"]


def test_an_image_that_cannot_be_pulled_ends_the_wait_at_once(
    demo_cluster: Cluster, namespace: str, raw: RawClient, kubelet: Kubelet
) -> None:
    demo_cluster.apply([deployment("broken", namespace)])
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def has_pod() -> None:
        assert raw.get(pods)["items"]

    eventually(has_pod, timeout=20)
    pod = kubelet.bind(raw.get(pods)["items"][0])
    waiting = {"reason": "ImagePullBackOff", "message": "not found"}
    status = {
        "name": "main",
        "state": {"waiting": waiting},
        "ready": False,
        "restartCount": 0,
        "image": "x",
        "imageID": "",
    }
    raw.merge(f"{pods}/{pod['metadata']['name']}/status", {"status": {"containerStatuses": [status]}})
    began = time.monotonic()
    with pytest.raises(DemoError, match="ImagePullBackOff: not found"):
        deploy.deploy(demo_cluster, [deployment("broken", namespace)], ignore, seconds=3 * patience(20))
    assert time.monotonic() - began < patience(20)


class Heard:
    """A listener that keeps everything."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.lines: list[str] = []
        self.warnings: list[str] = []

    def changed(self, moment: Moment) -> None:
        self.moments.append(moment)

    def logged(self, line: LogLine) -> None:
        self.lines.append(line.text)

    def following(self, cluster: Cluster, namespace: str) -> Follower:
        return Follower(cluster, namespace, self, self.warnings.append)

    def pods(self) -> list[TaskPod]:
        return [pod for moment in self.moments for pod in moment.pods.values()]

    def has_pod(self, stage: Stage) -> None:
        assert stage in {pod.stage for pod in self.pods()}, self.moments

    def has_moments(self) -> None:
        assert self.moments


def test_a_framework_is_followed_from_its_creation_to_its_deletion_with_its_pods(
    demo_cluster: Cluster, namespace: str, raw: RawClient, kubelet: Kubelet
) -> None:
    heard = Heard()
    with heard.following(demo_cluster, namespace) as follower:
        follower.follow("spirals")
        demo_cluster.apply([manifests.framework(manifests.ImageNames())], namespace)
        eventually(heard.has_moments, timeout=20)
        raw.create(f"/api/v1/namespaces/{namespace}/pods", task_pod("spirals-chief-0"))
        eventually(lambda: heard.has_pod(Stage.NOT_SCHEDULED), timeout=20)
        kubelet.run("spirals-chief-0", "10.9.8.7")
        eventually(lambda: heard.has_pod(Stage.RUNNING), timeout=20)
        raw.delete(FRAMEWORK.format(namespace))
        follower.settle(patience(20))
    assert {(pod.task, pod.has_barrier) for pod in heard.pods()} == {("chief-0", True)}
    assert [pod.status.pod_ip for pod in heard.pods()][-1] == "10.9.8.7"
    assert heard.warnings == []


def test_a_follower_that_is_closed_leaves_neither_its_thread_nor_tasks(
    demo_cluster: Cluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    with heard.following(demo_cluster, namespace) as follower:
        follower.follow("spirals")
        follower.follow("absent")
        demo_cluster.apply([manifests.framework(manifests.ImageNames())], namespace)
        eventually(heard.has_moments, timeout=20)
    assert [thread for thread in threading.enumerate() if thread.name == "demo-follower"] == []
    # A task that is left is destroyed with its loop, and asyncio logs that.
    del follower
    gc.collect()
    assert caplog.text == ""


def test_a_defect_of_a_listener_is_raised_and_not_lost(demo_cluster: Cluster, namespace: str, raw: RawClient) -> None:
    class Broken(Heard):
        def changed(self, moment: Moment) -> None:
            super().changed(moment)
            raise ZeroDivisionError

    heard = Broken()
    demo_cluster.apply([manifests.framework(manifests.ImageNames())], namespace)
    follower = heard.following(demo_cluster, namespace)
    follower.follow("spirals")
    eventually(heard.has_moments, timeout=20)
    raw.delete(FRAMEWORK.format(namespace))
    follower.settle(patience(20))
    with pytest.raises(ZeroDivisionError):
        follower.close()


def test_a_framework_that_may_not_be_read_is_followed_no_more_with_a_warning(
    control_plane: localcluster.Cluster, namespace: str, tmp_path: Path
) -> None:
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    for user in config["users"]:
        user["user"]["as"] = "nobody"
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    heard = Heard()
    with heard.following(connect(str(file), None), namespace) as follower:
        follower.follow("spirals")
        follower.settle(patience(20))
    (warning,) = heard.warnings
    assert warning.startswith("Framework spirals is not followed any more: ")
    assert 'User "nobody" cannot get resource "frameworks"' in warning


class Run:
    """A gang that runs in the background, on an API server without a controller."""

    def __init__(self, cluster: Cluster, namespace: str, **options: Any) -> None:
        self.lines: list[str] = []
        self.gang = Gang(cluster, namespace, Steps(self.lines.append), **options)
        self._namespace = namespace

    def ends_with(self, message: str, raw: RawClient, pod: dict[str, Any], seconds: float = patience(60)) -> None:
        raw.create(f"/api/v1/namespaces/{self._namespace}/pods", pod)
        framework = manifests.framework(manifests.ImageNames())
        with pytest.raises(DemoError, match=message):
            self.gang.run(framework, manifests.FRAMEWORK, seconds)


def labelled(pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a Pod that asks for the barrier."""
    labels = {**pod["metadata"]["labels"], "frameworkcontroller.microsoft.com/barrier": "enabled"}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}, "spec": {**pod["spec"], **spec}}


def test_a_gang_is_submitted_and_watched_by_the_commands_that_are_shown(
    demo_cluster: Cluster, namespace: str, raw: RawClient, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Run(demo_cluster, namespace)
    run.ends_with("spirals was not Completed within 0 s", raw, task_pod("spirals-chief-0"), seconds=0)
    assert run.lines == [
        f"$ export KUBECONFIG={demo_cluster.kubeconfig}",
        f"$ frameworkctl submit -f {manifests.shown(manifests.FRAMEWORK)} -n {namespace}",
        f"$ frameworkctl watch spirals -n {namespace}",
    ]
    assert "framework.frameworkcontroller.microsoft.com/spirals created" in capfd.readouterr().out
    run.gang.diagnose()
    assert run.lines[3:] == [
        f"$ frameworkctl why spirals -n {namespace}",
        f"$ frameworkctl describe spirals -n {namespace}",
        f"--- Events in the namespace {namespace}",
    ]
    assert f"{namespace}/spirals" in capfd.readouterr().out


def test_a_pod_without_its_barrier_ends_the_demo_before_its_time(
    demo_cluster: Cluster, namespace: str, raw: RawClient
) -> None:
    pod = labelled(task_pod("spirals-chief-0"), initContainers=[])
    Run(demo_cluster, namespace).ends_with("no barrier was injected", raw, pod)


def test_an_image_that_stays_away_ends_the_demo_before_its_time(
    demo_cluster: Cluster, namespace: str, raw: RawClient, kubelet: Kubelet
) -> None:
    run = Run(demo_cluster, namespace, image_seconds=0.0)
    waiting = {"reason": "ErrImageNeverPull", "message": "it is not present"}
    status = {"name": "tensorflow", "state": {"waiting": waiting}, "ready": False, "restartCount": 0}
    raw.create(f"/api/v1/namespaces/{namespace}/pods", labelled(task_pod("spirals-worker-0")))
    kubelet.bind("spirals-worker-0")
    path = f"/api/v1/namespaces/{namespace}/pods/spirals-worker-0/status"
    raw.merge(path, {"status": {"containerStatuses": [{**status, "image": "x", "imageID": ""}]}})
    run.ends_with("worker-0: tensorflow: ErrImageNeverPull: it is not present", raw, task_pod("spirals-chief-0"))


def test_a_framework_that_is_refused_ends_the_demo(
    demo_cluster: Cluster, namespace: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    framework = manifests.framework(manifests.ImageNames("registry.example", "v7"))
    framework["spec"]["taskRoles"][0]["taskNumber"] = -1
    lines: list[str] = []
    gang = Gang(demo_cluster, namespace, Steps(lines.append))
    with pytest.raises(DemoError, match="spirals could not be submitted"):
        gang.run(framework, manifests.FRAMEWORK, patience(60))
    # What is not in the file comes on standard input.
    assert lines[-1] == f"$ frameworkctl submit -f - -n {namespace}"
    assert "taskNumber" in capfd.readouterr().err
    gang.diagnose()
    assert lines[-1] == f"$ frameworkctl submit -f - -n {namespace}"


@pytest.fixture
def disposable_cluster() -> Iterator[Cluster]:
    name = own_name("demo")
    try:
        yield connect(str(localcluster.up(name, Depth.CONTROL_PLANE).kubeconfig), None)
    finally:
        localcluster.down(name)


def test_the_removal_leaves_nothing_of_the_demo_in_a_cluster(disposable_cluster: Cluster) -> None:
    image_names = manifests.ImageNames()
    programs, framework = manifests.programs(image_names), manifests.framework(image_names)
    with pytest.raises(DemoError, match="gave up after 5 s"):
        deploy.deploy(disposable_cluster, programs, ignore, seconds=5)
    disposable_cluster.apply([manifests.namespace("demo")])
    deploy.remove_all(disposable_cluster, framework, "demo", programs, ignore)
    left = [o["metadata"]["name"] for o in [manifests.namespace("demo"), *programs] if disposable_cluster.get(o)]
    assert left == []
