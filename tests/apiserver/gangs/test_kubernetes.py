"""Frameworks whose Pods a real kube-scheduler places in groups, on two simulated nodes with room for three each."""

import random
import time

import pytest

from localcluster.client import RawClient
from testkit.frameworks import ControllerProcess
from testkit.waiting import eventually
from tests.apiserver.gangs.conftest import ZONE
from tests.support.beside.gangs import Gangs
from tests.support.frameworkctl import Frameworkctl
from tests.support.waiting import becomes

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.turns("gangs"),
    pytest.mark.requires_kubernetes("1.37", "kube-scheduler places groups of scheduling.k8s.io/v1beta1"),
    pytest.mark.usefixtures("nodes", "grouping"),
]
KILLS = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Seconds after a gang was created."""
NEVER = 45
"""Seconds without any progress after which a mix of gangs is taken for stuck."""


@pytest.fixture
def scheduler() -> str:
    return "kubernetes"


@pytest.fixture
def gangs(raw: RawClient, namespace: str) -> Gangs:
    return Gangs(raw, namespace)


def test_of_two_gangs_that_would_each_hold_half_one_is_placed_after_the_other(gangs: Gangs, ctl: Frameworkctl) -> None:
    gangs.start("first", 4)
    gangs.start("second", 4)

    def one_has_all() -> str:
        placed = {name: len(gangs.nodes_of(name)) for name in ("first", "second")}
        assert sorted(placed.values()) == [0, 4]
        return max(placed, key=placed.__getitem__)

    running = eventually(one_has_all, 60)
    waiting = {"first": "second", "second": "first"}[running]
    gangs.waits(waiting, 4)
    assert gangs.told(4) in ctl("why", waiting).output
    gangs.merge(running, executionType="Stop")
    gangs.runs_whole(waiting, 4)
    if gangs.tells:
        assert eventually(lambda: gangs.conditions(waiting)["GangScheduled"])["reason"] == "Scheduled"


def test_a_gang_is_preempted_whole_and_is_retried_without_being_counted(gangs: Gangs) -> None:
    gangs.start("low", 4)
    gangs.runs_whole("low", 4)
    gangs.start("high", 5, priority="high")
    gangs.runs_whole("high", 5)

    def is_next() -> None:
        status = gangs.status("low")
        assert status["attemptStatus"]["id"] == 1
        assert status["retryPolicyStatus"]["totalRetriedCount"] == 1
        assert status["retryPolicyStatus"]["accountableRetriedCount"] == 0

    eventually(is_next, timeout=60)
    (event,) = [event for event in gangs.events("low") if event["reason"] == "FrameworkPreempted"]
    assert "preempting to accommodate a higher priority pod" in event["message"]
    gangs.waits("low", 4)


def test_all_pods_of_a_group_are_in_one_zone(gangs: Gangs, nodes: list[str]) -> None:
    gangs.start("three", 3, asked={"topologyKey": ZONE})
    gangs.runs_whole("three", 3)
    assert set(gangs.nodes_of("three")) in [{node} for node in nodes]
    gangs.start("four", 4, asked={"topologyKey": ZONE})
    gangs.waits("four", 4)


def test_a_pod_that_is_made_again_is_placed_alone_in_its_group(raw: RawClient, gangs: Gangs) -> None:
    gangs.start("gang", 4, retry={"maxRetryCount": 3})
    gangs.runs_whole("gang", 4)
    before = gangs.pods()["gang-worker-2"]["metadata"]["uid"]
    raw.delete(f"{gangs.pods_path}/gang-worker-2")

    def is_another() -> None:
        assert gangs.pods()["gang-worker-2"]["metadata"]["uid"] != before
        gangs.assert_whole("gang", 4)

    eventually(is_another)


def test_a_rescale_changes_how_many_are_placed_together(gangs: Gangs) -> None:
    name = "g" * 63
    gangs.start(name, 8, asked={"groupPer": "TaskRole"})
    gangs.waits(name, 8)
    for number in (3, 6):
        gangs.merge(name, taskRoles=[gangs.workers(number)])
        gangs.runs_whole(name, number)


def test_a_controller_that_is_killed_at_each_step_groups_the_gang_all_the_same(
    gangs: Gangs, grouping: ControllerProcess
) -> None:
    for number, seconds in enumerate(KILLS):
        gangs.start(f"gang{number}", 4)
        time.sleep(seconds)
        grouping.kill()
        grouping.start()
        gangs.runs_whole(f"gang{number}", 4)
        gangs.raw.delete(f"{gangs.path}/gang{number}")


def test_mixes_of_gangs_on_full_nodes_end_all(gangs: Gangs) -> None:
    assert [seed for seed in range(2) if not _ends(gangs, seed)] == []


@pytest.mark.long
def test_twenty_mixes_of_gangs_end_all_and_some_never_do_without_groups(gangs: Gangs) -> None:
    assert [seed for seed in range(20) if not _ends(gangs, seed)] == []
    alone = Gangs(gangs.raw, gangs.namespace, "none", gangs.scheduler_name, priorities=False)
    first = next((seed for seed in range(20) if not _ends(alone, seed, NEVER / 3)), None)
    print(f"without groups of {gangs.scheduler}, mix {first} is the first that never ends")
    assert first is not None


def _ends(gangs: Gangs, seed: int, never: float = NEVER) -> bool:
    """Whether six gangs of 2 to 6, each of which is over once all of it runs, end on nodes for six."""
    sizes = random.Random(seed).choices(range(2, 7), k=6)
    mix = {f"mix{seed}gang{number}": size for number, size in enumerate(sizes)}
    for name, size in mix.items():
        gangs.start(name, size)
    left, progress = dict(mix), time.monotonic()
    while left and time.monotonic() < progress + never:
        for name, size in [*left.items()]:
            if gangs.get(name).get("status", {}).get("ready") != f"{size}/{size}":
                continue
            # The garbage collector deletes its Pods, too, but takes up to a minute to know a new kind.
            gangs.merge(name, executionType="Stop")
            del left[name]
            progress = time.monotonic()
        time.sleep(0.1)
    for name in mix:
        gangs.raw.delete(f"{gangs.path}/{name}")
    becomes(gangs.pods, {}, 30)
    return not left
