"""Queues of a real Kueue while programs die, come late, or are configured otherwise."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from frameworkcontroller.api.workload import QUEUE_LABEL
from testkit import kueue
from testkit.frameworks import ControllerProcess, role
from testkit.waiting import eventually
from tests.support.background import in_background
from tests.support.clusters import require_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster import Cluster
    from localcluster.client import Json, RawClient
    from tests.support.player import Player
    from tests.support.queued import Queued

pytestmark = [pytest.mark.apiserver, pytest.mark.long, pytest.mark.turns("queues")]
LEAVES_PODS_ALONE = "ConfigMap.v1."


def workers(number: int, **more: Any) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return role("worker", number, pod={"spec": {"containers": [container]}}, **more)


@pytest.fixture(scope="module")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kueue.Kueue]:
    """Kueue, which a test starts as it wants it."""
    require_node()
    kueue.grant(cluster)
    made = kueue.Kueue(cluster, tmp_path_factory.mktemp("kueue"))
    yield made
    made.stop()


def restarted(process: kueue.Kueue, **changes: Any) -> None:
    process.stop()
    if not process.is_installed:
        process.install()
    integrations = process.configuration()["integrations"] | {"externalFrameworks": [LEAVES_PODS_ALONE]}
    process.start(integrations=integrations, **changes)


def test_nothing_starts_before_kueue_is_there(
    queueing: ControllerProcess,
    installed: kueue.Kueue,
    raw: RawClient,
    namespace: str,
    queued: Queued,
    player: Player,
) -> None:
    queued.create("one", workers(2))
    assert "is Kueue installed" in queued.waits("one", "QueueUnknown")
    queued.frameworks.create("none", workers(1))
    with player.playing():
        queued.frameworks.wait("none", "Completed")
        assert queued.frameworks.status("one")["state"] == "AttemptCreationPending"
        assert not installed.is_installed
        restarted(installed)
        kueue.quota(raw, namespace)
        queued.frameworks.wait("one", "Completed", 60)
    queued.expect("one", Finished=True)


def test_a_controller_that_is_killed_thirty_times_runs_no_more_than_there_is_quota_for(
    queueing: ControllerProcess,
    installed: kueue.Kueue,
    raw: RawClient,
    namespace: str,
    queued: Queued,
    player: Player,
) -> None:
    restarted(installed)
    kueue.quota(raw, namespace, cpu="6", preemption={"withinClusterQueue": "LowerPriority"})
    for name, value in (("low", 1), ("high", 100)):
        kueue.apply(raw, "WorkloadPriorityClass", name, {"value": value})
    frameworks, most = queued.frameworks, 0
    names = [f"fw{number}" for number in range(12)]

    def look() -> None:
        nonlocal most
        most = max(
            most, sum(one["status"].get("phase") in {None, "Pending", "Running"} for one in frameworks.pods().values())
        )

    with player.playing(), in_background(look, every=0.05):
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


def test_kueue_is_killed_and_the_queue_goes_on_when_it_is_back(
    queueing: ControllerProcess,
    installed: kueue.Kueue,
    raw: RawClient,
    namespace: str,
    queued: Queued,
    player: Player,
) -> None:
    restarted(installed)
    kueue.quota(raw, namespace, cpu="2")
    frameworks = queued.frameworks
    player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
    with player.playing():
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
        restarted(installed)
        for name in ("two", "three"):
            frameworks.wait(name, "Completed", 90)
    for name in ("one", "two", "three"):
        queued.expect(name, Finished=True, timeout=60)


def test_two_hundred_are_admitted_in_the_order_of_their_creation(
    queueing: ControllerProcess,
    installed: kueue.Kueue,
    raw: RawClient,
    namespace: str,
    queued: Queued,
    player: Player,
) -> None:
    restarted(installed)
    kueue.quota(raw, namespace, cpu="10", queueingStrategy="StrictFIFO")
    names = [f"fw{number:03}" for number in range(200)]
    with player.playing():
        for name in names:
            queued.create(name, workers(1))
        queued.frameworks.wait(names[-1], "Completed", 300)
        for name in names:
            queued.frameworks.wait(name, "Completed", 60)

    def finished() -> list[tuple[str, str]]:
        found = []
        for one in raw.get(f"{kueue.API}/namespaces/{namespace}/workloads")["items"]:
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


def test_pods_of_frameworks_are_left_alone_whatever_kueue_takes(
    queueing: ControllerProcess,
    cluster: Cluster,
    installed: kueue.Kueue,
    raw: RawClient,
    namespace: str,
    queued: Queued,
    player: Player,
) -> None:
    restarted(installed)
    kueue.quota(raw, namespace, local="default")
    with player.playing():
        queued.create("one", workers(2), queue="default")
        queued.frameworks.create("two", workers(2))
        for name in ("one", "two"):
            status = queued.frameworks.wait(name, "Completed")
            # A Pod that is ahead of Kueue's cache is refused, and tried again: that ends nothing.
            assert (status["attemptStatus"]["completionStatus"]["code"], status["attempts"]) == (0, 1)
        restarted(installed, manageJobsWithoutQueueName=True)
        queueing.stop()
        queueing.settings["kueue"]["manageFrameworksWithoutQueueName"] = True
        queueing.start()
        queued.create("three", workers(2), queue="default")
        queued.frameworks.create("four", workers(2))
        queued.frameworks.wait("three", "Completed")
        queued.waits("four", "NoQueue")
        raw.merge(f"{queued.frameworks.path}/four", {"metadata": {"labels": {QUEUE_LABEL: "default"}}})
        queued.frameworks.wait("four", "Completed")


def test_what_waits_stays_so_when_it_is_switched_off_and_what_runs_when_it_is_switched_on(
    queueing: ControllerProcess,
    installed: kueue.Kueue,
    raw: RawClient,
    namespace: str,
    queued: Queued,
    player: Player,
) -> None:
    restarted(installed)
    kueue.quota(raw, namespace, cpu="2")
    frameworks = queued.frameworks
    stay: dict[str, list[int | str]] = {"worker-0": ["stay"], "worker-1": ["stay"]}
    player.plan = dict(stay)

    def switch(enabled: bool) -> None:
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
        raw.merge(f"{frameworks.path}/waits", {"metadata": {"labels": {QUEUE_LABEL: None}}})
        frameworks.wait("waits", "AttemptRunning")
        switch(enabled=True)
        time.sleep(1)
        for name in ("free", "waits", "runs"):
            assert (frameworks.status(name)["state"], frameworks.status(name)["attempts"]) == ("AttemptRunning", 1)
        player.plan = {}
        for name in ("free", "waits", "runs"):
            frameworks.wait(name, "Completed")
    queued.expect("runs", Finished=True)


def test_a_gang_that_stays_at_its_barrier_gives_its_quota_to_the_next_one(
    queueing: ControllerProcess,
    installed: kueue.Kueue,
    raw: RawClient,
    namespace: str,
    queued: Queued,
    player: Player,
) -> None:
    backoff = {"timestamp": "Eviction", "backoffBaseSeconds": 3, "backoffMaxSeconds": 6}
    restarted(installed, waitForPodsReady={"timeout": "4s", "requeuingStrategy": backoff})
    kueue.quota(raw, namespace, cpu="2")
    frameworks = queued.frameworks
    queued.create("one", workers(2))
    frameworks.created("one-worker-0", "one-worker-1")
    queued.create("two", workers(2))

    def comes() -> None:
        for one in frameworks.pods().values():
            if one["metadata"].get("deletionTimestamp"):
                player.kubelet.finish_deletion(one)
        assert "two-worker-0" in frameworks.pods()

    eventually(comes, 60)
    assert frameworks.status("one")["attempts"] == 2
    with player.playing():
        for name in ("two", "one"):
            frameworks.wait(name, "Completed", 60)
    reasons = {event["reason"] for event in frameworks.events("one")}
    assert "FrameworkPreempted" in reasons
