"""The two other sources on a real API server: Frameworks without rosters, and Pods without a Framework."""

import base64
import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from frameworkcontroller.api import names
from localcluster import Cluster
from localcluster.client import Json, RawClient
from testkit.frameworks import Frameworks
from testkit.waiting import eventually
from tests.barrier.cluster import account, grant, start
from tests.barrier.process import Barrier
from tests.support.beside.kubelet import Kubelet

__all__ = ["account", "start"]  # fixtures
pytestmark = pytest.mark.apiserver

MICROSOFTS = Path(__file__).parents[2] / "controller" / "api" / "microsoft.yaml"
UID = "0a0a0a0a-0000-4000-8000-000000000001"
POD = {"metadata": {"uid": UID}, "spec": {"containers": [{}]}}
"""The Pod of worker-1 in `MICROSOFTS`."""


def write_status(frameworks: Frameworks, ip: str | None, *, compressed: bool) -> None:
    """Write the status as Microsoft's controller does, with this address of worker-1."""
    status = yaml.safe_load(MICROSOFTS.read_text())["status"]
    attempt = status["attemptStatus"]
    task = attempt["taskRoleStatuses"][1]["taskStatuses"][1]
    task |= {"state": "AttemptPreparing", "attemptStatus": task["attemptStatus"] | {"podUID": UID, "podIP": ip}}
    if compressed:
        packed = gzip.compress(json.dumps(attempt["taskRoleStatuses"]).encode())
        attempt |= {"taskRoleStatuses": None, "taskRoleStatusesCompressed": base64.b64encode(packed).decode()}
    frameworks.raw.merge(f"{frameworks.path}/distributed/status", {"status": status})


def waiting(frameworks: Frameworks, *, compressed: bool) -> dict[str, str]:
    """Create a Framework whose worker-1 has no address yet, and return the environment of that Pod."""
    made = frameworks.raw.create(frameworks.path, yaml.safe_load(MICROSOFTS.read_text()))
    write_status(frameworks, None, compressed=compressed)
    return {
        "FC_FRAMEWORK_NAMESPACE": frameworks.namespace,
        "FC_FRAMEWORK_NAME": "distributed",
        "FC_FRAMEWORK_UID": made["metadata"]["uid"],
        "FC_CONFIGMAP_NAME": "distributed-attempt",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "1",
    }


def opens(barrier: Barrier, frameworks: Frameworks, *, compressed: bool) -> None:
    """Check that it waits for the address."""
    assert barrier.process.poll() is None
    write_status(frameworks, "10.0.0.3", compressed=compressed)
    code, _ = barrier.ends()
    assert code == 0, barrier.lines
    assert barrier.read("worker.hosts") == "10.0.0.2\n10.0.0.3\n"
    written = json.loads(barrier.read("framework.json"))
    tasks = written["status"]["attemptStatus"]["taskRoleStatuses"][1]["taskStatuses"]
    assert [task["attemptStatus"]["podIP"] for task in tasks] == ["10.0.0.2", "10.0.0.3"]


def test_a_framework_of_a_controller_without_rosters_opens_by_its_status(
    raw: RawClient, namespace: str, frameworks: Frameworks, start: Callable[..., Barrier]
) -> None:
    grant(raw, namespace, names.GROUP, "frameworks", "get", "list", "watch")
    grant(raw, namespace, "", "configmaps", "get")
    raw.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "distributed-attempt"}})
    barrier = start(POD, **waiting(frameworks, compressed=False))
    barrier.reports("2/3: worker-1 has no address yet")
    opens(barrier, frameworks, compressed=False)


def test_whom_the_configmap_is_forbidden_reads_the_framework_after_half_a_minute_or_names_the_role(
    cluster: Cluster, raw: RawClient, frameworks: Frameworks, start: Callable[..., Barrier], account: Path
) -> None:
    """For half a minute a Role could still be on its way."""
    namespace = frameworks.namespace
    grant(raw, namespace, names.GROUP, "frameworks", "get", "list", "watch")
    raw.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "nobody"}})
    nobody = shutil.copytree(account, account.with_name("nobody"))
    (nobody / "token").write_text(cluster.token(namespace, "nobody"))
    environ = waiting(frameworks, compressed=True)
    barrier, helpless = start(POD, **environ), start(POD, **environ, FB_TOKEN_DIR=str(nobody))
    barrier.reports(f"reading Framework {namespace}/distributed instead", 60)
    opens(barrier, frameworks, compressed=True)
    code, last = helpless.ends(60)
    assert code == 210
    assert "create a Role with the rule" in last
    assert "resourceNames: [distributed-attempt], verbs: [get, watch]" in last
    assert f"system:serviceaccount:{namespace}:nobody" in last


LABELS = {"app": "gang"}
# The paths, the specs, the restart policies of the Pods, and the labels with their ranks.
WORKLOADS: dict[str, tuple[str, Json, str, str]] = {
    "Job, which may only be listed": (
        "batch/v1/namespaces/{}/jobs",
        {"completionMode": "Indexed", "completions": 3, "parallelism": 3},
        "Never",
        "batch.kubernetes.io/job-completion-index",
    ),
    "StatefulSet": (
        "apps/v1/namespaces/{}/statefulsets",
        {"replicas": 3, "serviceName": "gang", "podManagementPolicy": "Parallel", "selector": {"matchLabels": LABELS}},
        "Always",
        "apps.kubernetes.io/pod-index",
    ),
}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_pods_without_a_framework_open_by_their_labels(
    raw: RawClient, namespace: str, kubelet: Kubelet, start: Callable[..., Barrier], kind: str
) -> None:
    path, body, restart, label = WORKLOADS[kind]
    may_watch = kind == "StatefulSet"
    grant(raw, namespace, "", "pods", "list", *["watch"] * may_watch)
    spec = {"containers": [{"name": "main", "image": "none"}], "restartPolicy": restart}
    body = {**body, "template": {"metadata": {"labels": LABELS}, "spec": spec}}
    raw.create(f"/apis/{path.format(namespace)}", {"metadata": {"name": "gang"}, "spec": body})

    def created() -> list[Json]:
        items = raw.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3Dgang")["items"]
        assert len(items) == 3
        return items

    found = eventually(created, 20)
    options = {"FB_SELECTOR": "app=gang", "FB_ROLES": "worker=3", "FB_PRESET": "pytorch"}
    options["BARRIER_CHECK_INTERVAL_SEC"] = "1"
    barriers = [start(pod, FC_FRAMEWORK_NAMESPACE=namespace, **options) for pod in found]
    if not may_watch:
        barriers[0].reports("looking every 1 s instead")
    for pod in found[:2]:
        kubelet.run(pod)
    barriers[0].reports("waiting 2/3")
    kubelet.run(found[2])
    ranks = [pod["metadata"]["labels"][label] for pod in found]
    assert sorted(ranks) == ["0", "1", "2"]
    for barrier, pod, rank in zip(barriers, found, ranks, strict=True):
        code, last = barrier.ends(10)
        assert code == 0, barrier.lines
        assert "3/3 Tasks of Pods 'app=gang'" in last
        assert f"RANK='{rank}'\n" in barrier.read("env")
        assert pod["metadata"]["name"] in barrier.read("hosts")
        assert "WORLD_SIZE='3'\n" in barrier.read("env")
