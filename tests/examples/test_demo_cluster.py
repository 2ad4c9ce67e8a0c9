"""The demo's dealings with a real API server: apply, wait, watch, remove."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import localcluster
from demo import deploy, events, manifests
from demo.cluster import Cluster, connect
from demo.errors import DemoError
from demo.facts import Stage
from demo.watch import Watcher, stamped
from examples.gang import CHIEF
from localcluster import Depth
from support import eventually
from support.clusters import own_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.kubelet import Kubelet
    from support.raw import Raw

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


def nobody(_: str) -> None:
    """Take a word and do nothing with it."""


def test_what_is_applied_again_becomes_what_is_asked_for(demo_cluster: Cluster, namespace: str) -> None:
    demo_cluster.apply([config_map("settings", a="1", b="2")], namespace)
    demo_cluster.apply([config_map("settings", a="3")], namespace)
    found = demo_cluster.get(config_map("settings"), namespace)
    assert found is not None
    assert found["data"] == {"a": "3"}


def test_what_is_deleted_is_gone_and_deleting_it_again_is_no_error(demo_cluster: Cluster, namespace: str) -> None:
    demo_cluster.apply([config_map("settings", a="1")], namespace)
    for _ in range(2):
        demo_cluster.delete([config_map("settings")], namespace)
    eventually(lambda: _absent(demo_cluster, namespace), timeout=10)


def _absent(cluster: Cluster, namespace: str) -> None:
    assert cluster.get(config_map("settings"), namespace) is None


def test_a_refused_object_is_named_with_the_api_servers_reason(demo_cluster: Cluster, namespace: str) -> None:
    with pytest.raises(DemoError, match=r"ConfigMap UPPER was not accepted: .*lowercase"):
        demo_cluster.apply([config_map("UPPER")], namespace)


def test_a_kind_that_the_server_does_not_know_is_absent_not_an_error(demo_cluster: Cluster) -> None:
    stranger = {"apiVersion": "example.com/v1", "kind": "Stranger", "metadata": {"name": "x"}}
    assert demo_cluster.get(stranger) is None
    demo_cluster.delete([stranger])


def test_a_server_that_does_not_answer_is_an_error_of_the_demo(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "dead",'
        ' "contexts": [{"name": "dead", "context": {"cluster": "dead", "user": "dead"}}],'
        ' "clusters": [{"name": "dead", "cluster": {"server": "http://127.0.0.1:1"}}],'
        ' "users": [{"name": "dead", "user": {}}]}'
    )
    with pytest.raises(DemoError, match="does not answer"):
        connect(str(file), None).check()


def test_a_deployment_that_does_not_become_ready_in_time_is_named(demo_cluster: Cluster, namespace: str) -> None:
    told: list[str] = []
    with pytest.raises(DemoError, match=r"waited 1 s in vain for idle: 0 of 1 ready"):
        deploy.deploy(demo_cluster, [deployment("idle", namespace)], told.append, seconds=1)
    assert [word for word in told if word] == ["idle: 0 of 1 ready"]


def test_an_image_that_cannot_be_pulled_ends_the_wait_at_once(
    demo_cluster: Cluster, namespace: str, raw: Raw, kubelet: Kubelet
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
        deploy.deploy(demo_cluster, [deployment("broken", namespace)], nobody, seconds=60)
    assert time.monotonic() - began < 20


def test_a_watcher_tells_of_a_pods_life_from_its_creation_to_its_end(
    demo_cluster: Cluster, namespace: str, raw: Raw, kubelet: Kubelet
) -> None:
    seen: list[events.Event] = []
    watcher = Watcher(demo_cluster, namespace, "spirals", seen.append)
    watcher.start()
    raw.create(f"/api/v1/namespaces/{namespace}/pods", task_pod("spirals-chief-0"))
    kubelet.run("spirals-chief-0", "10.9.8.7")
    kubelet.succeed("spirals-chief-0")
    raw.delete(f"/api/v1/namespaces/{namespace}/pods/spirals-chief-0?gracePeriodSeconds=0")

    def is_gone() -> None:
        assert [event for event in seen if isinstance(event, events.PodGone)]

    eventually(is_gone, timeout=20)
    watcher.stop()
    facts = [event.fact for event in seen if isinstance(event, events.PodSeen)]
    assert {fact.key for fact in facts} == {CHIEF}
    stages = list(dict.fromkeys((fact.barrier, fact.application, bool(fact.ip)) for fact in facts))
    assert stages[0] == (Stage.WAITING, Stage.WAITING, False)
    assert (Stage.DONE, Stage.RUNNING, True) in stages
    assert stages[-1][:2] == (Stage.DONE, Stage.DONE)


def test_a_watcher_tells_of_the_framework_and_of_the_roster(
    demo_cluster: Cluster, namespace: str, frameworks_crd: None
) -> None:
    seen: list[events.Event] = []
    watcher = Watcher(demo_cluster, namespace, "spirals", seen.append)
    watcher.start()
    demo_cluster.apply([manifests.framework(manifests.Naming())], namespace)
    demo_cluster.apply([config_map("spirals-attempt", roster='{"ready": 2, "total": 3}')], namespace)
    demo_cluster.apply([config_map("other-attempt", roster='{"ready": 9, "total": 9}')], namespace)

    def is_told() -> None:
        assert [event for event in seen if isinstance(event, events.FrameworkSeen)]
        assert [event.fact.ready for event in seen if isinstance(event, events.RosterSeen)] == [2]

    eventually(is_told, timeout=20)
    watcher.stop()


def test_a_stopped_watcher_tells_nothing_more(demo_cluster: Cluster, namespace: str, raw: Raw) -> None:
    seen: list[events.Event] = []
    watcher = Watcher(demo_cluster, namespace, "spirals", seen.append)
    watcher.start()
    watcher.stop()
    raw.create(f"/api/v1/namespaces/{namespace}/pods", task_pod("spirals-chief-0"))
    time.sleep(1)
    assert seen == []
    assert [thread for thread in threading.enumerate() if thread.name == "demo-follower"] == []


@pytest.fixture
def cluster_to_spoil() -> Iterator[Cluster]:
    name = own_name(Depth.CONTROL_PLANE) + "demo"
    try:
        yield connect(str(localcluster.up(name, Depth.CONTROL_PLANE).kubeconfig), None)
    finally:
        localcluster.down(name)


def test_nothing_of_the_demo_is_left_in_a_cluster_after_its_removal(cluster_to_spoil: Cluster) -> None:
    naming = manifests.Naming()
    programs, framework = manifests.programs(naming), manifests.framework(naming)
    with pytest.raises(DemoError, match="in vain"):
        deploy.deploy(cluster_to_spoil, programs, nobody, seconds=5)
    cluster_to_spoil.apply([manifests.namespace("demo")])
    deploy.remove_all(cluster_to_spoil, framework, "demo", programs, nobody)
    left = [o["metadata"]["name"] for o in [manifests.namespace("demo"), *programs] if cluster_to_spoil.get(o)]
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
def test_a_log_lines_time_is_the_nodes_unless_its_clock_is_another(line: str, expected: tuple[float, str]) -> None:
    assert stamped(line, 1001.0) == expected
