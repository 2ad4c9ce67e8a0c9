"""The two other sources on a real API server: Frameworks without rosters, and Pods without a Framework."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api import names
from testkit.frameworks import role
from testkit.waiting import eventually
from tests.barrier.cluster import account, grant, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcluster.client import Json, RawClient
    from testkit.frameworks import Frameworks
    from tests.barrier.process import Barrier
    from tests.support.kubelet import Kubelet

__all__ = ["account", "start"]  # fixtures
pytestmark = pytest.mark.apiserver

UID = "0a0a0a0a-0000-4000-8000-00000000000{}"


def task_status(index: int, ip: str | None) -> Json:
    now = "2026-11-21T00:00:00Z"
    retry = {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None}
    attempt = {
        "id": 0,
        "startTime": now,
        "runTime": None,
        "completionTime": None,
        "instanceUID": f"0_{UID.format(index)}",
        "podName": f"fw-worker-{index}",
        "podUID": UID.format(index),
        "podNodeName": "node-1",
        "podIP": ip,
        "podHostIP": "192.0.2.1",
        "completionStatus": None,
    }
    return {
        "index": index,
        "instanceUID": f"task-{index}",
        "startTime": now,
        "runTime": None,
        "completionTime": None,
        "state": "AttemptPreparing",
        "transitionTime": now,
        "deletionPending": False,
        "retryPolicyStatus": retry,
        "attemptStatus": attempt,
    }


def framework_status(ips: list[str | None], *, compressed: bool) -> Json:
    """The status as Microsoft's controller writes it."""
    now = "2026-11-21T00:00:00Z"
    tasks = [task_status(index, ip) for index, ip in enumerate(ips)]
    roles = [{"name": "worker", "instanceUID": "role", "podGracefulDeletionTimeoutSec": None, "taskStatuses": tasks}]
    packed = base64.b64encode(gzip.compress(json.dumps(roles).encode())).decode()
    attempt = {
        "id": 0,
        "startTime": now,
        "runTime": None,
        "completionTime": None,
        "instanceUID": "0_cm",
        "configMapName": "fw-attempt",
        "configMapUID": "cm",
        "completionStatus": None,
        "taskRoleStatuses": None if compressed else roles,
    }
    if compressed:
        attempt["taskRoleStatusesCompressed"] = packed
    return {
        "startTime": now,
        "runTime": None,
        "completionTime": None,
        "state": "AttemptPreparing",
        "transitionTime": now,
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None},
        "attemptStatus": attempt,
    }


