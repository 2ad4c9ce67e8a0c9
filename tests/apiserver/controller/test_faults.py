"""The API server is away, two controllers compete, gangs restart: nothing is lost or done twice."""

import time
import urllib.error
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import Cluster
from localcluster.client import Json, RawClient
from localcluster.processes.ports import free_port
from testkit.frameworks import ControllerProcess, Frameworks, role, two_controllers
from testkit.restarting_gang import RestartingGang
from testkit.waiting import eventually
from tests.apiserver.conftest import ends_cleanly
from tests.support.background import in_background
from tests.support.beside.player import Player
from tests.support.beside.proxy import Proxy
from tests.support.beside.refusals import judged
from tests.support.http import fetch

pytestmark = pytest.mark.apiserver

TASKS, CRASHES = 3, 5
RETRY = {"fancyRetryPolicy": True, "maxRetryCount": 1}


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    with Proxy(cluster) as between:
        yield between


@pytest.fixture
def behind(cluster: Cluster, proxy: Proxy, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A controller that knows the API server only through the proxy."""
    server = proxy.url
    process = ControllerProcess(cluster, tmp_path, {"namespaces": [namespace]}, health_port=free_port(), server=server)
    with ends_cleanly(process):
        yield process


def test_connections_that_break_all_the_time_change_nothing_but_the_pace(
    behind: ControllerProcess, proxy: Proxy, frameworks: Frameworks, player: Player
) -> None:
    dropped: list[int] = []

    def drop() -> None:
        # Each time a little later: in a fixed time a busy machine might not even greet the server.
        time.sleep(0.25 * 1.05 ** len(dropped))
        dropped.append(proxy.drop())

    behind.start()
    player.plan = {"worker-0": [3, 0], "worker-2": ["stay", "stay"]}
    workers = role("worker", 4, retry=RETRY, completion={"minSucceededTaskCount": 3})
    with in_background(drop), player.playing():
        frameworks.create("fw", workers, retryPolicy=RETRY)
        status = frameworks.wait("fw", "Completed", 90)
    assert sum(dropped) >= 5, "the test must have done what it says"
    assert status["attemptStatus"]["completionStatus"]["code"] == 0
    tasks = [frameworks.tasks("fw")[f"worker-{index}"] for index in range(4)]
    assert [task["retryPolicyStatus"]["accountableRetriedCount"] for task in tasks] == [1, 0, 0, 0]
    # A create whose answer was lost is found again, not answered with another attempt.
    assert [task["attemptStatus"]["id"] for task in tasks] == [1, 0, 0, 0]


def test_while_the_api_server_is_away_at_the_start_or_later_the_process_is_healthy_and_goes_on_afterwards(
    behind: ControllerProcess, proxy: Proxy, frameworks: Frameworks, player: Player
) -> None:
    def answers(ready: int) -> None:
        try:
            assert fetch(behind.health_port, "/readyz")[0] == ready
        except urllib.error.URLError as error:
            raise AssertionError(str(error)) from error
        assert fetch(behind.health_port, "/healthz") == (200, "ok\n")

    proxy.cut()
    behind.start(works=False)
    eventually(lambda: answers(503))
    proxy.restore()
    eventually(lambda: answers(200), 60)
    player.plan = {"worker-0": ["stay"]}
    with player.playing():
        frameworks.create("fw", role("worker", 1))
        frameworks.wait("fw", "AttemptRunning")
        uid = frameworks.pods()["fw-worker-0"]["metadata"]["uid"]
        proxy.cut()
        # What happens meanwhile is seen later: the Pod ends, and the user asks for another.
        player.plan = {}
        for _ in range(3):
            assert fetch(behind.health_port, "/healthz") == (200, "ok\n")
            time.sleep(0.5)
        assert frameworks.status("fw")["state"] == "AttemptRunning"
        proxy.restore()
        frameworks.wait("fw", "Completed", 60)
    task = frameworks.tasks("fw")["worker-0"]
    assert (task["attemptStatus"]["podUID"], task["attemptStatus"]["completionStatus"]["code"]) == (uid, 0)


ANSWERS = (
    (404, "NotFound"),
    (409, "AlreadyExists"),
    (401, "Unauthorized"),
    (409, "Conflict"),
    (410, "Gone"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
)


@pytest.mark.usefixtures("controller")
def test_whatever_a_webhook_answers_says_nothing_of_the_object_and_changes_nothing_but_the_pace(
    cluster: Cluster, raw: RawClient, frameworks: Frameworks, player: Player
) -> None:
    asked, refused = Counter[str](), Counter[str]()

    def judge(request: Json) -> Json | None:
        kind = f"{request['operation']} {request['requestKind']['kind']}"
        asked[one := f"{kind} {request['name']}"] += 1
        if asked[one] % 2 == 0:
            return None
        code, reason = ANSWERS[refused[kind] % len(ANSWERS)]
        refused[kind] += 1
        return {"code": code, "reason": reason, "message": f"{reason} x" * 300}

    player.plan = {"worker-0": [3, 0]}
    workers = role("worker", len(ANSWERS), retry=RETRY, completion={"minSucceededTaskCount": len(ANSWERS)})
    with judged(cluster, raw, frameworks.namespace, judge), player.playing():
        frameworks.create("fw", workers)
        status = frameworks.wait("fw", "Completed", 120)
        frameworks.created()
    assert status["attemptStatus"]["completionStatus"]["code"] == 0, status
    ids = [frameworks.tasks("fw")[f"worker-{index}"]["attemptStatus"]["id"] for index in range(len(ANSWERS))]
    assert ids == [1] + [0] * (len(ANSWERS) - 1)
    assert all(refused[kind] >= len(ANSWERS) for kind in ("CREATE Pod", "DELETE Pod")), refused


def restart_again_and_again(frameworks: Frameworks) -> None:
    """Each time another rank ends, two at once every other time; the others follow, as kubelets would report."""
    gang = RestartingGang(frameworks, "gang", TASKS)
    gang.create()

    def begun() -> None:
        # Controllers that compete may replace Pods before all are in the status.
        gang.confirm_deletions()
        gang.has_pods()
        gang.report_all(0)
        gang.is_open(0)

    eventually(begun)
    pods = gang.has_pods()
    for crash in range(1, CRASHES + 1):
        for index in {crash % TASKS, (crash + crash % 2) % TASKS}:
            gang.report(index, crash - 1, restarting=True)
        roster = eventually(lambda epoch=crash: gang.is_closed(epoch))
        assert "worker-" in roster["why"]
        gang.report_all(crash)
        eventually(lambda epoch=crash: gang.is_open(epoch))
    assert gang.has_pods() == pods, "restarts need no new Pods"
    attempt = frameworks.status("gang")["attemptStatus"]
    assert (attempt["id"], attempt["gangEpoch"], attempt["gangRestarts"]) == (0, CRASHES, CRASHES)


@pytest.mark.usefixtures("controller")
def test_a_gang_restarts_in_its_pods_and_says_so(frameworks: Frameworks) -> None:
    restart_again_and_again(frameworks)
    restarts = frameworks.status("gang")["attemptStatus"]["lastGangRestarts"]
    assert [one["epoch"] for one in restarts] == list(range(1, CRASHES + 1))
    assert {task["attemptStatus"]["starts"] for task in frameworks.tasks("gang").values()} == {CRASHES + 1}

    def said() -> None:
        assert {"GangRestarting", "GangRestarted"} <= {event["reason"] for event in frameworks.events("gang")}

    eventually(said)


def test_two_controllers_that_compete_do_as_one_would(
    cluster: Cluster, frameworks: Frameworks, player: Player, tmp_path: Path
) -> None:
    """Both act as the leader, which no election can rule out completely."""
    names = [f"fw{number}" for number in range(5)]
    player.plan = {"worker-0": [3, 0]}
    workers = role("worker", 3, retry=RETRY, completion={"minSucceededTaskCount": 3})
    competitors = two_controllers(cluster, tmp_path, {"namespaces": [frameworks.namespace]})
    with ends_cleanly(*competitors):
        for controller in competitors:
            controller.start()
        with player.playing():
            for name in names:
                frameworks.create(name, workers, retryPolicy=RETRY)
            for name in names:
                completion = frameworks.wait(name, "Completed", 90)["attemptStatus"]["completionStatus"]
                assert (completion["code"], completion["phrase"]) == (0, "Succeeded"), completion
                # One retry because of the exit code 3; conflicts between the replicas are not counted as retries.
                retried = frameworks.tasks(name)["worker-0"]["retryPolicyStatus"]
                assert retried["accountableRetriedCount"] == 1, retried
            frameworks.created()
        restart_again_and_again(frameworks)
