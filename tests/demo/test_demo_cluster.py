"""The demo against a real API server: apply, wait, watch, remove."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import localcluster
from frameworkdemo import deploy, manifests
from frameworkdemo.cluster import Cluster, connect
from frameworkdemo.errors import DemoError
from frameworkdemo.picture import events
from frameworkdemo.picture.objects import ContainerState
from frameworkdemo.watch import Watcher, split_timestamp
from localcluster import Depth
from localcluster.waiting import eventually, patience
from tests.demo.gang import CHIEF
from tests.support.clusters import own_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster.client import RawClient
    from tests.support.kubelet import Kubelet

pytestmark = pytest.mark.apiserver


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
    labels = {"FC_FRAMEWORK_NAME": "spirals", "FC_TASKROLE_NAME": "chief", "FC_TASK_INDEX": "0"}
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


def test_a_watcher_posts_the_events_of_a_pod_from_its_creation_to_its_deletion(
    demo_cluster: Cluster, namespace: str, raw: RawClient, kubelet: Kubelet
) -> None:
    seen: list[events.Event] = []
    watcher = Watcher(demo_cluster, namespace, "spirals", seen.append)
    watcher.start()
    raw.create(f"/api/v1/namespaces/{namespace}/pods", task_pod("spirals-chief-0"))

    def is_seen() -> None:
        assert [event for event in seen if isinstance(event, events.PodObserved)]

    # What the watcher has not begun to watch may be over before it looks.
    eventually(is_seen, timeout=20)
    kubelet.run("spirals-chief-0", "10.9.8.7")
    kubelet.succeed("spirals-chief-0")
    raw.delete(f"/api/v1/namespaces/{namespace}/pods/spirals-chief-0?gracePeriodSeconds=0")

    def is_gone() -> None:
        assert [event for event in seen if isinstance(event, events.PodDeleted)]

    eventually(is_gone, timeout=20)
    watcher.stop()
    pods = [event.pod for event in seen if isinstance(event, events.PodObserved)]
    assert {pod.key for pod in pods} == {CHIEF}
    states = list(dict.fromkeys((pod.barrier, pod.application, bool(pod.ip)) for pod in pods))
    assert states[0] == (ContainerState.WAITING, ContainerState.WAITING, False)
    assert (ContainerState.SUCCEEDED, ContainerState.RUNNING, True) in states
    assert states[-1][:2] == (ContainerState.SUCCEEDED, ContainerState.SUCCEEDED)


def test_a_watcher_posts_the_events_of_the_framework_and_of_the_roster(
    demo_cluster: Cluster, namespace: str, frameworks_crd: None
) -> None:
    seen: list[events.Event] = []
    watcher = Watcher(demo_cluster, namespace, "spirals", seen.append)
    watcher.start()
    demo_cluster.apply([manifests.framework(manifests.ImageNames())], namespace)
    demo_cluster.apply([config_map("spirals-attempt", roster='{"ready": 2, "total": 3}')], namespace)
    demo_cluster.apply([config_map("other-attempt", roster='{"ready": 9, "total": 9}')], namespace)

    def both_are_posted() -> None:
        assert [event for event in seen if isinstance(event, events.FrameworkObserved)]
        assert [event.roster.ready for event in seen if isinstance(event, events.RosterObserved)] == [2]

    eventually(both_are_posted, timeout=20)
    watcher.stop()


def test_a_stopped_watcher_posts_no_events(demo_cluster: Cluster, namespace: str, raw: RawClient) -> None:
    seen: list[events.Event] = []
    watcher = Watcher(demo_cluster, namespace, "spirals", seen.append)
    watcher.start()
    watcher.stop()
    raw.create(f"/api/v1/namespaces/{namespace}/pods", task_pod("spirals-chief-0"))
    time.sleep(1)
    assert seen == []
    assert [thread for thread in threading.enumerate() if thread.name == "demo-follower"] == []


@pytest.fixture
def disposable_cluster() -> Iterator[Cluster]:
    name = own_name(Depth.CONTROL_PLANE) + "demo"
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


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1970-01-01T00:16:40.250000001Z hello world", (1000.25, "hello world")),
        ("1970-01-01T00:00:00Z an hour of another clock", (1001.0, "an hour of another clock")),
        ("no stamp at all", (1001.0, "no stamp at all")),
        ("", (1001.0, "")),
    ],
    ids=["stamped", "other-clock", "unstamped", "empty"],
)
def test_the_time_of_a_log_line_is_the_nodes_unless_its_clock_differs(line: str, expected: tuple[float, str]) -> None:
    assert split_timestamp(line, 1001.0) == expected
