"""Gangs of real Pods: what the application sees when it starts, and what happens while it must not start."""

import json
import time

import pytest

from localcluster import Cluster
from localcluster.client import Json
from localcluster.images import images
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.e2e import pods
from tests.e2e.pods import REPORT, log_of, python, reports, touch

pytestmark = pytest.mark.node

LOOKS = """
import os, socket
names = ("fw-worker-0", "fw-worker-1", "chief-0", "fw-chief-0." + os.environ["FC_FRAMEWORK_NAMESPACE"])
report({
    "TF_CONFIG": json.loads(os.environ["TF_CONFIG"]),
    "hosts": {name: socket.gethostbyname(name) for name in names},
    "own": socket.gethostbyname(socket.gethostname()),
    "files": sorted(os.listdir("/mnt/frameworkbarrier")),
    "token": os.path.exists("/var/run/secrets/kubernetes.io/serviceaccount/token"),
})
"""


def pod(*, cpu: str = "10m", **annotations: str) -> Json:
    return pods.pod(python(REPORT + LOOKS), requests={"cpu": cpu}, preset="tensorflow", **annotations)


def test_each_pod_of_a_gang_finds_its_peers_in_tf_config_and_in_etc_hosts(frameworks: Frameworks) -> None:
    frameworks.create("fw", role("chief", 1, pod=pod()), role("worker", 2, pod=pod()))
    reported, tasks = reports(frameworks), frameworks.tasks("fw")
    ips = {key: task["attemptStatus"]["podIP"] for key, task in tasks.items()}
    assert len(set(ips.values())) == 3
    for key, task in tasks.items():
        ends = task["attemptStatus"]["completionStatus"]["pod"]["containers"]
        assert {end["name"] for end in ends} == {"frameworkbarrier", "main"}
        seen = reported[key]
        kind, index = key.split("-")
        workers = [f"{ips['worker-0']}:2222", f"{ips['worker-1']}:2222"]
        assert seen["TF_CONFIG"] == {
            "cluster": {"chief": [f"{ips['chief-0']}:2222"], "worker": workers},
            "task": {"type": kind, "index": int(index)},
        }
        assert seen["hosts"] == {
            "fw-worker-0": ips["worker-0"],
            "fw-worker-1": ips["worker-1"],
            "chief-0": ips["chief-0"],
            f"fw-chief-0.{frameworks.namespace}": ips["chief-0"],
        }
        assert seen["own"] == ips[key]
        assert {"env", "hosts", "injector.sh", "run", "roster.json"} <= set(seen["files"])
        assert seen["token"] is False


def test_a_pod_that_cannot_be_scheduled_holds_the_gang_until_barriers_give_up_and_it_backs_off(
    cluster: Cluster, frameworks: Frameworks
) -> None:
    # Where the kubelet restarts a barrier that gives up, the attempt ends as well.
    rows = {"restarted": ("Always", "init"), "sidecar": ("Never", "sidecar")}
    for name, (policy, mode) in rows.items():
        # On a full machine a barrier has been seen to need 19 s until its first request.
        template = pod(timeout="60", mode=mode)
        template["spec"]["restartPolicy"] = policy
        frameworks.create(name, role("chief", 1, pod=template), role("huge", 1, pod=pod(timeout="60", cpu="1000")))
    frameworks.create(
        "fw",
        role("chief", 1, pod=pod(timeout="60")),
        role("worker", 1, pod=pod(timeout="60")),
        role("huge", 1, pod=pod(timeout="60", cpu="1000")),
        retryPolicy={"fancyRetryPolicy": True, "maxRetryCount": 0},
    )

    def says_who_is_missing_and_why() -> None:
        log = log_of(cluster, frameworks.namespace, "fw-worker-0")
        assert all(text in log for text in ("2/3", "huge-0", "Unschedulable")), log

    eventually(says_who_is_missing_and_why, 30, 0.5)
    for name in ("fw-chief-0", "fw-worker-0"):
        waiting = frameworks.pods()[name]
        assert waiting["status"]["phase"] == "Pending"
        assert "running" in waiting["status"]["initContainerStatuses"][0]["state"]

    def backs_off() -> Json:
        status = frameworks.status("fw")
        assert status["state"] == "AttemptCompleted", status["state"]
        assert status["retryPolicyStatus"]["retryDelaySec"] is not None
        return status

    status = eventually(backs_off, 90, 0.5)
    completion = status["attemptStatus"]["completionStatus"]
    assert (completion["code"], completion["phrase"]) == (201, "ContainerTransientConflictFailed")
    assert completion["type"]["attributes"] == ["Transient", "Conflict"]
    assert 60 <= status["retryPolicyStatus"]["retryDelaySec"] <= 900
    assert status["retryPolicyStatus"]["totalRetriedCount"] == 0
    assert [name for name in frameworks.pods() if name.startswith("fw-")] == []
    key = f"{completion['trigger']['taskRoleName']}-{completion['trigger']['taskIndex']}"
    ends = frameworks.tasks("fw")[key]["attemptStatus"]["completionStatus"]["pod"]["containers"]
    assert "huge-0" in next(end["message"] for end in ends if end["name"] == "frameworkbarrier")
    for name in rows:
        completion = frameworks.wait(name, "Completed", 150)["attemptStatus"]["completionStatus"]
        assert (completion["code"], completion["phrase"]) == (201, "ContainerTransientConflictFailed"), completion
        assert completion["trigger"]["taskRoleName"] == "chief"
        assert "huge-0" in completion["diagnostics"]
    assert frameworks.pods() == {}


def test_a_pod_that_waits_for_arrival_is_held_while_a_peer_with_an_address_runs_an_earlier_init_container(
    cluster: Cluster, frameworks: Frameworks
) -> None:
    arrives, stages = pod(wait_for="arrived"), pod(wait_for="arrived")
    waits = ["sh", "-c", "until test -e /tmp/data; do sleep 0.1; done"]
    image = {"image": images.reference("barrier"), "imagePullPolicy": "IfNotPresent"}
    stages["spec"]["initContainers"] = [{"name": "stage", "command": waits, **image}]
    frameworks.create("fw", role("chief", 1, pod=arrives), role("worker", 2, pod=stages))

    def one_has_arrived_of_three_with_addresses() -> None:
        found = frameworks.created("fw-chief-0", "fw-worker-0", "fw-worker-1")
        assert all(one["status"]["podIP"] for one in found.values())
        log = log_of(cluster, frameworks.namespace, "fw-chief-0")
        assert "waiting 1/3: worker-0 Pending: " in log, log

    eventually(one_has_arrived_of_three_with_addresses, 60, 0.3)
    touch(cluster, frameworks.namespace, "fw-worker-0", "stage", "/tmp/data")
    time.sleep(3)
    (main,) = frameworks.pods()["fw-chief-0"]["status"]["containerStatuses"]
    assert "waiting" in main["state"], "the gate is closed"
    roster = json.loads(frameworks.config_map("fw")["data"]["roster"])
    assert (roster["readiness"], roster["complete"]) == ("arrived", False)
    touch(cluster, frameworks.namespace, "fw-worker-1", "stage", "/tmp/data")
    reports(frameworks)