@pytest.mark.parametrize("compressed", [False, True], ids=["raw status", "compressed status"])
@pytest.mark.parametrize("config_map", ["without roster", "forbidden"])
def test_a_framework_of_a_controller_without_rosters_opens_by_its_status(
    raw: RawClient,
    namespace: str,
    frameworks: Frameworks,
    start: Callable[..., Barrier],
    compressed: bool,
    config_map: str,
) -> None:
    grant(raw, namespace, names.GROUP, "frameworks", "get", "list", "watch")
    if config_map == "without roster":
        grant(raw, namespace, "", "configmaps", "get")
        raw.create(
            f"/api/v1/namespaces/{namespace}/configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fw-attempt"}},
        )
    made = frameworks.create("fw", role("worker", 2))
    path = f"{frameworks.path}/fw/status"
    raw.merge(path, {"status": framework_status(["10.0.0.1", None], compressed=compressed)})
    environ = {
        "FC_FRAMEWORK_NAMESPACE": namespace,
        "FC_FRAMEWORK_NAME": "fw",
        "FC_FRAMEWORK_UID": made["metadata"]["uid"],
        "FC_CONFIGMAP_NAME": "fw-attempt",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "1",
    }
    pod = {"metadata": {"uid": UID.format(1)}, "spec": {"containers": [{}]}}
    barrier = start(pod, **environ)
    says = {
        "without roster": "1/2: worker-1 has no address yet",
        "forbidden": f"reading Framework {namespace}/fw instead",
    }
    # For half a minute a Role could still be on its way.
    barrier.reports(says[config_map], 60)
    with pytest.raises(subprocess.TimeoutExpired):
        barrier.process.wait(1)
    raw.merge(path, {"status": framework_status(["10.0.0.1", "10.0.0.2"], compressed=compressed)})
    code, _ = barrier.ends()
    assert code == 0, barrier.lines
    assert barrier.read("worker.hosts") == "10.0.0.1\n10.0.0.2\n"
    written = json.loads(barrier.read("framework.json"))
    tasks = written["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
    assert [task["attemptStatus"]["podIP"] for task in tasks] == ["10.0.0.1", "10.0.0.2"]


WORKLOADS = {
    "Job": {
        "path": "/apis/batch/v1/namespaces/{}/jobs",
        "body": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "gang"},
            "spec": {"completionMode": "Indexed", "completions": 3, "parallelism": 3},
        },
    },
    "StatefulSet": {
        "path": "/apis/apps/v1/namespaces/{}/statefulsets",
        "body": {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "gang"},
            "spec": {
                "replicas": 3,
                "serviceName": "gang",
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": "gang"}},
            },
        },
    },
}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_pods_without_a_framework_open_by_their_labels(
    raw: RawClient, namespace: str, kubelet: Kubelet, start: Callable[..., Barrier], kind: str
) -> None:
    grant(raw, namespace, "", "pods", "list", "watch")
    spec = {"containers": [{"name": "main", "image": "none"}]}
    if kind == "Job":
        spec["restartPolicy"] = "Never"
    body = json.loads(json.dumps(WORKLOADS[kind]["body"]))
    body["spec"]["template"] = {"metadata": {"labels": {"app": "gang"}}, "spec": spec}
    raw.create(str(WORKLOADS[kind]["path"]).format(namespace), body)

    def created() -> list[Json]:
        items = raw.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3Dgang")["items"]
        assert len(items) == 3
        return items

    found = eventually(created, 20)
    options = {"FB_SELECTOR": "app=gang", "FB_ROLES": "worker=3", "FB_PRESET": "pytorch"}
    barriers = [start(pod, FC_FRAMEWORK_NAMESPACE=namespace, **options) for pod in found]
    for pod in found[:2]:
        kubelet.run(pod)
    with pytest.raises(subprocess.TimeoutExpired):
        barriers[0].process.wait(2)
    kubelet.run(found[2])
    ranks = set()
    for barrier, pod in zip(barriers, found, strict=True):
        code, last = barrier.ends(10)
        assert code == 0, barrier.lines
        assert "3/3 Tasks of Pods 'app=gang'" in last
        labels = pod["metadata"]["labels"]
        label = "batch.kubernetes.io/job-completion-index" if kind == "Job" else "apps.kubernetes.io/pod-index"
        assert f"RANK='{labels[label]}'\n" in barrier.read("env")
        ranks.add(labels[label])
        assert pod["metadata"]["name"] in barrier.read("hosts")
        assert "WORLD_SIZE='3'\n" in barrier.read("env")
    assert ranks == {"0", "1", "2"}


def test_without_the_right_to_watch_pods_it_polls(
    raw: RawClient, namespace: str, kubelet: Kubelet, start: Callable[..., Barrier]
) -> None:
    grant(raw, namespace, "", "pods", "list")
    body: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "solo-0", "labels": {"app": "solo"}},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    pod = raw.create(f"/api/v1/namespaces/{namespace}/pods", body)
    options = {"FB_SELECTOR": "app=solo", "FB_ROLES": "solo=1", "BARRIER_CHECK_INTERVAL_SEC": "1"}
    barrier = start(pod, FC_FRAMEWORK_NAMESPACE=namespace, **options)
    barrier.reports("looking every 1 s instead")
    kubelet.run(pod)
    code, _ = barrier.ends()
    assert code == 0, barrier.lines
