"""Queues of a real Kueue while programs die, come late, or are configured otherwise.

The first test needs a cluster without it, and the last ones configure it otherwise than those between them.
"""

import time

import pytest

from localcluster.client import Json, RawClient
from testkit import kueue
from testkit.frameworks import ControllerProcess
from testkit.waiting import eventually
from tests.support.background import in_background
from tests.support.beside.queued import CONFIG_MAPS, Queued, restarted, workers
from tests.support.waiting import answered, becomes

pytestmark = [pytest.mark.apiserver, pytest.mark.long, pytest.mark.turns("queues")]
QUEUED = {"kueue.x-k8s.io/queue-name": "main"}
GATED = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]


@pytest.mark.usefixtures("queueing")
def test_what_is_queued_waits_until_kueue_is_there_and_until_it_is_back(installed: kueue.Kueue, queued: Queued) -> None:
    frameworks, player = queued.frameworks, queued.player
    queued.create("early", workers(2))
    assert "is Kueue installed" in queued.waits("early", "QueueUnknown")
    frameworks.create("none", workers(1))
    with player.playing():
        frameworks.wait("none", "Completed")
        assert frameworks.status("early")["state"] == "AttemptCreationPending"
        assert not installed.is_installed
        restarted(installed, CONFIG_MAPS)
        queued.quota(cpu="2")
        frameworks.wait("early", "Completed", 60)
        queued.expect("early", Finished=True)

        player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
        queued.create("one", workers(2))
        frameworks.wait("one", "AttemptRunning")
        queued.create("two", workers(2))
        queued.expect("two", QuotaReserved=False)
        installed.kill()
        # Its webhooks are gone with it: a Workload cannot be made, nor be told anything.
        queued.create("three", workers(2))
        player.plan = {}
        frameworks.wait("one", "Completed")
        time.sleep(1)
        assert frameworks.status("two")["state"] == frameworks.status("three")["state"] == "AttemptCreationPending"
        restarted(installed, CONFIG_MAPS)
        for name in ("two", "three"):
            frameworks.wait(name, "Completed", 90)
    for name in ("one", "two", "three"):
        queued.expect(name, Finished=True, timeout=60)


@pytest.mark.usefixtures("running")
def test_a_controller_that_is_killed_thirty_times_runs_no_more_than_there_is_quota_for(
    queueing: ControllerProcess, queued: Queued
) -> None:
    queued.quota(cpu="6", preemption={"withinClusterQueue": "LowerPriority"})
    queued.priorities()
    frameworks, most = queued.frameworks, 0
    names = [f"fw{number}" for number in range(12)]

    def look() -> None:
        nonlocal most
        phases = [one["status"].get("phase") for one in frameworks.pods().values()]
        most = max(most, sum(phase in {None, "Pending", "Running"} for phase in phases))

    with queued.player.playing(), in_background(look, every=0.05):
        for number, name in enumerate(names):
            queued.create(name, workers(3), priority="high" if number % 4 == 3 else "low")
        for _ in range(30):
            time.sleep(0.4)
            queueing.kill()
            queueing.start()
        for name in names:
            status = frameworks.wait(name, "Completed", 90)
            assert status["attemptStatus"]["completionStatus"]["code"] == 0
            assert status["retryPolicyStatus"]["accountableRetriedCount"] == 0
            assert queued.expect(name, Finished=True)["Finished"]["reason"] == "Succeeded"
    assert 3 <= most <= 6


@pytest.mark.usefixtures("queueing", "running")
def test_two_hundred_are_admitted_in_the_order_of_their_creation(queued: Queued) -> None:
    queued.quota(cpu="10", queueingStrategy="StrictFIFO")
    names = [f"fw{number:03}" for number in range(200)]
    with queued.player.playing():
        for name in names:
            queued.create(name, workers(1))
        queued.frameworks.wait(names[-1], "Completed", 300)
        for name in names:
            queued.frameworks.wait(name, "Completed", 60)

    def finished() -> list[tuple[str, str]]:
        found = []
        for one in queued.raw.get(queued.workloads)["items"]:
            conditions = {condition["type"]: condition for condition in one["status"]["conditions"]}
            assert conditions.get("Finished", {}).get("reason") == "Succeeded"
            found.append((one["metadata"]["creationTimestamp"], conditions["QuotaReserved"]["lastTransitionTime"]))
        return found

    times = eventually(finished, 30)
    assert len(times) == 200
    # Kubernetes has whole seconds: of two of one second, any may be first.
    latest = ""
    for created in sorted({created for created, _ in times}):
        admitted = [admitted for one, admitted in times if one == created]
        assert min(admitted) >= latest, (created, min(admitted), latest)
        latest = max(admitted)


