"""What a user of kubectl expects of a Framework, and rare cases of its life, on a real API server."""

import json
import re

import pytest

from frameworkcontroller.api.names import BARRIER_LABEL
from localcluster import Cluster
from localcluster.client import Json
from testkit.frameworks import POD, ControllerProcess, Frameworks, role
from testkit.waiting import eventually
from tests.support.beside.kubelet import Kubelet
from tests.support.beside.player import Player

pytestmark = pytest.mark.apiserver
CONDITIONS = ("Complete", "Failed", "Ready", "Running", "Suspended")


def said(frameworks: Frameworks) -> dict[str, str]:
    """The last messages of the Events by reason."""
    return {event["reason"]: event["message"] for event in frameworks.events("fw")}


def test_conditions_follow_the_life_and_name_the_generation(
    controller: ControllerProcess, frameworks: Frameworks, player: Player, cluster: Cluster
) -> None:
    player.plan = {"worker-0": ["stay"]}
    frameworks.create("fw", role("worker", 1), executionType="Create")
    where = ("-n", frameworks.namespace, "framework/fw", "--timeout=200s")

    def are(*true: str) -> None:
        found = {name: condition["status"] for name, condition in frameworks.conditions("fw").items()}
        assert found == {name: str(name in true) for name in CONDITIONS}

    cluster.kubectl("wait", "--for=condition=Suspended", *where)
    assert frameworks.pods() == {}
    frameworks.merge("fw", executionType="Start")
    with player.playing():
        cluster.kubectl("wait", "--for=condition=Running", *where)
        status = frameworks.status("fw")
        are("Running", "Ready")
        assert status["observedGeneration"] == frameworks.get("fw")["metadata"]["generation"] == 2
        assert {condition["observedGeneration"] for condition in status["conditions"]} == {2}
        frameworks.merge("fw", description="another generation")
        cluster.kubectl("wait", "--for=jsonpath={.status.observedGeneration}=3", *where)
        player.plan = {}
        cluster.kubectl("wait", "--for=condition=Complete", *where)
    are("Complete", "Ready")


@pytest.mark.usefixtures("controller")
def test_a_gang_that_waits_names_the_missing_tasks_where_people_look(
    frameworks: Frameworks, kubelet: Kubelet, cluster: Cluster
) -> None:
    frameworks.create("fw", role("worker", 2, pod={"metadata": {"labels": {BARRIER_LABEL: "enabled"}}, **POD}))
    frameworks.created("fw-worker-0", "fw-worker-1")
    kubelet.run("fw-worker-0")
    kubelet.pending("fw-worker-1", "Unschedulable", "0/5 nodes are available: 5 Insufficient cpu")

    def late() -> None:
        """The condition comes first, after ten seconds."""
        found = frameworks.conditions("fw").get("GangReady", {})
        assert found.get("message") == "1/2: worker-1 Unschedulable: 5 Insufficient cpu"

    eventually(late, 20)
    where = ("-n", frameworks.namespace)
    head, line = cluster.kubectl("get", "fw", *where).strip().splitlines()
    assert line[head.index("GANG") :].split()[0] == "Unschedulable"
    assert "worker-1 Unschedulable: 5 Insufficient cpu" in cluster.kubectl("get", "fw", *where, "-o", "wide")
    kubelet.run("fw-worker-1")
    cluster.kubectl("wait", "--for=condition=GangReady", "framework/fw", "--timeout=200s", *where)

    def reported() -> None:
        assert "GangReady" in said(frameworks)
        # No webhook is registered here. Of both Pods one may be told last.
        missing = rf"Pod fw-worker-[01] carries the label {re.escape(BARRIER_LABEL)} and has no barrier"
        assert re.match(missing, said(frameworks)["BarrierMissing"])

    eventually(reported)


def test_history_lines_hold_the_last_state_of_deleted_objects(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": [9, 0]}
    frameworks.create("fw", role("worker", 1, retry={"fancyRetryPolicy": False, "maxRetryCount": 1}))
    with player.playing():
        frameworks.wait("fw", "Completed")
        frameworks.raw.delete(f"{frameworks.path}/fw")

        def kept() -> dict[str, list[Json]]:
            found: dict[str, list[Json]] = {}
            for line in controller.log.splitlines():
                if match := re.search(r": (\w+): ObjectSnapshot: (.+)", line):
                    found.setdefault(match[1], []).append(json.loads(match[2]))
            assert set(found) == {"OnTaskRetry", "OnPodDeletion", "OnFrameworkDeletion"}
            return found

        history = eventually(kept)
    retried = history["OnTaskRetry"][0]
    assert (retried["kind"], retried["metadata"]["name"]) == ("Task", "fw-worker-0")
    assert retried["status"]["attemptStatus"]["completionStatus"]["code"] == 9
    assert retried["metadata"]["uid"] == retried["status"]["instanceUID"]
    ends = [pod["status"]["containerStatuses"][0]["state"] for pod in history["OnPodDeletion"]]
    assert [end["terminated"]["exitCode"] for end in ends] == [9, 0]
    last = history["OnFrameworkDeletion"][-1]
    assert (last["kind"], last["status"]["state"]) == ("Framework", "Completed")
    assert last["spec"]["taskRoles"][0]["name"] == "worker"


def test_a_quota_is_waited_for(controller: ControllerProcess, frameworks: Frameworks, player: Player) -> None:
    quotas = f"/api/v1/namespaces/{frameworks.namespace}/resourcequotas"
    frameworks.raw.create(quotas, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}})

    def counted() -> None:
        assert frameworks.raw.get(f"{quotas}/few").get("status", {}).get("hard") == {"pods": "1"}

    eventually(counted)
    player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
    frameworks.create("fw", role("worker", 2))
    with player.playing():

        def one_runs() -> None:
            states = sorted(task["state"] for task in frameworks.tasks("fw").values())
            assert states == ["AttemptCreationPending", "AttemptRunning"]
            assert any("exceeded quota" in message for message in said(frameworks).values())

        eventually(one_runs, 20)
        frameworks.raw.delete(f"{quotas}/few")
        player.plan = {}
        frameworks.wait("fw", "Completed", 60)


def test_pods_go_by_force_after_their_graceful_timeout_and_frameworks_with_their_namespace(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    frameworks.create("fw", role("worker", 1, podGracefulDeletionTimeoutSec=2))
    frameworks.created("fw-worker-0")
    player.kubelet.run("fw-worker-0")
    frameworks.wait("fw", "AttemptRunning")
    frameworks.merge("fw", executionType="Stop")
    # No kubelet is simulated: without force the Pod would stay for ever.
    frameworks.wait("fw", "Completed", 20)
    assert frameworks.pods() == {}

    player.plan = {"worker-0": ["stay"]}
    frameworks.create("endless", role("worker", 1, retry={"fancyRetryPolicy": True, "maxRetryCount": -2}))
    with player.playing():
        frameworks.wait("endless", "AttemptRunning")
        frameworks.raw.delete(f"/api/v1/namespaces/{frameworks.namespace}")

        def gone() -> None:
            assert frameworks.raw.get(frameworks.path)["items"] == []
            assert frameworks.pods() == {}

        eventually(gone, 60)
