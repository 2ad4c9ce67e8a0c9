"""Ranks that follow the zones of two simulated nodes, on which a real kube-scheduler places six Pods."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from frameworkcontroller.api import names
from localcluster import Cluster
from localcluster.client import Json, RawClient
from localcluster.cluster.kwok import RUN_SECONDS
from testkit.frameworks import ControllerProcess, Frameworks, role
from testkit.waiting import eventually
from tests.apiserver.conftest import run
from tests.apiserver.gangs.conftest import ZONE
from tests.barrier.cluster import account, exported, start
from tests.barrier.process import Barrier
from tests.support.beside.gangs import CPU
from tests.support.waiting import becomes

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("gangs"), pytest.mark.usefixtures("nodes", "controller")]
__all__ = ["account", "start"]  # fixtures
READS = {names.BARRIER_READS_ANNOTATION: names.READS_ORDER}


@pytest.fixture
def controller(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    settings = {"namespaces": [namespace], "rankTopology": {"enabled": True}}
    yield from run(ControllerProcess(cluster, tmp_path, settings))


def begin(frameworks: Frameworks, name: str, number: int, notes: dict[str, str]) -> None:
    """Create a gang whose ranks are to follow zones, with these further annotations of its Pods."""
    spec = {
        "nodeSelector": {"pool": frameworks.namespace[:60]},
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": CPU}}}],
    }
    notes = {RUN_SECONDS: "1000", names.RANK_TOPOLOGY_ANNOTATION: ZONE, **notes}
    pod = {"metadata": {"labels": {names.BARRIER_LABEL: "enabled"}, "annotations": notes}, "spec": spec}
    frameworks.create(name, role("worker", number, pod=pod, retry={"maxRetryCount": 3}))


def members(frameworks: Frameworks, name: str, number: int = 1) -> Json:
    """The TaskRole in a complete roster of this generation."""
    roster = frameworks.roster(name)
    assert (roster["complete"], roster["generation"]) == (True, number)
    found: Json = roster["taskRoles"][0]
    return found


def rank_of(frameworks: Frameworks, start: Callable[..., Barrier], index: int) -> int:
    """What the barrier of this worker tells its application."""
    barrier = start(frameworks.pods()[f"ring-worker-{index}"], FB_PRESET="pytorch")
    code, _ = barrier.ends()
    assert code == 0, barrier.lines
    (rank,) = exported(barrier, "RANK")
    return int(rank)


def test_a_ring_leaves_each_zone_once_and_a_task_that_is_made_again_has_its_rank(
    raw: RawClient, frameworks: Frameworks, start: Callable[..., Barrier]
) -> None:
    begin(frameworks, "ring", 6, READS)
    found = eventually(lambda: members(frameworks, "ring"), 60)
    nodes = [task[4] for task in found["tasks"]]
    order = found.get("order", list(range(6)))
    ring = [nodes[index] for index in order]
    assert order[0] == 0
    assert sum(one != other for one, other in pairwise([*ring, ring[0]])) == 2
    assert [rank_of(frameworks, start, index) for index in order] == list(range(6))
    raw.delete(f"{frameworks.pods_path}/ring-worker-{order[2]}")
    assert eventually(lambda: members(frameworks, "ring", 2), 60).get("order", list(range(6))) == order
    assert rank_of(frameworks, start, order[2]) == 2


def test_of_pods_whose_barrier_may_be_older_the_ranks_are_their_indices(frameworks: Frameworks) -> None:
    begin(frameworks, "older", 6, {})
    assert "order" not in eventually(lambda: members(frameworks, "older"), 60)
    why = "Pod older-worker-0 was added by an injector"
    becomes(
        lambda: [why in one["message"] for one in frameworks.events("older") if one["reason"] == "RanksByIndex"], [True]
    )
