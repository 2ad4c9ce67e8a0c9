"""In-place restart on a real node: a rank exits, and the whole gang runs again in the same Pods."""

import contextlib
import itertools

import pytest

from localcluster.client import RawClient
from testkit.frameworks import role
from testkit.waiting import eventually
from tests.e2e.gangs.ranks import NAME, Gang, rank
from tests.e2e.pods import events_of, pod
from tests.support.waiting import becomes

pytestmark = [
    pytest.mark.node,
    pytest.mark.requires_kubernetes("1.36", "the kubelet restarts all containers of a Pod by a rule"),
]

CRASHES = 3


def addresses(gang: Gang) -> dict[str, str]:
    return {name: one["status"]["podIP"] for name, one in gang.frameworks.pods().items()}


def is_said(gang: Gang, raw: RawClient, reason: str) -> None:
    assert events_of(raw, gang.frameworks, reason) != []


def test_each_crash_of_a_rank_starts_the_whole_gang_again_in_its_pods(gang: Gang, raw: RawClient) -> None:
    gang.create(3, rank(crashes=CRASHES))

    def has_pods() -> tuple[dict[str, str], dict[str, str]]:
        found = gang.frameworks.pods()
        assert len(found) == 3
        return {name: str(one["metadata"]["uid"]) for name, one in found.items()}, addresses(gang)

    before = eventually(has_pods, 60)
    assert (gang.run_together(3, epoch=CRASHES, timeout=150), addresses(gang)) == before
    runs = {name: gang.runs(name) for name in before[0]}
    # An epoch may be over before the applications of the others have begun.
    assert [one["epoch"] for one in runs["fw-worker-1"]] == list(range(CRASHES + 1))
    assert [{one["rank"] for one in each} for each in runs.values()] == [{"0"}, {"1"}, {"2"}]
    attempt = gang.attempt()
    assert (attempt["id"], attempt["gangRestarts"]) == (0, CRASHES)
    assert set(gang.causes()) <= {("Exited", "worker-1", 17), ("Exited", "worker-1", None)}
    assert {task["attemptStatus"]["id"] for task in gang.frameworks.tasks(NAME).values()} == {0}

    for reason in ("GangRestarting", "GangRestarted"):
        eventually(lambda reason=reason: is_said(gang, raw, reason), 30)  # type: ignore[misc]  # of this round


def test_whatever_else_ends_an_epoch_all_run_again_with_one_roster(gang: Gang, raw: RawClient) -> None:
    """The barrier is ended, a Pod is deleted, the gang is scaled up and down."""
    worker = gang.create(3, rank())
    before = gang.run_together(3, epoch=0)
    gang.execute(0, "frameworkbarrier", "kill -TERM 1")
    assert gang.run_together(3, epoch=1) == before
    raw.delete(f"{gang.frameworks.pods_path}/fw-worker-2")
    after = gang.run_together(3, epoch=2)
    assert {name for name, uid in after.items() if before[name] != uid} == {"fw-worker-2"}
    gang.frameworks.merge(NAME, taskRoles=[{**worker, "taskNumber": 4}])
    assert gang.run_together(4, epoch=3).items() > after.items()
    gang.frameworks.merge(NAME, taskRoles=[{**worker, "taskNumber": 2}])
    assert gang.run_together(2, epoch=4).items() < after.items()
    assert [reason for reason, *_ in gang.causes()] == ["Exited", "PodReplaced", "Rescaled", "Rescaled"]
    attempt = gang.attempt()
    assert (attempt["id"], attempt["gangRestarts"]) == (0, 1)


def test_a_gang_restarts_without_the_pods_that_have_no_barrier(gang: Gang, raw: RawClient) -> None:
    """They begin when the ranks are Ready; then one is lost, and no node is found for the next one."""
    template = {"spec": pod(["sleep", "3600"])["spec"]}
    retry = {"fancyRetryPolicy": False, "maxRetryCount": 3}
    tool = {**role("tool", 2, pod=template, retry=retry), "dependsOn": [{"name": "worker", "status": "Ready"}]}
    worker = gang.create(3, rank(), tool)
    before = gang.run_together(3, epoch=0)

    def tools(*states: str) -> dict[str, str]:
        tasks = gang.frameworks.tasks(NAME)
        found = [tasks[f"tool-{index}"] for index in (0, 1)]
        assert tuple(one["state"] for one in found) == states
        return {one["attemptStatus"]["podName"]: one["attemptStatus"]["podUID"] for one in found}

    begun = eventually(lambda: tools("AttemptRunning", "AttemptRunning"), 30)
    assert gang.run_together(3, epoch=0) == before
    tool["task"]["pod"] = {"spec": {**template["spec"], "nodeSelector": {"nobody": "has-this"}}}
    gang.frameworks.merge(NAME, taskRoles=[worker, tool])
    raw.delete(f"{gang.frameworks.pods_path}/fw-tool-0")

    def finds_no_node() -> dict[str, str]:
        tool_0 = gang.frameworks.pods()["fw-tool-0"]
        assert "Unschedulable" in {one.get("reason") for one in tool_0["status"]["conditions"]}
        return tools("AttemptPreparing", "AttemptRunning")

    now = eventually(finds_no_node, 60)
    assert {name for name, uid in now.items() if begun[name] != uid} == {"fw-tool-0"}
    assert gang.run_together(3, epoch=0) == before
    gang.do(1, "17")
    assert gang.run_together(3, epoch=1) == before
    assert finds_no_node() == now
    assert [cause[:2] for cause in gang.causes()] == [("Exited", "worker-1")]


