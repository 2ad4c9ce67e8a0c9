"""The startup probe of a sidecar on a real node: it costs next to nothing while it waits, and opens at once."""

import time

import pytest

from localcluster import Cluster
from localcluster.client import RawClient
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.e2e.pods import log_of, pod

pytestmark = pytest.mark.node

SETTLES_SEC = 5
WAITS_SEC = 20
# Prints when the barrier wrote its last file, and the time now.
REPORT = ["sh", "-c", "stat -c %.9Y /mnt/frameworkbarrier/generation; date +%s.%N; exec sleep 600"]
NAMES = tuple(f"fw-worker-{index}" for index in range(3))


def test_a_probe_that_waits_runs_rarely_holds_up_no_end_and_lets_the_application_start_with_the_gang(
    cluster: Cluster, frameworks: Frameworks, raw: RawClient
) -> None:
    waits, late, ends = (pod(REPORT, mode="sidecar") for _ in range(3))
    late["spec"]["schedulingGates"] = [{"name": "example.org/held"}]
    ends["spec"]["terminationGracePeriodSeconds"] = 3600
    frameworks.create("fw", role("worker", 3, pod=waits), role("late", 1, pod=late))
    frameworks.create("ended", role("worker", 1, pod=ends), role("late", 1, pod=late))

    def all_wait() -> str:
        for name in (*NAMES, "ended-worker-0"):
            found = frameworks.pods()[name]
            assert "running" in found["status"]["initContainerStatuses"][0]["state"]
            # Before it handles signals, SIGTERM would be lost, because it is process 1.
            assert "waiting" in log_of(cluster, frameworks.namespace, name)
        return str(found["metadata"]["uid"])

    def failed_probes() -> dict[str, int]:
        found = dict.fromkeys(NAMES, 0)
        for event in raw.get(f"/api/v1/namespaces/{frameworks.namespace}/events")["items"]:
            name = event["involvedObject"]["name"]
            if event["reason"] == "Unhealthy" and name in found:
                found[name] += (event.get("series") or event).get("count") or 1
        return found

    uid = eventually(all_wait, 120, 0.3)
    # Until the barrier has its lock, each probe fails at once; Events arrive a little later.
    time.sleep(SETTLES_SEC)
    before = failed_probes()
    raw.delete(f"{frameworks.pods_path}/ended-worker-0")
    time.sleep(WAITS_SEC)
    failures = {name: count - before[name] for name, count in failed_probes().items()}
    for name in NAMES:
        (state,) = frameworks.pods()[name]["status"]["containerStatuses"]
        assert "waiting" in state["state"], state

    def ended() -> None:
        assert frameworks.pods().get("ended-worker-0", {"metadata": {"uid": ""}})["metadata"]["uid"] != uid

    # The grace time is an hour.
    eventually(ended, 120, 0.3)
    raw.merge(f"{frameworks.pods_path}/fw-late-0", {"spec": {"schedulingGates": None}})

    def all_started() -> dict[str, float]:
        delays = {}
        for name in NAMES:
            (state,) = frameworks.pods()[name]["status"]["containerStatuses"]
            assert state["started"], state
            log = log_of(cluster, frameworks.namespace, name, "main").split()
            assert len(log) == 2, log
            delays[name] = float(log[1]) - float(log[0])
        return delays

    print("failed probes", failures, "seconds from the gate to the application", eventually(all_started, 60, 0.3))
    assert max(failures.values()) <= 3
