"""The startup probe of a sidecar on a real node: it costs next to nothing while it waits, and opens at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role
from testkit.waiting import eventually
from tests.e2e.pods import pod

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import RawClient
    from testkit.frameworks import Frameworks

pytestmark = pytest.mark.node

SETTLES_SEC = 5
WAITS_SEC = 20
# Prints when the barrier wrote its last file, and the time now.
REPORT = ["sh", "-c", "stat -c %.9Y /mnt/frameworkbarrier/generation; date +%s.%N; exec sleep 600"]


def test_the_probe_runs_rarely_while_the_gang_is_incomplete_and_the_application_starts_when_it_is_complete(
    cluster: Cluster, frameworks: Frameworks, raw: RawClient
) -> None:
    waits, late = pod(REPORT, mode="sidecar"), pod(REPORT, mode="sidecar")
    late["spec"]["schedulingGates"] = [{"name": "example.org/held"}]
    frameworks.create("fw", role("worker", 3, pod=waits), role("late", 1, pod=late))
    names = [f"fw-worker-{index}" for index in range(3)]

    def all_wait() -> None:
        for name in names:
            found = frameworks.pods().get(name, {"status": {}})
            states = found["status"].get("initContainerStatuses") or [{"state": {}}]
            assert "running" in states[0]["state"]
            assert "waiting" in cluster.kubectl("logs", name, "-c", "frameworkbarrier", "-n", frameworks.namespace)

    def failed_probes() -> dict[str, int]:
        found = dict.fromkeys(names, 0)
        for event in raw.get(f"/api/v1/namespaces/{frameworks.namespace}/events")["items"]:
            name = event["involvedObject"]["name"]
            if event["reason"] == "Unhealthy" and name in found:
                found[name] += (event.get("series") or event).get("count") or 1
        return found

    eventually(all_wait, 60, 0.3)
    # Until the barrier has its lock, each probe fails at once; Events arrive a little later.
    time.sleep(SETTLES_SEC)
    before = failed_probes()
    time.sleep(WAITS_SEC)
    failures = {name: count - before[name] for name, count in failed_probes().items()}
    for name in names:
        (state,) = frameworks.pods()[name]["status"]["containerStatuses"]
        assert "waiting" in state["state"], state

    raw.merge(f"/api/v1/namespaces/{frameworks.namespace}/pods/fw-late-0", {"spec": {"schedulingGates": None}})
    delays = {}

    def all_started() -> None:
        for name in names:
            (state,) = frameworks.pods()[name]["status"]["containerStatuses"]
            assert state["started"], state
            log = cluster.kubectl("logs", name, "-c", "main", "-n", frameworks.namespace).split()
            assert len(log) == 2, log
            delays[name] = float(log[1]) - float(log[0])

    eventually(all_started, 60, 0.3)
    print("failed probes", failures, "seconds from the gate to the application", delays)
    assert max(failures.values()) <= 3


def test_a_probe_that_waits_does_not_hold_up_the_end_of_its_pod(
    cluster: Cluster, frameworks: Frameworks, raw: RawClient
) -> None:
    waits, late = pod(REPORT, mode="sidecar"), pod(REPORT, mode="sidecar")
    waits["spec"]["terminationGracePeriodSeconds"] = 600
    late["spec"]["schedulingGates"] = [{"name": "example.org/held"}]
    frameworks.create("fw", role("worker", 1, pod=waits), role("late", 1, pod=late))

    def waiting() -> str:
        found = frameworks.pods().get("fw-worker-0", {"status": {}})
        (state,) = found["status"].get("initContainerStatuses") or [{"state": {}}]
        assert "running" in state["state"]
        # Before it handles signals, SIGTERM would be lost, because it is process 1.
        log = cluster.kubectl("logs", "fw-worker-0", "-c", "frameworkbarrier", "-n", frameworks.namespace)
        assert "waiting 1/2" in log, log
        return str(found["metadata"]["uid"])

    uid = eventually(waiting, 120, 0.3)
    # Until the probe has begun to wait.
    time.sleep(3)
    raw.delete(f"/api/v1/namespaces/{frameworks.namespace}/pods/fw-worker-0")

    def gone() -> None:
        assert frameworks.pods().get("fw-worker-0", {"metadata": {"uid": ""}})["metadata"]["uid"] != uid

    # The grace time is ten minutes.
    eventually(gone, 120, 0.3)
