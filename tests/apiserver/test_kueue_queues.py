"""Frameworks in queues of a real Kueue, with its webhooks and the configuration of its chart; Pods are played."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from frameworkcontroller.api.workload import PRIORITY_LABEL, QUEUE_LABEL
from testkit import kueue
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.support.clusters import require_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from localcluster import Cluster
    from localcluster.client import Json, RawClient
    from tests.support.player import Player
    from tests.support.queued import Queued

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.long,
    pytest.mark.turns("kueue"),
    pytest.mark.usefixtures("process", "queueing"),
]
NOW = "2026-01-01T00:00:00Z"
STAY: dict[str, list[int | str]] = {f"worker-{index}": ["stay"] for index in range(8)}


def pod(**spec: Any) -> Json:
    """A Pod template of one CPU."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"containers": [container], **spec}}


def workers(number: int, **more: Any) -> Json:
    return role("worker", number, **{"pod": pod(), **more})


@pytest.fixture(scope="module")
def process(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kueue.Kueue]:
    require_node()
    made = kueue.Kueue(cluster, tmp_path_factory.mktemp("kueue"))
    made.install()
    kueue.grant(cluster)
    integrations = made.configuration()["integrations"] | {"externalFrameworks": ["ConfigMap.v1."]}
    made.start(integrations=integrations)
    yield made
    made.stop()


def test_one_waits_until_another_has_given_its_quota_back(
    raw: RawClient, namespace: str, queued: Queued, player: Player
) -> None:
    kueue.quota(raw, namespace, cpu="4")
    frameworks = queued.frameworks
    player.plan = dict(STAY)
    with player.playing():
        queued.create("one", workers(3))
        frameworks.wait("one", "AttemptRunning")
        queued.create("two", workers(3))
        text = queued.waits("two")
        assert "LocalQueue main" in text
        assert set(frameworks.pods()) == {f"one-worker-{index}" for index in range(3)}
        queued.expect("one", Admitted=True, PodsReady=True)
        queued.expect("two", Admitted=False, QuotaReserved=False)
        player.plan = {}
        frameworks.wait("one", "Completed")
        assert queued.expect("one", Finished=True)["Finished"]["reason"] == "Succeeded"
        frameworks.wait("two", "Completed")
    assert queued.expect("two", Finished=True)["Finished"]["reason"] == "Succeeded"
    reasons = [event["reason"] for event in frameworks.events("two")]
    assert {"WaitingForAdmission", "FrameworkAdmitted"} <= set(reasons)


def test_a_gang_is_preempted_by_another_and_comes_back(
    raw: RawClient, namespace: str, queued: Queued, player: Player
) -> None:
    kueue.quota(raw, namespace, cpu="4", preemption={"withinClusterQueue": "LowerPriority"})
    for name, value in (("low", 1), ("high", 100)):
        kueue.apply(raw, "WorkloadPriorityClass", name, {"value": value})
    frameworks = queued.frameworks
    player.plan = dict(STAY)
    with player.playing():
        queued.create("one", workers(3), priority="low")
        frameworks.wait("one", "AttemptRunning")
        queued.create("two", workers(2, completion={"minSucceededTaskCount": 2}), priority="high")
        queued.waits("one")
        frameworks.wait("two", "AttemptRunning")
        assert queued.expect("one", Admitted=False, QuotaReserved=False, Requeued=True, PodsReady=False)
        status = frameworks.status("one")
        assert (status["attempts"], status["retryPolicyStatus"]["accountableRetriedCount"]) == (2, 0)
        player.plan = {"worker-0": [0], "worker-1": [0], "worker-2": [0]}
        frameworks.wait("two", "Completed")
        frameworks.wait("one", "Completed")
    assert "FrameworkPreempted" in {event["reason"] for event in frameworks.events("one")}
    queued.expect("one", Finished=True)


