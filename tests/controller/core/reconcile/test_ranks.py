"""Ranks that follow the topology of nodes: what the roster of a Framework says, and when it says nothing of them."""

from frameworkcontroller.api import names
from tests.controller.core.manual import Manual
from tests.controller.core.scenarios.in_place import ANNOTATIONS, GANG
from tests.controller.core.values import core_config, known
from tests.support.rows import each

NOTES = f"{names.RANK_TOPOLOGY_ANNOTATION}: zone"
OWN_BARRIER = f"{{metadata: {{annotations: {{{NOTES}}}}}, spec: {{initContainers: [{{name: frameworkbarrier}}]}}}}"
INJECTED = f"{{metadata: {{annotations: {{{NOTES}}}, labels: {{{names.BARRIER_LABEL}: enabled}}}}, spec: {{}}}}"
MARKED = INJECTED.replace("zone", f"zone, {names.BARRIER_READS_ANNOTATION}: {names.READS_ORDER}")
NODES = {"n1": {"zone": "b"}, "n2": {"zone": "a"}}


def gang(pod: str, nodes: dict[str, dict[str, str]]) -> Manual:
    """Four workers, one after the other on each of these nodes, run."""
    pod = pod.replace("spec: {", "spec: {containers: [{name: main}], ").replace(", }", "}")
    retries = "retryPolicy: {fancyRetryPolicy: false, maxRetryCount: 5}"
    manual = Manual(
        f"taskRoles: [{{name: worker, taskNumber: 4, task: {{{retries}, pod: {pod}}}}}]",
        core_config(rank_topology=True),
    )
    manual.world.nodes = nodes
    manual.live(10)
    return manual


def order(manual: Manual, role: int = 0, epoch: int | None = None) -> list[int] | None:
    """Of the complete roster, which is of this epoch."""
    roster = known(manual.world.roster)
    assert (roster["complete"], roster.get("epoch")) == (True, epoch)
    found: list[int] | None = roster["taskRoles"][role].get("order")
    return found


@each(
    "pod, nodes, expected, said",
    [
        (OWN_BARRIER, NODES, [0, 2, 1, 3], ""),
        (MARKED, NODES, [0, 2, 1, 3], ""),
        (INJECTED, NODES, None, "the barrier of Pod fw-worker-0 was added by an injector that does not know"),
        (OWN_BARRIER, {}, None, "labels of nodes are not read"),
        (OWN_BARRIER.replace("zone", "'a b'"), NODES, None, "TaskRole worker: annotation"),
        (OWN_BARRIER.replace(NOTES, ""), NODES, None, ""),
    ],
)
def test_the_order_is_in_the_roster_or_an_event_says_why_it_is_not(
    pod: str, nodes: dict[str, dict[str, str]], expected: list[int] | None, said: str
) -> None:
    manual = gang(pod, nodes)
    assert order(manual) == expected
    assert [said in text for text in manual.said("RanksByIndex")] == [True] * bool(said)


def test_a_task_that_is_made_again_elsewhere_has_its_rank_also_by_the_next_controller() -> None:
    manual = gang(OWN_BARRIER, NODES)
    manual.world.nodes = {"n3": {"zone": "0"}, "n4": {"zone": "1"}, "n5": {"zone": "2"}}
    for index in (1, 2):
        del manual.world.pods[f"fw-worker-{index}"]
        manual.live(10)
        assert order(manual) == [0, 2, 1, 3]
        manual.start()


def test_each_epoch_of_a_gang_that_restarts_in_its_pods_has_an_order_of_its_own() -> None:
    spec = GANG.replace(ANNOTATIONS, f"{ANNOTATIONS}, {NOTES}")
    manual = Manual(spec, core_config(rank_topology=True))
    manual.world.nodes = {"n1": {"zone": "b"}, "n2": {"zone": "a"}, "n3": {"zone": "c"}}
    manual.live(10)
    assert order(manual, 1, epoch=0) == [0, 2, 1]
    manual.world.nodes = {"n1": {"zone": "a"}, "n2": {"zone": "b"}, "n3": {"zone": "c"}}
    manual.start()
    manual.live(5)
    assert order(manual, 1, epoch=0) == [0, 2, 1]
    manual.world.plan.ends["worker-1"] = [1, "stay"]
    manual.live(20)
    assert order(manual, 1, epoch=1) is None