@pytest.mark.usefixtures("running")
def test_what_waits_stays_so_when_it_is_switched_off_and_what_runs_when_it_is_switched_on(
    queueing: ControllerProcess, queued: Queued
) -> None:
    queued.quota(cpu="2")
    frameworks, player = queued.frameworks, queued.player
    player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}

    def switch(*, enabled: bool) -> None:
        queueing.stop()
        queueing.settings["kueue"]["enabled"] = enabled
        queueing.start()

    with player.playing():
        queued.create("runs", workers(2))
        frameworks.wait("runs", "AttemptRunning")
        queued.create("waits", workers(2))
        queued.waits("waits")
        switch(enabled=False)
        assert "kueue.enabled is false" in queued.waits("waits", "QueueingDisabled")
        queued.create("free", workers(2))
        frameworks.wait("free", "AttemptRunning")
        assert "QueueIgnored" in {event["reason"] for event in frameworks.events("free")}
        assert frameworks.status("runs")["attempts"] == 1
        queued.label("waits", queue=None)
        frameworks.wait("waits", "AttemptRunning")
        switch(enabled=True)
        time.sleep(1)
        for name in ("free", "waits", "runs"):
            assert (frameworks.status(name)["state"], frameworks.status(name)["attempts"]) == ("AttemptRunning", 1)
        player.plan = {}
        for name in ("free", "waits", "runs"):
            frameworks.wait(name, "Completed")
    queued.expect("runs", Finished=True)


@pytest.mark.usefixtures("running")
def test_pods_of_frameworks_are_left_alone_whatever_kueue_takes(
    queueing: ControllerProcess, installed: kueue.Kueue, queued: Queued
) -> None:
    frameworks = queued.frameworks
    queued.quota(local="default")
    with queued.player.playing():
        queued.create("one", workers(2), queue="default")
        frameworks.create("two", workers(2))
        for name in ("one", "two"):
            status = frameworks.wait(name, "Completed")
            # A Pod that is ahead of Kueue's cache is refused, and tried again: that ends nothing.
            assert (status["attemptStatus"]["completionStatus"]["code"], status["attempts"]) == (0, 1)
        restarted(installed, CONFIG_MAPS, manageJobsWithoutQueueName=True)
        queueing.stop()
        queueing.settings["kueue"]["manageFrameworksWithoutQueueName"] = True
        queueing.start()
        queued.create("three", workers(2), queue="default")
        frameworks.create("four", workers(2))
        frameworks.wait("three", "Completed")
        queued.waits("four", "NoQueue")
        queued.label("four", queue="default")
        frameworks.wait("four", "Completed")


@pytest.mark.usefixtures("queueing")
def test_a_gang_that_stays_at_its_barrier_gives_its_quota_to_the_next_one(
    installed: kueue.Kueue, queued: Queued
) -> None:
    backoff = {"timestamp": "Eviction", "backoffBaseSeconds": 3, "backoffMaxSeconds": 6}
    restarted(installed, CONFIG_MAPS, waitForPodsReady={"timeout": "4s", "requeuingStrategy": backoff})
    queued.quota(cpu="2")
    frameworks = queued.frameworks
    queued.create("one", workers(2))
    frameworks.created("one-worker-0", "one-worker-1")
    queued.create("two", workers(2))

    def comes() -> None:
        for one in frameworks.pods().values():
            if one["metadata"].get("deletionTimestamp"):
                queued.player.kubelet.finish_deletion(one)
        assert "two-worker-0" in frameworks.pods()

    eventually(comes, 60)
    assert frameworks.status("one")["attempts"] == 2
    with queued.player.playing():
        for name in ("two", "one"):
            frameworks.wait(name, "Completed", 60)
    assert "FrameworkPreempted" in {event["reason"] for event in frameworks.events("one")}


def created(raw: RawClient, namespace: str, labels: dict[str, str]) -> list[str]:
    """Create a Pod whose controller is a ConfigMap with these labels; return its gates."""
    maps, pods = f"/api/v1/namespaces/{namespace}/configmaps", f"/api/v1/namespaces/{namespace}/pods"
    found = raw.create(maps, {"metadata": {"generateName": "attempt-", "labels": labels}})["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": found["name"], "uid": found["uid"], "controller": True}
    body: Json = {
        "metadata": {"name": f"{found['name']}-0", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    made = answered(lambda: raw.create(pods, body), 30)
    return [gate["name"] for gate in made["spec"].get("schedulingGates", [])]


def test_a_queue_named_default_takes_pods_of_frameworks_unless_kueue_knows_their_config_maps(
    installed: kueue.Kueue, raw: RawClient, namespace: str
) -> None:
    """Kueue's own integration for Pods, which is on by default, searches their owners for one that it manages.

    Their controller is the ConfigMap of the attempt, at which the search ends, unless the administrator names its kind
    as that of a job of others and lets Kueue read it.
    """
    restarted(installed)
    kueue.quota(raw, namespace)
    assert created(raw, namespace, QUEUED) == created(raw, namespace, {}) == []
    kueue.quota(raw, namespace, local="default")
    becomes(lambda: created(raw, namespace, QUEUED), GATED, 30)
    restarted(installed, "Framework.v1.frameworkcontroller.microsoft.com")
    becomes(lambda: created(raw, namespace, QUEUED), GATED, 30)
    restarted(installed, CONFIG_MAPS)
    assert created(raw, namespace, QUEUED) == []
    restarted(installed, CONFIG_MAPS, manageJobsWithoutQueueName=True)
    assert created(raw, namespace, QUEUED) == created(raw, namespace, {}) == []
