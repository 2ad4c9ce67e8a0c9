"""Frameworks in queues of a real Kueue, with its webhooks and the configuration of its chart; Pods are played."""

from typing import Any

import pytest

from localcluster import Cluster
from localcluster.client import Json, RawClient
from testkit import kueue
from testkit.frameworks import role
from testkit.restarting_gang import TEMPLATE, RestartingGang
from testkit.waiting import eventually
from tests.support.beside.queued import Queued, pod, workers
from tests.support.waiting import becomes

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.long,
    pytest.mark.turns("kueue"),
    pytest.mark.usefixtures("running", "queueing"),
]
NOW = "2026-01-01T00:00:00Z"
STAY: dict[str, list[int | str]] = {f"worker-{index}": ["stay"] for index in range(8)}


def test_of_the_gangs_of_the_example_one_waits_until_the_other_has_given_its_quota_back(
    cluster: Cluster, queued: Queued
) -> None:
    frameworks, player = queued.frameworks, queued.player
    for file in ("queue.yaml", "framework.yaml"):
        cluster.kubectl("apply", "-n", frameworks.namespace, "-f", f"examples/kueue/{file}")
    player.plan = dict(STAY)

    def one_runs() -> str:
        names = [name for name in ("first", "second") if frameworks.status(name)["state"] == "AttemptRunning"]
        assert len(names) == 1, names
        return names[0]

    with player.playing():
        running = eventually(one_runs)
        waiting = {"first": "second", "second": "first"}[running]
        assert "LocalQueue main" in queued.waits(waiting)
        assert set(frameworks.pods()) == {f"{running}-worker-{index}" for index in range(2)}
        queued.expect(running, Admitted=True, PodsReady=True)
        queued.expect(waiting, Admitted=False, QuotaReserved=False)
        player.plan = {}
        for name in (running, waiting):
            frameworks.wait(name, "Completed")
            assert queued.expect(name, Finished=True)["Finished"]["reason"] == "Succeeded"
    reasons = {event["reason"] for event in frameworks.events(waiting)}
    assert {"WaitingForAdmission", "FrameworkAdmitted"} <= reasons


@pytest.mark.parametrize("why", ["priority", "borrowed"])
def test_a_gang_gives_way_to_another_and_comes_back(raw: RawClient, namespace: str, queued: Queued, why: str) -> None:
    frameworks, player = queued.frameworks, queued.player
    if why == "priority":
        queued.quota(preemption={"withinClusterQueue": "LowerPriority"})
        queued.priorities()
        first, second = {"priority": "low"}, {"priority": "high"}
    else:
        kueue.flavor(raw, "pool-a")
        for name in ("a", "b"):
            borrows = {"cohortName": namespace, "preemption": {"reclaimWithinCohort": "Any"}}
            kueue.cluster_queue(raw, f"{namespace}-{name}", {"pool-a": "2"}, **borrows)
            kueue.local_queue(raw, namespace, name, f"{namespace}-{name}")
        first, second = {"queue": "a"}, {"queue": "b"}
    player.plan = dict(STAY)
    with player.playing():
        queued.create("one", workers(4), **first)
        frameworks.wait("one", "AttemptRunning")
        queued.create("two", workers(2, completion={"minSucceededTaskCount": 2}), **second)
        queued.waits("one")
        frameworks.wait("two", "AttemptRunning")
        queued.expect("one", Admitted=False, QuotaReserved=False, Requeued=True, PodsReady=False)
        status = frameworks.status("one")
        assert (status["attempts"], status["retryPolicyStatus"]["accountableRetriedCount"]) == (2, 0)
        player.plan = {}
        frameworks.wait("two", "Completed")
        frameworks.wait("one", "Completed")
    assert "FrameworkPreempted" in {event["reason"] for event in frameworks.events("one")}
    queued.expect("one", Finished=True)


def test_a_gang_that_has_restarted_in_its_pods_gives_way_and_comes_back(queued: Queued) -> None:
    queued.quota(preemption={"withinClusterQueue": "LowerPriority"})
    queued.priorities()
    frameworks = queued.frameworks
    spec = TEMPLATE["spec"] | {"containers": pod()["spec"]["containers"]}
    queued.create("low", role("worker", 3, pod=TEMPLATE | {"spec": spec}), priority="low")
    gang = RestartingGang(frameworks, "low", 3)

    def starts(epoch: int) -> None:
        eventually(gang.has_pods, 30)
        gang.report_all(epoch)
        eventually(lambda: gang.is_open(epoch))

    starts(0)
    pods, workload = gang.has_pods(), queued.workload("low")["metadata"]["uid"]
    gang.report(1, 0, restarting=True)
    eventually(lambda: gang.is_closed(1))
    starts(1)
    assert (gang.has_pods(), queued.workload("low")["metadata"]["uid"]) == (pods, workload), "admitted once for both"
    queued.create("high", workers(2), priority="high")

    def have_changed() -> None:
        gang.confirm_deletions()
        assert set(frameworks.pods()) == {"high-worker-0", "high-worker-1"}

    eventually(have_changed, 30)
    queued.waits("low")
    frameworks.merge("high", executionType="Stop")
    starts(0)
    status = frameworks.status("low")
    assert (status["attempts"], status["retryPolicyStatus"]["accountableRetriedCount"]) == (2, 0)
    assert queued.workload("low")["metadata"]["uid"] == workload


