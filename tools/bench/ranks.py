"""Count how often a ring of ranks leaves a domain of the network, by the indices of Tasks and by the topology of nodes.

`make bench-ranks`: a real kube-scheduler places gangs on 128 simulated nodes, in four zones of four blocks, and the
controller orders their ranks.
"""

from itertools import pairwise

from bench.results import Results, flags
from bench.scene import controller, new_cluster
from frameworkcontroller.api import names
from localcluster import Cluster, Depth
from localcluster.client import Json, RawClient
from testkit.frameworks import Frameworks, role
from testkit.kueue import grant
from testkit.waiting import eventually

NAMESPACE = "ranks"
NODES, ZONES, BLOCKS = 128, 4, 16
KEYS = ("topology.kubernetes.io/zone", "cloud.provider.com/block")
# A simulated node has 1,000 of them.
POD = {
    "nodeSelector": {"pool": "ranks"},
    "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "125"}}}],
}


def main() -> None:
    """Run from the command line."""
    parser = flags(__doc__)
    parser.add_argument("--tasks", default="64,128,256,512,1024", help="of each gang (default: %(default)s)")
    sizes = [int(number) for number in parser.parse_args().tasks.split(",")]
    results = Results("ranks")
    with new_cluster("bench-ranks", Depth.KWOK, NAMESPACE) as (cluster, raw):
        grant(cluster, "rankTopology.enabled=true")
        labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in map(_node, range(NODES))}
        for number in range(NODES):
            raw.create("/api/v1/nodes", _node(number))
        with controller(cluster, settings={"rankTopology": {"enabled": True}}):
            for number in sizes:
                measure(cluster, raw, number, labels, results)


def measure(cluster: Cluster, raw: RawClient, number: int, labels: dict[str, Json], results: Results) -> None:
    """Count those of one gang, and remove it."""
    name, noted = f"gang{number}", {names.RANK_TOPOLOGY_ANNOTATION: ", ".join(KEYS)}
    # There is no injector, and nobody runs a barrier.
    noted |= {names.BARRIER_READS_ANNOTATION: names.READS_ORDER}
    pod = {"metadata": {"labels": {names.BARRIER_LABEL: "enabled"}, "annotations": noted}, "spec": POD}
    frameworks = Frameworks(raw, NAMESPACE)
    frameworks.create(name, role("worker", number, pod=pod))
    found = eventually(lambda: _members(frameworks, name), 600)
    nodes = [task[4] for task in found["tasks"]]
    for by, order in (("index", list(range(number))), ("topology", found["order"])):
        ring = [nodes[index] for index in order]
        figures = {key: _crossings([labels[node][key] for node in ring]) for key in KEYS} | {"node": _crossings(ring)}
        results.add(f"ranks:{number}", by, figures, cluster.version)
        print(number, by, figures, flush=True)
    raw.delete(f"{frameworks.path}/{name}")


def _node(number: int) -> Json:
    block = number * BLOCKS // NODES
    places = {KEYS[0]: f"zone-{block * ZONES // BLOCKS}", KEYS[1]: f"block-{block}", "pool": "ranks"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}", "labels": places}}


def _members(frameworks: Frameworks, name: str) -> Json:
    """Return the only TaskRole of the roster, which must be complete."""
    roster = frameworks.roster(name)
    assert roster["complete"]
    found: Json = roster["taskRoles"][0]
    return found


def _crossings(ring: list[str]) -> int:
    return sum(one != other for one, other in pairwise([*ring, ring[0]]))


if __name__ == "__main__":
    main()