def test_a_rank_that_a_probe_has_ended_comes_back_with_another_address(gang: Gang, raw: RawClient) -> None:
    """The kubelet ends the whole Pod, its sandbox too, before a rule starts it again; all learn the new address."""
    gang.create(3, rank(probed=True))
    before, earlier = gang.run_together(3, epoch=0), addresses(gang)
    gang.do(1, "hang")
    assert gang.run_together(3, epoch=1) == before
    now = addresses(gang)
    assert {name for name, address in now.items() if address != earlier[name]} == {"fw-worker-1"}
    for name in now:
        members = gang.runs(name)[-1]["members"]
        assert {f"fw-worker-{index}": address for index, address, *_ in members} == now
    ((reason, task, code),) = gang.causes()
    assert (reason, task) == ("Exited", "worker-1")
    assert code in {143, None}
    eventually(lambda: is_said(gang, raw, "SandboxChanged"), 30)


@pytest.mark.long
def test_ranks_may_die_in_any_way_two_at_once_and_during_the_restart(gang: Gang) -> None:
    gang.create(3, rank())
    before = gang.run_together(3, epoch=0)
    gang.kill(1)
    assert gang.run_together(3, epoch=1) == before
    gang.do(2, "oom")
    assert gang.run_together(3, epoch=2) == before
    gang.do(1, "3")
    assert gang.run_together(3, epoch=3) == before
    assert [(reason, task) for reason, task, _ in gang.causes()] == [
        ("Exited", task) for task in ("worker-1", "worker-2", "worker-1")
    ]
    codes = [code for _, _, code in gang.causes()]
    assert all(code in {seen, None} for code, seen in zip(codes, (137, 137, 3), strict=True)), codes

    gang.kill(0)
    gang.kill(2)

    def has_ended() -> None:
        assert gang.attempt()["gangEpoch"] > 3

    eventually(has_ended, 30, 0.1)
    # One restart of the gang or two: the second exit may be seen when all run again.
    assert gang.run_together(3) == before
    last = gang.attempt()["gangEpoch"]
    assert last in {4, 5}
    gang.do(1, "17")
    becomes(lambda: (gang.attempt()["gangEpoch"], gang.attempt()["gangReleased"]), (last + 1, 0), 30)
    for index in (0, 1, 2):
        # Whatever runs in the Pods at this moment; what does not run cannot be killed.
        with contextlib.suppress(AssertionError, KeyError, ProcessLookupError):
            gang.kill(index)
    assert gang.run_together(3) == before


@pytest.mark.long
def test_beyond_the_limit_an_exit_ends_the_attempt_of_its_task(gang: Gang) -> None:
    gang.create(3, rank(restart_limit="1"), retries=1)
    before = gang.run_together(3, epoch=0)
    gang.do(1, "17")
    assert gang.run_together(3, epoch=1) == before
    gang.do(1, "18")
    # The retry policy gives the Task a new Pod, which starts the others again.
    after = gang.run_together(3, epoch=2)
    assert {name for name, uid in after.items() if before[name] != uid} == {"fw-worker-1"}
    assert [reason for reason, *_ in gang.causes()] == ["Exited", "PodReplaced"]
    assert gang.frameworks.tasks(NAME)["worker-1"]["retryPolicyStatus"]["totalRetriedCount"] == 1


@pytest.mark.long
def test_fifty_restarts_in_a_row(gang: Gang) -> None:
    gang.create(3, rank(crashes=50, restart_limit="0"))
    gang.run_together(3, epoch=50, timeout=600)
    starts = [one["at"] for one in gang.runs("fw-worker-1")]
    seconds = [later - earlier for earlier, later in itertools.pairwise(starts)]
    print(f"first ten {[round(one, 1) for one in seconds[:10]]}, last ten {[round(one, 1) for one in seconds[-10:]]} s")
    # The kubelet holds nobody back.
    assert max(seconds[-10:]) < 10 + 3 * max(seconds[:10])
    assert gang.attempt()["gangRestarts"] == 50
