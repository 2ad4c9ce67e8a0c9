"""In-place restart on a real node: a rank exits, and the whole gang runs again in the same Pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from localcluster import LocalClusterError
from localcluster.frameworks import role
from localcluster.waiting import eventually
from tests.e2e.pods import pod, python

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import Json, RawClient
    from localcluster.frameworks import Frameworks

pytestmark = [
    pytest.mark.node,
    pytest.mark.requires_kubernetes("1.36", "the kubelet restarts all containers of a Pod by a rule"),
]

CRASHES = 3
# Keeps what it sees of its gang at each start in a volume, and prints all of it. Rank 1 exits as soon as it runs.
RANK = f"""
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with open("/mnt/frameworkbarrier/roster.json") as file:
    roster = json.load(file)
members = [[task[0], task[1], task[2], task[6]] for role in roster["taskRoles"] for task in role["tasks"]]
run = {{"epoch": roster["epoch"], "members": members, "rank": os.environ["RANK"], "at": time.time()}}
with open("/state/runs", "a") as file:
    file.write(json.dumps(run) + "\\n")
with open("/state/runs") as file:
    runs = file.read()
print(runs, end="")
if os.environ["FC_TASK_INDEX"] == "1" and len(runs.splitlines()) <= {CRASHES}:
    sys.exit(17)
while True:
    time.sleep(0.1)
"""


# The same, without crashes.
STEADY = RANK.replace('== "1" and', '== "none" and')


def rank(program: str = RANK) -> Json:
    template = pod(python(program), restart="in-place", preset="pytorch")
    template["spec"]["volumes"] = [{"name": "state", "emptyDir": {}}]
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    return template


def runs_of(name: str, cluster: Cluster, frameworks: Frameworks) -> list[dict[str, Any]]:
    """What the application of a Pod has seen at each of its starts; AssertionError while it does not run."""
    try:
        log = cluster.kubectl("logs", name, "-c", "main", "-n", frameworks.namespace)
    except LocalClusterError as error:
        raise AssertionError(error) from error
    return [json.loads(line) for line in log.splitlines()]


def identity_of(found: dict[str, Json]) -> dict[str, tuple[str, str]]:
    return {name: (one["metadata"]["uid"], one["status"]["podIP"]) for name, one in found.items()}


def test_each_crash_of_a_rank_starts_the_whole_gang_again_in_its_pods(
    cluster: Cluster, frameworks: Frameworks, raw: RawClient
) -> None:
    frameworks.create("fw", role("worker", 3, pod=rank()))

    def all_have_run_again() -> dict[str, list[dict[str, Any]]]:
        found = {name: runs_of(name, cluster, frameworks) for name in frameworks.pods()}
        assert {name: len(runs) for name, runs in found.items()} == dict.fromkeys(
            [f"fw-worker-{index}" for index in range(3)], CRASHES + 1
        )
        return found

    def has_pods() -> dict[str, tuple[str, str]]:
        found = frameworks.pods()
        assert [name for name, one in found.items() if one["status"].get("podIP")] == list(found)
        assert len(found) == 3
        return identity_of(found)

    before = eventually(has_pods, 60)
    runs = eventually(all_have_run_again, 150, 0.5)
    assert identity_of(frameworks.pods()) == before
    # Everybody has seen the same gang in each epoch, and nobody has run twice in one.
    (seen,) = {json.dumps([[one["epoch"], one["members"]] for one in each]) for each in runs.values()}
    epochs = [json.loads(seen)[number][0] for number in range(CRASHES + 1)]
    assert epochs == list(range(CRASHES + 1))
    for number in range(CRASHES):
        crash, back = runs["fw-worker-1"][number]["at"], max(each[number + 1]["at"] for each in runs.values())
        print(f"epoch {number + 1}: all ranks run {back - crash:.1f} s after the crash")
    assert [{one["rank"] for one in each} for each in runs.values()] == [{"0"}, {"1"}, {"2"}]
    attempt = frameworks.status("fw")["attemptStatus"]
    assert (attempt["id"], attempt["gangEpoch"], attempt["gangRestarts"]) == (0, CRASHES, CRASHES)
    assert {(one["task"], one.get("code")) for one in attempt["lastGangRestarts"]} <= {
        ("worker-1", 17),
        ("worker-1", None),
    }
    assert {task["attemptStatus"]["id"] for task in frameworks.tasks("fw").values()} == {0}

    def said() -> list[Json]:
        found = raw.get(f"/apis/events.k8s.io/v1/namespaces/{frameworks.namespace}/events")["items"]
        restarts = [one for one in found if one["reason"] in {"GangRestarting", "GangRestarted"}]
        assert {one["reason"] for one in restarts} == {"GangRestarting", "GangRestarted"}
        return restarts

    for event in eventually(said, 30):
        print(event["reason"], event["note"])


def test_whatever_else_ends_an_epoch_all_run_again_with_one_roster(
    cluster: Cluster, frameworks: Frameworks, raw: RawClient
) -> None:
    """The barrier is ended, a Pod is deleted, the gang is scaled up and down."""
    worker = role("worker", 3, pod=rank(STEADY), retry={"fancyRetryPolicy": False, "maxRetryCount": 3})
    frameworks.create("fw", worker)

    def run_in(epoch: int, size: int) -> dict[str, str]:
        """Wait until so many ranks run in this epoch; return the UIDs of their Pods."""

        def check() -> dict[str, str]:
            attempt, found = frameworks.status("fw")["attemptStatus"], frameworks.pods()
            assert (attempt.get("gangEpoch"), attempt.get("gangReleased")) == (epoch, size)
            assert len(found) == size
            last = {name: (runs_of(name, cluster, frameworks) or [{}])[-1] for name in found}
            assert {one.get("epoch") for one in last.values()} == {epoch}
            (members,) = {json.dumps(one["members"]) for one in last.values()}
            assert len(json.loads(members)) == size
            return {name: str(one["metadata"]["uid"]) for name, one in found.items()}

        return eventually(check, 90, 0.5)

    before = run_in(0, 3)
    inside = ["exec", "fw-worker-0", "-c", "frameworkbarrier", "-n", frameworks.namespace, "--"]
    cluster.kubectl(*inside, "python3", "-c", "import os; os.kill(1, 15)")
    assert run_in(1, 3) == before
    raw.delete(f"/api/v1/namespaces/{frameworks.namespace}/pods/fw-worker-2")
    after = run_in(2, 3)
    assert {name for name, uid in after.items() if before[name] != uid} == {"fw-worker-2"}
    frameworks.merge("fw", taskRoles=[{**worker, "taskNumber": 4}])
    assert run_in(3, 4).items() > after.items()
    frameworks.merge("fw", taskRoles=[{**worker, "taskNumber": 2}])
    assert run_in(4, 2).items() < after.items()
    attempt = frameworks.status("fw")["attemptStatus"]
    reasons = [one["reason"] for one in attempt["lastGangRestarts"]]
    assert reasons == ["Exited", "PodReplaced", "Rescaled", "Rescaled"]
    assert (attempt["id"], attempt["gangRestarts"]) == (0, 1)
