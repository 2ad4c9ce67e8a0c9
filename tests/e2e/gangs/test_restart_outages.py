"""A gang restarts in place while the controller or the kubelet is away, or is killed in the middle of it."""

import pytest

from localcluster import Cluster
from testkit.waiting import eventually
from tests.e2e.gangs.outages import SYSTEM, without, without_replicas
from tests.e2e.gangs.ranks import Gang, rank
from tests.support.waiting import becomes

pytestmark = [
    pytest.mark.node,
    pytest.mark.long,
    pytest.mark.requires_kubernetes("1.36", "the kubelet restarts all containers of a Pod by a rule"),
    pytest.mark.turns("drills"),
]


def test_a_crash_while_there_is_no_controller(cluster: Cluster, gang: Gang) -> None:
    gang.create(3, rank())
    before = gang.run_together(3, epoch=0)
    with without_replicas(cluster, "frameworkcontroller"):
        gang.do(1, "17")
        becomes(
            lambda: gang.frameworks.pods()["fw-worker-1"]["status"]["initContainerStatuses"][0]["restartCount"], 1, 30
        )
        # Its application must not run beside peers that have not restarted.
        assert gang.attempt()["gangEpoch"] == 0
    assert gang.run_together(3, epoch=1, timeout=120) == before


@pytest.mark.parametrize("is_open", [False, True])
def test_the_controller_is_killed_during_a_restart(cluster: Cluster, gang: Gang, *, is_open: bool) -> None:
    gang.create(3, rank())
    before = gang.run_together(3, epoch=0)
    gang.do(1, "17")

    def is_there() -> None:
        attempt = gang.attempt()
        assert (attempt["gangEpoch"], attempt["gangReleased"] > 0) == (1, is_open)

    eventually(is_there, 30, 0.05)
    # All replicas at once; their Deployment makes others.
    which = ("-n", SYSTEM, "-l", "app.kubernetes.io/name=frameworkcontroller")
    cluster.kubectl("delete", "pod", *which, "--grace-period=0", "--force", "--wait=false")
    assert gang.run_together(3, timeout=120) == before
    assert [reason for reason, *_ in gang.causes()] == ["Exited"]
    gang.do(2, "17")
    assert gang.run_together(3, epoch=2, timeout=120) == before


def test_the_kubelet_is_restarted_and_then_a_rank_dies(cluster: Cluster, gang: Gang) -> None:
    gang.create(3, rank())
    before = gang.run_together(3, epoch=0)
    with without(cluster, "kubelet"):
        pass
    assert gang.run_together(3, epoch=0) == before
    with without(cluster, "kubelet"):
        gang.kill(1)
    assert gang.run_together(3, epoch=1, timeout=120) == before
