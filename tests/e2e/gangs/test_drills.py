"""Drills: what breaks in a cluster, what a user sees, and what happens when it is back (docs/operate/recovery.md).

Each test is named like its section there and shows the lines that the section quotes.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import Cluster
from localcluster.client import Json, RawClient
from localcluster.images import images
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.e2e.gangs.outages import SYSTEM, without, without_replicas
from tests.e2e.pods import all_run, events_of, log_of, pod, python
from tests.support.waiting import becomes

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.turns("drills")]

STAYS = ["sleep", "600"]
PAGE = " ".join((Path(__file__).parents[3] / "docs" / "operate" / "recovery.md").read_text().split())
AWAY_SEC = 120


def quoted(text: str) -> str:
    """Return a text that a user sees, which the page quotes."""
    assert text in PAGE, f"docs/operate/recovery.md does not say {text!r}"
    return text


def barrier_says(cluster: Cluster, frameworks: Frameworks, name: str, *texts: str) -> None:
    def check() -> None:
        log = log_of(cluster, frameworks.namespace, name)
        assert all(text in log for text in texts), log

    eventually(check, 60, 0.5)


def restarts(found: Json) -> int:
    states = found["status"].get("initContainerStatuses", []) + found["status"].get("containerStatuses", [])
    return sum(state["restartCount"] for state in states)


@contextlib.contextmanager
def a_gang_starts(cluster: Cluster, frameworks: Frameworks) -> Iterator[None]:
    """Start a gang whose last Pod is held until the block ends; then all of its Pods must run."""
    late = pod(STAYS)
    late["spec"]["schedulingGates"] = [{"name": "example.org/held"}]
    frameworks.create("fw", role("worker", 2, pod=pod(STAYS)), role("late", 1, pod=late))
    for name in ("fw-worker-0", "fw-worker-1"):
        barrier_says(cluster, frameworks, name, "waiting 2/3: late-0")
    before = {name: found["metadata"]["uid"] for name, found in frameworks.pods().items()}
    yield
    frameworks.raw.merge(f"{frameworks.pods_path}/fw-late-0", {"spec": {"schedulingGates": None}})
    assert all_run(frameworks, 3) == before


def test_the_api_server_is_away_while_a_gang_starts(cluster: Cluster, frameworks: Frameworks) -> None:
    with a_gang_starts(cluster, frameworks), without(cluster, "kube-apiserver"):
        time.sleep(AWAY_SEC)
    assert sum(map(restarts, frameworks.pods().values())) == 0
    barrier_says(cluster, frameworks, "fw-worker-0", quoted("Connection refused"))
    status = frameworks.status("fw")
    assert (status["attemptStatus"]["id"], status["retryPolicyStatus"]["totalRetriedCount"]) == (0, 0)


def test_the_injector_is_down(cluster: Cluster, installed: None, frameworks: Frameworks, raw: RawClient) -> None:
    with without_replicas(cluster, "frameworkinjector"):
        frameworks.create("fw", role("worker", 2, pod=pod(STAYS)))

        def is_refused() -> None:
            texts = events_of(raw, frameworks, quoted("FailedCreate"))
            assert any(quoted("failed calling webhook") in text for text in texts), texts

        eventually(is_refused, 30, 0.3)
        assert frameworks.pods() == {}
        assert frameworks.status("fw")["state"] == "AttemptPreparing"
    all_run(frameworks, 2)
    assert frameworks.status("fw")["retryPolicyStatus"]["totalRetriedCount"] == 0


def test_the_leader_is_killed_while_a_gang_starts(
    cluster: Cluster, installed: None, frameworks: Frameworks, raw: RawClient
) -> None:
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/frameworkcontroller"

    def leader() -> str:
        holder: str | None = raw.get(lease)["spec"].get("holderIdentity")
        assert holder
        return holder

    with a_gang_starts(cluster, frameworks):
        killed = eventually(leader)
        replicas = Frameworks(raw, SYSTEM).pods()
        (victim,) = (name for name in replicas if killed.startswith(name))
        cluster.kubectl("delete", "pod", victim, "-n", SYSTEM, "--grace-period=0", "--force")
    assert eventually(leader) != killed


def test_a_node_is_not_ready_and_comes_back(cluster: Cluster, frameworks: Frameworks, raw: RawClient) -> None:
    frameworks.create("fw", role("worker", 2, pod=pod(STAYS)))
    before = all_run(frameworks, 2)

    def ready(expected: str) -> None:
        conditions = raw.get("/api/v1/nodes/node")["status"]["conditions"]
        (status,) = [each["status"] for each in conditions if each["type"] == "Ready"]
        assert status == expected, status

    with without(cluster, "kubelet"):
        eventually(lambda: ready("Unknown"), 120, 1)
        assert frameworks.status("fw")["state"] == "AttemptRunning"
    eventually(lambda: ready("True"), 60, 1)
    assert all_run(frameworks, 2) == before
    assert sum(map(restarts, frameworks.pods().values())) == 0


def test_the_image_of_a_pod_cannot_be_pulled(cluster: Cluster, frameworks: Frameworks) -> None:
    absent = "docker.io/frameworkcontroller/none:none"
    good, broken = pod(STAYS, wait_for="arrived"), pod(STAYS, wait_for="arrived")
    broken["spec"]["containers"][0]["image"] = absent
    broken["spec"]["initContainers"] = [{"name": "first", "image": absent, "command": ["true"]}]
    frameworks.create("fw", role("worker", 1, pod=good), role("broken", 1, pod=broken))
    barrier_says(cluster, frameworks, "fw-worker-0", quoted("waiting 1/2: broken-0"), "Pull")
    change = [f"{container}={images.reference('barrier')}" for container in ("first", "main")]
    cluster.kubectl("set", "image", "pod/fw-broken-0", "-n", frameworks.namespace, *change)
    all_run(frameworks, 2)


def test_dns_is_down(cluster: Cluster, frameworks: Frameworks) -> None:
    resolves = "import socket, time; print(socket.gethostbyname('fw-worker-1'), flush=True); time.sleep(600)"
    with without(cluster, "coredns"):
        frameworks.create("fw", role("worker", 2, pod=pod(python(resolves))))
        all_run(frameworks, 2)
        address = frameworks.pods()["fw-worker-1"]["status"]["podIP"]
        becomes(lambda: log_of(cluster, frameworks.namespace, "fw-worker-0", "main").split(), [address], 30)


def test_the_volume_of_the_barrier_is_full(frameworks: Frameworks) -> None:
    spec = pod(STAYS)["spec"]
    spec["automountServiceAccountToken"] = True
    image = {key: spec["containers"][0][key] for key in ("image", "imagePullPolicy")}
    env = [{"name": "FB_PRESET", "value": "tensorflow"}]
    mounts = [{"name": "files", "mountPath": "/mnt/frameworkbarrier"}]
    spec["initContainers"] = [{"name": "frameworkbarrier", "env": env, "volumeMounts": mounts, **image}]
    # In memory a volume is as large as its sizeLimit: this one has room for one file.
    spec["volumes"] = [{"name": "files", "emptyDir": {"medium": "Memory", "sizeLimit": "4Ki"}}]
    frameworks.create("fw", role("worker", 2, pod={"spec": spec}))
    completion = frameworks.wait("fw", "Completed", 60)["attemptStatus"]["completionStatus"]
    assert completion["type"]["name"] == "Failed"
    assert quoted("cannot write /mnt/frameworkbarrier/presets.sh: No space left on device") in completion["diagnostics"]
