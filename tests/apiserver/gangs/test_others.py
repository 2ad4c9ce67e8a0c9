"""The same with Volcano and with scheduler-plugins; docs/groups.md says what their groups cannot express."""

from collections.abc import Iterator

import pytest

from localcluster import Cluster
from localcluster.client import RawClient
from tests.apiserver.gangs.test_kubernetes import (  # noqa: F401 -- they run here with other fixtures
    test_a_controller_that_is_killed_at_each_step_groups_the_gang_all_the_same,
    test_a_gang_is_preempted_whole_and_is_retried_without_being_counted,
    test_a_pod_that_is_made_again_is_placed_alone_in_its_group,
    test_a_rescale_changes_how_many_are_placed_together,
    test_mixes_of_gangs_on_full_nodes_end_all,
    test_of_two_gangs_that_would_each_hold_half_one_is_placed_after_the_other,
    test_twenty_mixes_of_gangs_end_all_and_some_never_do_without_groups,
)
from tests.support.beside.gangs import Gangs
from tests.support.beside.schedulers import PLUGINS_SCHEDULER, Scheduler, SchedulerPlugins, Volcano

pytestmark = [
    pytest.mark.apiserver,
    # Their programs are built first; scheduler-plugins lets two gangs wait for each other for ten seconds.
    pytest.mark.long,
    pytest.mark.turns("gangs"),
    pytest.mark.usefixtures("nodes", "running", "grouping"),
]
PROGRAMS = {"volcano": Volcano, "coscheduling": SchedulerPlugins}


@pytest.fixture(scope="module", params=PROGRAMS)
def scheduler(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def running(cluster: Cluster, scheduler: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    process = PROGRAMS[scheduler](cluster, tmp_path_factory.mktemp(scheduler))
    process.install()
    process.start()
    yield process
    process.stop()


@pytest.fixture
def gangs(raw: RawClient, namespace: str, scheduler: str) -> Gangs:
    if scheduler == "volcano":
        return Gangs(raw, namespace, scheduler)
    return Gangs(raw, namespace, scheduler, PLUGINS_SCHEDULER, priorities=False, tells="")
