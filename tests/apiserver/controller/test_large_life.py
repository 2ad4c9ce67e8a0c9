"""A large Framework on simulated nodes, from its creation to its deletion, and with the controller killed on the way.

`make large` runs it with 10,000 Tasks, `make large TASKS=200` with fewer.
"""

import os
from collections import Counter

import pytest

from localcluster import Cluster
from testkit.frameworks import ControllerProcess, Frameworks
from testkit.large_life import LargeLife

pytestmark = [pytest.mark.apiserver, pytest.mark.long]
TASKS = int(os.environ.get("LARGE_TASKS", "10000"))


@pytest.fixture(scope="module")
def cluster(kwok_cluster: Cluster) -> Cluster:
    return kwok_cluster


@pytest.mark.parametrize("killed", [False, True], ids=["undisturbed", "killed in each phase"])
def test_no_task_is_lost_and_none_is_retried_for_nothing(
    controller: ControllerProcess, frameworks: Frameworks, *, killed: bool
) -> None:
    life = LargeLife(frameworks, TASKS)
    for phase in life.phases():
        phase.begin()
        if killed:
            life.wait(phase.is_under_way)
            controller.kill()
            controller.start()
        print(f"{phase.name}: {life.wait(phase.is_over):.1f} s")
        if phase.name == "scaled up":
            policies = [task.retry_policy_status for name in ("steady", "flaky") for task in life.tasks(name)]
            assert {one.accountable_retried_count for one in policies} == {0}
            assert Counter(one.total_retried_count for one in policies) == {0: TASKS // 2, 1: TASKS // 2}