def test_pods_get_what_their_flavors_need(raw: RawClient, namespace: str, queued: Queued, player: Player) -> None:
    taint = {"key": "pool", "value": "b", "effect": "NoSchedule"}
    toleration = {"key": "pool", "operator": "Equal", "value": "b", "effect": "NoSchedule"}
    a, b = (f"{namespace[-50:].strip('-')}-{name}" for name in ("a", "b"))
    kueue.flavor(raw, a, nodeLabels={"pool": "a"})
    kueue.flavor(raw, b, nodeLabels={"pool": "b"}, nodeTaints=[taint], tolerations=[toleration])
    kueue.cluster_queue(raw, namespace, {a: "2", b: "2"})
    kueue.local_queue(raw, namespace, "main", namespace)
    frameworks = queued.frameworks
    player.plan = dict(STAY) | {"ps-0": ["stay"], "ps-1": ["stay"]}
    with player.playing():
        # One role says where it belongs, the other one gets what is left.
        queued.create("two", role("ps", 2, pod=pod()), workers(2, pod=pod(nodeSelector={"pool": "b"})))
        frameworks.wait("two", "AttemptRunning")
        found = frameworks.created("two-ps-0", "two-ps-1", "two-worker-0", "two-worker-1")
    selectors = {name: one["spec"]["nodeSelector"]["pool"] for name, one in found.items()}
    assert selectors == {"two-ps-0": "a", "two-ps-1": "a", "two-worker-0": "b", "two-worker-1": "b"}
    assert toleration in found["two-worker-0"]["spec"]["tolerations"]
    assert toleration not in found["two-ps-0"]["spec"]["tolerations"]
    assert found["two-ps-0"]["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "ps"


def test_a_queue_takes_back_what_another_one_has_borrowed(
    raw: RawClient, namespace: str, queued: Queued, player: Player
) -> None:
    kueue.flavor(raw, "pool-a")
    for name in ("a", "b"):
        kueue.cluster_queue(
            raw,
            f"{namespace}-{name}",
            {"pool-a": "2"},
            cohortName=namespace,
            preemption={"reclaimWithinCohort": "Any"},
        )
        kueue.local_queue(raw, namespace, name, f"{namespace}-{name}")
    frameworks = queued.frameworks
    player.plan = dict(STAY)
    with player.playing():
        queued.create("borrows", workers(4), queue="a")
        frameworks.wait("borrows", "AttemptRunning")
        queued.create("owns", workers(2), queue="b")
        frameworks.wait("owns", "AttemptRunning")
        queued.waits("borrows")
        player.plan = {}
        frameworks.wait("owns", "Completed")
        frameworks.wait("borrows", "Completed")
    queued.expect("borrows", Finished=True)


def test_a_check_that_fails_lets_it_wait_until_it_is_ready(
    raw: RawClient, namespace: str, queued: Queued, player: Player
) -> None:
    check = namespace[-60:].strip("-")
    kueue.apply(raw, "AdmissionCheck", check, {"controllerName": "test/by-hand"})
    path = f"{kueue.API}/admissionchecks/{check}/status"
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": NOW}
    raw.merge(path, {"status": {"conditions": [active]}})
    kueue.quota(raw, namespace, admissionChecksStrategy={"admissionChecks": [{"name": check}]})

    def set_check(state: str, **more: Any) -> None:
        found = queued.workload("one")
        assert found is not None
        entry = {"name": check, "state": state, "message": "by hand", "lastTransitionTime": NOW, **more}
        uid = found["metadata"]["uid"]
        raw.merge(f"{queued.path_of(found)}/status", {"metadata": {"uid": uid}, "status": {"admissionChecks": [entry]}})

    frameworks = queued.frameworks
    with player.playing():
        queued.create("one", workers(2))
        queued.expect("one", QuotaReserved=True, Admitted=False)
        set_check("Retry")
        # The quota is given back, and asked for again when Kueue wants it: at once, or later.
        queued.expect("one", timeout=60, QuotaReserved=True, Requeued=True)
        assert frameworks.pods() == {}
        update = {"name": "worker", "labels": {"bought": "yes"}, "nodeSelector": {"rack": "7"}}
        player.plan = dict(STAY)
        set_check("Ready", podSetUpdates=[update])
        frameworks.wait("one", "AttemptRunning")
        found = frameworks.pods()["one-worker-0"]
        assert (found["metadata"]["labels"]["bought"], found["spec"]["nodeSelector"]["rack"]) == ("yes", "7")
        # It is rejected while it runs, which deactivates it.
        set_check("Rejected", podSetUpdates=[update])
        queued.waits("one")
        assert eventually(frameworks.pods) == {}
        assert queued.expect("one", Evicted=True, QuotaReserved=False, Admitted=False)


def test_what_a_check_adds_may_contradict_a_template(
    raw: RawClient, namespace: str, queued: Queued, player: Player
) -> None:
    kueue.flavor(raw, "pool-c", nodeLabels={"pool": "c"})
    kueue.cluster_queue(raw, namespace, {"pool-c": "4"})
    kueue.local_queue(raw, namespace, "main", namespace)
    template = pod() | {"metadata": {"labels": {"kueue.x-k8s.io/podset": "mine"}}}
    queued.create("one", workers(2, pod=template))
    text = queued.waits("one", "AdmissionConflict")
    assert (
        text
        == "Pod template of TaskRole worker: labels[kueue.x-k8s.io/podset] is 'mine', and the admission says 'worker'"
    )
    assert queued.expect("one", Finished=True)["Finished"]["message"] == text
    # Mended, it is queued again.
    with player.playing():
        queued.frameworks.merge("one", taskRoles=[workers(2)])
        queued.frameworks.wait("one", "Completed")
    assert queued.expect("one", Finished=True)["Finished"]["reason"] == "Succeeded"


def test_more_roles_than_kueue_takes_are_refused_with_the_reason(
    raw: RawClient, namespace: str, queued: Queued
) -> None:
    kueue.quota(raw, namespace)
    queued.create("one", *(role(f"r{number}", 1, pod=pod()) for number in range(19)))
    assert "at most 18, found 19 TaskRoles" in queued.waits("one", "WorkloadRefused")
    queued.frameworks.merge("one", taskRoles=[role(f"r{number}", 0, pod=pod()) for number in range(18)])
    queued.expect("one", Admitted=True)


def test_a_queue_that_does_not_exist_and_a_class_that_does_not_exist(
    raw: RawClient, namespace: str, queued: Queued, player: Player
) -> None:
    kueue.quota(raw, namespace)
    queued.create("one", workers(1), queue="none")
    queued.create("two", workers(1), priority="none")
    queued.waits("one")
    assert "none" in queued.waits("two", "WorkloadRefused")
    with player.playing():
        for name, labels in (("one", {QUEUE_LABEL: "main"}), ("two", {PRIORITY_LABEL: None})):
            raw.merge(f"{queued.frameworks.path}/{name}", {"metadata": {"labels": labels}})
            queued.frameworks.wait(name, "Completed")


def test_a_gang_gives_back_what_it_needs_no_more_and_queues_again_for_more(
    raw: RawClient, namespace: str, queued: Queued, player: Player
) -> None:
    kueue.quota(raw, namespace, cpu="4")
    frameworks = queued.frameworks
    player.plan = dict(STAY)
    never = {"minFailedTaskCount": -1, "minSucceededTaskCount": -1}

    def reclaimed(name: str, number: int) -> Json:
        found = queued.workload(name)
        assert found is not None
        assert found["status"].get("reclaimablePods") == [{"name": "worker", "count": number}], found["status"]
        return found

    with player.playing():
        queued.create("one", workers(4, completion=never))
        frameworks.wait("one", "AttemptRunning")
        queued.create("two", workers(1))
        queued.waits("two")
        # One ends; it is the quota of the other.
        player.plan = dict(STAY) | {"worker-3": [0]}
        first = eventually(lambda: reclaimed("one", 1))
        frameworks.wait("two", "AttemptRunning")
        # Fewer are asked for: the Workload stays, and needs less.
        frameworks.merge("one", taskRoles=[workers(2, completion=never)])
        assert eventually(lambda: reclaimed("one", 2))["metadata"]["uid"] == first["metadata"]["uid"]
        assert frameworks.status("one")["attempts"] == 1
        frameworks.merge("two", executionType="Stop")
        # More are asked for: another Workload, and another attempt.
        frameworks.merge("one", taskRoles=[workers(4, completion=never)])
        eventually(lambda: frameworks.created(*(f"one-worker-{index}" for index in range(4))))
        second = queued.workload("one")
        assert second is not None
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert frameworks.status("one")["retryPolicyStatus"]["accountableRetriedCount"] == 0


def test_it_is_suspended_and_resumed_in_the_queue_and_while_it_runs(
    raw: RawClient, namespace: str, queued: Queued, player: Player
) -> None:
    kueue.quota(raw, namespace, cpu="2")
    frameworks = queued.frameworks
    player.plan = dict(STAY)

    def has_none(name: str) -> None:
        assert queued.workload(name) is None

    with player.playing():
        queued.create("one", workers(2))
        frameworks.wait("one", "AttemptRunning")
        queued.create("two", workers(2))
        queued.waits("two")
        frameworks.merge("two", suspend=True)
        queued.waits("two", "Suspended")
        eventually(lambda: has_none("two"))
        frameworks.merge("one", suspend=True)
        queued.waits("one", "Suspended")
        eventually(lambda: has_none("one"))
        assert frameworks.pods() == {}
        for name in ("two", "one"):
            frameworks.merge(name, suspend=False)
            frameworks.wait("two", "AttemptRunning")
        queued.waits("one")
        frameworks.merge("two", suspend=True)
        frameworks.wait("one", "AttemptRunning")


def test_it_is_deleted_in_the_queue_and_while_it_runs_and_its_workload_alone(
    raw: RawClient, namespace: str, queued: Queued, player: Player
) -> None:
    kueue.quota(raw, namespace, cpu="2")
    frameworks = queued.frameworks
    player.plan = dict(STAY)
    with player.playing():
        for name in ("one", "two", "three"):
            queued.create(name, workers(2))
        frameworks.wait("one", "AttemptRunning")
        queued.waits("two")
        raw.delete(f"{frameworks.path}/two")
        raw.delete(f"{frameworks.path}/one")
        frameworks.wait("three", "AttemptRunning")
        found = queued.workload("three")
        assert found is not None
        raw.delete(queued.path_of(found))

        def is_another() -> None:
            other = queued.workload("three")
            assert other is not None
            assert other["metadata"]["uid"] != found["metadata"]["uid"]

        eventually(is_another)
        frameworks.wait("three", "AttemptRunning")
        assert frameworks.status("three")["attempts"] == 2
        listed = raw.get(f"{kueue.API}/namespaces/{namespace}/workloads")["items"]
        assert [one["metadata"]["labels"]["FC_FRAMEWORK_NAME"] for one in listed] == ["three"]


def test_topology_of_three_levels_chooses_the_nodes(
    raw: RawClient, namespace: str, queued: Queued, player: Player
) -> None:
    levels = ["test/block", "test/rack", "kubernetes.io/hostname"]
    kueue.apply(raw, "Topology", "three", {"levels": [{"nodeLabel": level} for level in levels]})
    for block, rack, host in ((b, r, h) for b in range(2) for r in range(2) for h in range(2)):
        name = f"node-{block}{rack}{host}"
        labels = dict(zip(levels, (f"b{block}", f"b{block}r{rack}", name), strict=True)) | {"tas": "three"}
        raw.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        resources = {"cpu": "2", "pods": "10"}
        ready = {"type": "Ready", "status": "True", "reason": "x", "message": "x"}
        status = {"allocatable": resources, "capacity": resources, "conditions": [ready]}
        raw.merge(f"/api/v1/nodes/{name}/status", {"status": status})
        eventually(lambda name=name: raw.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": None}}))
    kueue.flavor(raw, "topology", topologyName="three", nodeLabels={"tas": "three"})
    kueue.cluster_queue(raw, namespace, {"topology": "16"})
    kueue.local_queue(raw, namespace, "main", namespace)
    frameworks = queued.frameworks
    player.plan = dict(STAY)
    template = pod() | {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "test/rack"}}}
    with player.playing():
        queued.create("one", workers(4, pod=template))

        def placed() -> list[str]:
            found = [frameworks.pods()[f"one-worker-{index}"] for index in range(4)]
            assert not any(one["spec"].get("schedulingGates") for one in found)
            return [one["spec"]["nodeSelector"]["kubernetes.io/hostname"] for one in found]

        frameworks.wait("one", "AttemptRunning")
        nodes = eventually(placed)
        assert len({name[:-1] for name in nodes}) == 1, "one rack"
        # By rank: neighbours are neighbours.
        assert nodes[0] == nodes[1] != nodes[2] == nodes[3]


def test_the_example_runs_one_gang_after_the_other(
    cluster: Cluster, namespace: str, queued: Queued, player: Player
) -> None:
    for file in ("queue.yaml", "framework.yaml"):
        cluster.kubectl("apply", "-n", namespace, "-f", f"examples/kueue/{file}")
    frameworks = queued.frameworks
    player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
    with player.playing():
        running = eventually(lambda: _one(name for name in ("first", "second") if is_running(frameworks, name)))
        waiting = {"first": "second", "second": "first"}[running]
        queued.waits(waiting)
        player.plan = {}
        for name in (running, waiting):
            frameworks.wait(name, "Completed")


def is_running(frameworks: Frameworks, name: str) -> bool:
    return str(frameworks.status(name)["state"]) == "AttemptRunning"


def _one(found: Iterable[str]) -> str:
    names = list(found)
    assert len(names) == 1, names
    return names[0]