def test_pods_get_what_their_flavors_need(raw: RawClient, namespace: str, queued: Queued) -> None:
    taint = {"key": "pool", "value": "b", "effect": "NoSchedule"}
    toleration = {"key": "pool", "operator": "Equal", "value": "b", "effect": "NoSchedule"}
    a, b = (f"{namespace[-50:].strip('-')}-{name}" for name in ("a", "b"))
    kueue.flavor(raw, a, nodeLabels={"pool": "a"})
    kueue.flavor(raw, b, nodeLabels={"pool": "b"}, nodeTaints=[taint], tolerations=[toleration])
    kueue.cluster_queue(raw, namespace, {a: "2", b: "2"})
    kueue.local_queue(raw, namespace, "main", namespace)
    frameworks, player = queued.frameworks, queued.player
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


def test_a_check_that_fails_lets_it_wait_until_it_is_ready(raw: RawClient, namespace: str, queued: Queued) -> None:
    check = namespace[-60:].strip("-")
    kueue.apply(raw, "AdmissionCheck", check, {"controllerName": "test/by-hand"})
    path = f"{kueue.API}/admissionchecks/{check}/status"
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": NOW}
    raw.merge(path, {"status": {"conditions": [active]}})
    queued.quota(admissionChecksStrategy={"admissionChecks": [{"name": check}]})

    def set_check(state: str, **more: Any) -> None:
        entry = {"name": check, "state": state, "message": "by hand", "lastTransitionTime": NOW, **more}
        raw.merge(f"{queued.path_of('one')}/status", {"status": {"admissionChecks": [entry]}})

    frameworks, player = queued.frameworks, queued.player
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


def test_what_kueue_cannot_take_waits_with_the_reason_and_is_queued_once_it_is_mended(
    raw: RawClient, namespace: str, queued: Queued
) -> None:
    kueue.flavor(raw, "pool-c", nodeLabels={"pool": "c"})
    kueue.cluster_queue(raw, namespace, {"pool-c": "4"})
    kueue.local_queue(raw, namespace, "main", namespace)
    frameworks = queued.frameworks
    template = pod() | {"metadata": {"labels": {"kueue.x-k8s.io/podset": "mine"}}}
    queued.create("contradicts", workers(2, pod=template))
    queued.create("roles", *(role(f"r{number}", 1, pod=pod()) for number in range(19)))
    queued.create("queue", workers(1), queue="none")
    queued.create("class", workers(1), priority="none")
    text = queued.waits("contradicts", "AdmissionConflict")
    label = "labels[kueue.x-k8s.io/podset]"
    assert text == f"Pod template of TaskRole worker: {label} is 'mine', and the admission says 'worker'"
    assert queued.expect("contradicts", Finished=True)["Finished"]["message"] == text
    assert "at most 18, found 19 TaskRoles" in queued.waits("roles", "WorkloadRefused")
    queued.waits("queue")
    assert "none" in queued.waits("class", "WorkloadRefused")
    with queued.player.playing():
        frameworks.merge("contradicts", taskRoles=[workers(2)])
        queued.label("queue", queue="main")
        queued.label("class", priority=None)
        for name in ("contradicts", "queue", "class"):
            frameworks.wait(name, "Completed")
    assert queued.expect("contradicts", Finished=True)["Finished"]["reason"] == "Succeeded"
    frameworks.merge("roles", taskRoles=[role(f"r{number}", 0, pod=pod()) for number in range(18)])
    queued.expect("roles", Admitted=True)


def test_a_gang_gives_back_what_it_needs_no_more_and_queues_again_for_more(
    raw: RawClient, namespace: str, queued: Queued
) -> None:
    queued.quota()
    frameworks, player = queued.frameworks, queued.player
    player.plan = dict(STAY)
    never = {"minFailedTaskCount": -1, "minSucceededTaskCount": -1}

    def reclaimed(name: str, number: int) -> Json:
        found = queued.workload(name)
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
        assert queued.workload("one")["metadata"]["uid"] != first["metadata"]["uid"]
        assert frameworks.status("one")["retryPolicyStatus"]["accountableRetriedCount"] == 0


def test_it_is_suspended_resumed_and_deleted_in_the_queue_and_while_it_runs_and_its_workload_alone(
    raw: RawClient, queued: Queued
) -> None:
    queued.quota(cpu="2")
    frameworks, player = queued.frameworks, queued.player
    player.plan = dict(STAY)

    with player.playing():
        queued.create("one", workers(2))
        frameworks.wait("one", "AttemptRunning")
        queued.create("two", workers(2))
        queued.waits("two")
        frameworks.merge("two", suspend=True)
        queued.waits("two", "Suspended")
        becomes(queued.listed, {"one"})
        frameworks.merge("one", suspend=True)
        queued.waits("one", "Suspended")
        becomes(queued.listed, set())
        assert frameworks.pods() == {}
        for name in ("two", "one"):
            frameworks.merge(name, suspend=False)
            frameworks.wait("two", "AttemptRunning")
        queued.waits("one")
        frameworks.merge("two", suspend=True)
        frameworks.wait("one", "AttemptRunning")
        # One runs, two waits, and three is the next when both are deleted.
        frameworks.merge("two", suspend=False)
        queued.waits("two")
        queued.create("three", workers(2))
        queued.waits("three")
        raw.delete(f"{frameworks.path}/two")
        raw.delete(f"{frameworks.path}/one")
        frameworks.wait("three", "AttemptRunning")
        uid = queued.workload("three")["metadata"]["uid"]
        raw.delete(queued.path_of("three"))

        def is_another() -> None:
            assert queued.workload("three")["metadata"]["uid"] != uid

        eventually(is_another)
        frameworks.wait("three", "AttemptRunning")
        assert frameworks.status("three")["attempts"] == 2
        assert queued.listed() == {"three"}


def test_topology_of_three_levels_chooses_the_nodes(raw: RawClient, namespace: str, queued: Queued) -> None:
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
    frameworks, player = queued.frameworks, queued.player
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
